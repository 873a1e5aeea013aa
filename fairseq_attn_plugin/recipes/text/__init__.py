"""Text of published corpora: reading, checking, tokenising, splitting, segmenting."""
