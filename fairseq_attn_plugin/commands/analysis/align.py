"""Writes hard word alignments: links from the attention of a model, or from a better matrix.

    fairseq-attn align soft.jsonl --out soft.align
    fairseq-attn align soft.jsonl --method shift --gold test.align --compare eflomal.align --out soft.align
    fairseq-attn align DATA --path CHECKPOINT --method loo --records loo.jsonl --out loo.align
    fairseq-attn align de-en.jsonl --reverse en-de.jsonl --symmetrize intersection --out both.align
    fairseq-attn align DATA --path CHECKPOINT --gen-subset train --into-data
    fairseq-attn align train.words --convert --source train.bpe.de --target train.bpe.en --out train.bpe.align

FILE is a file of ``fairseq-attn extract``, a model folder, or with ``--path`` the data folder of a model. ``attention``
and ``shift`` need records only; the other methods need the model, or records that have their matrices.

The output is in Pharaoh format: a line ``i-j i-j ...`` for each sentence of the corpus, where i is a source word and j
a target word, counted from 0. A sentence that the records lack has an empty line. With ``--reverse``, the links of a
model of the opposite direction are joined to those of FILE. ``--compare`` measures the links against those of other
aligners, and all against ``--gold``.

Two uses are for supervised attention. ``--into-data`` puts links of subwords into DATA, for ``fairseq-train
--load-alignments``: the model forces the references, and a target subword has no link if its weight is greatest on the
end of the source. ``--convert`` turns links of words, from any tool that writes i-j, into links of subwords, for
``fairseq-preprocess --align-suffix``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import FrozenSet, List, Optional, Sequence

from fairseq_attn_plugin.analysis.alignment.evaluation import (
    AlignedSystem,
    agreement,
    error_table,
    evaluate,
    load_alignments,
    record_lengths,
)
from fairseq_attn_plugin.analysis.alignment.linking import (
    DEFAULTS,
    METHODS,
    Linking,
    add_linking_options,
    align,
    align_both,
    check_matrix,
    check_opposite,
    describe_linking,
    linking_of,
)
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, Link, format_alignment, read_gold
from fairseq_attn_plugin.analysis.alignment.subword_links import CONVERSION, add_conversion_options, convert
from fairseq_attn_plugin.analysis.alignment.symmetrize import DEFAULT_SYMMETRIZATION, SYMMETRIZATIONS
from fairseq_attn_plugin.analysis.folders import data_of_checkpoint, with_attention
from fairseq_attn_plugin.analysis.inference.model_options import add_model_options
from fairseq_attn_plugin.analysis.records.files import Records, check_labels, label_and_path, open_systems
from fairseq_attn_plugin.analysis.records.record import SUFFIX
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import expand
from fairseq_attn_plugin.options import flag, parse_overrides
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output, whole_text

# options of one use that other uses do not read
QUALITY = ("reverse", "records", "threshold", "end", "weights", "gold", "json", "compare")
MODEL = ("path", "gen_subset", "max_tokens", "reverse_path", "symmetrize", "into_data", "overwrite")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="file of fairseq-attn extract, model folder, or with --path a data folder"
    )
    parser.add_argument("--out", metavar="FILE", help="file to write, a line i-j i-j ... for each sentence")
    add_linking_options(parser)
    model = parser.add_argument_group("a model")
    add_model_options(model)
    model.add_argument(
        "--gen-subset", metavar="SPLIT", help="split of the data folder (default: test; with --into-data: train)"
    )
    model.add_argument("--records", metavar="FILE", help="keep the matrices, as .jsonl of fairseq-attn extract")
    model.add_argument("--max-tokens", type=int, metavar="N", help="subwords in a batch (default: 4000)")
    both = parser.add_argument_group("two directions")
    both.add_argument(
        "--reverse", metavar="FILE", help="records of a model of the opposite direction, for the same sentence pairs"
    )
    both.add_argument(
        "--reverse-path",
        metavar="FILE",
        help="with --path: checkpoint of the opposite direction (of an agreement model: by export --direction)",
    )
    both.add_argument(
        "--symmetrize",
        choices=SYMMETRIZATIONS,
        help=f"method that joins both directions (default: {DEFAULT_SYMMETRIZATION})",
    )
    quality = parser.add_argument_group("quality")
    quality.add_argument("--gold", metavar="FILE", help="gold alignments, in Pharaoh format or in that of WPT 2003")
    quality.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    quality.add_argument(
        "--compare",
        nargs="+",
        default=[],
        metavar="[LABEL=]FILE",
        help="links of other aligners, such as eflomal or fast_align, or records",
    )
    teacher = parser.add_argument_group("a teacher", "with --path; links of subwords, none to the end of the source")
    teacher.add_argument("--into-data", action="store_true", help="put the links into the data folder")
    teacher.add_argument("--overwrite", action="store_true", help="replace the alignments that it has")
    add_conversion_options(parser.add_argument_group("from words to subwords"))


def run(args: argparse.Namespace) -> None:
    if args.convert:
        _refuse(args, "excludes --convert; leave one out", (*QUALITY, *MODEL, *DEFAULTS))
        return convert(args)
    _refuse(args, "needs --convert", CONVERSION)
    if args.into_data:
        return _teach(args)
    _refuse(args, "needs --into-data", ("overwrite",))
    linking = linking_of(args)
    _check(args)
    with TemporaryDirectory() as folder:
        records = _records(args, args.file, args.path, args.records or f"{folder}/forward.jsonl")
        check_matrix(records, args.method)
        backward: Optional[Records] = None
        if args.reverse or args.reverse_path:
            backward = _records(args, args.reverse or args.file, args.reverse_path, f"{folder}/backward.jsonl")
            if args.reverse_path:
                one, other = ((each.header.source_lang, each.header.target_lang) for each in (records, backward))
                check_opposite(f"--reverse-path {args.reverse_path}", other, one, "--path")
            check_matrix(backward, args.method)
        if backward is None:
            found = align(records, linking)
        else:
            found = align_both(records, backward, linking, args.symmetrize or DEFAULT_SYMMETRIZATION)
        if args.out:
            _write(args.out, found)
        if args.gold or args.compare:
            _measure(args, records, found, linking)


def _refuse(args: argparse.Namespace, reason: str, names: Sequence[str]) -> None:
    """Raises ``OptionError`` if one of the options is given."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value is not False and value not in ([], DEFAULTS.get(name)):
            words = value if isinstance(value, list) else [] if value is True else [value]
            raise OptionError(f"{' '.join([flag(name), *map(str, words)])}: {reason}")


