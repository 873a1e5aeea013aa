"""Writes one direction of an agreement model as an ordinary checkpoint (:mod:`fairseq_attn_plugin.export`).

fairseq-attn export-direction CHECKPOINT --direction en-de --out FILE
"""

from __future__ import annotations

import argparse

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.export import export_direction

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="checkpoint of fairseq-train --arch lstm_agreement")
    parser.add_argument("--direction", required=True, metavar="SRC-TGT", help="direction to export, such as en-de")
    parser.add_argument("--out", required=True, metavar="FILE", help="checkpoint to write")
    parser.add_argument("--force", action="store_true", help="overwrite FILE")


def run(args: argparse.Namespace) -> None:
    written = export_direction(args.checkpoint, args.direction, args.out, args.force)
    parameters = sum(value.numel() for value in written["model"].values())
    print(f"{args.out}: {args.direction}, {parameters:,} parameters")
