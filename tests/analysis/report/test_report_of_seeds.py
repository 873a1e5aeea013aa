"""fairseq-attn report on a grid of mechanisms and seeds: what fairseq-hydra-train -m left, on data of one's own."""

import json
import re
import shutil
import statistics
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from sacrebleu.metrics import BLEU

from fairseq_attn_plugin.analysis import cli
from fairseq_attn_plugin.analysis.outputs.significance import score_systems
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.analysis.report import building
from fairseq_attn_plugin.analysis.report.seeds import groups_of, spread
from fairseq_attn_plugin.analysis.report.systems import Reported, System

from cli import REPO, run_cli

pytest.importorskip("matplotlib")


def trained(name, seed, options=(), **sections):
    """A training with a configuration; ``options`` are those that a command line leaves in the section of the model."""
    given = {
        "common": {"seed": seed, "log_file": f"{name}.log", "fp16": False},
        "checkpoint": {"save_dir": name, "patience": 3},
        "model": SimpleNamespace(arch="lstm_soft", dropout=0.3, seed=seed, save_dir=name, **dict(options)),
        "task": {"_name": "translation", "data": "bin"},
        "optimization": {"lr": [0.1]},
        **sections,
    }
    return Reported(System(name, None), 1, None, None, None, given)


def test_seeds_of_a_system():
    (system,) = groups_of([trained("soft.seed4", 4), trained("soft.seed1", 1)])
    assert system.seeds == [1, 4]
    assert groups_of([trained("soft.seed4", 4)._replace(config=None)])[0].seeds == [], "not known"


def grouped(*reported):
    return {group.name: [one.system.name for one in group.runs] for group in groups_of(reported)}


def test_what_differs_in_the_seed_only_is_one_system():
    runs = [trained("soft.seed2", 2), trained("adm.seed1", 1, {"attention": "adm"}), trained("soft.seed1", 1)]
    assert grouped(*runs) == {"soft": ["soft.seed1", "soft.seed2"], "adm.seed1": ["adm.seed1"]}
    assert grouped(trained("a", 1), trained("b", 2)) == {"a": ["a", "b"]}, "names do not matter"
    omegaconf = [OmegaConf.create({"common": {"seed": seed}, "model": {"_name": "x"}}) for seed in (1, 2)]
    assert grouped(*(trained("a", 1)._replace(config=config) for config in omegaconf)) == {"a": ["a", "a"]}


@pytest.mark.parametrize(
    "other",
    [
        trained("soft.seed2", 2, {"attention_score": "dot"}),
        trained("soft.seed2", 2, optimization={"lr": [0.2]}),
        trained("soft.seed2", 2, task={"_name": "translation", "data": "other"}),
        trained("soft.seed2", 2, common={"seed": 2, "fp16": True}),
        trained("soft.seed2", 2, checkpoint={"patience": 5}),
        trained("soft.seed2", 2, checkpoint={"patience": 3, "restore_file": "other.pt"}),
        trained("soft.seed2", 2, common={"seed": 2, "fp16": False, "user_dir": "code"}),
        trained("soft.seed2", 1),
        trained("soft.seed2", 2)._replace(config=None),
    ],
)
def test_what_differs_otherwise_is_another_system(other):
    assert grouped(trained("soft.seed1", 1), other) == {"soft.seed1": ["soft.seed1"], "soft.seed2": ["soft.seed2"]}


@pytest.mark.parametrize("section", ["model", "task", "criterion", "lr_scheduler", "optimizer"])
def test_names_of_what_was_chosen(section):
    """Every section of fairseq's configuration has a ``_name``, those that make no system too."""
    chosen = {"bpe": {"_name": None}, "scoring": {"_name": "bleu"}}
    runs = [
        trained(f"{name}.seed{seed}", seed, **chosen, **{section: {"_name": name}}) for name in "ab" for seed in (1, 2)
    ]
    assert grouped(*runs) == {"a": ["a.seed1", "a.seed2"], "b": ["b.seed1", "b.seed2"]}


