"""Writes hard word alignments: links from the attention of a model, or from a better matrix.

    fairseq-attn align soft.jsonl --out soft.align
    fairseq-attn align soft.jsonl --method shift --out soft.align
    fairseq-attn align DATA --path CHECKPOINT --method loo --out loo.align
    fairseq-attn align de-en.jsonl --reverse en-de.jsonl --symmetrize intersection --out both.align
    fairseq-attn align DATA --path CHECKPOINT --gen-subset train --into-data
    fairseq-attn align train.words --convert --source train.bpe.de --target train.bpe.en --out train.bpe.align

FILE is a file of ``fairseq-attn extract``, a model folder, a checkpoint, or with ``--path`` the data folder of a model.
The output is in Pharaoh format: a line ``i-j i-j ...`` for each sentence of the corpus, where i is a source word and j
a target word, counted from 0. A sentence that the records lack has an empty line.

Two uses are for supervised attention. ``--into-data`` puts links of subwords into DATA, for ``fairseq-train
--load-alignments``. ``--convert`` turns links of words, from any tool that writes i-j, into links of subwords, for
``fairseq-preprocess --align-suffix``.
"""

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, FrozenSet, List, Optional

from fairseq_attn_plugin.analysis.alignment.linking import (
    DEFAULT_SYMMETRIZATION,
    METHODS,
    SYMMETRIZATIONS,
    add_linking_options,
    align,
    align_both,
    linking_of,
)
from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.alignment.subword_links import add_conversion_options, convert
from fairseq_attn_plugin.analysis.folders import data_of_checkpoint, with_attention
from fairseq_attn_plugin.analysis.inference.model_options import add_model_options, add_overrides_option
from fairseq_attn_plugin.analysis.records.files import Records, is_records, open_systems
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import expand
from fairseq_attn_plugin.options import at_least, check_unread, parse_overrides
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output, whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="file of extract, model folder, checkpoint, or with --path a data folder"
    )
    parser.add_argument("--out", metavar="FILE", help="file to write, a line i-j i-j ... for each sentence")
    add_linking_options(parser)
    _add_alignment_options(parser)
    add_conversion_options(parser.add_argument_group("from words to subwords"))


def _add_split_options(parser: Any) -> None:
    parser.add_argument(
        "--gen-subset", metavar="SPLIT", help="split of the data folder (default: test; with --into-data: train)"
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="subwords in a batch (default: 4000)")


def _add_alignment_options(parser: Any) -> None:
    """Everything that --convert does not read, but for the options of :func:`add_linking_options`."""
    model = parser.add_argument_group("a model")
    add_model_options(model)
    _add_split_options(model)
    both = parser.add_argument_group("two directions")
    both.add_argument(
        "--reverse",
        metavar="FILE",
        help="records of a model of the opposite direction, for the same sentence pairs, or with --path its checkpoint "
        "(of an agreement model: by export --direction)",
    )
    both.add_argument(
        "--symmetrize",
        choices=SYMMETRIZATIONS,
        help=f"method that joins both directions (default: {DEFAULT_SYMMETRIZATION})",
    )
    teacher = parser.add_argument_group("a teacher", "implies --level subwords --end null")
    teacher.add_argument("--into-data", action="store_true", help="put the links into the data folder")
    teacher.add_argument("--overwrite", action="store_true", help="replace the alignments that it has")


