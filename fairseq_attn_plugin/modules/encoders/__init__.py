"""Encoders of source sentences."""