def test_where_a_training_began_and_its_code(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    both = [{"common": {"seed": seed, "user_dir": str(path)}} for seed, path in ((1, tmp_path), (2, tmp_path / "link"))]
    assert list(grouped(*(trained(f"x.seed{seed}", seed, **common) for seed, common in enumerate(both, 1)))) == ["x"]
    files = {1: "checkpoint_last.pt", 2: "x.seed2/checkpoint3.pt"}  # both continue themselves
    runs = [
        trained(f"x.seed{seed}", seed, checkpoint={"patience": 3, "save_dir": f"x.seed{seed}", "restore_file": file})
        for seed, file in files.items()
    ]
    assert list(grouped(*runs)) == ["x"]


def test_a_seed_that_occurs_twice():
    runs = [
        trained(name, seed) for name, seed in (("soft.seed1", 1), ("soft.seed2", 2), ("copy", 1), ("soft.seed3", 3))
    ]
    assert grouped(*runs) == {"soft.seed1": ["soft.seed1"], "soft": ["soft.seed2", "soft.seed3"], "copy": ["copy"]}


def test_two_systems_of_one_name():
    """One name without the seed, and two systems: each keeps the name of its first training."""
    runs = [trained(f"soft.seed{seed}", seed, {"dropout2": seed > 2}) for seed in (1, 2, 3, 4)]
    assert list(grouped(*runs)) == ["soft.seed1", "soft.seed3"]


def test_spread():
    assert spread([1.0, 3.0], 2) == "2.00 (1.41)" and spread([2.0, 2.0], 1) == "2.0" and spread([1234.5], 0) == "1,234"
    assert spread([None, 2.0], 2) == "2.00" and spread([], 2) is None


def table(markdown, heading):
    lines = markdown.partition(f"## {heading}\n")[2].splitlines()
    rows = [[cell.strip().replace("\\", "") for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    end = next((place for place, row in enumerate(rows) if len(row) != len(rows[0])), len(rows))
    return {row[0]: dict(zip(rows[0], row)) for row in rows[2:end]}


def test_report_of_a_sweep(tiny_data, tmp_path, monkeypatch):
    """Two mechanisms, two seeds, one of them with a learning rate in the name of its folder."""
    small = ["model.%s=16" % key for key in ("encoder_embed_dim", "encoder_hidden_size", "decoder_hidden_size")]
    run_cli(
        *("fairseq-hydra-train", "-m", "--config-dir", REPO / "configs", "--config-name", "grid"),
        *(f"task.data={tiny_data}", "task.source_lang=xx", "task.target_lang=yy"),
        *("common.seed=1,2", "model=lstm_soft,lstm_adm", "common.cpu=true", "dataset.num_workers=0"),
        *("optimization.lr=[0.005]", "optimization.max_update=40", "optimization.max_epoch=20", *small),
        cwd=tmp_path,
    )
    grid = tmp_path / "out" / "hydra" / "grid"
    assert not list(grid.rglob("*task.*")), "the folders are not named after the data"
    out = tmp_path / "report"
    command = ["report", str(grid), "--data", str(tiny_data), "--out", str(out), "--cpu", "--samples", "20"]
    cli.main([*command, "--beam", "2", "--pictures", "1", "--examples", "1"])
    markdown = (out / "report.md").read_text(encoding="utf-8")
    rows = table(markdown, "Systems")
    tail = "/model.decoder_hidden_size=16,model.encoder_embed_dim=16,model.encoder_hidden_size=16"
    names = [name for name in rows if tail in name]
    assert len(rows) == len(names) == 2 and all("seed" not in name for name in names), rows.keys()
    assert [row["seeds"] for row in rows.values()] == ["2", "2"]
    adm, soft = rows.values()
    files = sorted(out.rglob("attention/lstm_soft.seed*/**/*.beam.jsonl"))
    assert len(files) == 2
    reference = (tiny_data.parent / "text" / "test.yy").read_text().splitlines()
    scores = []
    for file in files:
        lines = [""] * len(reference)
        for record in open_records(file):
            lines[record.id] = " ".join(record.target_words)
        scores.append(BLEU(tokenize="none", force=True).corpus_score(lines, [reference]).score)
    spreads = f" ({statistics.stdev(scores):.2f})" if scores[0] != scores[1] else ""
    assert soft["BLEU"] == f"{statistics.mean(scores):.2f}{spreads}"
    assert set(adm) >= {"chrF2", "TER", "p", "\u00b1", "perplexity"} and "(" in adm["perplexity"]
    assert all(row["parameters"].replace(",", "").isdigit() for row in rows.values())
    alignments = table(markdown, "Attention as an alignment")
    assert len(alignments) == 2
    assert all(0 <= float(row["information"].split()[0]) <= 1 for row in alignments.values())
    assert re.search("differ in the seed only are one system", markdown)
    # scores of another program, made from the texts that the report wrote
    texts = {path: path.read_text().splitlines() for path in (out / "outputs").rglob("*.txt")}
    assert len(texts) == 4 and (out / "reference.txt").read_text().splitlines() == reference
    given = {str(path): [{"COMET": len(line) / 100} for line in lines] for path, lines in texts.items()}
    (tmp_path / "comet.json").write_text(json.dumps(given))
    cli.main([*command, "--beam", "2", "--pictures", "0", "--examples", "0", f"--scores=COMET={tmp_path}/comet.json"])
    found = table((out / "report.md").read_text(encoding="utf-8"), "Systems")
    means = [statistics.mean(len(line) / 100 for line in lines) for path, lines in texts.items() if "soft" in str(path)]
    assert found[soft["system"]]["COMET"].startswith(f"{statistics.mean(means):.4f}")
    # a seed that the baseline alone has takes no part in the comparison; here its scores are far from all others
    shutil.rmtree(grid / adm["system"].replace("lstm_adm", "lstm_adm.seed2"))
    scored = {path: 5 if "lstm_soft.seed2" in str(path) else 0 for path in texts if "lstm_adm.seed2" not in str(path)}
    given = {
        str(path): [{"COMET": apart + (number + len(str(path))) % 2} for number in range(len(reference))]
        for path, apart in scored.items()
    }
    (tmp_path / "comet.json").write_text(json.dumps(given))
    options = ["--baseline", soft["system"], f"--scores=COMET={tmp_path}/comet.json"]
    compared = []

    def spy(*arguments, **keywords):
        compared.append(keywords["seeds_of"])
        return score_systems(*arguments, **keywords)

    monkeypatch.setattr(building, "score_systems", spy)
    cli.main([*command, "--beam", "2", "--pictures", "0", "--examples", "0", *options])
    assert "Only seeds that both systems have are compared" in (out / "report.md").read_text(encoding="utf-8")
    left = table((out / "report.md").read_text(encoding="utf-8"), "Systems")
    (adm_alone,) = (row for row in left.values() if row["seeds"] == "1")
    assert left[soft["system"]]["seeds"] == "2" and float(adm_alone["p"]) > 0.05, "p of the last metric"
    assert compared == [{adm_alone["system"]: [1], soft["system"]: [1, 2]}]
    # one mechanism, chosen without its seeds; another baseline by the name of a training
    names = ["--systems", "lstm_soft" + soft["system"].partition("lstm_soft")[2]]
    cli.main([*command, "--beam", "2", "--pictures", "0", "--examples", "0", *names])
    assert list(table((out / "report.md").read_text(encoding="utf-8"), "Systems")) == [soft["system"]]
