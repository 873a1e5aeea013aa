"""Commands that start in milliseconds: forks of one process that has imported torch and fairseq.

A cold ``fairseq-train`` imports for four seconds before it reads its options. Here a server (``python warm.py``)
imports once for each process that runs tests, and forks for every command. A fork of it has imported this package, too,
and serves the commands that name it (:func:`warm_client.names_package`). The client (``warm_client.py``), a real
process in the place of the command, hands over its streams, folder, environment and arguments, and ends as the command
ends. It passes SIGINT and SIGTERM on; the end of the client, or of the process that started the server, kills the
command.

A command runs cold, as an ordinary process, where a variable that Python or torch reads at the start differs
(:data:`READ_AT_START`), with options of the interpreter, and on a system other than Linux. ``FAIRSEQ_ATTN_COLD=1``
makes every command cold.
"""

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Dict, List, Mapping

READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "HOME", "LD_", "OMP_", "MKL_", "KMP_", "TORCH", "CUDA")
PACKAGE = Path(__file__).resolve().parents[2] / "fairseq_attn_plugin"
PRELOADED = ["fairseq.trainer", "fairseq.model_parallel.megatron_trainer"]

CLIENT = str(Path(__file__).with_name("warm_client.py"))

_addresses: Dict[int, str] = {}  # of the server, by the process that started it


def command(arguments: List[str], environment: Mapping[str, str]) -> List[str]:
    """What to execute for ``python ARGUMENTS``."""
    if os.environ.get("FAIRSEQ_ATTN_COLD") == "1":
        return [sys.executable, *arguments]
    if sys.platform != "linux" or sys.version_info < (3, 9):  # no abstract sockets, no descriptors through them
        return [sys.executable, *arguments]
    if os.getpid() not in _addresses:
        _addresses[os.getpid()] = address = "fairseq-attn-" + secrets.token_hex(16)
        with socket.socket(socket.AF_UNIX) as plain, socket.socket(socket.AF_UNIX) as with_package:
            for listener, name in ((plain, address), (with_package, address + "+")):
                listener.bind("\0" + name)
                listener.listen(64)
            numbers = [plain.fileno(), with_package.fileno()]
            server = [sys.executable, __file__, *map(str, numbers)]
            process = subprocess.Popen(server, env=dict(environment), stdin=subprocess.PIPE, pass_fds=numbers, cwd="/")
        atexit.register(process.communicate)  # the end of its standard input ends the server
    return [sys.executable, "-I", "-S", CLIENT, _addresses[os.getpid()], str(PACKAGE), *arguments]


def folder_of_commands(folder: Path, environment: Mapping[str, str]) -> Path:
    """``folder`` with ``python`` and the console scripts, for the PATH of shell scripts that are tested."""
    scripts = Path(sys.executable).parent
    for name in ["python", "python3", "fairseq-attn", "subword-nmt", *(p.name for p in scripts.glob("fairseq-*"))]:
        if (scripts / name).exists():
            words = command([] if name.startswith("python") else [str(scripts / name)], environment)
            (folder / name).write_text('#!/bin/sh\nexec %s "$@"\n' % " ".join("'%s'" % word for word in words))
            (folder / name).chmod(0o755)
    return folder


# --- the server


def at_start(environment: Mapping[str, str]) -> Dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith(READ_AT_START) and k != "PYTHONPATH"}


def parse_usual_options() -> None:
    """Makes hydra know the options of most commands, and leaves nothing else behind."""
    importlib.import_module("quick_hydra")
    options, utils = map(importlib.import_module, ("fairseq.options", "fairseq.dataclass.utils"))
    singletons = importlib.import_module("hydra.core.singleton").Singleton
    before = dict(singletons.get_state())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        command = options.parse_args_and_arch(options.get_training_parser(), ["data", "--arch", "lstm"])
        utils.convert_namespace_to_omegaconf(command)
    singletons.set_state(before)


class Package:
    """Gives a package that is there already to the command that imports it, with what importing sets up."""

    def __init__(self, name: str, *parts: str):
        self.name, self.log = name, []  # type: str, List[dict]
        before, configure = dict(os.environ), logging.basicConfig
        logging.basicConfig = lambda **options: self.log.append(options)  # type: ignore
        for part in (name, *parts):
            importlib.import_module(part)
        logging.basicConfig = configure
        self.environment = {name: value for name, value in os.environ.items() if before.get(name) != value}

    def hide(self) -> None:
        names = [name for name in sys.modules if name.split(".")[0] == self.name]
        self.modules = {name: sys.modules.pop(name) for name in names}
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def find_spec(self, name: str, *_: object) -> object:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name == self.name else None

    def create_module(self, spec: object) -> types.ModuleType:
        sys.meta_path.remove(self)
        sys.modules.update(self.modules)
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)
        for options in self.log:
            logging.basicConfig(**options)
        self.spec = self.modules[self.name].__spec__
        return self.modules[self.name]

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.spec


