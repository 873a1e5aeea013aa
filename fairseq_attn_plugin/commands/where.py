"""Prints where the package is, its YAML configurations, for ``--config-dir`` of fairseq-hydra-train, or its recipes."""

import argparse
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# a wheel has them inside the package, a checkout beside it
CONFIGS = PACKAGE / "configs" if (PACKAGE / "configs").is_dir() else PACKAGE.parent / "configs"
# of a checkout, caches of an earlier version may be inside
RECIPES = PACKAGE / "recipes" if any(PACKAGE.glob("recipes/*.sh")) else PACKAGE.parent / "scripts" / "recipes"


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--configs", action="store_true", help="the folder for --config-dir of fairseq-hydra-train")
    which.add_argument("--recipes", action="store_true", help="the folder of the recipes")


def run(args: argparse.Namespace) -> None:
    print(CONFIGS if args.configs else RECIPES if args.recipes else PACKAGE)
