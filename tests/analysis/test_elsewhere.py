"""fairseq's commands and recipes as subcommands, from any folder."""

from fairseq_attn_plugin.analysis.elsewhere import ELSEWHERE

from cli import TINY, USER_DIR, run_cli


def test_fairseq_trains_and_translates_in_any_folder_without_user_dir(tiny_data, tmp_path):
    options = ["--optimizer", "adam", "--max-tokens", "500", "--max-update", "2", "--save-dir", "here", "--cpu"]
    run_cli("fairseq-attn", "fairseq-train", tiny_data, *TINY["lstm_soft"], *options, cwd=tmp_path)
    checkpoint = tmp_path / "here" / "checkpoint_last.pt"
    done = run_cli("fairseq-attn", "fairseq-generate", tiny_data, "--path", checkpoint, "--cpu", cwd=tmp_path)
    assert done.stdout.count("\nH-") == 40


def test_a_mistake_is_one_line_of_the_command_that_was_asked_for(tiny_data, tmp_path):
    options = ["--arch", "lstm_soft", "--attention", "none"]
    done = run_cli("fairseq-attn", "fairseq-train", tiny_data, *options, cwd=tmp_path, check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr and "fairseq-train: " in done.stderr


def test_where_the_package_is(tmp_path):
    assert run_cli("fairseq-attn", "where", cwd=tmp_path).stdout == USER_DIR + "\n"
    assert run_cli("fairseq-attn", "where", "--config-dir", cwd=tmp_path).stdout == USER_DIR + "/configs\n"


def test_recipes_end_with_their_status(tmp_path):
    done = run_cli("fairseq-attn", "recipe", "no-such-corpus", cwd=tmp_path, check=False)
    assert done.returncode == 1 and done.stderr.startswith("no-such-corpus: unknown recipe")
    assert run_cli("fairseq-attn", "recipe", "multi30k", "--help").stdout.startswith("Multi30k: German-English")


def test_help_lists_them():
    shown = run_cli("fairseq-attn", "--help").stdout
    assert all(f"\n    {name} " in shown for name in ELSEWHERE)
