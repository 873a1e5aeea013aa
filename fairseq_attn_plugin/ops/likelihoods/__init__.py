"""Likelihoods of words, and of words under all their alignments, in blocks that fit into memory."""
