"""fairseq-attn report: all systems of a folder, what they are measured by, and a folder with broken ones in it."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from records_for_tests import record, write_records

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.analysis.report import building
from fairseq_attn_plugin.analysis.report.systems import find_systems, measures, without_seed
from fairseq_attn_plugin.errors import OptionError

pytest.importorskip("matplotlib")


def test_measures_by_hand(tmp_path):
    """Two target subwords and the end. Rows (1/2, 1/2, 0) and (0, 2, 2), which is divided by 4: both have entropy ln 2
    and the greatest weight 1/2; the end has 0 and 1/2. The end's own row does not count."""
    weights = np.array([[0.5, 0.5, 0.0], [0.0, 2.0, 2.0], [1.0, 0.0, 0.0]])
    one = record(0, "a b", "x y", weights, scores=[math.log(0.5), math.log(0.25), math.log(0.5)])
    found = measures(open_records(write_records(tmp_path / "x.jsonl", records=[one, record(1, "a", "", scores=[0.0])])))
    assert found.perplexity == pytest.approx(16 ** (1 / 4), rel=1e-4)  # product of the probabilities: 1/16, 4 subwords
    assert found.entropy == pytest.approx(math.log(2), rel=1e-4)
    assert (found.greatest, found.end) == (pytest.approx(0.5), pytest.approx(0.25))
    # the mean row is (1/4, 1/2, 1/4)
    assert found.information == pytest.approx((1.5 * math.log(2) - math.log(2)) / math.log(3), rel=1e-4)


def test_measures_of_a_row_without_weights(tmp_path):
    one = record(0, "a", "x y", np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), scores=[-math.inf, -1.0, -1.0])
    found = measures(open_records(write_records(tmp_path / "x.jsonl", records=[one])))
    assert found.perplexity == math.inf and found.entropy == 0 and found.greatest == 1
    assert found.information == 0
    with pytest.raises(OptionError, match="has no sentence"):
        measures(open_records(write_records(tmp_path / "y.jsonl", records=[])))


def test_an_unknown_word_of_the_reference_matches_no_output(tmp_path):
    forced = open_records(write_records(tmp_path / "x.jsonl", pairs=[("a", "the <unk>")]))
    read = building._Read([SimpleNamespace(forced=forced)])
    building._read_corpus(read, SimpleNamespace(gold=None))
    assert (read.source, read.reference) == (["a"], ["the <<unk>>"])


def test_which_folders_are_systems(tmp_path):
    for file in ("b/checkpoint_last.pt", "b/checkpoint_best.pt", "a/checkpoints/checkpoint_best.pt", "c/model.pt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    found = find_systems(tmp_path)
    assert [(system.name, system.checkpoint.name) for system in found] == [
        ("a", "checkpoint_best.pt"),
        ("b", "checkpoint_best.pt"),
    ]
    assert [system.name for system in find_systems(tmp_path, ["b", "a/"])] == ["b", "a"]
    assert [system.name for system in find_systems(tmp_path / "b")] == ["b"], "the folder itself"
    for folder, names, message in [
        (tmp_path / "none", None, "is not a folder"),
        (tmp_path / "c", None, "none of its folders has a checkpoint_best.pt"),
        (tmp_path, ["c"], "--systems c: there is no checkpoint_best.pt"),
    ]:
        with pytest.raises(OptionError, match=message):
            find_systems(folder, names)


def test_folders_below_folders_are_systems(tmp_path):
    """What a sweep leaves when the name of a folder holds a path, and a training in the folder of another."""
    names = ["soft.seed1/task.data=/work/bin,common.fp16=true", "soft.seed1", "soft.seed2", "adm.seed10/lr=[0.1]"]
    for name in names:
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "checkpoints" / "checkpoint_best.pt").touch()
    (tmp_path / "adm.seed10" / ".hydra").mkdir()
    (tmp_path / "adm.seed10" / ".hydra" / "checkpoint_best.pt").touch()
    (tmp_path / "adm.seed10" / "round").symlink_to(tmp_path)
    found = [system.name for system in find_systems(tmp_path)]
    assert found == sorted(names) and [system.name for system in find_systems(tmp_path, ["soft"])] == names[1:3]
    with pytest.raises(OptionError, match=r"--systems aqt: there is no checkpoint_best.pt in .*; found: adm.seed10/lr"):
        find_systems(tmp_path, ["aqt"])


