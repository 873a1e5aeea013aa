"""Replaces unknown words in the output of fairseq-generate or -interactive by translations of their source words.

    fairseq-generate DATA --path model.pt --print-alignment | fairseq-attn replace-unk --lexicon lexicon.tsv > out

The command is a filter: it copies every line except hypotheses (H, D) with ``<unk>``. Alignments may be hard or soft.
fairseq also prints ``<unk>`` for unknown source words; ``--source`` names the text with the words themselves, one
sentence in each line, in the order of the corpus. Alignments link subwords, so give ``--remove-bpe`` here and not to
fairseq-generate. :mod:`fairseq_attn_plugin.analysis.outputs.replacement` has the rule of the replacement.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any, TextIO

from fairseq_attn_plugin.analysis.outputs.reading import read_lines
from fairseq_attn_plugin.analysis.outputs.replacement import Count, replace_lines
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lexicon import best_translations, read_lexicon
from fairseq_attn_plugin.writing import whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="output of fairseq-generate --print-alignment (default: standard input)"
    )
    parser.add_argument(
        "--lexicon",
        metavar="FILE",
        help="file of fairseq-attn lexicon (default: copy the source words)",
    )
    parser.add_argument(
        "--source",
        metavar="TEXT",
        help="source text with the words that fairseq prints as <unk> (default: the lines S)",
    )
    parser.add_argument("--remove-bpe", action="store_true", help="join subwords after the replacement")
    parser.add_argument("--out", metavar="FILE", help="file to write (default: standard output)")


def run(args: argparse.Namespace) -> None:
    lexicon = {} if args.lexicon is None else best_translations(read_lexicon(args.lexicon, "--lexicon"))
    source = None if args.source is None else read_lines(args.source)
    count, name = Count(), args.file or "standard input"
    with contextlib.ExitStack() as stack:
        if args.file is None:
            stream: TextIO = _utf8(sys.stdin)
        else:
            try:
                stream = stack.enter_context(open(args.file, encoding="utf-8", newline=""))
            except OSError as error:
                raise OptionError(f"{args.file}: cannot be read: {error.strerror or error}") from None
        out = _utf8(sys.stdout)
        if args.out is not None:
            out = stack.enter_context(whole_text(args.out, f"--out {args.out}: cannot be written"))
        lines = replace_lines(stream, lexicon, source, args.remove_bpe, count, name, f"--source {args.source}")
        try:
            for line in lines:
                out.write(line)
                if args.out is None and line.startswith("A-"):  # ends a sentence of fairseq-interactive
                    out.flush()
        except UnicodeDecodeError as error:
            raise OptionError(f"{name}: is not UTF-8: {error.reason}") from None
    hint = f" ({count.left:,} are aligned to unknown source words: give --source)" if count.left and not source else ""
    sys.stderr.write(f"{count}{hint}\n")


def _utf8(stream: Any) -> TextIO:
    """Sets a standard stream to UTF-8 and unchanged line ends, whatever the locale."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", newline="")
    return stream
