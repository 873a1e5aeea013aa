"""Imports torch and fairseq once, then forks for every command that a client asks for.

    python server.py LISTENER LIFELINE PREFIX...

LISTENER and LIFELINE are inherited file descriptors. The end of LIFELINE ends the server and all its commands.
"""

import atexit
import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import threading
import types
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

STARTED_WITH = dict(os.environ)
PRELOADED = ["torch", "fairseq", "fairseq.trainer", "fairseq.model_parallel.megatron_trainer"]


class Request(NamedTuple):
    """What a client wants to be run, and where."""

    folder: str
    umask: int
    environment: Dict[str, str]
    arguments: List[str]
    streams: List[int]


class Imported(NamedTuple):
    """What importing fairseq did besides defining names; a command sees it done when it imports fairseq itself."""

    logging: List[Dict[str, Any]]  # calls of logging.basicConfig; the first that finds no handler counts
    environment: Dict[str, str]


class Command(NamedTuple):
    pid: int
    connection: socket.socket


# --- the server


def preload() -> Imported:
    calls: List[Dict[str, Any]] = []
    original = logging.basicConfig
    before = set(logging.root.handlers)
    logging.basicConfig = lambda **options: calls.append(options)  # type: ignore[assignment]
    try:
        for name in PRELOADED:
            importlib.import_module(name)
    finally:
        logging.basicConfig = original
    if set(logging.root.handlers) != before or any(name.split(".")[0] == "fairseq_attn_plugin" for name in sys.modules):
        raise RuntimeError("importing fairseq does what a fork cannot repeat")
    changed = {name: value for name, value in os.environ.items() if STARTED_WITH.get(name) != value}
    # a second for every optimizer; the variable that it sets is not one that importing fairseq sets
    importlib.import_module("torch._dynamo")
    return Imported(calls, changed)


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def differs_at_start(request: Request, prefixes: Tuple[str, ...]) -> bool:
    """Whether a cold process would start with other variables than this one did."""

    def read(environment: Dict[str, str]) -> Dict[str, str]:
        return {
            name: value for name, value in environment.items() if name.startswith(prefixes) and name != "PYTHONPATH"
        }

    if read(request.environment) != read(STARTED_WITH):
        return True
    folders = request.environment.get("PYTHONPATH", "").split(os.pathsep)
    return any(os.path.exists(os.path.join(folder, name)) for folder in folders for name in ("torch", "fairseq"))


def receive(connection: socket.socket) -> Request:
    connection.settimeout(20)
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    if struct.unpack("3i", credentials)[1] != os.getuid():
        raise PermissionError("another user")
    header, streams, _, _ = socket.recv_fds(connection, 16, 3)
    try:
        left, parts = int(header), []
        while left:
            parts.append(connection.recv(min(left, 1 << 16)))
            left -= len(parts[-1])
            if not parts[-1]:
                raise EOFError
    except (OSError, ValueError, EOFError):
        for stream in streams:  # whoever reads the output of the command would wait for the end of the server
            os.close(stream)
        raise
    folder, umask, count, *rest = map(os.fsdecode, b"".join(parts).split(b"\0"))
    variables, arguments = rest[: int(count)], rest[int(count) :]
    return Request(folder, int(umask), dict(one.split("=", 1) for one in variables), arguments, list(streams))


class Server:
    """Forks commands, and tells each client how its command ended."""

    def __init__(self, listener: socket.socket, lifeline: int, prefixes: Tuple[str, ...], ready: bool):
        self.listener, self.lifeline, self.prefixes, self.ready = listener, lifeline, prefixes, ready
        self.commands: Dict[int, Command] = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.selector.register(lifeline, selectors.EVENT_READ)
        self.wakeup, self.wake = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self.wakeup, False)
        self.selector.register(self.wakeup, selectors.EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)

    def serve(self) -> Request:
        """Returns in a fork only."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.listener:
                    request = self.accept()
                    if request is not None:
                        return request
                elif key.fileobj == self.lifeline:
                    for command in self.commands.values():
                        kill(command)
                    os._exit(0)
                elif key.fileobj == self.wakeup:
                    os.read(self.wakeup, 1 << 12)
                    self.reap()
                elif key.data in self.commands:
                    self.hear(self.commands[key.data])

    def accept(self) -> Optional[Request]:
        connection, _ = self.listener.accept()
        try:
            request = receive(connection)
        except (OSError, ValueError, EOFError):
            connection.close()
            return None
        pid = -1
        if self.ready and threads() == 1 and not differs_at_start(request, self.prefixes):
            try:
                pid = os.fork()
            except OSError:
                pid = -1
        if pid == 0:
            self.leave(connection)
            return request
        for stream in request.streams:
            os.close(stream)
        if pid < 0:
            connection.close()
            return None
        connection.settimeout(None)
        self.commands[pid] = Command(pid, connection)
        self.selector.register(connection, selectors.EVENT_READ, pid)
        tell(connection, b"started")
        return None

    def leave(self, connection: socket.socket) -> None:
        """In the fork: nothing of the server stays open."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        end_with_parent()
        self.selector.close()
        for number in (self.wakeup, self.wake, self.lifeline):
            os.close(number)
        for one in (self.listener, connection, *(command.connection for command in self.commands.values())):
            one.close()
        self.commands.clear()

    def hear(self, command: Command) -> None:
        """A client sends signals for its command; it is killed if its client is gone."""
        try:
            numbers = command.connection.recv(64)
        except OSError:
            numbers = b""
        if not numbers:
            self.selector.unregister(command.connection)
            kill(command)
        for number in numbers:
            os.kill(command.pid, number)

    def reap(self) -> None:
        for pid in list(self.commands):
            # as long as the process is not waited for, its group cannot be another's
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            command = self.commands.pop(pid)
            kill(command)
            _, status = os.waitpid(pid, 0)
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if command.connection.fileno() in self.selector.get_map():
                self.selector.unregister(command.connection)
            tell(command.connection, b"%d\n" % code)
            command.connection.close()