def _teach(args: argparse.Namespace) -> None:
    from fairseq_attn_plugin.analysis.inference.teacher_alignments import put_into_data

    _refuse(args, "excludes --into-data; leave one out", QUALITY)
    _check_model(args)
    check_output("--out", args.out, ())
    args.data = args.file
    data_of_checkpoint(args)
    expand(args)
    put_into_data(args)


def _write(path: str, found: List[Optional[FrozenSet[Link]]]) -> None:
    with whole_text(path, f"--out {path}: cannot be written") as stream:
        for links in found:
            stream.write(format_alignment(GoldAlignment(links or frozenset(), links or frozenset())) + "\n")
    count, left_out = sum(len(links or ()) for links in found), sum(links is None for links in found)
    print(
        f"{path}: {counted(count, 'link')} of {counted(len(found), 'sentence')}"
        + (f"; the records lack {left_out} of them, which have empty lines" if left_out else "")
    )


def _measure(
    args: argparse.Namespace, records: Records, found: List[Optional[FrozenSet[Link]]], linking: Linking
) -> None:
    """Prints the quality of the links, and how they agree with those of other aligners."""
    corpus = record_lengths(records, linking.level)
    ours = AlignedSystem(Path(args.out).stem if args.out else args.method, str(records.path), found)
    theirs = load_alignments(args.compare, linking, corpus)[0] if args.compare else []
    check_labels([ours.label, *(system.label for system in theirs)])
    tables = {}
    if args.gold:
        tables["gold"] = evaluate([ours, *theirs], read_gold(args.gold, lengths=corpus.lengths))
        print(f"\nAgainst {args.gold}:\n{error_table(tables['gold'])}")
    if theirs:
        tables["compare"] = agreement(ours, theirs)
        print(f"\nLinks of {ours.label} against those of others:\n{error_table(tables['compare'])}")
    print(f"\nPrecision: possible links; recall: sure links. {describe_linking(linking)}.")
    if args.json:
        content = {"method": args.method, "linking": linking._asdict(), "sentences": len(found)}
        figures = {
            name: {label: {**score._asdict(), "f1": score.f1, "links": links} for label, score, links, _ in results}
            for name, results in tables.items()
        }
        with whole_text(args.json, f"--json {args.json}: cannot be written") as stream:
            stream.write(json.dumps({**content, **figures}, indent=1, ensure_ascii=False) + "\n")


def _records(args: argparse.Namespace, file: str, path: Optional[str], out: str) -> Records:
    """The records of a file or of a model folder, or those that a model gives for a split."""
    matrix = METHODS.get(args.method)
    matrices = () if matrix is None else (matrix,)
    if path is None:
        return open_systems(with_attention([file], matrices=matrices))[0]
    from fairseq_attn_plugin.analysis.inference.attention_file import extract_split

    option = "--path" if path == args.path else "--reverse-path"
    overrides = parse_overrides(args.model_overrides)
    max_tokens = 4000 if args.max_tokens is None else args.max_tokens
    split = args.gen_subset or "test"
    extract_split(file, path, split, out, matrices, max_tokens, overrides=overrides, cpu=args.cpu, option=option)
    return open_systems([out])[0]


def _check_model(args: argparse.Namespace) -> None:
    if args.symmetrize and not args.reverse and not args.reverse_path:
        raise OptionError(f"--symmetrize {args.symmetrize}: needs --reverse or --reverse-path, the opposite direction")
    if args.max_tokens is not None and args.max_tokens < 1:
        raise OptionError(f"--max-tokens {args.max_tokens}: must be at least 1")


def _check(args: argparse.Namespace) -> None:
    _check_model(args)
    if args.reverse and args.reverse_path:
        raise OptionError(f"--reverse {args.reverse}: excludes --reverse-path; give one of the two")
    if not args.out and not args.gold and not args.compare:
        raise OptionError("--out is missing: name the file to write, or give --gold, --compare or --into-data")
    if args.json and not args.gold and not args.compare:
        raise OptionError(f"--json {args.json}: needs --gold or --compare, which it writes figures of")
    if args.path is None:
        for name in ("reverse_path", "gen_subset", "records", "max_tokens"):
            if getattr(args, name) is not None:
                raise OptionError(f"{flag(name)} {getattr(args, name)}: needs --path, the checkpoint of a model")
    elif Path(args.file).is_file():
        raise OptionError(f"{args.file}: is a file; --path needs the data folder of the model")
    if args.records and Path(args.records).suffix != SUFFIX:
        raise OptionError(f"--records {args.records}: must end in {SUFFIX}")
    inputs = [args.file, args.reverse, args.gold, *(label_and_path(text)[1] for text in args.compare)]
    check_output("--out", args.out, inputs)
    check_output("--records", args.records, inputs)
    check_output("--json", args.json, [*inputs, args.out])