@pytest.mark.parametrize(
    ("name", "stripped"),
    [
        ("lstm_soft.seed1", "lstm_soft"),
        ("lstm_soft.seed12/optimization.lr=[0.01]", "lstm_soft/optimization.lr=[0.01]"),
        ("soft/common.seed=1,model.dropout=0.1", "soft/model.dropout=0.1"),
        ("soft-seed_3", "soft"),
        ("seed1", "seed1"),
        ("seedling", "seedling"),
    ],
)
def test_names_without_seed(name, stripped):
    assert without_seed(name) == stripped


@pytest.fixture(scope="module")
def trained(zoo, tmp_path_factory):
    """Two systems, and two folders that are not systems."""
    folder = tmp_path_factory.mktemp("systems")
    content = zoo("lstm_soft").last.read_bytes()
    found = {"lstm_soft": content, "lstm_latent": zoo("latent").last.read_bytes(), "broken": content[:1000]}
    for name, data in {**found, "text": b"no checkpoint"}.items():
        (folder / name).mkdir()
        (folder / name / "checkpoint_best.pt").write_bytes(data)
    return folder


def test_report(tiny_data, trained, tmp_path, capsys):
    out = tmp_path / "report"
    gold = tmp_path / "gold"
    lines = (tiny_data.parent / "text" / "test.xx").read_text().splitlines()
    lengths = [len(line.split()) for line in lines]
    gold.write_text("".join(" ".join(f"{n - 1 - j}-{j}" for j in range(n)) + "\n" for n in lengths))
    command = ["report", str(trained), "--data", str(tiny_data), "--out", str(out), "--cpu", "--samples", "20"]
    command += ["--beam", "2", "--gold", str(gold)]
    cli.main(command)
    printed = capsys.readouterr()
    assert printed.err.count("left out:") == 2 and "broken: left out: checkpoint" in printed.err
    markdown, html = re.sub(" +", " ", (out / "report.md").read_text()), (out / "report.html").read_text()
    assert markdown.startswith("# Attention of 2 systems, xx-yy\n") and "<title>Attention of 2 systems, xx" in html
    for heading in ("Systems", "Attention as an alignment", "Rare and frequent words", "Left out"):
        assert f"## {heading}\n" in markdown and f"<h2>{heading}</h2>" in html
    for name in ("lstm\\_soft", "lstm\\_latent"):
        assert f"| {name} | " in markdown
    assert "| AER | precision |" in markdown
    files = ["compare.html", "explore.html", "frequency/rare.png"]
    assert all((out / name).stat().st_size > 0 for name in files) and len(list(out.glob("heatmaps/*.png"))) == 4
    assert html.count("data:image/png") == 7
    assert html.count('href="explore.html#sentence=') >= 2 * 4 + 6  # twice for a heatmap, once for an example
    assert open_records(out / "attention" / "lstm_latent.reference.jsonl").header.weights[1:] == ("posterior", "bayes")
    # again: nothing is extracted anew but what has changed
    stamps = {path: path.stat().st_mtime_ns for path in (out / "attention").iterdir()}
    assert len(stamps) == 4
    cli.main([*command, "--beam", "1", "--baseline", "lstm_soft"])
    changed = {path.name for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp}
    assert changed == {"lstm_soft.beam.jsonl", "lstm_latent.beam.jsonl"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--systems", "broken", "text"], "none of its systems can be read; broken: .*; text: "),
        (["--baseline", "other"], "--baseline other: must be one of broken, lstm_latent, lstm_soft, text"),
        (["--gold", "no.gold"], "no.gold"),
    ],
)
def test_mistakes(tiny_data, trained, tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        cli.main(["report", str(trained), "--data", str(tiny_data), "--out", str(tmp_path / "out"), "--cpu", *options])
