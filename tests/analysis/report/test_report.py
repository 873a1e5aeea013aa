"""fairseq-attn report: documents, the systems of a folder, their measures, seeds, and a folder with broken ones."""

import math
import re
import shutil
import statistics
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from records_for_tests import record, write_records
from refusals import refuses
from sacrebleu.metrics import BLEU

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.analysis.outputs.significance import score_systems
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.analysis.report import building, sections
from fairseq_attn_plugin.analysis.report.systems import (
    Reported,
    System,
    find_systems,
    groups_of,
    measures,
    spread,
    without_seed,
)
from fairseq_attn_plugin.errors import OptionError

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
NASTY = "<script>x</script> a|b *c* _d_ `e` [f](g) # &lt;"


@pytest.fixture
def document(tmp_path):
    (tmp_path / "sub folder").mkdir()
    (tmp_path / "sub folder" / "x.png").write_bytes(PNG)
    result = Document(f"Title {NASTY}")
    result.heading("One")
    result.subheading("Two")
    result.paragraph(f"Text\n {NASTY}")
    result.table(["name", "number", "both"], [[NASTY, 1.5, "2,000 (+3.1)"], ["b", None, "-"]])
    result.picture(tmp_path / "sub folder" / "x.png", "A picture", lambda path: path.write_bytes(PNG))
    result.link(tmp_path / "sub folder" / "x.png", "A link")
    result.code("a ``` b")
    return result


def test_markdown(document, tmp_path):
    parts = document.markdown(tmp_path).split("\n\n")
    escaped = r"\<script\>x\</script\> a\|b \*c\* \_d\_ \`e\` \[f\](g) \# \&lt;"
    assert parts[0] == f"# Title {escaped}"
    assert parts[1:4] == ["## One", "### Two", f"Text {escaped}"]
    rows = [[cell.strip() for cell in line.strip("| ").split(" |")] for line in parts[4].split("\n")]
    assert rows[0] == ["name", "number", "both"]
    assert rows[2:] == [[escaped, "1.50", "2,000 (+3.1)"], ["b", "\u2013", "-"]]
    assert re.fullmatch(r"\|:-+\|-+:\|-+:\|", parts[4].split("\n")[1])
    assert len({len(line) for line in parts[4].split("\n")}) == 1  # columns line up
    assert parts[5:7] == ["![A picture](sub%20folder/x.png)", "[A link](sub%20folder/x.png)"]
    assert parts[7] == "````\na ``` b\n````\n"  # a fence longer than the one in it


def test_html(document, tmp_path):
    html = document.html(tmp_path)
    assert "<script>x" not in html
    assert html.count("&lt;script&gt;x&lt;/script&gt; a|b *c*") == 4  # the title is there twice
    assert '<a href="sub%20folder/x.png">A link</a>' in html and html.count("data:image/png;base64,") == 1
    assert '<th scope="col" class="number">number</th>' in html and '<td dir="auto">b</td>' in html
    assert all(f'<td class="number" dir="auto">{value}</td>' in html for value in ("1.50", "2,000 (+3.1)"))
    assert "<pre>a ``` b</pre>" in html
    document = Document("x")
    document.table(["a", "b"], [])
    assert re.search(r"\| a +\| b +\|\n\|-+\|-+\|", document.markdown(tmp_path))


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
    sentence = SourceSentence(0, None, None, ["a"], ["the", "<unk>"])
    building._read_corpus(read, lambda start: [sentence], SimpleNamespace(gold=None))
    assert (read.source, read.reference) == (["a"], ["the <<unk>>"])


def test_words_that_differ_are_marked_in_a_language_without_blanks(tmp_path):
    document = Document("x")
    sections.add_examples(document, ["I like you."], ["我喜欢你。"], {"a": ["我喜欢他。"]}, tmp_path, [], "zh")
    assert "我 喜 欢 +他+ 。" in document.markdown(tmp_path)


@refuses(
    (["a b"], "has 1 sentences, soft has 2: another test set"),
    (["a b", "<unk> d ."], r"sentence 1: soft and moses have different source words \('d.' and 'd'\)"),
)
def test_trainings_of_other_sentences_are_no_systems(source, tmp_path):
    pairs = [(line, "x") for line in source]
    forced = open_records(write_records(tmp_path / "moses.jsonl", pairs=pairs))
    leader = SimpleNamespace(forced=SimpleNamespace(header=SimpleNamespace(sentences=2)), system=System("soft", None))
    building._check_corpus(SimpleNamespace(forced=forced, system=System("moses", None)), leader, ["a b", "c d."])


