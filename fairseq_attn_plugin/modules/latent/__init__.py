"""Decoders of models with a latent alignment, and what they are made of."""
