"""fairseq-attn report on systems and seeds: means, tests against a baseline, and scores of another program."""

import shutil
import statistics
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from sacrebleu.metrics import BLEU

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.outputs.significance import score_systems
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.analysis.report import building
from fairseq_attn_plugin.analysis.report.systems import Reported, System, groups_of, spread

pytest.importorskip("matplotlib")


def trained(name, seed):
    config = None if seed is None else {"common": {"seed": seed}}
    return Reported(System(name, None), 1, None, None, None, config)


def grouped(*reported):
    return {group.name: ([run.system.name for run in group.runs], group.seeds) for group in groups_of(reported)}


def test_names_that_differ_in_the_seed_only_are_one_system():
    runs = [trained("soft.seed2", 2), trained("adm.seed1", 1), trained("soft.seed1", 1)]
    assert grouped(*runs) == {"soft": (["soft.seed1", "soft.seed2"], [1, 2]), "adm.seed1": (["adm.seed1"], [1])}
    assert list(grouped(trained("a", 1), trained("b", 2))) == ["a", "b"]
    assert list(grouped(trained("a.seed1", 1), trained("a.seed2", 1))) == ["a.seed1", "a.seed2"], "one seed, twice"
    assert grouped(trained("a.seed1", None)) == {"a.seed1": (["a.seed1"], [])}, "the seed is not known"
    for common in (OmegaConf.create({"seed": 3}), SimpleNamespace(seed=3)):
        assert groups_of([trained("a", 1)._replace(config={"common": common})])[0].seeds == [3]


def test_spread():
    assert spread([1.0, 3.0], 2) == "2.00 (1.41)" and spread([2.0, 2.0], 1) == "2.0" and spread([1234.5], 0) == "1,234"
    assert spread([None, 2.0], 2) == "2.00" and spread([], 2) is None


def table(markdown, heading):
    lines = markdown.partition(f"## {heading}\n")[2].splitlines()
    rows = [[cell.strip().replace("\\", "") for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    end = next((place for place, row in enumerate(rows) if len(row) != len(rows[0])), len(rows))
    return {row[0]: dict(zip(rows[0], row)) for row in rows[2:end]}


@pytest.fixture(scope="module")
def grid(zoo, tmp_path_factory):
    """Two systems with two seeds each, as fairseq-hydra-train -m leaves them; a seed is noise on the parameters."""
    folder = tmp_path_factory.mktemp("grid")
    for name in ("lstm_soft", "lstm_adm"):
        for seed in (1, 2):
            state = torch.load(zoo(name).last, weights_only=False)
            state["cfg"]["common"]["seed"] = seed
            torch.manual_seed(seed)
            for value in state["model"].values():
                value += 0.1 * torch.randn_like(value) if value.is_floating_point() else 0
            (folder / f"{name}.seed{seed}" / "lr=0.1" / "checkpoints").mkdir(parents=True)
            torch.save(state, folder / f"{name}.seed{seed}" / "lr=0.1" / "checkpoints" / "checkpoint_best.pt")
    return folder


def test_report_of_a_sweep(tiny_data, grid, tmp_path, monkeypatch):
    out = tmp_path / "report"
    command = ["report", str(grid), "--data", str(tiny_data), "--out", str(out), "--cpu", "--samples", "20"]
    command += ["--beam", "2"]
    cli.main(command)
    markdown = (out / "report.md").read_text(encoding="utf-8")
    rows = table(markdown, "Systems")
    assert list(rows) == ["lstm_adm/lr=0.1", "lstm_soft/lr=0.1"]
    assert [row["seeds"] for row in rows.values()] == ["2", "2"]
    adm, soft = rows.values()
    reference = (tiny_data.parent / "text" / "test.yy").read_text().splitlines()
    scores = []
    for file in sorted(out.rglob("attention/lstm_soft.seed*/**/*.beam.jsonl")):
        lines = [""] * len(reference)
        for record in open_records(file):
            lines[record.id] = " ".join(record.target_words)
        scores.append(BLEU(tokenize="none", force=True).corpus_score(lines, [reference]).score)
    assert len(scores) == 2
    spreads = f" ({statistics.stdev(scores):.2f})" if scores[0] != scores[1] else ""
    assert soft["BLEU"] == f"{statistics.mean(scores):.2f}{spreads}"
    assert set(adm) >= {"chrF2", "TER", "p", "\u00b1", "perplexity"} and "(" in adm["perplexity"]
    assert "differ in the seed only are one system" in markdown
    texts = {path: path.read_text().splitlines() for path in (out / "outputs").rglob("*.txt")}
    assert len(texts) == 4 and (out / "reference.txt").read_text().splitlines() == reference
    # a seed that the baseline alone has takes no part in the comparison
    left = tmp_path / "left"
    shutil.copytree(grid, left)
    shutil.rmtree(left / "lstm_adm.seed2")
    compared = []

    def spy(*arguments, **keywords):
        compared.append(keywords["seeds_of"])
        return score_systems(*arguments, **keywords)

    monkeypatch.setattr(building, "score_systems", spy)
    command[1] = str(left)
    cli.main([*command, "--baseline", "lstm_soft/lr=0.1"])
    markdown = (out / "report.md").read_text(encoding="utf-8")
    assert "Only seeds that both systems have are compared" in markdown
    rows = table(markdown, "Systems")
    adm_alone, soft = rows.values()
    assert soft["seeds"] == "2" and adm_alone["seeds"] == "1"
    assert compared == [{adm_alone["system"]: [1], "lstm_soft/lr=0.1": [1, 2]}]
    # one mechanism, chosen without its seeds
    cli.main([*command, "--systems", "lstm_soft/lr=0.1"])
    rows = table((out / "report.md").read_text(encoding="utf-8"), "Systems")
    assert list(rows) == ["lstm_soft/lr=0.1"]
