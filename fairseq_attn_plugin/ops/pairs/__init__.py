"""Sums over pairs of positions, for attention density matrices."""
