"""Translates text with a model folder, or with a checkpoint and the options that prepare its text.

    fairseq-attn translate MODEL 'Ein Hund schläft.'
    fairseq-attn translate MODEL --input text.de --out text.en
    fairseq-attn translate MODEL < text.de > text.en
    fairseq-attn translate MODEL --alignments --nbest 3 < text.de

Each line of the input gives a line of text; an empty line, or one that is too long for the model, gives an empty one.
An unknown word is replaced by the source word that it attends to. With ``--nbest`` or ``--alignments`` a line has
columns with tabs between them: the number of the sentence (with ``--nbest``), the score (with ``--nbest``), the
translation, and links ``i-j`` of the source word i and the target word j, counted from 0 in the tokenised text (with
``--alignments``). If a translation with ``--out FILE`` is interrupted, ``FILE.interrupted`` has what is done.
"""

import argparse
import contextlib
import io
import itertools
import os
import shutil
import sys
from typing import Any, Iterator, List, Optional, TextIO, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.inference.model_options import add_model_options, add_overrides_option
from fairseq_attn_plugin.analysis.inference.segmenter import add_text_options
from fairseq_attn_plugin.analysis.inference.translation import ExportedTranslator
from fairseq_attn_plugin.decoding.export.exported_folder import FORMAT
from fairseq_attn_plugin.decoding.export.runtime import lines_that_came
from fairseq_attn_plugin.decoding.options import add_decoding_options
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import read_settings
from fairseq_attn_plugin.options import check_unread
from fairseq_attn_plugin.ranges import check_search
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.lines import iter_lines, to_utf8
from fairseq_attn_plugin.text.reading import SEVERAL, has_several_sentences
from fairseq_attn_plugin.writing import check_output, whole_text

BUFFER = 1024  # lines of a file that are read before the first of them is translated; of a pipe 64 bytes for each


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "data",
        metavar="MODEL",
        help="model folder, checkpoint, folder that export wrote, or with --path one of fairseq-preprocess",
    )
    add("text", nargs="*", help="sentences to translate (default: the lines of --input, or of standard input)")
    add("--input", metavar="FILE", help="text to translate, a sentence in each line")
    add("--out", metavar="FILE", help="file to write (default: standard output)")
    add("--alignments", action="store_true", help="add a tab and links i-j of source and target words, from 0")
    add("--nbest", type=int, default=1, metavar="N", help="translations of each sentence, with scores (default: 1)")
    add("--keep-unknown", action="store_true", help="show unknown words as <unk> (default: copy the source word)")
    add_model_options(parser)
    search = parser.add_argument_group("search, as in fairseq-interactive")
    absent = argparse.SUPPRESS
    search.add_argument(
        "--beam", type=int, default=absent, metavar="N", help="width of the search (default: 5, or as exported)"
    )
    search.add_argument(
        "--lenpen", type=float, default=absent, metavar="X", help="length penalty (default: 1, or as exported)"
    )
    add_decoding_options(parser)
    add_text_options(parser)


def run(args: argparse.Namespace) -> None:
    if args.text and args.input:
        raise OptionError(f"--input {args.input}: is given beside sentences; leave one of them out")
    for text in args.text:
        if os.path.isfile(text):
            raise OptionError(f"{text}: is a file; --input {text} translates its lines")
        try:
            text.encode()
        except UnicodeEncodeError:  # Python reads other bytes as halves of characters
            raise OptionError(f"{text!a}: must be UTF-8") from None
    check_output("--out", args.out, [args.input])
    translator = _translator(args)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict", newline="\n")
    with contextlib.ExitStack() as files:
        count, longer = 0, []
        out: Optional[TextIO] = None
        if args.out:
            out = files.enter_context(whole_text(args.out, f"--out {args.out}: cannot be written"))
        shown = not args.text and (out is not None or not sys.stdout.isatty())
        # a terminal shows the progress where it does not show the translations
        bar = files.enter_context(tqdm(unit=" lines", disable=None if shown else True))
        try:
            for lines in _lines(args):
                numbered = list(enumerate(lines, count))
                longer += [number + 1 for number, line in numbered if has_several_sentences(line)]
                rows = "".join(f"{row}\n" for row in _rows(translator, numbered, args))
                print(rows, end="", file=out or sys.stdout, flush=True)
                count += len(lines)
                bar.update(len(lines))
        except BaseException:  # also Ctrl-C; a file of many lines takes hours
            if out is not None and count and os.path.isfile(out.name):
                shutil.copyfile(out.name, f"{args.out}.interrupted")
                tqdm.write(f"{args.out}.interrupted has the translations of the first {count} lines", sys.stderr)
            raise
    if longer:
        others = f" and {counted(len(longer) - 1, 'other')}" if len(longer) > 1 else ""
        sys.stderr.write(f"line {longer[0]}{others}: {SEVERAL}\n")


def _translator(args: argparse.Namespace) -> Any:
    if args.path is None and read_settings(args.data).get("format") == FORMAT:
        fixed = f"{args.data} is an exported model, whose words and precision are fixed; leave it out"
        check_unread(args, fixed, add_decoding_options, add_text_options, add_overrides_option)
        return ExportedTranslator(args.data, getattr(args, "beam", None), getattr(args, "lenpen", None))
    args = argparse.Namespace(**{"beam": 5, "lenpen": 1.0, **vars(args)})
    check_search(args)
    if args.path is None:
        raise OptionError(
            f"{args.data}: is no model folder, checkpoint or exported model; give the checkpoint by --path"
        )
    from fairseq_attn_plugin.analysis.inference.translator import Translator  # imports torch

    return Translator.of_options(args)


def _lines(args: argparse.Namespace) -> Iterator[List[str]]:
    """The lines in lists that are searched together. Who waits for an answer to a line has it before the next one."""
    if args.text:
        yield args.text
    elif args.input:
        lines = iter_lines(args.input, f"--input {args.input}")
        while some := list(itertools.islice(lines, BUFFER)):
            yield some
    else:
        try:
            yield from lines_that_came(64 * BUFFER)
        except UnicodeDecodeError as error:
            raise OptionError(f"standard input: is not UTF-8; {to_utf8(error)}") from None


def _rows(translator: Any, numbered: List[Tuple[int, str]], args: argparse.Namespace) -> Iterator[str]:
    filled = [(number, line) for number, line in numbered if line.strip()]
    found = dict(
        zip((number for number, _ in filled), translator.translate_all([line for _, line in filled], args.nbest))
    )
    for number, _ in numbered:
        translations = found.get(number, [])
        if isinstance(translations, OptionError):  # the other lines are not lost
            tqdm.write(f"line {number + 1}: {translations}; its translation is empty", sys.stderr)
            translations = []
        if not translations:
            yield "\t".join([*([f"{number}", ""] if args.nbest > 1 else []), "", *([""] if args.alignments else [])])
        for one in translations:
            yield "\t".join(_columns(number, one, args))


def _columns(number: int, one: Any, args: argparse.Namespace) -> List[str]:
    text = one.text if args.keep_unknown else one.copied
    columns = [f"{number}", f"{one.score:.4f}", text] if args.nbest > 1 else [text]
    if args.alignments:
        best = ((row.argmax(), place) for place, row in enumerate(one.record.word_attention()) if row.any())
        columns.append(" ".join(f"{source}-{target}" for source, target in best))
    return columns
