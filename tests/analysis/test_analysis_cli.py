"""attn-analysis: every subcommand is there, says what it does, and a mistake is one line."""

import pytest

from fairseq_attn_plugin.analysis import cli

from cli import run_cli


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: attn-analysis {name}") and "show this help message" in shown


def test_a_mistake_is_one_line():
    done = run_cli("attn-analysis", "plot", "no.jsonl", "--out", "x.png", check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "attn-analysis: error: no.jsonl: cannot be read: No such file or directory\n"


def test_an_unknown_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["draw"])
    assert ended.value.code == 2 and "invalid choice: 'draw'" in capsys.readouterr().err
