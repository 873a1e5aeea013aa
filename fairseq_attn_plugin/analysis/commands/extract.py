"""Attention of a model for every sentence of a corpus, in a file.

    attn-analysis extract DATA --path CHECKPOINT --gen-subset test --out soft.jsonl
    attn-analysis extract DATA --path CHECKPOINT --beam 5 --out soft.npz
    attn-analysis extract DATA --path CHECKPOINT --source-text new.de --bpe-codes codes --beam 5 --out new.jsonl

The first forces the reference, the others what the model says itself. The attention of a hypothesis is that of a
forward pass in which the hypothesis is forced, so that it is the same function of sentence and translation for every
model and however the translation was found. Sentences are read, and written in their order, some hundred at a time:
memory does not grow with the corpus, and an interrupted command goes on where it stopped. (NPZ files have a table of
their entries, which takes 2.5 kB of memory a sentence when they are written or read.) In Python::

    teacher = load_teacher(DATA, CHECKPOINT)
    for record in extract(teacher, SplitSentences(teacher, "test"), beam=5):
        ...
"""

from __future__ import annotations

import argparse
import logging
import math
import os
from pathlib import Path
from typing import Any, List

from fairseq_attn_plugin.analysis.inference.attention_file import describe, extract_file
from fairseq_attn_plugin.analysis.inference.loading import Teacher, add_teacher_options, load_teacher
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, add_text_options, text_options
from fairseq_attn_plugin.analysis.inference.sentences import MANY, SplitSentences, TextSentences, _fingerprint
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.overrides import parse_overrides
from fairseq_attn_plugin.text.subwords import SUBWORDS
from fairseq_attn_plugin.writing import check_not_lost


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="folder that fairseq-preprocess wrote")
    add_teacher_options(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="what to write, .jsonl or .npz")
    parser.add_argument("--name", help="of the system, for legends and tables (default: the checkpoint's folder)")
    parser.add_argument("--gen-subset", metavar="SPLIT", help="split of the data (default: test)")
    parser.add_argument("--source-text", metavar="FILE", help="a text instead of a split, one sentence a line")
    parser.add_argument("--target-text", metavar="FILE", help="its translation")
    parser.add_argument("--beam", type=int, metavar="N", help="translate by beam search (default: force the reference)")
    parser.add_argument("--lenpen", type=float, default=1.0, help="with --beam: length penalty, as in fairseq-generate")
    parser.add_argument(
        "--max-len-a", type=float, default=0.0, metavar="A", help="with --beam: hypotheses have at most"
    )
    parser.add_argument("--max-len-b", type=int, default=200, metavar="B", help="A N + B subwords (default: 0, 200)")
    parser.add_argument("--layer", type=int, metavar="L", help="of a transformer's decoder, from 1 (default: the last)")
    parser.add_argument("--subwords", choices=SUBWORDS, help="how words were split (default: seen from the vocabulary)")
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="subwords in a batch (default: 4000)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE, and what another run left of it")
    text = add_text_options(parser)
    text.add_argument("--target-bpe-codes", metavar="FILE", help="of --target-text (default: --bpe-codes)")
    text.add_argument("--target-sentencepiece-model", metavar="FILE", help="(default: --sentencepiece-model)")


def _check(args: argparse.Namespace) -> None:
    if args.max_tokens < 1:
        raise OptionError(f"--max-tokens {args.max_tokens}: must be at least 1")
    if args.beam is not None and args.beam < 1:
        raise OptionError(f"--beam {args.beam}: must be at least 1")
    if args.max_len_a < 0 or args.max_len_b < 1:
        raise OptionError(f"--max-len-a {args.max_len_a} --max-len-b {args.max_len_b}: must be at least 0 and 1")
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: one data folder at a time, please; each numbers its own sentences")
    if args.target_text and not args.source_text:
        raise OptionError(f"--target-text {args.target_text}: is the translation of a --source-text, which is missing")
    if args.source_text and args.gen_subset:
        raise OptionError(f"--gen-subset {args.gen_subset} and --source-text {args.source_text}: choose one of the two")
    if args.source_text and not args.target_text and args.beam is None:
        raise OptionError(
            f"--source-text {args.source_text}: without a translation (--target-text) give --beam, as --beam 5"
        )
    if not math.isfinite(args.lenpen):
        raise OptionError(f"--lenpen {args.lenpen}: must be a number")
    if Path(args.out).is_dir():
        raise OptionError(f"--out {args.out}: is a folder")
    check_not_lost("--out", args.out, [args.source_text, args.target_text])
    folder = Path(args.out).parent
    if not folder.is_dir():
        raise OptionError(f"--out {args.out}: there is no folder {folder}")


def _segmenters(args: argparse.Namespace, teacher: Teacher) -> List[Segmenter]:
    options, (source, target) = text_options(args), teacher.languages
    segmenters = [Segmenter(teacher.task.source_dictionary, source, **options)]
    theirs = {"bpe_codes": args.target_bpe_codes, "sentencepiece_model": args.target_sentencepiece_model}
    if any(theirs.values()):
        options.update(theirs, prefix="target-")
    return [*segmenters, Segmenter(teacher.task.target_dictionary, target, **options)]


def run(args: argparse.Namespace) -> None:
    _check(args)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    teacher = load_teacher(args.data, args.path, parse_overrides(args.model_overrides), args.cpu)
    sentences: Any
    if args.source_text:
        sentences = TextSentences(teacher, args.source_text, args.target_text, *_segmenters(args, teacher))
    else:
        sentences = SplitSentences(teacher, args.gen_subset or "test", references=args.beam is None)
    generation = {}
    if args.beam is not None:
        generation = {"lenpen": args.lenpen, "max_len_a": args.max_len_a, "max_len_b": args.max_len_b}
    texts = text_options(args) if args.source_text else {}
    overrides = parse_overrides(args.model_overrides)
    header = describe(
        teacher,
        sentences,
        args.name,
        args.beam,
        args.subwords,
        args.layer,
        generation=generation,
        overrides={key: str(value) for key, value in overrides.items()},
        files=[
            _fingerprint(Path(file))
            for file in (
                args.bpe_codes,
                args.target_bpe_codes,
                args.sentencepiece_model,
                args.target_sentencepiece_model,
                *(value for value in overrides.values() if isinstance(value, str) and Path(value).is_file()),
            )
            if file
        ],
        **{key: value for key, value in texts.items() if value},
    )
    done = extract_file(
        teacher,
        sentences,
        args.out,
        header,
        args.beam,
        args.max_tokens,
        generation,
        args.layer,
        "replace" if args.overwrite else "keep",
    )
    if done.complete:
        print(f"{args.out}: is complete already; --overwrite extracts it anew")
        return
    print(
        f"{args.out}: attention of {header.name} ({', '.join(header.weights)}) for {done.written} sentences"
        + (f", {done.resumed} of them of an interrupted run" if done.resumed else "")
        + (f"; {done.left_out} are longer than the model takes and were left out" if done.left_out else "")
    )
    if args.source_text and sentences.unknown > MANY * sentences.tokens:
        print(
            f"{sentences.unknown} of {sentences.tokens} source tokens are not in the vocabulary: was the text of the "
            "training prepared in another way (--tokenizer, --bpe-codes, --sentencepiece-model, --case)?"
        )
