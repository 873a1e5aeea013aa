"""A command from a warm process is the command: the same output, status and files as those of a cold one."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch
import warm
from training import SIZES, training_command

from fairseq_attn_plugin.patches.todays_torch import allow_checkpoint_types

from cli import REPO, USER_DIR, prepare, run_cli, usual_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NO WARM PROCESSES: every command is cold here")


def both(*args, **options):
    """What a command printed, warm and cold, with the numbers that differ from run to run left out."""
    (words, _), (cold, _) = prepare(*args), prepared_cold(*args)
    assert words != cold
    results = []
    for command in (words, cold):
        done = subprocess.run(
            command, env={**usual_environment(), **options}, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        results.append((done.returncode, *map(comparable, (done.stdout, done.stderr))))
    return results


def prepared_cold(*args):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRSEQ_ATTN_COLD", "1")
        return prepare(*args)


def comparable(text):
    # printed only where the file system lists fairseq's modules in a certain order
    text = re.sub(r"^.*Please install tensorboardX.*\n", "", text, flags=re.M)
    text = re.sub(r"\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d", "TIME", text)
    text = re.sub(r'("?(?:\w+_)?(?:wall|wps|ups|gb_free)"?[:=] ?)"?[\d.]+"?', r"\1N", text)
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"^\S+/server\.py:\d+: ", "sys:1: ", text, flags=re.M)  # a warning above the outermost caller
    text = re.sub(r"^  exec\(code, main\.__dict__\)\n", "", text, flags=re.M)  # its line in the server
    return re.sub(r"\b[\d.]+ ?s(?:econds?)?\b", "N s", re.sub(r"/(?:warm|cold)\b", "/FOLDER", text))


def test_a_training_is_the_same(tiny_data, tmp_path):
    options = ["--arch", "lstm_adm", *SIZES, "--log-format", "json", "--log-interval", 1]
    parameters = []
    for name, run in (("warm", prepare), ("cold", prepared_cold)):
        command, environment = run(training_command(tiny_data, tmp_path / name, *options, updates=3))
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (tmp_path / (name + ".out")).write_text(comparable(done.stdout))
        (tmp_path / (name + ".err")).write_text(comparable(done.stderr))
        allow_checkpoint_types()
        parameters.append(torch.load(tmp_path / name / "checkpoint_last.pt")["model"])
    for stream in ("out", "err"):
        assert (tmp_path / f"warm.{stream}").read_text() == (tmp_path / f"cold.{stream}").read_text()
    assert "train_loss" in (tmp_path / "warm.out").read_text() + (tmp_path / "warm.err").read_text()
    assert parameters[0].keys() == parameters[1].keys()
    assert all(torch.equal(value, parameters[1][name]) for name, value in parameters[0].items())


@pytest.mark.parametrize("variables", [{}, {"FAIRSEQ_ATTN_TRACEBACK": "1"}], ids=["line", "trace"])
def test_an_error_is_the_same(variables, tiny_data, tmp_path):
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", tmp_path / "nowhere.pt"]
    one, other = both(*command, **variables)
    assert one == other and one[0] == 1
    assert ("Traceback" in one[2]) == bool(variables) and "nowhere.pt" in one[2]


SEEN = """
import json, logging, os, random, sys
{imports}
umask = os.umask(0)
os.umask(umask)
variables = {{name: value for name, value in os.environ.items() if name != "FAIRSEQ_ATTN_COLD"}}
print(json.dumps([
    sys.argv, sys.path, __file__, __name__, os.getcwd(), variables, umask, sys.stdin.read(), sys.flags.optimize,
    sys.stdout.encoding, sys.stdout.errors, sys.stderr.encoding, sys.stdout.line_buffering,
    [repr(handler) for handler in logging.root.handlers], logging.root.level, sorted(os.listdir("/proc/self/fd"))[:3],
    sorted({{"fairseq", "fairseq_cli", "fairseq_attn_plugin"}} & {{name.split(".")[0] for name in sys.modules}}),
], default=str))
sys.stderr.write("told\\n")
sys.exit(random.choice([7]))
"""


@pytest.mark.parametrize("imports", ["", "import fairseq", "import fairseq_cli.train", "import fairseq_attn_plugin"])
def test_a_program_finds_the_same_world(imports, tmp_path):
    script = tmp_path / "deep" / "program.py"
    script.parent.mkdir()
    script.write_text(SEEN.format(imports=imports))
    one, other = both(script, "first", "", "ü two", ANOTHER="variable\n", TMPDIR=str(tmp_path))
    assert one == other
    assert one[0] == 7 and one[2].endswith("told\n")


@pytest.mark.parametrize(
    "program",
    ["raise KeyError('gone')", "raise SystemExit('said')", "raise SystemExit", "import os; os.abort()", "x ="],
)
def test_programs_end_alike(program, tmp_path):
    (tmp_path / "program.py").write_text("import atexit\natexit.register(print, 'the end')\n" + program + "\n")
    one, other = both(tmp_path / "program.py")
    assert one == other


def test_random_numbers_differ_between_commands(tmp_path):
    (tmp_path / "program.py").write_text(
        "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), float(torch.rand(1)))"
    )
    drawn = [run_cli(tmp_path / "program.py").stdout.split() for _ in range(2)]
    assert all(one != other for one, other in zip(*drawn))


def test_variables_that_are_read_at_the_start_make_it_cold(tmp_path):
    (tmp_path / "program.py").write_text("print(hash('word'))")
    hashes = [run_cli(tmp_path / "program.py", env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "1", "2")]
    assert hashes[0] == hashes[1] != hashes[2]
    done = run_cli(sys.executable, "-O", "-c", "print(__debug__)")
    assert done.stdout == "False\n"


def test_variables_that_imports_of_the_tester_set_leave_it_warm(tmp_path, monkeypatch):
    monkeypatch.setenv("KMP_INIT_AT_FORK", "FALSE")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:semaphore_tracker:UserWarning")
    (tmp_path / "program.py").write_text("import sys\nprint('torch' in sys.modules)")
    assert run_cli(tmp_path / "program.py").stdout == "True\n"


def test_signals_reach_the_command_and_its_end_is_told(tmp_path):
    (tmp_path / "program.py").write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    for number, status in ((signal.SIGINT, 5), (signal.SIGTERM, -signal.SIGTERM)):
        command, environment = prepare(tmp_path / "program.py")
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.wait(30) == status


# A command that starts a process of its own, in the group of the command.
PARENT = """
import os, subprocess, sys, time
inner = subprocess.Popen(["sleep", "300"])
print(os.getpid(), inner.pid, flush=True)
time.sleep(300)
"""


def ended(*pids, seconds=30):
    """Whether none of the processes runs any more."""

    def runs(pid):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any(map(runs, pids)):
            return True
        time.sleep(0.02)
    return False


def test_a_command_that_takes_too_long_is_killed_with_its_processes(tmp_path):
    (tmp_path / "program.py").write_text(PARENT)
    command, environment = prepare(tmp_path / "program.py")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        pids = process.stdout.readline().split()
        process.kill()
        process.wait()
        assert ended(*pids)


TESTER = """
import os, subprocess, sys
sys.path.insert(0, {tests!r})
import warm
from cli import prepare
command, environment = prepare({program!r})
server = warm._servers[os.getpid()]
print(server._process.pid, flush=True)
process = subprocess.Popen(command, env=environment)
process.wait()
"""


def test_nothing_remains_of_a_run_that_is_killed(tmp_path):
    """As a worker that crashes: without a HOME, in an empty environment."""
    (tmp_path / "program.py").write_text(PARENT)
    (tmp_path / "tester.py").write_text(TESTER.format(tests=str(REPO / "tests"), program=str(tmp_path / "program.py")))
    command = [sys.executable, tmp_path / "tester.py"]
    with subprocess.Popen(command, env={}, stdout=subprocess.PIPE, text=True) as tester:
        server = tester.stdout.readline().strip()
        pids = tester.stdout.readline().split()
        assert len(pids) == 2 and not ended(server, *pids, seconds=0.1)
        tester.kill()
        tester.wait()
        assert ended(server, *pids)


def test_without_a_server_the_command_is_cold(tmp_path):
    (tmp_path / "program.py").write_text("import sys\nprint(len(sys.argv), 'torch' in sys.modules)")
    server = warm.Server(usual_environment())
    server.stop()
    command = server.command([str(tmp_path / "program.py"), "one"])
    assert subprocess.run(command, capture_output=True, text=True).stdout == "2 False\n"


def test_the_server_keeps_no_stream_of_a_client_that_dies_early():
    prepare(sys.executable, "-c", "")  # starts the server
    reading, writing = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect("\0" + warm._servers[os.getpid()].address)
        socket.send_fds(client, [b"%16d" % 1000], [writing] * 3)
    os.close(writing)
    assert select.select([reading], [], [], 60)[0] and os.read(reading, 1) == b""
    os.close(reading)


def test_shell_scripts_find_warm_commands(warm_path, tmp_path):
    (tmp_path / "program.py").write_text("import sys\nprint('torch' in sys.modules)")
    script = "python '%s'; python -c 'print(1)'; echo 'print(2)' | python -; command -v fairseq-train"
    environment = {**usual_environment(), "PATH": warm_path}
    done = subprocess.run(
        ["bash", "-c", script % (tmp_path / "program.py")], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[:3] == ["True", "1", "2"], done.stderr
    assert os.path.dirname(done.stdout.splitlines()[3]) == warm_path.split(os.pathsep)[0]
