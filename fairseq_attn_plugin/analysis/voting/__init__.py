"""Attention as an election, and the agent that learns which words to elect."""
