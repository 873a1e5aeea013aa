"""``fairseq-attn``: the command of this package. ``attn-analysis`` is its old name.

A subcommand is a module of :mod:`.commands` or :mod:`.commands.analysis`: ``configure(parser)`` adds its options,
``run(args)`` does the work. The module is imported only when the subcommand or its help is called.
"""

import argparse
import importlib
import logging
import os
import re
import sys
from pathlib import Path
from typing import Dict, NoReturn, Optional, Sequence

from fairseq_attn_plugin import __version__
from fairseq_attn_plugin.analysis.folders import data_of_checkpoint
from fairseq_attn_plugin.errors import did_you_mean, explain_choice, install_hook
from fairseq_attn_plugin.model_folder import expand

# subcommand -> help; the module is commands/SUBCOMMAND.py
MODELS: Dict[str, str] = {
    "train": "train a translator on a file of sentence pairs, and write it as a model folder",
    "prepare": "write a published corpus as text files for fairseq-preprocess: download, tokenise, subwords, split",
    "documents": "convert labelled documents to lines for fairseq-preprocess, for document classification",
    "translate": "translate text with a model folder, or with a checkpoint",
    "classify": "classify documents and show the words and sentences with the greatest weights",
    "serve": "translate typed sentences and show the attention, in a browser on this machine",
    "average": "average checkpoints of a training into one",
    "export": "write a model as a folder that translates text without torch and fairseq, by onnxruntime",
    "where": "print the folder of this package, of its YAML configurations (--configs), or of its recipes (--recipes)",
}
# the module is commands/analysis/SUBCOMMAND.py
ANALYSIS: Dict[str, str] = {
    "extract": "write the attention of a model for every sentence of a split or a text, as JSON lines",
    "plot": "draw heatmaps of sentences, with one or several models side by side",
    "align": "write hard word alignments, by attention or better methods, also symmetrised; convert links to subwords",
    "aer": "measure alignment error rate, precision, recall and F1 against gold alignments",
    "lagging": "measure how far translations lag behind a source that is being read",
    "faithfulness": "measure whether the attention tells what a model's predictions depend on",
    "confidence": "measure how sure attention looks, and whether that tells quality",
    "frequency": "compare rare and frequent words in system outputs with the reference",
    "lexicon": "write word translation probabilities estimated from extracted attention",
    "compare": "show the outputs of several systems side by side, with differing words marked",
    "explore": "write one HTML page that shows the attention of each model for every sentence",
    "election": "measure how far from their position target words attend, or learn the table of --attention election",
    "report": "write a report on a folder of trained systems, as Markdown and HTML",
}
COMMANDS = {**MODELS, **ANALYSIS}
RECIPE = "prepare a published corpus, train, translate and score, by a shell file; recipe --help lists them"


class _Parser(argparse.ArgumentParser):
    """A parser whose messages about unknown words name similar ones."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"argument COMMAND: invalid choice: '(.*?)'", message)
        if wrong is not None:
            name, lists = wrong.group(1), f"{self.prog} --help lists the subcommands"
            message = f"{name}: there is no such subcommand; {did_you_mean(name, [*COMMANDS, 'recipe'], lists, 2, 0.5)}"
        super().error(explain_choice(message) or message)


class _LazyParser(_Parser):
    """The parser of a subcommand; it imports the module and adds the options when it first parses."""

    def __init__(self, *args: object, module: str = "", **kwargs: object):
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.module = module
        self.mixing = False

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def, override]
        if self.mixing:
            return super().parse_known_args(args, namespace)
        module = importlib.import_module(self.module)
        module.configure(self)
        self.takes_extra = getattr(module, "TAKES_EXTRA", False)
        self.set_defaults(run=module.run)
        end = args.index("--") if self.takes_extra and "--" in args else len(args)
        found, unknown = super().parse_known_args(args[:end], namespace)
        if unknown and not any(word.startswith("-") for word in unknown):
            self.mixing = True  # names may also stand behind options: translate MODEL --beam 3 TEXT
            found, unknown = self.parse_known_intermixed_args(args[:end])
        if self.takes_extra:
            found.extra = args[end + 1 :]
        known = list(self._option_string_actions)
        if "--path" in known and sum(word.partition("=")[0] == "--path" for word in args[:end]) > 1:
            self.error("--path: is given several times; give it once, with colons between several checkpoints")
        for word in (word for word in unknown if word.startswith("--")):
            meant = did_you_mean(word.partition("=")[0], known, cutoff=0.8 if self.takes_extra else 0.6)
            hint = f" options of fairseq-train follow --, as in -- {word}" if self.takes_extra else ""
            if meant or hint:
                self.error(f"unrecognized argument: {word}; {(meant + hint).lstrip()}")
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}; {self.prog} --help lists the options")
        return found, unknown


def module_of(name: str) -> str:
    """The module of a subcommand."""
    return f"fairseq_attn_plugin.commands.{'analysis.' if name in ANALYSIS else ''}{name}"


def program() -> str:
    """The name by which the command was called: ``attn-analysis`` or ``fairseq-attn``."""
    return "attn-analysis" if Path(sys.argv[0]).name == "attn-analysis" else "fairseq-attn"


def main(argv: Optional[Sequence[str]] = None) -> None:
    """Runs a subcommand. Ends with status 130 after Ctrl-C and 141 if the reader of the output closes it."""
    install_hook()
    parser = _Parser(prog=program(), description="Trains translators, and shows their attention.")
    parser.add_argument("--version", action="version", version=f"fairseq_attn_plugin {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_LazyParser)
    for name, text in COMMANDS.items():
        subparsers.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", module=module_of(name), allow_abbrev=False
        )
    subparsers.add_parser("recipe", help=RECIPE)  # a command line of its own
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["recipe"]:  # by its name, since a recipe calls subcommands of this program
            importlib.import_module("fairseq_attn_plugin.commands.recipe").main(words[1:])
            sys.exit(0)
        args = parser.parse_args(words)
        logging.getLogger("fairseq").setLevel(logging.WARNING)
        for folder in getattr(args, "user_dir", None) or ():
            from fairseq_attn_plugin.analysis.inference.model_options import import_user_dir

            import_user_dir(folder)
        data_of_checkpoint(args)
        expand(args)
        args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write(f"{program()}: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        # a reader such as head has closed the pipe; the interpreter's own last flush must not fail as well
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
