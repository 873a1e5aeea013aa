"""fairseq's own commands find the package by its name in any folder; recipes are subcommands."""

import shutil

from fairseq_attn_plugin.cli import main

from cli import REPO, TINY, USER_DIR, run_cli

NAME = ["--user-dir", "fairseq_attn_plugin"]


def test_fairseq_trains_and_translates_in_any_folder(tiny_data, tmp_path):
    options = ["--optimizer", "adam", "--max-tokens", "500", "--max-update", "2", "--save-dir", "here", "--cpu"]
    run_cli("fairseq-train", tiny_data, *NAME, *TINY["lstm_soft"], *options, cwd=tmp_path)
    checkpoint = tmp_path / "here" / "checkpoint_last.pt"
    done = run_cli("fairseq-generate", tiny_data, *NAME, "--path", checkpoint, "--cpu", cwd=tmp_path)
    assert done.stdout.count("\nH-") == 40


def test_hydra_trains_in_any_folder(tiny_data, tmp_path):
    shutil.copytree(REPO / "configs", tmp_path / "copy")
    sizes = [f"model.{side}_{name}=16" for side in ("encoder", "decoder") for name in ("embed_dim", "hidden_size")]
    data = [f"task.data={tiny_data}", "task.source_lang=xx", "task.target_lang=yy"]
    options = [*data, *sizes, "common.cpu=true", "optimization.max_update=1", "dataset.num_workers=0"]
    command = ["fairseq-hydra-train", "--config-dir", "copy", "--config-name", "multi30k_adm"]
    run_cli(*command, *options, cwd=tmp_path)
    assert list(tmp_path.rglob("checkpoint_last.pt"))


def test_where_the_package_is(tmp_path, capsys):
    assert run_cli("fairseq-attn", "where", cwd=tmp_path).stdout == USER_DIR + "\n"
    for option, folder in (("--configs", REPO / "configs"), ("--recipes", REPO / "scripts" / "recipes")):
        main(["where", option])
        assert capsys.readouterr().out == f"{folder}\n"


def test_a_recipe_that_is_not_there(tmp_path):
    done = run_cli("fairseq-attn", "recipe", "no-such-corpus", cwd=tmp_path, check=False)
    assert done.returncode == 1 and "there is no such recipe; choose from imdb_han, iwslt14" in done.stderr
