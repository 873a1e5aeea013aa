"""Commands: their output goes to the right place, and a failure leaves nothing half-written."""

import os
import sys

import pytest

from fairseq_attn_plugin.recipes.commands import Shell
from fairseq_attn_plugin.recipes.errors import OptionError

SAY = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(int(sys.argv[1]))"


def test_a_command_runs_in_the_environment_of_this_python(capfd):
    program = "import sys, os; print(sys.executable, os.environ['PATH'], os.environ['PYTHONPATH'])"
    Shell("x").run("python", "-c", program)
    executable, path, python_path = capfd.readouterr().out.split()
    assert os.path.realpath(executable) == os.path.realpath(sys.executable)
    assert os.path.realpath(path.split(":")[0]) == os.path.realpath(os.path.dirname(sys.executable))
    assert os.path.isdir(os.path.join(python_path.split(":")[0], "fairseq_attn_plugin"))


def test_a_failure_is_one_message(capfd):
    with pytest.raises(OptionError, match="^the message$"):
        Shell("x").run("python", "-c", SAY, 3, failure="the message")
    assert capfd.readouterr() == ("out\n", "err\n")
    with pytest.raises(OptionError, match="^python failed$"):
        Shell("x").run("python", "-c", SAY, 3)


def test_a_missing_tool_names_the_environment():
    with pytest.raises(OptionError, match="no-such-tool is not installed in .*; install this package"):
        Shell("x").run("no-such-tool")


def test_output_into_a_file_appears_on_success_alone(tmp_path, capfd):
    file = tmp_path / "file"
    with pytest.raises(OptionError, match="python failed"):
        Shell("x").run_into(file, "python", "-c", SAY, 1)
    assert not list(tmp_path.iterdir())
    Shell("x").run_into(file, "python", "-c", SAY, 0)
    assert file.read_text() == "out\n" and [path.name for path in tmp_path.iterdir()] == ["file"]
    assert capfd.readouterr().err == "err\nerr\n"


def test_a_log_is_shown_on_failure_alone(tmp_path, capfd):
    log = tmp_path / "log"
    Shell("x").run_quietly(log, "python", "-c", SAY, 0)
    assert sorted(log.read_text().split()) == ["err", "out"] and capfd.readouterr() == ("", "")
    program = "import sys; print(*range(9), sep='\\n'); sys.exit(1)"
    with pytest.raises(OptionError, match=f"python failed, see {log}"):
        Shell("x").run_quietly(log, "python", "-c", program)
    assert capfd.readouterr() == ("", "4\n5\n6\n7\n8\n")


def test_a_dry_run_shows_commands_as_a_shell_takes_them(tmp_path, capfd):
    shell = Shell("name", dry_run=True)
    shell.say("remark")
    shell.run("tool", "a b", 3, tmp_path)
    shell.run_into(tmp_path / "file", "tool", "$x")
    shell.run_quietly(tmp_path / "log", "quiet")
    shell.step("a step", lambda: pytest.fail("called"))
    shell.make_folder(tmp_path / "folder")
    shell.copy(tmp_path / "a", tmp_path / "b")
    lines = ["[name] remark", f"tool 'a b' 3 {tmp_path}", f"tool '$x' > {tmp_path}/file", "quiet", "# a step"]
    lines += [f"mkdir -p {tmp_path}/folder", f"cp {tmp_path}/a {tmp_path}/b"]
    assert capfd.readouterr().out.splitlines() == lines
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("device", "has_cuda", "options"),
    [("cpu", True, ["--cpu"]), ("cuda", False, []), ("auto", True, []), ("auto", False, ["--cpu"])],
)
def test_the_device_is_that_of_torch_unless_chosen(device, has_cuda, options, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    assert Shell("x").cpu_options(device) == options
