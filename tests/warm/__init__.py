"""Commands that start in milliseconds: forks of one process that has imported torch and fairseq.

A cold ``fairseq-train`` imports for four seconds before it reads its options. Here a server imports once for each
process that runs tests, and forks for every command:

    run_cli ── client.py ── socket ── server.py ── fork: the command

The client is a real process, started in the place of the command. It hands its standard streams, folder, environment
and arguments to the server, forwards signals, and ends with the status of the command. The fork has no state of an
earlier command, has not imported the plugin, and repeats what importing fairseq does to logging.

A command runs cold, as an ordinary process, where the fork could differ: other variables that are read when Python,
torch or fairseq start (:data:`READ_AT_START`), options of the interpreter, a system other than Linux, a server that
cannot be reached. ``FAIRSEQ_ATTN_COLD=1`` makes every command cold.
"""

import atexit
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Mapping, Optional

HERE = Path(__file__).resolve().parent
READ_AT_START = (
    *("PYTHON", "LC_", "LANG", "TZ", "HOME", "XDG_", "LD_"),
    *("OMP_", "MKL_", "OPENBLAS_", "KMP_", "TORCH", "PYTORCH", "CUDA", "NCCL", "MPL"),
)


class Server:
    """A running server. It ends when the process that started it ends, and takes its commands with it."""

    def __init__(self, environment: Mapping[str, str]):
        # a name in the abstract namespace: independent of folders and their lengths, gone with the listener
        self.address = "fairseq-attn-" + secrets.token_hex(16)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        lifeline, self._lifeline = os.pipe()
        try:
            listener.bind("\0" + self.address)
            listener.listen(64)
            # the server needs nothing from PYTHONPATH; a command gets its own
            own = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "server.py"), str(listener.fileno()), str(lifeline), *READ_AT_START],
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno(), lifeline],
                start_new_session=True,
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline)
            listener.close()

    def command(self, arguments: List[str]) -> List[str]:
        """The command that asks this server for ``python ARGUMENTS``."""
        return [sys.executable, "-I", "-S", str(HERE / "client.py"), self.address, *arguments]

    def stop(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            self._process.wait()


_servers: Dict[int, Optional[Server]] = {}  # by process: a fork starts its own


def command(arguments: List[str], environment: Mapping[str, str]) -> List[str]:
    """What to execute for ``python ARGUMENTS``: the client of this process's server, or the plain interpreter."""
    server = _server(environment)
    return server.command(arguments) if server is not None else [sys.executable, *arguments]


def folder_of_commands(folder: Path, environment: Mapping[str, str]) -> Path:
    """``folder`` with ``python`` and the console scripts, for the PATH of shell scripts that are tested."""
    scripts = Path(sys.executable).parent
    folder.mkdir(parents=True, exist_ok=True)
    for name in ["python", "python3", "fairseq-attn", "subword-nmt", *(p.name for p in scripts.glob("fairseq-*"))]:
        if (scripts / name).exists():
            words = command([] if name.startswith("python") else [str(scripts / name)], environment)
            text = '#!/bin/sh\nexec %s "$@"\n' % " ".join("'%s'" % word.replace("'", "'\\''") for word in words)
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
    return folder


def _server(environment: Mapping[str, str]) -> Optional[Server]:
    if os.environ.get("FAIRSEQ_ATTN_COLD", "0") not in ("", "0"):
        return None
    if sys.platform != "linux" or sys.version_info < (3, 9):  # abstract sockets; file descriptors sent through them
        return None
    if os.getpid() not in _servers:
        try:
            server = Server(environment)
            atexit.register(server.stop)
        except OSError:
            server = None
        _servers[os.getpid()] = server
    return _servers[os.getpid()]
