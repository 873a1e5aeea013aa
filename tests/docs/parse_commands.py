"""Parses command lines with the real parsers, and runs nothing: reads [[word, ...], ...] as JSON, writes [error, ...].

The error of an accepted command is empty.

A process of its own, since a ``--user-dir`` stays imported and the parsers end the process.
"""

import argparse
import contextlib
import io
import json
import os
import runpy
import sys
from typing import Any, List, NoReturn


class Parsed(Exception):
    """The arguments were accepted."""


def main() -> None:
    errors = []
    for words in json.load(sys.stdin):
        text = io.StringIO()
        with contextlib.redirect_stderr(text), contextlib.redirect_stdout(text):
            try:
                parse(words)
                errors.append("")
            except Parsed:
                errors.append("")
            except (SystemExit, Exception) as error:
                accepted = isinstance(error, SystemExit) and error.code in (0, None)
                errors.append("" if accepted else f"{' '.join(words)}: {error!r} {text.getvalue()[-300:]}")
    json.dump(errors, sys.stdout)


def parse(words: List[str]) -> None:
    from fairseq import options, utils

    program, argv = words[0], words[1:]
    if "--user-dir" in argv:
        user_dir = argv[argv.index("--user-dir") + 1]
        utils.import_user_module(argparse.Namespace(user_dir=user_dir))
    else:
        import fairseq_attn_plugin  # noqa: F401
    if program == "fairseq-preprocess":
        options.get_preprocessing_parser().parse_args(argv)
    elif program == "fairseq-train":
        options.parse_args_and_arch(options.get_training_parser(), input_args=argv)
    elif program == "fairseq-validate":
        options.parse_args_and_arch(options.get_validation_parser(task_of(argv)), input_args=argv)
    elif program == "fairseq-generate":
        options.parse_args_and_arch(options.get_generation_parser(), input_args=argv)
    elif program == "fairseq-interactive":
        options.parse_args_and_arch(options.get_interactive_generation_parser(), input_args=argv)
    elif program in ("fairseq-attn", "attn-analysis"):
        stop_after_parsing()
        from fairseq_attn_plugin.cli import main as analysis

        analysis(argv)
    elif program in ("python", "python3"):
        stop_after_parsing()
        module = argv[0] == "-m"
        sys.argv = argv[1:] if module else argv
        sys.path[:0] = [] if module else [os.path.dirname(argv[0])]  # as Python does for a script
        run: Any = runpy.run_module if module else runpy.run_path
        run(argv[1] if module else argv[0], run_name="__main__")
    else:
        raise ValueError(f"there is no parser for {program}")


def task_of(argv: List[str]) -> str:
    return argv[argv.index("--task") + 1] if "--task" in argv else "translation"


ORIGINAL = argparse.ArgumentParser.parse_args


def stop_after_parsing() -> None:
    def parse_args(self: Any, args: Any = None, namespace: Any = None) -> NoReturn:
        ORIGINAL(self, args, namespace)
        raise Parsed

    argparse.ArgumentParser.parse_args = parse_args  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    main()
