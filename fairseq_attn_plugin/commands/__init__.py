"""The subcommands of ``fairseq-attn``: each module has ``configure(parser)`` and ``run(args)``."""
