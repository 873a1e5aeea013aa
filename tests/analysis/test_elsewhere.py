"""fairseq's commands and recipes as subcommands, from any folder."""

import re
import sys

import pytest

from fairseq_attn_plugin.analysis.elsewhere import ELSEWHERE, fairseq_command

from cli import TINY, USER_DIR, run_cli


def test_fairseq_trains_and_translates_in_any_folder_without_user_dir(tiny_data, tmp_path):
    options = ["--optimizer", "adam", "--max-tokens", "500", "--max-update", "2", "--save-dir", "here", "--cpu"]
    run_cli("fairseq-attn", "fairseq-train", tiny_data, *TINY["lstm_soft"], *options, cwd=tmp_path)
    checkpoint = tmp_path / "here" / "checkpoint_last.pt"
    options = ["--user-dir", "fairseq_attn_plugin", "--path", checkpoint, "--cpu"]  # by its name, too
    done = run_cli("fairseq-attn", "fairseq-generate", tiny_data, *options, cwd=tmp_path)
    assert done.stdout.count("\nH-") == 40


def test_a_mistake_is_one_line_of_the_command_that_was_asked_for(tiny_data, tmp_path):
    options = ["--arch", "lstm_soft", "--attention", "none"]
    done = run_cli("fairseq-attn", "fairseq-train", tiny_data, *options, cwd=tmp_path, check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr and "fairseq-train: " in done.stderr


@pytest.mark.parametrize("name", ["fairseq_attn_plugin", "json.tool", "no_such_package"])
def test_user_dir_takes_a_folder_before_an_installed_package(name, tmp_path, monkeypatch):
    """What fairseq's command finds in ``sys.argv``, in both forms of the option."""
    installed = USER_DIR if name == "fairseq_attn_plugin" else name

    class Point:
        module = "fairseq_cli.train"

        def load(self):
            return lambda: seen.append(sys.argv[1:])

    monkeypatch.setattr("fairseq_attn_plugin.analysis.elsewhere.entry_points", lambda **wanted: [Point()])
    monkeypatch.setattr(sys, "argv", ["fairseq-attn"])
    monkeypatch.chdir(tmp_path)
    seen = []
    words = ["data", "--user-dir", name, f"--user-dir={name}", "--arch", "fairseq_attn_plugin", "--user-dir"]
    fairseq_command("fairseq-train", words)
    (tmp_path / name).mkdir()
    fairseq_command("fairseq-train", words)
    there = ["data", "--user-dir", installed, f"--user-dir={installed}", "--arch", "fairseq_attn_plugin", "--user-dir"]
    assert seen == [there, words]


def test_where_the_package_is(tmp_path):
    assert run_cli("fairseq-attn", "where", cwd=tmp_path).stdout == USER_DIR + "\n"
    assert run_cli("fairseq-attn", "where", "--config-dir", cwd=tmp_path).stdout == USER_DIR + "/configs\n"


def test_recipes_end_with_their_status(tmp_path):
    done = run_cli("fairseq-attn", "recipe", "no-such-corpus", cwd=tmp_path, check=False)
    assert done.returncode == 1 and done.stderr.startswith("no-such-corpus: unknown recipe")
    assert run_cli("fairseq-attn", "recipe", "multi30k", "--help").stdout.startswith("Multi30k: German-English")


def test_help_lists_them():
    shown = run_cli("fairseq-attn", "--help").stdout
    # a long name has its text on the next line
    assert all(re.search(rf"^    {name}$|^    {name} ", shown, re.MULTILINE) for name in ELSEWHERE)
