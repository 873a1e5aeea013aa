"""fairseq-attn average: the means of checkpoints, the files that are chosen, and those that have no average."""

import shutil

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from in_process import run_tool
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.averaging import choose
from fairseq_attn_plugin.errors import OptionError

from cli import TINY, USER_DIR


def train(data, folder, arch, *options):
    words = ["--user-dir", USER_DIR, "--save-dir", folder, *TINY[arch], "--lr", "0.01", "--optimizer", "adam"]
    words += ["--batch-size", "100", "--max-epoch", "4", "--seed", "1", "--no-progress-bar", *options]
    run_tool("fairseq-train", data, *words)
    return folder


@pytest.fixture(scope="module")
def trained(tiny_data, tmp_path_factory):
    """Four epochs, and other trainings that have no average with them."""
    folder = tmp_path_factory.mktemp("average")
    train(tiny_data, folder / "soft", "lstm_soft", "--keep-best-checkpoints", "2")
    train(tiny_data, folder / "seed2", "lstm_soft", "--seed", "2", "--max-epoch", "1")
    train(tiny_data, folder / "wide", "lstm_soft", "--encoder-embed-dim", "24", "--max-epoch", "1")
    train(tiny_data, folder / "adm", "lstm_adm", "--max-epoch", "1")
    train(tiny_data, folder / "sparse", "lstm_soft", "--attention-normalizer", "sparsemax", "--max-epoch", "1")
    first = folder / "soft" / "checkpoint4.pt"
    tuned = ["--seed", "3", "--max-epoch", "2", "--finetune-from-model", first]
    train(tiny_data, folder / "tuned", "lstm_soft", *tuned)
    restored = ["--seed", "4", "--max-epoch", "1", "--reset-dataloader", "--restore-file", first]
    train(tiny_data, folder / "restored", "lstm_soft", *restored)
    return folder


def test_the_average_is_the_mean(trained, tmp_path, capsys):
    out = tmp_path / "average.pt"
    cli.main(["average", str(trained / "soft"), "--last", "3", "--out", str(out)])
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}: mean of\n  ") and printed.count("checkpoint") == 3
    paths = [out, *(trained / "soft" / f"checkpoint{epoch}.pt" for epoch in (2, 3, 4))]
    found, *parts = (load_checkpoint_to_cpu(str(path))["model"] for path in paths)
    mean = {n: torch.stack([p[n].double() for p in parts]).mean(0).to(v.dtype) for n, v in parts[0].items()}
    assert list(found) == list(mean)
    torch.testing.assert_close(dict(found), mean, rtol=0, atol=0)
    assert out.stat().st_size < (trained / "soft" / "checkpoint4.pt").stat().st_size / 2, "no state of the optimiser"


def test_the_average_translates_and_is_tuned(tiny_data, trained, tmp_path):
    out = tmp_path / "average.pt"
    parts = [str(trained / "soft" / f"checkpoint{epoch}.pt") for epoch in (3, 4)]
    cli.main(["average", *parts, "--out", str(out)])
    options = ["--user-dir", USER_DIR, "--path", out, "--cpu"]
    assert "Generate test with beam=5" in run_tool("fairseq-generate", tiny_data, *options).stdout
    train(tiny_data, tmp_path / "tuned", "lstm_soft", "--finetune-from-model", out, "--max-epoch", "1")
    assert (tmp_path / "tuned" / "checkpoint1.pt").is_file()


def test_a_tuned_model_and_its_origin(trained, tmp_path, capsys):
    """Trainings that began with the same parameters have an average, whatever their seeds."""
    paths = [str(trained / "tuned" / f"checkpoint{epoch}.pt") for epoch in (1, 2)]
    cli.main(["average", *paths, "--out", str(tmp_path / "x.pt")])
    assert (tmp_path / "x.pt").is_file()
    cli.main(["average", paths[0], str(trained / "restored" / "checkpoint1.pt"), "--out", str(tmp_path / "y.pt")])
    assert capsys.readouterr().out.count("\n  /") == 4
    state = torch.load(paths[0], weights_only=False)
    state["cfg"]["checkpoint"]["finetune_from_model"] = str(trained / "wide" / "checkpoint1.pt")
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(OptionError, match="--seed 4, .* with 3; .*no average"):
        paths = [str(tmp_path / "other.pt"), str(trained / "restored" / "checkpoint1.pt")]
        cli.main(["average", *paths, "--out", str(tmp_path / "z.pt")])


def test_which_are_chosen(trained, tmp_path):
    folder = tmp_path / "chosen"
    shutil.copytree(trained / "soft", folder)
    for epoch in (1, 2, 3, 4):
        path = folder / f"checkpoint{epoch}.pt"
        state = torch.load(path, weights_only=False)
        state["extra_state"]["val_loss"] = {1: 3.0, 2: 1.0, 3: 4.0, 4: 2.0}[epoch]
        torch.save(state, path)
        state["cfg"]["checkpoint"]["maximize_best_checkpoint_metric"] = True
        (tmp_path / "greatest").mkdir(exist_ok=True)
        torch.save(state, tmp_path / "greatest" / path.name)
    assert choose(str(folder), 2, False) == [str(folder / f"checkpoint{epoch}.pt") for epoch in (3, 4)]
    assert choose(str(folder), 3, True) == [str(folder / f"checkpoint{epoch}.pt") for epoch in (2, 4, 1)]
    assert [path[-4] for path in choose(str(tmp_path / "greatest"), 2, True)] == ["3", "1"]
    with pytest.raises(OptionError, match=f"--best 5: {folder} has 4 checkpoints to choose from; .*--keep-last-epochs"):
        choose(str(folder), 5, True)
    for path in folder.glob("checkpoint?.pt"):
        path.unlink()
    assert len(choose(str(folder), 2, True)) == 2, "of --keep-best-checkpoints"


@refuses(
    (["soft/checkpoint1.pt", "seed2/checkpoint1.pt"], "--seed 2, .* with 1; .*no average. --path"),
    (["soft/checkpoint1.pt", "wide/checkpoint1.pt"], "encoder.embed_tokens.weight differs; .*of one model"),
    (["soft/checkpoint1.pt", "adm/checkpoint1.pt"], "is another model than .*: lstm_adm and lstm_soft"),
    (["soft/checkpoint1.pt", "sparse/checkpoint1.pt"], "has --attention-normalizer sparsemax, .* softmax; .* --path"),
    (["soft/checkpoint1.pt", "soft/checkpoint1.pt"], "must be two or more"),
    (["soft/checkpoint1.pt"], "must be two or more, or a folder with --last N or --best N"),
    (["soft", "adm", "--best", "2"], "--best 2: chooses from one folder, 2 given"),
    (["none", "--best", "2"], "none: is not a folder"),
    (["soft/checkpoint1.pt", "soft/checkpoint2.pt", "--out", "soft/checkpoint2.pt"], "would be lost"),
    (
        ["soft/checkpoint1.pt", "soft/checkpoint2.pt", "--out", "soft/checkpoint_best.pt"],
        "is a checkpoint of a training, and",
    ),
)
def test_mistakes(words, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained)
    yield lambda: cli.main(["average", *words, *([] if "--out" in words else ["--out", str(tmp_path / "x.pt")])])
    assert not list(tmp_path.iterdir())
