"""The decoding engine: beam search and sampling for the translation models of this package."""
