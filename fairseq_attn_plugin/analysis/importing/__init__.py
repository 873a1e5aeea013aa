"""Attention and alignments that other programs wrote, as records; :mod:`.formats` has what is read."""
