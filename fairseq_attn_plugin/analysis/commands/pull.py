"""``fairseq-attn pull``: a model folder from a repository of a Hugging Face Hub.

    fairseq-attn pull USER/MODEL
    fairseq-attn pull USER/MODEL FOLDER --revision v1

Only tensors, JSON and text are taken, and no code is run. Every subcommand takes the folder's name in the place of a
checkpoint.
"""

from __future__ import annotations

import argparse

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="USER/MODEL", help="repository that fairseq-attn push wrote")
    add("folder", nargs="?", metavar="FOLDER", help="folder to write (default: MODEL)")
    add("--revision", metavar="NAME", help="branch, tag or commit (default: the newest commit)")


def run(args: argparse.Namespace) -> None:
    from fairseq_attn_plugin.analysis.hub.transfer import pull

    found = pull(args.name, args.folder, args.revision)
    print(f"{found.path}: {'-'.join(found.languages)}")
