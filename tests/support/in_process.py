"""Runs fairseq's console scripts inside the test process: the same arguments and output, without seconds of imports.

Tests of what only a process can show (the exit status, the hook of uncaught exceptions, that the plugin is imported in
time) use ``cli.run_cli``.
"""

import contextlib
import io
import logging
import sys
import warnings
from importlib import import_module
from typing import Iterator, NamedTuple, TextIO
from unittest import mock

import quick_hydra  # noqa: F401 (makes hydra quicker)

import fairseq_attn_plugin  # noqa: F401
from fairseq_attn_plugin.errors import one_line

MODULES = ("preprocess", "train", "generate", "interactive", "validate")


class Output(NamedTuple):
    """What the tool printed, its log included, and the line that would end stderr if it failed."""

    stdout: str
    error: str


def run_tool(*args: object, stdin: str = "", fails: bool = False) -> Output:
    """Run ``args[0]`` (such as ``fairseq-train``) with the other arguments.

    With ``fails`` the tool has to fail with a mistake that is explained in one line. Every other exception is raised.
    """
    tool, *options = (str(arg) for arg in args)
    module = tool.replace("fairseq-", "")
    assert module in MODULES, tool
    if module != "preprocess":
        sys.audit("tests.run_tool")  # --fast goes without
    # the test process starts neither CUDA nor other processes
    options += [] if "--cpu" in options else ["--cpu"]
    options += [] if "--num-workers" in options or module == "preprocess" else ["--num-workers", "0"]
    import_module("fairseq.logging.metrics").reset()
    stdout, error = io.StringIO(), ""
    with contextlib.ExitStack() as changes:
        changes.enter_context(mock.patch.object(sys, "argv", [tool, *options]))
        changes.enter_context(mock.patch.object(sys, "stdin", io.StringIO(stdin)))
        changes.enter_context(contextlib.redirect_stdout(stdout))
        changes.enter_context(_log_to(stdout))
        changes.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # those of hydra and torch, which the tools print, too
        try:
            import_module("fairseq_cli." + module).cli_main()
        except Exception as exception:
            line = one_line(exception)
            if line is None or not fails:
                raise
            error = line
    assert bool(error) == fails, "%s has not failed" % tool
    return Output(stdout.getvalue(), error)


@contextlib.contextmanager
def _log_to(stream: TextIO) -> Iterator[None]:
    """The log of fairseq goes to stdout, as its tools have it."""
    handler, root = logging.StreamHandler(stream), logging.getLogger()
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
    handler.setLevel(logging.INFO)
    levels = {logger: logger.level for logger in (root, logging.getLogger("fairseq"))}
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("fairseq").setLevel(logging.NOTSET)  # the analysis may have made it silent
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in levels.items():
            logger.setLevel(level)