def run(args: argparse.Namespace) -> None:
    if args.convert:
        check_unread(args, "excludes --convert; leave one out", add_linking_options, _add_alignment_options)
        return convert(args)
    check_unread(args, "needs --convert", add_conversion_options)
    linking = linking_of(args)
    args.data = args.file
    data_of_checkpoint(args)
    if args.into_data:  # otherwise a model folder stands for its test set
        expand(args)
        linking = linking._replace(level="subwords", end="null")
    _check(args)
    records, prefix = _records(args, args.data, args.path, "--path"), ""
    if args.into_data:
        about = records.header
        # where fairseq looks for them
        prefix = os.path.join(args.data, f"{args.gen_subset or 'train'}.align.{about.source_lang}-{about.target_lang}")
        if not args.overwrite and os.path.exists(f"{prefix}.idx"):
            raise OptionError(f"--into-data: {prefix}.idx exists; give --overwrite to replace it")
    if args.reverse:
        of_model = args.path is not None and not is_records(args.reverse)
        file, path = (args.data, args.reverse) if of_model else (args.reverse, None)
        backward = _records(args, file, path, "--reverse")
        found = align_both(records, backward, linking, args.symmetrize or DEFAULT_SYMMETRIZATION)
    else:
        found = align(records, linking)
    if not args.into_data:
        _write(args.out, found)
        return _report(args.out, found)
    if not any(found):  # the file would have no bytes, which fairseq cannot read
        raise OptionError(
            f"--path {args.path}: links no word of {records.header.split}: its attention is greatest on the end of "
            "every source; train the teacher longer, or use another one"
        )
    from fairseq_attn_plugin.analysis.alignment.subword_links import binarize

    with TemporaryDirectory() as folder:
        out = args.out or f"{folder}/{os.path.basename(prefix)}"
        _write(out, found)
        binarize(out, prefix)
    _report(prefix, found)


def _write(path: str, found: List[Optional[FrozenSet[Link]]]) -> None:
    with whole_text(path, f"--out {path}: cannot be written") as stream:
        for links in found:
            stream.write(" ".join(f"{i}-{j}" for i, j in sorted(links or ())) + "\n")


def _report(path: str, found: List[Optional[FrozenSet[Link]]]) -> None:
    count, left_out = sum(len(links or ()) for links in found), sum(links is None for links in found)
    print(
        f"{path}: {counted(count, 'link')} of {counted(len(found), 'sentence')}"
        + (f"; {left_out} are not in the records or too long, and have empty lines" if left_out else "")
    )


def _records(args: argparse.Namespace, file: str, path: Optional[str], option: str) -> Records:
    """The records of a file or of a model folder, or those that a model gives for a split."""
    matrix = METHODS[args.method]
    matrices = () if matrix is None else (matrix,)
    if path is None:
        (records,) = open_systems(with_attention([file], args.cpu, matrices=matrices))
        check_output("--out", args.out, [records.path])  # the file of a model folder, too
        known = records.header.weights
        if matrix is not None and matrix not in known:
            raise OptionError(
                f"--method {args.method}: {records.path} has {', '.join(known)}; the model gives the matrix {matrix}: "
                "name its data folder and --path CHECKPOINT, or its model folder"
            )
        return records
    from fairseq_attn_plugin.analysis.inference.attention_file import ModelRecords
    from fairseq_attn_plugin.analysis.inference.loading import load_models

    loaded = load_models(file, path, parse_overrides(args.model_overrides), args.cpu, option)
    split = args.gen_subset or ("train" if args.into_data else "test")
    return ModelRecords(loaded, split, args.max_tokens or 4000, matrices)


def _check(args: argparse.Namespace) -> None:
    if args.symmetrize and not args.reverse:
        raise OptionError(f"--symmetrize {args.symmetrize}: needs --reverse, the opposite direction")
    at_least(args, max_tokens=1)
    if not args.out and not args.into_data:
        raise OptionError("--out is missing: name the file to write, or give --into-data")
    if args.overwrite and not args.into_data:
        raise OptionError("--overwrite: needs --into-data")
    if args.path is None:
        if args.into_data:
            raise OptionError(f"{args.data}: is no model folder of fairseq-attn train; give its checkpoint by --path")
        check_unread(args, "needs --path, the checkpoint of a model", _add_split_options, add_overrides_option)
    elif Path(args.data).is_file():
        raise OptionError(f"{args.data}: is a file; --path needs the data folder of the model")
    check_output("--out", args.out, [args.file, args.reverse])
