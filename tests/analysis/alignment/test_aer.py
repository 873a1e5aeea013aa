"""fairseq-attn aer: against loops over all cells, formats of the gold, records and links, mistakes."""

import json

import numpy as np
import pytest
from records_for_tests import record, write_records
from refusals import refuses

from fairseq_attn_plugin.analysis.alignment.links import parse_alignment
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError

from oracles import alignment_quality

# A = {00, 11, 22, 31}; S = {00, 12, 22}; P = S + {11, 13}: AER 1 - 5/7, precision 3/4, recall 2/3, F1 12/17
LINKS, GOLD = "0-0 1-1 2-2 3-1", "0-0 1-2 2-2 1p1 1p3"


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def figures(folder, *arguments):
    """What --json writes."""
    main(["aer", *map(str, arguments), "--json", str(folder / "out.json")])
    return json.loads((folder / "out.json").read_text(encoding="utf-8"))


def test_by_hand(tmp_path, capsys):
    system, gold = write(tmp_path / "fast.align", LINKS), write(tmp_path / "gold", GOLD)
    assert figures(tmp_path, system, f"it\x1bself={gold}", "--gold", gold)["systems"]["fast"] == pytest.approx(
        {"aer": 2 / 7, "precision": 3 / 4, "recall": 2 / 3, "f1": 12 / 17, "links": 4, "sentences_left_out": 0}
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{gold}: 1 sentence, 3 sure and 2 only possible links"
    with pytest.raises(OptionError, match="^--end null: has no effect on files of links"):
        main(["aer", system, "--gold", gold, "--end", "null"])
    assert [line.split() for line in (lines[2], *lines[4:6])] == [
        ["system", "AER", "precision", "recall", "F1", "links"],
        ["fast", "0.2857", "0.7500", "0.6667", "0.7059", "4"],
        ["it\ufffdself", "0.0000", "1.0000", "1.0000", "1.0000", "5"],
    ]


def test_equals_loops_over_all_cells(tmp_path):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, size=(30, 2))
    cells = [rng.random((3, *length)) for length in lengths]
    systems, gold = [[], []], []
    for matrices in cells:
        for system, matrix in zip(systems, matrices[:2]):
            system.append(" ".join(f"{i}-{j}" for i, j in zip(*np.nonzero(matrix < 0.3))))
        kinds = np.where(matrices[2] < 0.15, "-", "p")
        gold.append(" ".join(f"{i}{kinds[i, j]}{j}" for i, j in zip(*np.nonzero(matrices[2] < 0.4))))
    paths = [write(tmp_path / name, *lines) for name, lines in zip("abg", (*systems, gold))]
    found = figures(tmp_path, *paths[:2], "--gold", paths[2])["systems"]
    for label, lines in zip("ab", systems):
        links = [set(parse_alignment(line).sure) for line in lines]
        expected = alignment_quality(links, [parse_alignment(line) for line in gold], lengths)
        assert [found[label][name] for name in ("aer", "precision", "recall", "f1")] == pytest.approx(expected)
    assert found["a"] != found["b"]


def test_records_are_aligned_with_the_same_options(tmp_path, capsys):
    weights = np.array([[0.7, 0.2, 0.1], [0.1, 0.4, 0.5], [0.0, 0.0, 1.0]])
    records = [record(0, "a@@ b", "x y"), record(1, "a b", "x y@@ z", np.insert(weights, 1, weights[1], axis=0))]
    soft = write_records(tmp_path / "soft.jsonl", records=records, sentences=3)
    gold = write(tmp_path / "gold", "0-0", "0-0 1-1", "0-0")
    content = figures(tmp_path, soft, f"again={soft}", "--gold", gold)
    assert content["linking"]["end"] == "exclude" and content["systems"]["soft"] == content["systems"]["again"]
    output = capsys.readouterr()
    assert output.out.endswith("; the end of the source is ignored (--end exclude).\n")
    assert "soft: its records lack 1 of the 3 sentences, which count as sentences without links" in output.err
    # 0-0 0-1 | 0-0 1-1 | nothing, against 4 sure links
    assert content["systems"]["soft"]["links"] == 4 and content["systems"]["soft"]["recall"] == 3 / 4
    assert figures(tmp_path, soft, "--gold", gold, "--end", "null")["systems"]["soft"]["links"] == 3


def test_what_the_figures_do_not_show(tmp_path, capsys):
    system, gold = write(tmp_path / "a", "1-1", "2-2"), write(tmp_path / "gold", "1-1", "2-2")
    main(["aer", system, "--gold", gold])
    assert f"{gold}: word 0 has no link; if the file counts from 1, give --one-based\n" in capsys.readouterr().err
    main(["aer", system, "--gold", write(tmp_path / "gold", "0-0", "")])
    assert capsys.readouterr().err.startswith(f"{gold}: 1 of the 2 sentences have no gold link\n")


@refuses(
    (["short=SHORT"], r"^\S*short: has 1 lines, the corpus has 2 sentences$"),
    (["far=FAR"], r"^\S*far, line 1: link 5-0: the source has 1 words, counted from 0$"),
    (["SOFT"], r"^soft: 2 files have this name"),
    (["own=OWN"], r"own.jsonl: has the model's own .*\(beam 5\)"),
    (["other=OTHER"], r"sentence 1 has 1 source and 2 target words, in \S*soft.jsonl it has 2 and 2$"),
    (["more=MORE"], r"more.jsonl: has 4 sentences, \S*soft.jsonl has 2$"),
    (["--weights", "bayes"], r"^matrix bayes \(--weights, --method\): none of the files has it"),
)
def test_mistakes(options, tmp_path):
    pairs = [("a", "x"), ("b c", "y z")]
    files = {
        "SOFT": str(write_records(tmp_path / "soft.jsonl", pairs=pairs)),
        "OWN": str(write_records(tmp_path / "own.jsonl", pairs=pairs, target="beam 5")),
        "OTHER": str(write_records(tmp_path / "other.jsonl", pairs=[pairs[0], ("b@@ c", "y z")])),
        "MORE": str(write_records(tmp_path / "more.jsonl", pairs=pairs * 2)),
        "SHORT": write(tmp_path / "short", "0-0"),
        "FAR": write(tmp_path / "far", "0-0 5-0", "0-0 1-1"),
    }
    for name, path in files.items():
        options = [option.replace(name, path) if option.isupper() or "=" in option else option for option in options]
    main(["aer", files["SOFT"], *options, "--gold", write(tmp_path / "gold", "0-0", "")])
