"""Runs trained models: loading, forced attention, translation, classification."""
