"""Word alignments: links from attention, alignment files, error rates, and lexicons."""
