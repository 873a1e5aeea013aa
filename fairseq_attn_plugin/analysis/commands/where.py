"""Prints where the package is, or its YAML configurations, for ``--config-dir`` of fairseq-hydra-train."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["CONFIGS", "PACKAGE", "configure", "run"]

PACKAGE = Path(__file__).resolve().parents[2]
# a wheel has them inside the package, a checkout beside it
CONFIGS = PACKAGE / "configs" if (PACKAGE / "configs").is_dir() else PACKAGE.parent / "configs"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--configs",
        action="store_true",
        help="the folder for --config-dir of fairseq-hydra-train instead",
    )


def run(args: argparse.Namespace) -> None:
    print(CONFIGS if args.configs else PACKAGE)
