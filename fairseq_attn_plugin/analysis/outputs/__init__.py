"""Reads and compares the outputs of systems."""
