"""Slips in the options of fairseq's commands."""

import pytest

from fairseq_attn_plugin.patches.command_lines import explain_slip

from cli import USER_DIR, run_cli

OPTIONS = ["--attention", "--attention-score", "--arch", "-a", "--dropout", "--lr"]
CHOICES = "argument --arch/-a: invalid choice: '{}' (choose from 'lstm', 'lstm_soft', 'lstm_adm')"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (CHOICES.format("lstm_sfot"), "--arch lstm_sfot: is unknown; did you mean lstm_soft?"),
        (CHOICES.format("bert"), "--arch bert: is unknown; choose from lstm, lstm_soft, lstm_adm"),
        (
            "unrecognized arguments: --atention mqt",
            "--atention: there is no such option with these settings; did you mean --attention or --attention-score?",
        ),
        (
            "unrecognized arguments: --dropot=0.3 --lrr 3",
            "--dropot: there is no such option with these settings; did you mean --dropout?",
        ),
        (
            "unrecognized arguments: --zzz",
            "--zzz: there is no such option with these settings; the --help of the command lists the options",
        ),
        ("unrecognized arguments: dropout 0.3", "dropout: is no file or folder to read; did you mean --dropout?"),
        ("unrecognized arguments: more data", "more data: belongs to no option; options begin with --"),
        ("argument --lr: expected one argument", "argument --lr: expected one argument"),
    ],
)
def test_slips(message, line):
    assert explain_slip(message, OPTIONS) == line


@pytest.mark.parametrize(
    ("slip", "line"),
    [
        (["--arch", "lstm_sfot"], "fairseq-train: error: --arch lstm_sfot: is unknown; did you mean lstm_soft"),
        (["--arch", "lstm_soft", "--atention", "mqt"], "fairseq-train: error: --atention: there is no such option"),
    ],
)
def test_the_command_says_it_in_one_line(slip, line, tmp_path):
    done = run_cli("fairseq-train", tmp_path, "--user-dir", USER_DIR, *slip, check=False)
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(line)
    assert "usage:" not in done.stderr
