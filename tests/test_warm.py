"""Signals reach a command that a warm process runs, and its end ends what it started."""

import signal
import subprocess
import sys

import pytest

from cli import prepare

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NO WARM PROCESSES: every command is cold here")


def test_signals_reach_the_command_and_its_end_ends_what_it_started(tmp_path):
    (tmp_path / "program.py").write_text(
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(5))\n"
        "subprocess.Popen(['sleep', '300'])\nprint('ready', flush=True)\ntime.sleep(300)"
    )
    for number, status in ((signal.SIGINT, 5), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
        command, environment = prepare(tmp_path / "program.py")
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.communicate(timeout=60)[0] == ""  # ends when nothing has the stream any more
            assert process.returncode == status
