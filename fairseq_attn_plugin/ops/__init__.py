"""Numerics without fairseq: each module is plain torch and can be used from a notebook."""
