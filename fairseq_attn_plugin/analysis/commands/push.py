"""``fairseq-attn push``: a model folder becomes a repository of a Hugging Face Hub.

    fairseq-attn push FOLDER USER/MODEL
    fairseq-attn push FOLDER USER/MODEL --private --message "three more epochs"

The repository gets the weights as safetensors, the settings, dictionaries and subword model, and a card with languages,
architecture, data, scores with their signatures and how to use the model. Paths of this machine, and texts of the
corpus, stay here. The token is that of ``hf auth login`` or ``HF_TOKEN``.
"""

from __future__ import annotations

import argparse

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="model folder")
    add("name", metavar="USER/MODEL", help="repository; it is created if it does not exist")
    add("--private", action="store_true", help="a new repository is visible to its owner only")
    add("--message", default="Upload a model", metavar="TEXT", help="message of the commit (default: Upload a model)")


def run(args: argparse.Namespace) -> None:
    from fairseq_attn_plugin.analysis.hub.transfer import push

    print(push(args.folder, args.name, args.private, args.message))
