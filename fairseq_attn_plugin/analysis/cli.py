"""``attn-analysis``: one command for everything that is done with attention after training.

A subcommand is a module of :mod:`.commands` with ``configure(parser)``, which adds its options, and ``run(args)``.
The module is imported when the subcommand or its help is called.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Dict, Optional, Sequence

from fairseq_attn_plugin.errors import install_hook

__all__ = ["COMMANDS", "main"]


# subcommand -> what it does; the module is commands/SUBCOMMAND.py, with _ for -
COMMANDS: Dict[str, str] = {
    "extract": "attention of a model for every sentence of a split or a text, as JSONL or NPZ",
    "plot": "heatmaps of sentences, one or several models side by side",
    "curves": "learning curves from the logs or TensorBoard files of fairseq-train",
    "align": "hard word alignments in Pharaoh format, of one direction or symmetrised",
    "aer": "alignment error rate, precision, recall and F1 against gold alignments",
    "teacher-alignments": "word alignments from a trained model, for supervised attention",
    "frequency": "rare and frequent words in the outputs of systems against the reference",
    "lexicon": "word translation probabilities from extracted attention",
    "replace-unk": "unknown words in the output of fairseq-generate, by lexicon and attention",
    "compare": "outputs of several systems side by side, the words that differ marked",
    "explore": "one HTML page to see where each model looked, for every sentence",
    "serve": "type a sentence, see translation and attention, in a browser on this machine",
    "classify": "classes of documents, and the words and sentences that decided",
    "election": "how far from its own position a target word attends, and the window that an election picks",
    "q-agent": "the table of --attention election, by an agent that learns by Q-learning",
    "report": "all of it for a folder of trained systems, as Markdown and HTML",
}


class _Lazy(argparse.ArgumentParser):
    """A subcommand's parser, which gets its options when it is needed."""

    def __init__(self, *args: object, module: str = "", **kwargs: object):
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.module = module

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def, override]
        module = importlib.import_module(f"fairseq_attn_plugin.analysis.commands.{self.module}")
        module.configure(self)
        self.set_defaults(run=module.run)
        return super().parse_known_args(args, namespace)


def main(argv: Optional[Sequence[str]] = None) -> None:
    install_hook()
    # oneDNN keeps what it compiled for the last 1,024 shapes of matrices, about 100 kB each, and hardly a batch of
    # sentences has the shape of another one: the process would grow for the first hundred thousand sentences
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")
    parser = argparse.ArgumentParser(prog="attn-analysis", description=(__doc__ or "").split("\n")[0])
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Lazy)
    for name, text in COMMANDS.items():
        subparsers.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", module=name.replace("-", "_")
        )
    try:
        args = parser.parse_args(argv)
        args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("attn-analysis: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        # the reader, such as head, has seen enough: no trace, and none from the interpreter's own last flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
