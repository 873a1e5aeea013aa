"""The subcommands of ``attn-analysis``: each module has ``configure(parser)`` and ``run(args)``."""
