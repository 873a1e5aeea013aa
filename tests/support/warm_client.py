"""Stands for a command that a warm server runs (:mod:`warm`).

python -I -S warm_client.py ADDRESS PACKAGE ARGUMENTS...
"""

import json
import os
import signal
import socket
import sys

address, package, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]


def names_package() -> bool:
    """A command of the package, or one with --user-dir, unless that is a copy of the package."""
    tools = {os.path.basename(word) for word in arguments[:2]}
    # What its import looks at: the tool that runs, and whether it is the main module; options of hydra; this variable.
    special = {"fairseq-preprocess", "fairseq-hydra-train"} & tools or any("fairseq_cli" in tool for tool in tools)
    if special or os.environ.get("FAIRSEQ_ATTN_TRACEBACK"):
        return False
    if "--user-dir" not in arguments:
        return "fairseq-attn" in tools
    folder = os.path.abspath(arguments[arguments.index("--user-dir") + 1])
    is_copy = os.path.basename(folder) == os.path.basename(package) and os.path.exists(folder)
    return not is_copy or os.path.realpath(folder) == package


status = b""
if arguments and (arguments[0] == "-m" or not arguments[0].startswith("-")):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0" + address + "+" * names_package())
    request = json.dumps([os.getcwd(), dict(os.environ), arguments]).encode()
    socket.send_fds(connection, [b"%16d" % len(request)], [0, 1, 2])
    connection.sendall(request)
    status = connection.recv(1)
if status != b"s":
    os.execv(sys.executable, [sys.executable, *arguments])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda which, _: connection.sendall(bytes([which])))
null = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):  # the command has them: whoever closes them is to be noticed
    os.dup2(null, stream)
code = int(connection.recv(16) or -9)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
