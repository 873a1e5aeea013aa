"""The options that name a model, of every subcommand that loads one; kept from torch, which loads slowly."""

from __future__ import annotations

from typing import Any

from fairseq_attn_plugin.analysis.inference.user_dir import add_user_dir_option


def add_model_options(parser: Any) -> None:
    """Adds to a parser or a group ``--path``, ``--model-overrides``, ``--cpu`` and ``--user-dir``, which
    :func:`.loading.load_from_options` reads."""
    parser.set_defaults(takes_model=True)  # see model_folder.expand
    parser.add_argument(
        "--path",
        metavar="FILE",
        help="checkpoint, or several separated by colons, which are averaged (default: that of a model folder)",
    )
    parser.add_argument(
        "--model-overrides", default="{}", metavar="DICT", help="model options to change, as in fairseq-generate"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    add_user_dir_option(parser)
