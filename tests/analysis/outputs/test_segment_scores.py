"""Scores of sentences by another program, such as COMET, as a column of compare and of the report."""

import json
import re

import pytest

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.outputs.segment_scores import read_segment_scores, scores_of
from fairseq_attn_plugin.errors import OptionError

SCORES = {"soft": [0.5, 0.75, 0.25], "adm": [0.125, 0.5, 1.0]}
# the first as comet-score --to_json FILE writes it
JSON = json.dumps({f"out/{name}.txt": [{"mt": "x", "COMET": one} for one in of] for name, of in SCORES.items()})
FORMS = {"json": JSON, "numbers": "\ufeff" + json.dumps(SCORES)}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form, tmp_path):
    path = tmp_path / "scores"
    path.write_text(FORMS[form], encoding="utf-8")
    given = read_segment_scores(f"COMET={path}")
    assert given.metric == "COMET"
    assert scores_of(given, {"soft": None, "adm": "other/adm.txt"}, 3) == SCORES
    assert scores_of(given, {"adm": None}, 3) == {"adm": SCORES["adm"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "has no scores of COMET; must be the JSON of comet-score"),
        ("[1, 2, 3]", "has no scores"),
        ('{"soft": [1, null, 2]}', "has no scores"),
        ('{"soft": [{"BLEURT": 1}]}', "has no scores"),
        ('{"soft": []}', "has no scores"),
        ('{"soft": [1, 2, NaN]}', "has no scores"),
        ("", "has no scores"),
        ("soft\n0.1\n", "has no scores"),
        ('{"soft": 1}', "has no scores"),
        ('{"soft": [0.1, 0.2]}', "has 2 scores of soft; there are 3 sentences"),
        ('{"adm": [0.1, 0.2, 0.3]}', "has no scores of soft; it has adm"),
    ],
)
def test_files_without_scores(content, message, tmp_path):
    path = tmp_path / "scores"
    path.write_text(content)
    with pytest.raises(OptionError, match=f"--scores COMET={path}: {message}"):
        scores_of(read_segment_scores(f"COMET={path}"), {"soft": None}, 3)


@pytest.mark.parametrize("text", ["comet.json", "=comet.json", "COMET=", "COMET=/no/file", "bleu=comet.json"])
def test_mistakes(text):
    with pytest.raises(OptionError, match=f"--scores {text}: "):
        read_segment_scores(text)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"reference": "a b c d\ne f g h\ni j k l\n", "soft.txt": "a b c d\ne f g x\nx x x x\n"}
    texts.update({"adm.txt": "x x x x\ne f g h\ni j x l\n", "comet.json": JSON})
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return ["compare", "soft.txt", "adm.txt", "--reference", "reference", "--scores", "COMET=comet.json"]


def test_compare_shows_and_sorts(files, tmp_path, capsys):
    cli.main([*files, "--sort", "worst", "--metric", "COMET"])
    shown = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if line.startswith("|")]
    assert rows[0] == ["system", "BLEU", "chrF2", "TER", "COMET"] and [row[4] for row in rows[2:4]] == [
        "0.5000",
        "0.5417",
    ]
    # means of both systems: 0.3125, 0.625, 0.625
    assert re.findall(r"sentence \d", shown) == [f"sentence {n}" for n in (0, 1, 2)]
    cli.main([*files, "--sort", "best", "--metric", "ter"])
    assert re.findall(r"sentence \d", capsys.readouterr().out) == [f"sentence {n}" for n in (1, 0, 2)]
    cli.main([*files, "--out", "page.html"])
    text = (tmp_path / "page.html").read_text()
    assert "COMET" in text and "0.5417" in text and "TER" in text and "0.1250" in text
    assert 'data-scores="' in text and text.count('data-lower="1"') == 1
    with pytest.raises(OptionError, match="--metric bleurt: must be one of bleu, chrf, ter, COMET"):
        cli.main([*files, "--metric", "bleurt"])
