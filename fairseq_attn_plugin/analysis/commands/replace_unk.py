"""Unknown words in the output of fairseq-generate or -interactive, replaced by what they were aligned to.

    fairseq-generate DATA --path model.pt --print-alignment | attn-analysis replace-unk --lexicon lexicon.tsv > out

A filter: line by line, every line that has no ``<unk>`` of a hypothesis (H, D) unchanged. Alignments may be hard or
soft. fairseq prints ``<unk>`` for unknown source words, too: ``--source`` has the words themselves, a line for each
sentence of the corpus, in its order. With BPE, leave ``--remove-bpe`` of fairseq-generate out, since alignments are of
subwords, and give it here. How a word is replaced is said by
:func:`fairseq_attn_plugin._replace_unk.replace_unknown`.
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
        help="translations, as attn-analysis lexicon writes them (default: copy source words)",
    )
    parser.add_argument(
        "--source",
        metavar="TEXT",
        help="source text, for the words that fairseq prints as <unk> (default: its lines S)",
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
                if args.out is None and line.startswith("A-"):  # the end of a sentence, for somebody who is waiting
                    out.flush()
        except UnicodeDecodeError as error:
            raise OptionError(f"{name}: is not UTF-8: {error.reason}") from None
    hint = f" ({count.left:,} were aligned to unknown source words: give --source)" if count.left and not source else ""
    sys.stderr.write(f"{count}{hint}\n")


def _utf8(stream: Any) -> TextIO:
    """A standard stream that reads or writes UTF-8 and leaves the ends of lines alone, whatever the locale."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", newline="")
    return stream
