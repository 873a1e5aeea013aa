"""Attention and alignments that other programs wrote, as records: a file for each program; see :mod:`.formats`."""
