"""``fairseq-attn export``: a trained model as a folder that translates text without torch and fairseq.

fairseq-attn export checkpoint_best.pt --to folder --bpe-codes codes
python folder/translate.py < input > output
fairseq-attn export checkpoint_best.pt --direction en-de --out en-de.pt

The last line writes one direction of an agreement model as an ordinary checkpoint (:mod:`fairseq_attn_plugin.export`).
"""

import argparse
import shlex
from pathlib import Path

from fairseq_attn_plugin.analysis.inference.model_options import add_overrides_option, add_user_dir_option
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, add_text_options, text_options
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import check_unread, parse_overrides
from fairseq_attn_plugin.ranges import check_search
from fairseq_attn_plugin.text.subwords import pair_subwords


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="file that fairseq-train wrote, or a model folder")
    parser.add_argument("--to", metavar="FOLDER", help="folder to write; must not exist, or be empty")
    _add_folder_options(parser)
    add_user_dir_option(parser)
    one = parser.add_argument_group("one direction of an agreement model, as a checkpoint instead of a folder")
    one.add_argument("--direction", metavar="SRC-TGT", help="direction to export, such as en-de")
    one.add_argument("--out", metavar="FILE", help="checkpoint to write")
    one.add_argument("--force", action="store_true", help="overwrite FILE")
    add_text_options(parser)


def _add_folder_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", metavar="FOLDER", help="folder with the dictionaries (default: the one that the model was trained on)"
    )
    precision = "of the products with weights: float32 (default), or int8 (faster, smaller, not exact)"
    parser.add_argument("--precision", default="float32", metavar="NAME", help=precision)
    add_overrides_option(parser)
    search = parser.add_argument_group("search; translate.py can change both")
    search.add_argument("--beam", type=int, default=5, metavar="N", help="width of the search (default: 5)")
    search.add_argument("--lenpen", type=float, default=1.0, metavar="X", help="length penalty (default: 1)")


def _export_direction(args: argparse.Namespace) -> None:
    import fairseq_attn_plugin.models  # noqa: F401  (registers the architectures)
    from fairseq_attn_plugin.export import export_direction

    written = export_direction(args.checkpoint, args.direction, args.out, args.force)
    parameters = sum(value.numel() for value in written["model"].values())
    print(f"{args.out}: {args.direction}, {parameters:,} parameters")


def run(args: argparse.Namespace) -> None:
    if bool(args.direction) != bool(args.out) or bool(args.to) == bool(args.out):
        raise OptionError("--to FOLDER, or --direction SRC-TGT with --out FILE: give one of them")
    if args.out:
        check_unread(args, "is of a folder, --to FOLDER; leave it out", _add_folder_options, add_text_options)
        return _export_direction(args)
    if args.force:
        raise OptionError("--force: overwrites --out FILE; --to FOLDER must not exist, or be empty")
    from fairseq_attn_plugin.analysis.inference.loading import data_of, load_models
    from fairseq_attn_plugin.decoding.export.onnx_folder import PRECISIONS, check_exportable, export_folder
    from fairseq_attn_plugin.model_folder import Text

    check_search(args)
    if args.precision not in PRECISIONS:
        raise OptionError(f"--precision {args.precision}: is unknown; choose from {', '.join(PRECISIONS)}")
    if args.tokenizer == "nltk":
        raise OptionError("--tokenizer nltk: is not part of an exported model; choose moses or space, or leave it out")
    if not Path(args.checkpoint).is_file():
        raise OptionError(f"{args.checkpoint}: there is no such file; give a checkpoint of fairseq-train")
    overrides = parse_overrides(args.model_overrides)
    data = args.data or data_of(args.checkpoint)
    loaded = load_models(data, args.checkpoint, overrides, cpu=True, option="CHECKPOINT")
    (model,) = loaded.models
    check_exportable(model, args.checkpoint)
    source, target = loaded.languages
    segmenter = Segmenter(loaded.task.source_dictionary, source, target, **text_options(args))
    moses = {
        "languages": [source, target],
        "dash_splits": not args.moses_no_dash_splits,
        "escape": not args.moses_no_escape,
    }
    text = Text(
        lowercase=segmenter.lowercase,
        subwords=pair_subwords(loaded.task),
        bpe_codes=args.bpe_codes,
        sentencepiece_model=args.sentencepiece_model,
        tokenizer=moses if args.tokenizer == "moses" else None,
        normalizer=args.normalizer,
    )
    settings = {"languages": [source, target], "beam": args.beam, "lenpen": args.lenpen}
    found = export_folder(model, Path(args.to), text, settings, args.precision)
    print(
        f"{args.to}: {args.precision}, probabilities within {found.probabilities:.1g} and weights within "
        f"{found.weights:.1g} of the model's"
    )
    if not segmenter.segments:
        print("The vocabulary consists of subwords, and no subword model is given: translate.py reads subwords.")
    print(f"python {shlex.quote(args.to)}/translate.py < input > output")
