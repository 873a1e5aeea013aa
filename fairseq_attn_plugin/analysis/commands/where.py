"""Prints where the package is, for stock commands of fairseq.

    fairseq-train data --user-dir "$(fairseq-attn where)" --arch lstm_adm
    fairseq-hydra-train --config-dir "$(fairseq-attn where --config-dir)" --config-name multi30k_adm

``--user-dir fairseq_attn_plugin``, the name alone, is found by fairseq in a folder that holds the package, and in every
folder if the package is installed beside fairseq (not for editing, ``pip install --editable``).
"""

from __future__ import annotations

import argparse

from fairseq_attn_plugin.analysis.elsewhere import PLACES

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    for option in PLACES:
        which.add_argument(
            option,
            dest="option",
            action="store_const",
            const=option,
            default="--user-dir",
            help=f"the folder for {option} of fairseq's commands" + (" (default)" if option == "--user-dir" else ""),
        )


def run(args: argparse.Namespace) -> None:
    print(PLACES[args.option])
