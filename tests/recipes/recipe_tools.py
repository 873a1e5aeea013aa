"""The command-line tools of the recipes in forked children of one process that has imported them.

A recipe runs about ten tools. Each would spend its time on importing torch and fairseq: this server imports them once.
A request is a line of JSON: the words of the command, the environment, and files for its two streams. The answer is a
line with the exit status.
"""

import contextlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Any, Dict, List, Optional, Sequence, Union

TOOLS = {
    "fairseq-preprocess": ("fairseq_cli.preprocess", "cli_main"),
    "fairseq-train": ("fairseq_cli.train", "cli_main"),
    "fairseq-generate": ("fairseq_cli.generate", "cli_main"),
    "sacrebleu": ("sacrebleu.sacrebleu", "main"),
    "subword-nmt": ("subword_nmt.subword_nmt", "main"),
}


class ToolServer:
    """Starts the process with the first command; :meth:`execute` takes the place of ``Shell.execute``."""

    def __init__(self) -> None:
        self.process: Optional[subprocess.Popen] = None

    def execute(
        self, words: Sequence[str], stdout: Optional[IO[bytes]] = None, stderr: Union[int, IO[bytes], None] = None
    ) -> int:
        sys.stdout.flush()
        with tempfile.TemporaryDirectory() as folder:
            files = {name: os.path.join(folder, name) for name in ("stdout", "stderr")}
            if stderr == subprocess.STDOUT:
                files["stderr"] = files["stdout"]
            status = self.ask({"words": list(words), "environment": dict(os.environ), **files})
            _copy(files["stdout"], 1 if stdout is None else stdout.fileno())
            if stderr != subprocess.STDOUT:
                _copy(files["stderr"], 2 if stderr is None else stderr.fileno())  # type: ignore[union-attr]
        return status

    def ask(self, request: Dict[str, Any]) -> int:
        if self.process is None:
            environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONIOENCODING="utf-8")
            self.process = subprocess.Popen(
                [sys.executable, __file__],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait(timeout=60)


def _copy(path: str, descriptor: int) -> None:
    if os.path.exists(path):
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(Path(path).read_bytes())


def run_tool(words: List[str]) -> None:
    """The tool, in this process."""
    if words[0] == "python":
        assert words[1] == "-m", words
        sys.argv = words[2:]
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        return
    module, function = TOOLS[words[0]]
    sys.argv = words
    getattr(sys.modules[module], function)()


def _in_child(request: Dict[str, Any]) -> None:
    """Never returns."""
    status = 1
    try:
        os.environ.clear()
        os.environ.update(request["environment"])
        for descriptor, name in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
            flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(name, flags, 0o600), descriptor)
        run_tool(request["words"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info()) if sys.excepthook else traceback.print_exc()  # type: ignore[arg-type]
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def serve() -> None:
    import importlib

    for module, _ in TOOLS.values():
        importlib.import_module(module)
    import fairseq_attn_plugin  # noqa: F401

    # the child's streams are its own; ours is the channel
    channel = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _in_child(json.loads(line))
        _, status = os.waitpid(child, 0)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        channel.write(f"{code}\n")
        channel.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    serve()
