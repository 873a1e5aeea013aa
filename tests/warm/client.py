"""Stands for a command that a warm server runs: passes streams and arguments on, forwards signals, ends as it ends.

    python -I -S client.py ADDRESS SCRIPT|-m MODULE ARGUMENTS...

Only the standard library is imported, and little of it: this is the whole start-up time of a warm command.
"""

import os
import signal
import socket
import sys

address, arguments = sys.argv[1], sys.argv[2:]


def cold():
    os.execv(sys.executable, [sys.executable, *arguments])


# the interpreter's own options, and programs from standard input, are for a cold interpreter
if not arguments or (arguments[0].startswith("-") and arguments[0] != "-m") or arguments == ["-m"]:
    cold()

connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
umask = os.umask(0)
os.umask(umask)
variables = [name + b"=" + value for name, value in os.environb.items()]
fields = [os.fsencode(os.getcwd()), b"%d" % umask, b"%d" % len(variables), *variables, *map(os.fsencode, arguments)]
message = b"\0".join(fields)
try:
    connection.connect("\0" + address)
    socket.send_fds(connection, [b"%16d" % len(message)], [0, 1, 2])
    connection.sendall(message)
    answer = connection.recv(64)
except OSError:
    answer = b"cold"
if not answer.startswith(b"started"):
    cold()

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda which, _: connection.sendall(bytes([which])))
# the command has the streams now; whoever closes them must be noticed
null = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(null, stream)
status = answer[len(b"started") :]
while not status.endswith(b"\n"):
    more = connection.recv(64)
    if not more:  # the server is gone, and the command with it
        status = b"%d\n" % -signal.SIGKILL
    status += more
code = int(status)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
