"""Runs fairseq's console scripts the way a user does, from the environment that runs the tests.

Commands start from a process that has imported torch and fairseq (:mod:`warm`); FAIRSEQ_ATTN_COLD=1 starts ordinary
processes instead.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Mapping, Optional

import warm

REPO = Path(__file__).resolve().parents[2]
USER_DIR = str(REPO / "fairseq_attn_plugin")


class CliError(AssertionError):
    """A command ended with another status than expected; the message carries the end of its output."""


def run_cli(
    *args: object,
    check: bool = True,
    env: Optional[Mapping[str, str]] = None,
    timeout: float = 300,
    cwd: Optional[Path] = None,
    stdin: Optional[str] = None,
) -> "subprocess.CompletedProcess[str]":
    """Run ``args[0]`` (a console script such as ``fairseq-train``) with the other arguments.

    One list or tuple may be passed instead of separate arguments. Output is captured as text, ``stdin`` is fed
    as text, ``env`` is added to the environment. With ``check`` a non-zero exit status raises
    :class:`CliError`. The checkout is put on PYTHONPATH, so that nothing depends on the current folder.
    """
    command, environment = prepare(*args, env=env)
    done = subprocess.run(
        command,
        env=environment,
        timeout=timeout,
        cwd=cwd,
        input=stdin if stdin is not None else "",
        text=True,
        capture_output=True,
    )
    if check and done.returncode != 0:
        raise CliError(
            "%s\nended with status %d\n--- stdout\n%s\n--- stderr\n%s"
            % (" ".join(words_of(args)), done.returncode, done.stdout[-3000:], done.stderr[-6000:])
        )
    return done


def start_cli(*args: object, env: Optional[Mapping[str, str]] = None, **options: Any) -> "subprocess.Popen[str]":
    """Start the command without waiting for it (stderr joins stdout): for runs of several processes."""
    command, environment = prepare(*args, env=env)
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def prepare(*args: object, env: Optional[Mapping[str, str]] = None) -> "tuple[list[str], dict[str, str]]":
    """The command to execute, and its environment."""
    words = words_of(args)
    script = Path(sysconfig.get_path("scripts")) / words[0]
    usual = usual_environment()
    if words[0] == sys.executable:
        words = warm.command(words[1:], usual)
    elif script.exists():
        # the script's own first line may name another interpreter: run it with ours
        words = warm.command([str(script), *words[1:]], usual)
    return words, {**usual, **(env or {})}


def run_bash(
    *words: object, path: str = "", cwd: Optional[Path] = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Runs bash; its commands are those in the first folder of ``path``, and of the environment that runs the tests."""
    folders = [path.split(os.pathsep)[0], str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**usual_environment(), "PATH": os.pathsep.join(filter(None, folders)), **variables}
    command = ["bash", *map(str, words)]
    return subprocess.run(command, env=environment, cwd=cwd, text=True, capture_output=True, timeout=900)


def words_of(args: "tuple[object, ...]") -> "list[str]":
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = tuple(args[0])
    return [str(arg) for arg in args]


def usual_environment() -> "dict[str, str]":
    """One thread for each process, the checkout on PYTHONPATH, and nothing that a developer may have exported."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONIOENCODING="utf-8")
    # tests of what is written to stderr must not depend on them
    environment.pop("FAIRSEQ_ATTN_TRACEBACK", None)
    environment.pop("HYDRA_FULL_ERROR", None)
    # scikit-learn, its joblib and torch set these as they are imported, by this process as by a command
    for name in [name for name in environment if name.startswith(("KMP_", "TORCHINDUCTOR_", "PYTHONWARNINGS"))]:
        del environment[name]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPO), environment.get("PYTHONPATH")]))
    return environment


# architectures cut down to a few thousand parameters, for tests of the tools rather than of the models
_TINY_LSTM = "--encoder-embed-dim 16 --encoder-hidden-size 16 --encoder-layers 1 --decoder-out-embed-dim 16".split()
_TINY_LSTM += "--decoder-embed-dim 16 --decoder-hidden-size 16 --decoder-layers 1".split()
_TINY_TRANSFORMER = (
    "--encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2 --encoder-layers 1 "
    "--decoder-embed-dim 16 --decoder-ffn-embed-dim 16 --decoder-attention-heads 2 --decoder-layers 1"
).split()
TINY = {
    "lstm": ["--arch", "lstm", *_TINY_LSTM],
    "lstm_soft": ["--arch", "lstm_soft", *_TINY_LSTM],
    "lstm_adm": ["--arch", "lstm_adm", *_TINY_LSTM],
    "lstm_latent": ["--arch", "lstm_latent_small", *_TINY_LSTM, "--criterion", "latent_alignment"],
    "lstm_agreement": ["--arch", "lstm_agreement_small", *_TINY_LSTM, "--criterion", "agreement"],
    "transformer": ["--arch", "transformer_iwslt_de_en", *_TINY_TRANSFORMER],
}
