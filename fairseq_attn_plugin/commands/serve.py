"""``fairseq-attn serve``: type a sentence, see its translation and the attention, in a browser on this machine.

    fairseq-attn serve model                                 # a folder of fairseq-attn train
    fairseq-attn serve data --path checkpoint_best.pt --bpe-codes codes --tokenizer moses
    fairseq-attn serve soft=model1 density=model2            # side by side

Other programs can send requests as well:

    curl http://127.0.0.1:8000/translate -H 'Content-Type: application/json' -d '{"text": "Ein Hund schläft."}'
"""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any, Dict

from fairseq_attn_plugin.analysis.folders import data_of_checkpoint
from fairseq_attn_plugin.analysis.inference.model_options import add_model_options
from fairseq_attn_plugin.analysis.inference.segmenter import add_text_options
from fairseq_attn_plugin.analysis.records.files import check_labels, label_and_path
from fairseq_attn_plugin.decoding.options import add_decoding_options
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import expand
from fairseq_attn_plugin.ranges import check_search

UNSEGMENTED = (
    "The vocabulary{} consists of subwords, but neither --bpe-codes nor --sentencepiece-model is given: type text that "
    "is already split into subwords."
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        nargs="+",
        metavar="DATA|[LABEL=]FOLDER",
        help="model folder or checkpoint, one or several; with --path one folder of fairseq-preprocess",
    )
    add_model_options(parser)
    parser.add_argument("--example", action="append", default=[], metavar="TEXT", help="sentence to try")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0: any free port (default: 8000)")
    search = parser.add_argument_group("search, as in fairseq-interactive")
    search.add_argument("--beam", type=int, default=5, metavar="N", help="width of the search (default: 5)")
    search.add_argument(
        "--nbest", type=int, metavar="N", help="translations to show (default: 3, or --beam if it is less)"
    )
    search.add_argument("--lenpen", type=float, default=1.0, metavar="X", help="length penalty (default: 1)")
    add_decoding_options(parser)
    add_text_options(parser)


def _short_name(path: str) -> str:
    """The name of a path, for a checkpoint that of its folder."""
    file = Path(path.split(":")[0])
    return (file.parent.name if file.suffix == ".pt" else file.name) or path


def _each(args: argparse.Namespace) -> Dict[str, argparse.Namespace]:
    """For each model its label and its arguments, with one ``data``."""
    if args.path and len(args.data) > 1:
        raise OptionError(f"{' '.join(args.data)}: with --path, give one folder, of fairseq-preprocess")
    names = [label_and_path(text) for text in args.data]
    labels = [label or _short_name(args.path or path) for label, path in names]
    check_labels(labels)
    each = {label: argparse.Namespace(**{**vars(args), "data": path}) for label, (_, path) in zip(labels, names)}
    for one in each.values():
        data_of_checkpoint(one)
        expand(one)
        if one.path is None:
            raise OptionError(f"{one.data}: is no model folder or checkpoint; give the checkpoint by --path")
        check_search(argparse.Namespace(**{name: value for name, value in vars(one).items() if value is not None}))
    return each


def _translators(each: Dict[str, argparse.Namespace]) -> Dict[str, Any]:
    """The models by label; all translate in the same direction."""
    from fairseq_attn_plugin.analysis.inference.translator import Translator

    models = {label: Translator.of_options(one) for label, one in each.items()}
    (first, leader), *others = models.items()
    for label, one in others:
        if one.languages != leader.languages:
            raise OptionError(
                f"{label}: is of {'-'.join(one.languages)}, {first} of {'-'.join(leader.languages)}; a page shows one "
                "direction"
            )
    return models


def run(args: argparse.Namespace) -> None:
    each = _each(args)
    from fairseq_attn_plugin.analysis.web.server import HOST, Server

    with Server(args.port) as server, contextlib.suppress(KeyboardInterrupt):
        models = _translators(each)
        raw = [label for label, one in models.items() if not one.segments]
        names = f" of {', '.join(raw)}" if len(models) > 1 else ""
        notes = [UNSEGMENTED.format(names)] if raw else []
        sys.stderr.writelines(f"{note}\n" for note in notes)
        print(f"http://{HOST}:{server.server_port}  (Ctrl+C stops it)", flush=True)
        server.start(models, args.nbest or min(3, args.beam), notes, args.example)
