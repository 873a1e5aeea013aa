"""The subcommands that read the attention and the outputs of trained models."""