def test_which_folders_are_systems(tmp_path):
    for file in ("b/checkpoint_last.pt", "b/checkpoint_best.pt", "a/checkpoints/checkpoint_best.pt", "c/model.pt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    found = find_systems(tmp_path)
    best = "checkpoint_best.pt"
    assert [(system.name, system.checkpoint.name) for system in found] == [("a", best), ("b", best)]
    assert [system.name for system in find_systems(tmp_path, ["b", "a/"])] == ["b", "a"]
    assert [system.name for system in find_systems(tmp_path / "b")] == ["b"], "the folder itself"
    for folder, names, message in [
        (tmp_path / "none", None, "is not a folder"),
        (tmp_path / "c", None, "none of its folders has a checkpoint_best.pt"),
        (tmp_path, ["c"], "--systems c: there is no checkpoint_best.pt"),
    ]:
        with pytest.raises(OptionError, match=message):
            find_systems(folder, names)


def test_a_model_folder_whose_training_has_not_ended_is_left_out(tmp_path, capsys):
    for file in ("a/checkpoint_best.pt", "b/training/lock", "b/training/checkpoints/checkpoint_best.pt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert [system.name for system in find_systems(tmp_path)] == ["a", "b"]
    with pytest.raises(OptionError, match="none of its systems can be read; .*b: its training has not ended; run the"):
        cli.main(["report", str(tmp_path), "--systems", "b", "--out", str(tmp_path / "report"), "--cpu"])
    assert "b: left out: " in capsys.readouterr().err


def test_folders_below_folders_are_systems_and_names_may_have_a_seed(tmp_path):
    """What a sweep leaves when the name of a folder holds a path, and a training in the folder of another."""
    for name, stripped in (
        ("lstm_soft.seed12/optimization.lr=[0.01]", "lstm_soft/optimization.lr=[0.01]"),
        ("soft/common.seed=1,model.dropout=0.1", "soft/model.dropout=0.1"),
        *(("soft-seed_3", "soft"), ("seed1", "seed1"), ("seedling", "seedling")),
    ):
        assert without_seed(name) == stripped
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


@pytest.fixture(scope="module")
def trained(zoo, tmp_path_factory):
    """Two systems, two folders that are not systems, and a system of the other direction."""
    folder = tmp_path_factory.mktemp("systems")
    content = zoo("lstm_soft").last.read_bytes()
    found = {"lstm_soft": content, "lstm_latent": zoo("latent").last.read_bytes(), "broken": content[:1000]}
    for name, data in {**found, "text": b"no checkpoint"}.items():
        (folder / name).mkdir()
        (folder / name / "checkpoint_best.pt").write_bytes(data)
    state = torch.load(zoo("lstm_soft").last, weights_only=False)
    state["cfg"]["task"].update(source_lang="yy", target_lang="xx")
    del state["extra_state"]["dictionaries"]
    (folder / "reverse").mkdir()
    torch.save(state, folder / "reverse" / "checkpoint_best.pt")
    return folder


def test_report(tiny_data, trained, tmp_path, capsys):
    out = tmp_path / "report"
    gold = tmp_path / "gold"
    lengths = [len(line.split()) for line in (tiny_data.parent / "text" / "test.xx").read_text().splitlines()]
    gold.write_text("".join(" ".join(f"{n - 1 - j}-{j}" for j in range(n)) + "\n" for n in lengths))
    command = ["report", str(trained), "--data", str(tiny_data), "--out", str(out), "--cpu", "--samples", "20"]
    command += ["--beam", "2", "--gold", str(gold)]
    cli.main(command)
    printed = capsys.readouterr()
    assert printed.err.count("left out:") == 3 and "broken: left out: checkpoint" in printed.err
    assert "reverse: left out: translates yy-xx, another direction than lstm_latent; choose" in printed.err
    markdown, html = re.sub(" +", " ", (out / "report.md").read_text()), (out / "report.html").read_text()
    assert markdown.startswith("# Attention of 2 systems, xx-yy\n") and "<title>Attention of 2 systems, xx" in html
    for heading in ("Systems", "Attention as an alignment", "Rare and frequent words", "Left out"):
        assert f"## {heading}\n" in markdown and f"<h2>{heading}</h2>" in html
    for name in ("lstm\\_soft", "lstm\\_latent"):
        assert f"| {name} | " in markdown
    assert "| AER | precision |" in markdown
    files = ["compare.html", "explore.html"]
    assert all((out / name).stat().st_size > 0 for name in files) and len(list(out.glob("heatmaps/*.png"))) == 4
    assert html.count("data:image/png") == 4
    assert html.count('href="explore.html#sentence=') >= 2 * 4 + 6  # twice for a heatmap, once for an example
    assert open_records(out / "attention" / "lstm_latent.reference.jsonl").header.weights[1:] == ("posterior", "bayes")
    # again: nothing is extracted anew but what has changed
    stamps = {path: path.stat().st_mtime_ns for path in (out / "attention").iterdir()}
    assert len(stamps) == 4
    cli.main([*command, "--beam", "1", "--systems", "lstm_soft", "lstm_latent"])
    changed = {path.name for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp}
    assert changed == {"lstm_soft.beam.jsonl", "lstm_latent.beam.jsonl"}


@refuses(
    (["--systems", "broken", "text"], "none of its systems can be read; broken: .*; text: "),
    (["--gold", "no.gold"], "no.gold"),
)
def test_mistakes(options, tiny_data, trained, tmp_path):
    cli.main(["report", str(trained), "--data", str(tiny_data), "--out", str(tmp_path / "out"), "--cpu", *options])


def run_of(name, seed):
    return Reported(System(name, None), 1, None, None, None, seed)


def grouped(*reported):
    return {group.name: ([run.system.name for run in group.runs], group.seeds) for group in groups_of(reported)}


def test_names_that_differ_in_the_seed_only_are_one_system():
    runs = [run_of("soft.seed2", 2), run_of("adm.seed1", 1), run_of("soft.seed1", 1)]
    assert grouped(*runs) == {"soft": (["soft.seed1", "soft.seed2"], [1, 2]), "adm.seed1": (["adm.seed1"], [1])}
    assert list(grouped(run_of("a", 1), run_of("b", 2))) == ["a", "b"]
    assert list(grouped(run_of("a.seed1", 1), run_of("a.seed2", 1))) == ["a.seed1", "a.seed2"], "one seed, twice"


def test_spread():
    assert spread([1.0, 3.0], 2) == "2.00 (1.41)" and spread([2.0, 2.0], 1) == "2.0" and spread([1234.5], 0) == "1,234"
    assert spread([None, 2.0], 2) == "2.00" and spread([], 2) is None
    assert spread([float("inf"), 3.0], 2) == "inf", "a word of probability zero"


@pytest.fixture(scope="module")
def grid(zoo, tmp_path_factory):
    """Two systems with two seeds each, as fairseq-hydra-train -m leaves them; a seed is noise on the parameters. Some
    sentences are too long for the first one."""
    folder = tmp_path_factory.mktemp("grid")
    for name in ("lstm_soft", "lstm_adm"):
        for seed in (1, 2):
            state = torch.load(zoo(name).last, weights_only=False)
            state["cfg"]["common"]["seed"] = seed
            state["cfg"]["task"]["max_source_positions"] = 6 if name == "lstm_adm" else 1024
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

    def rows():
        """Of the first table, {column: text}."""
        text = (out / "report.md").read_text(encoding="utf-8").partition("## Systems\n\n")[2].partition("\n\n")[0]
        cells = [[cell.strip().replace("\\", "") for cell in line.strip("|").split("|")] for line in text.splitlines()]
        return [dict(zip(cells[0], row)) for row in cells[2:]]

    adm, soft = rows()
    assert [row["system"] for row in (adm, soft)] == ["lstm_adm/lr=0.1", "lstm_soft/lr=0.1"]
    assert adm["seeds"] == soft["seeds"] == "2"
    reference = (tiny_data.parent / "text" / "test.yy").read_text().splitlines()
    scores = []
    for file in sorted(out.rglob("attention/lstm_soft.seed*/**/*.beam.jsonl")):
        lines = [""] * len(reference)
        for one in open_records(file):
            lines[one.id] = " ".join(one.target_words)
        scores.append(BLEU(tokenize="none", force=True).corpus_score(lines, [reference]).score)
    assert len(scores) == 2
    spreads = f" ({statistics.stdev(scores):.2f})" if scores[0] != scores[1] else ""
    assert soft["BLEU"] == f"{statistics.mean(scores):.2f}{spreads}"
    assert set(adm) >= {"chrF2", "TER", "p", "\u00b1", "perplexity"} and "(" in adm["perplexity"]
    assert len(list((out / "outputs").rglob("*.txt"))) == 4
    assert (out / "reference.txt").read_text().splitlines() == reference
    source = (tiny_data.parent / "text" / "test.xx").read_text().splitlines()
    count = sum(len(line.split()) > 5 for line in source)
    assert re.findall(r"Too long for .*: (\d+) sentences", (out / "report.md").read_text()) == [str(count)] * 2
    # a seed that the baseline alone has takes no part in the comparison
    left = shutil.copytree(grid, tmp_path / "left", ignore=shutil.ignore_patterns("lstm_adm.seed2"))
    compared = []

    def spy(*arguments, **keywords):
        compared.append(keywords["seeds_of"])
        return score_systems(*arguments, **keywords)

    monkeypatch.setattr(building, "score_systems", spy)
    command[1] = str(left)
    cli.main([*command, "--systems", "lstm_soft/lr=0.1", "lstm_adm/lr=0.1"])
    soft, alone = rows()
    assert soft["seeds"] == "2" and alone["seeds"] == "1"
    assert compared == [{"lstm_soft/lr=0.1": [1, 2], alone["system"]: [1]}]
