"""One module for each subcommand of ``attn-analysis``: ``configure`` and ``run``."""
