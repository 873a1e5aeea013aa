"""Trained models at work: loading, forced attention, translation, classification."""
