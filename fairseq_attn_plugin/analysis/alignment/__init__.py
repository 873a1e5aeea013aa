"""Word alignments: from attention to links, their files, and their error rate."""