class Tools(Package):
    """Gives those tools of fairseq that importing this package imports; each imports fairseq first."""

    def hide(self) -> None:
        super().hide()
        package = sys.modules[self.name] = self.modules.pop(self.name)
        for name in self.modules:
            delattr(package, name.split(".")[1])

    def find_spec(self, name: str, *_: object) -> object:
        return importlib.machinery.ModuleSpec(name, self) if name in self.modules else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:  # type: ignore[override]
        module = self.modules.pop(spec.name)
        self.spec = module.__spec__
        if spec.name == "fairseq_cli.train":  # before it imports fairseq
            form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
            logging.basicConfig(format=form, datefmt="%Y-%m-%d %H:%M:%S", level="INFO", stream=sys.stdout)
        importlib.import_module("fairseq")
        return module


def serve(listener: socket.socket, start: Dict[str, str]) -> tuple:
    """Forks for every request; returns its streams and what it is in the fork only."""
    selector, running = selectors.DefaultSelector(), {}
    wakeup, wake = os.pipe()
    for number in (wakeup, wake):
        os.set_blocking(number, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    for source in (0, wakeup, listener):
        selector.register(source, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj == 0:
                for pid in running:
                    kill(pid)
                os._exit(0)
            elif key.fileobj == wakeup:
                os.read(wakeup, 4096)
                for pid in [p for p in running if os.waitid(os.P_PID, p, os.WEXITED | os.WNOHANG | os.WNOWAIT)]:
                    kill(pid)  # what it has started
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with contextlib.suppress(KeyError):
                        selector.unregister(running[pid])
                    with contextlib.suppress(OSError), running.pop(pid) as client:
                        client.sendall(b"%d" % code)
            elif key.fileobj is listener:
                client, _ = listener.accept()
                length, streams, _, _ = socket.recv_fds(client, 16, 3)
                with client.makefile("rb") as file:
                    request = json.loads(file.read(int(length)))
                pid = os.fork() if at_start(request[1]) == start else -1
                if pid == 0:
                    os.setsid()
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
                    for one in (selector, listener, client, *running.values()):
                        one.close()
                    for number in (wakeup, wake):
                        os.close(number)
                    return (streams, *request)
                for stream in streams:
                    os.close(stream)
                client.sendall(b"c" if pid < 0 else b"s")
                if pid > 0:
                    running[pid] = client
                    selector.register(client, selectors.EVENT_READ, pid)
                else:
                    client.close()
            else:
                numbers = b""
                with contextlib.suppress(OSError):
                    numbers = key.fileobj.recv(64)
                if not numbers:  # the client is gone
                    selector.unregister(key.fileobj)
                    kill(key.data)
                for number in numbers:
                    os.kill(key.data, number)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def run(streams: List[int], folder: str, environment: Dict[str, str], arguments: List[str]) -> int:
    """As ``python ARGUMENTS`` in a new process."""
    for number, (stream, name) in enumerate(zip(streams, ("stdin", "stdout", "stderr"))):
        os.dup2(stream, number)
        os.close(stream)
        old = getattr(sys, name)
        mode = "w" if number else "r"
        new = open(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        new.reconfigure(line_buffering=number == 2)
        new.buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    first = folder if arguments[0] == "-m" else os.path.dirname(os.path.realpath(arguments[0]))
    given = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = list(dict.fromkeys([first, *map(os.path.abspath, given), *sys.path[1:]]))
    importlib.invalidate_caches()
    importlib.import_module("numpy").random.seed()
    importlib.import_module("torch").default_generator.seed()
    sys.argv[:] = arguments[1:] if arguments[0] == "-m" else arguments
    try:
        if arguments[0] == "-m":
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            main.__dict__.update(__file__=os.path.abspath(arguments[0]), __builtins__=__builtins__)
            exec(compile(Path(arguments[0]).read_bytes(), main.__dict__["__file__"], "exec"), main.__dict__)
    except SystemExit as wanted:
        if wanted.code is None or isinstance(wanted.code, int):
            return (wanted.code or 0) & 0xFF
        print(wanted.code, file=sys.stderr)
        return 1
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def main() -> None:
    listeners, before = [socket.socket(fileno=int(number)) for number in sys.argv[1:]], dict(os.environ)
    for listener in listeners:
        os.set_inheritable(listener.fileno(), False)
    packages = [Package("fairseq", *PRELOADED)]
    importlib.import_module("torch._dynamo")  # every optimizer does; what it sets is not of importing fairseq
    parse_usual_options()
    if os.fork():
        listeners.pop().close()
    else:
        listeners.pop(0).close()
        packages += [Package(PACKAGE.name), Tools("fairseq_cli")]
    for package in packages:
        package.hide()
    gc.freeze()
    status = run(*serve(*listeners, at_start(before)))
    importlib.import_module("threading")._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # files that only a cycle keeps open
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the destruction of every module would take longer than the start


if __name__ == "__main__":
    main()
