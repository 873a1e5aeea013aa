"""A command from a warm process is the command: the same output, status and environment as those of a cold one."""

import re
import signal
import subprocess
import sys

import pytest

from cli import USER_DIR, prepare, run_cli, usual_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NO WARM PROCESSES: every command is cold here")
SEEN = """
import json, logging, os, sys
import fairseq_cli.train, fairseq_attn_plugin
print(json.dumps([
    sys.argv, sys.path, __file__, __name__, os.getcwd(), dict(os.environ), sys.stdin.read(), sys.stdout.encoding,
    [repr(handler) for handler in logging.root.handlers], logging.root.level, sorted(os.listdir("/proc/self/fd"))[:3],
    sorted({"fairseq", "fairseq_cli", "fairseq_attn_plugin"} & {name.split(".")[0] for name in sys.modules}),
], default=str))
sys.stderr.write("told\\n")
sys.exit(7)
"""


def both(*args, **options):
    """Status and output of a command, warm and cold."""
    results = []
    for cold in "01":
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAIRSEQ_ATTN_COLD", cold)
            command, _ = prepare(*args)
        environment = {**usual_environment(), **options}
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        hidden = re.sub(r"^.*tensorboardX.*\n", "", done.stderr, flags=re.M)
        texts = (re.sub(r"0x[0-9a-f]+|\d\d:\d\d:\d\d", "N", text) for text in (done.stdout, hidden))
        results.append((done.returncode, *texts))
    return results


def test_a_program_finds_the_same_world(tmp_path):
    (tmp_path / "program.py").write_text(SEEN)
    one, other = both(tmp_path / "program.py", "first", "", "\u00fc two", ANOTHER="variable\n")
    assert one == other
    assert one[0] == 7 and one[2].endswith("told\n")


def test_a_log_and_an_error_are_the_same(tiny_data, tmp_path):
    command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, "--arch", "lstm_soft", "--cpu", "--max-tokens", 99]
    one, other = both(*command, "--bf16")
    assert one[:2] == other[:2] and one[2].splitlines()[-1] == other[2].splitlines()[-1]
    assert one[0] == 1 and "--bf16 trains on a GPU" in one[2] and "Traceback" not in one[2]
    assert " N | INFO | fairseq_cli.train | {'_name': None" in one[1]


@pytest.mark.parametrize("program", ["raise SystemExit('said')", "raise SystemExit", "import os; os.abort()"])
def test_programs_end_alike(program, tmp_path):
    (tmp_path / "program.py").write_text("import atexit\natexit.register(print, 'the end')\n" + program + "\n")
    one, other = both(tmp_path / "program.py")
    assert one == other


def test_it_is_warm_unless_python_is_to_start_otherwise(warm_path, tmp_path):
    (tmp_path / "program.py").write_text("import sys\nprint('torch' in sys.modules)")
    assert run_cli(tmp_path / "program.py").stdout == "True\n"
    assert run_cli(tmp_path / "program.py", env={"PYTHONHASHSEED": "1"}).stdout == "False\n"
    assert run_cli(sys.executable, "-O", "-c", "print(__debug__)").stdout == "False\n"
    script = f"python '{tmp_path / 'program.py'}'; echo 'print(2)' | python -"
    environment = {**usual_environment(), "PATH": warm_path}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout == "True\n2\n", done.stderr


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
