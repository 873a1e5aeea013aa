"""Steps of LSTMs and GRUs, and layers of them as autograd nodes."""
