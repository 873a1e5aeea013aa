"""Steps and layers of LSTMs and GRUs, as autograd nodes."""
