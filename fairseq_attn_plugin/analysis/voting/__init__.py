"""Attention as an election, and the Q-learning agent that elects source words."""