def tell(connection: socket.socket, text: bytes) -> None:
    with contextlib.suppress(OSError):  # the client is gone, and will not be missed
        connection.sendall(text)


def kill(command: Command) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(command.pid, signal.SIGKILL)


def end_with_parent() -> None:
    """A command does not outlive a server that is killed."""
    import ctypes

    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG


# --- the fork


class Fairseq(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the modules of fairseq that are there already when a command first imports fairseq, and not earlier."""

    def __init__(self, imported: Imported):
        self.imported = imported
        names = [name for name in sys.modules if name.split(".")[0] == "fairseq"]
        self.modules = {name: sys.modules.pop(name) for name in names}
        self.spec = self.modules["fairseq"].__spec__

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name == "fairseq" else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        sys.meta_path.remove(self)
        sys.modules.update(self.modules)
        for name, value in self.imported.environment.items():
            os.environ.setdefault(name, value)
        for options in self.imported.logging:
            logging.basicConfig(**options)
        return self.modules["fairseq"]

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.spec


def become(request: Request, imported: Imported) -> None:
    """Streams, folder, environment, path and random numbers as those of a new process."""
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    # The streams of the server remember what their files could do: seek, or show a terminal.
    for name in ("stdin", "stdout", "stderr"):
        old = getattr(sys, name)
        mode, number = ("r", 0) if name == "stdin" else ("w", 1 if name == "stdout" else 2)
        new = open(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        new.reconfigure(line_buffering=name == "stderr" or new.isatty())
        new.buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    os.umask(request.umask)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    tempfile.tempdir = None
    first = request.folder
    if request.arguments[0] != "-m":
        first = os.path.dirname(os.path.realpath(request.arguments[0]))
    given = filter(None, request.environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = list(dict.fromkeys([first, *map(os.path.abspath, given), *sys.path[1:]]))
    importlib.invalidate_caches()
    sys.meta_path.insert(0, Fairseq(imported))
    import numpy
    import torch

    numpy.random.seed()
    torch.default_generator.seed()  # as a new process has it: another one every time


def run(arguments: List[str]) -> None:
    """As ``python ARGUMENTS``."""
    sys.orig_argv[1:] = arguments
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        main = types.ModuleType("__main__")
        path = os.path.join(os.getcwd(), arguments[0])
        main.__dict__.update(__file__=path, __cached__=None, __builtins__=__builtins__)
        sys.modules["__main__"] = main
        with open(path, "rb") as stream:
            code = compile(stream.read(), path, "exec")
        exec(code, main.__dict__)


def status_of(arguments: List[str]) -> int:
    """Run it; an exception goes to the hook for exceptions, without the lines of this file in its trace."""
    try:
        run(arguments)
    except KeyboardInterrupt:
        raise
    except SystemExit as wanted:
        if wanted.code is None or isinstance(wanted.code, int):
            return (wanted.code or 0) & 0xFF
        print(wanted.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>", runpy.__file__):
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        return 1
    return 0


def end(status: int) -> None:
    """What the interpreter does at its end, less the destruction of every module, which takes longer than the start."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # files that only a cycle keeps open
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        sys.exit(status)  # the interpreter reports it
    os._exit(status)


def server() -> Tuple[Request, Imported]:
    listener, lifeline, *prefixes = sys.argv[1:]
    os.set_inheritable(int(listener), False)
    os.set_inheritable(int(lifeline), False)
    try:
        imported, ready = preload(), True
    except Exception:
        imported, ready = Imported([], {}), False  # every command runs cold, and says what is wrong
    gc.collect()
    gc.freeze()
    accepting = socket.socket(fileno=int(listener))
    return Server(accepting, int(lifeline), tuple(prefixes), ready).serve(), imported


if __name__ == "__main__":
    wanted, already = server()
    become(wanted, already)
    end(status_of(wanted.arguments))
