"""fairseq's own commands find the package by its name in any folder; recipes are subcommands."""

import shutil

import pytest

from cli import REPO, TINY, USER_DIR, run_cli

NAME = ["--user-dir", "fairseq_attn_plugin"]


def test_fairseq_trains_and_translates_in_any_folder(tiny_data, tmp_path):
    options = ["--optimizer", "adam", "--max-tokens", "500", "--max-update", "2", "--save-dir", "here", "--cpu"]
    run_cli("fairseq-train", tiny_data, *NAME, *TINY["lstm_soft"], *options, cwd=tmp_path)
    checkpoint = tmp_path / "here" / "checkpoint_last.pt"
    done = run_cli("fairseq-generate", tiny_data, *NAME, "--path", checkpoint, "--cpu", cwd=tmp_path)
    assert done.stdout.count("\nH-") == 40


@pytest.mark.parametrize("configs", [REPO / "configs", "copy"])
def test_hydra_trains_in_any_folder(configs, tiny_data, tmp_path):
    if configs == "copy":
        shutil.copytree(REPO / "configs", tmp_path / configs)
    sizes = [f"model.{side}_{name}=16" for side in ("encoder", "decoder") for name in ("embed_dim", "hidden_size")]
    data = [f"task.data={tiny_data}", "task.source_lang=xx", "task.target_lang=yy"]
    options = [*data, *sizes, "common.cpu=true", "optimization.max_update=1", "dataset.num_workers=0"]
    command = ["fairseq-hydra-train", "--config-dir", configs, "--config-name", "multi30k_adm"]
    run_cli(*command, *options, cwd=tmp_path)
    assert list(tmp_path.rglob("checkpoint_last.pt"))


def test_where_the_package_is(tmp_path):
    assert run_cli("fairseq-attn", "where", cwd=tmp_path).stdout == USER_DIR + "\n"
    assert run_cli("fairseq-attn", "where", "--configs", cwd=tmp_path).stdout == f"{REPO / 'configs'}\n"
    assert run_cli("fairseq-attn", "where", "--recipes", cwd=tmp_path).stdout == f"{REPO / 'scripts' / 'recipes'}\n"


def test_recipes_end_with_their_status(tmp_path):
    done = run_cli("fairseq-attn", "recipe", "no-such-corpus", cwd=tmp_path, check=False)
    assert done.returncode == 1 and "there is no such recipe; choose from imdb_han, iwslt14" in done.stderr
    done = run_cli("fairseq-attn", "recipe", "multi30k", cwd=tmp_path, check=False, env={"SRC": "fr"})
    assert done.returncode == 1 and done.stderr.startswith("multi30k: SRC=fr TGT=en: must be de and en")
    assert run_cli("fairseq-attn", "recipe", "multi30k", "--help").stdout.startswith("Multi30k: German-English")


def test_help_lists_them():
    assert "\n    recipe " in run_cli("fairseq-attn", "--help").stdout
