"""Damaged records of fairseq-attn extract, read by the commands that take them."""

import json
import re
from pathlib import Path

import pytest
from fuzzing import attempt, fuzz
from hypothesis import strategies as st
from mutations import damaged_lines
from records_for_tests import write_records

from fairseq_attn_plugin.cli import main


def strict(text: str) -> object:
    """JSON without NaN and infinities."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


def check_links(out: Path) -> None:
    for line in out.read_text(encoding="utf-8").splitlines():
        assert all(re.fullmatch(r"\d+-\d+", link) for link in line.split()), line


def check_lexicon(out: Path) -> None:
    from fairseq_attn_plugin.text.lexicon import read_lexicon

    if out.read_text(encoding="utf-8"):
        read_lexicon(out, "--lexicon", probabilities=True)


def check_page(out: Path) -> None:
    text = out.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>")
    found = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.S)
    assert found is not None
    strict(found[1])


def check_figures(out: Path) -> None:
    strict(out.read_text(encoding="utf-8"))


# a command, what it makes of a file, and whether the output is valid
USES = {
    "align": (lambda file, out: ["align", file, "--out", out], check_links),
    "lexicon": (lambda file, out: ["lexicon", file, "--soft", "--out", out], check_lexicon),
    "explore": (lambda file, out: ["explore", file, "--out", out + ".html"], None),
    "confidence": (lambda file, out: ["confidence", file, "--samples", "2", "--json", out], check_figures),
    "compare": (lambda file, out: ["compare", file, "--reference", file, "--out", out + ".html"], None),
}


def lines_of(folder: Path) -> list:
    text = write_records(folder / "valid.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


def read(folder: Path, data: bytes, use: str) -> None:
    file, out = folder / "damaged.jsonl", folder / "out"
    file.write_bytes(data)
    for made in folder.glob("out*"):
        made.unlink()
    arguments, check = USES[use]
    check = check or (lambda _: check_page(Path(f"{out}.html")))
    attempt("records", lambda: main(arguments(str(file), str(out))), lambda: check(out))


uses = st.sampled_from(sorted(USES))


@fuzz(st.data(), uses)
def test_jsonl(folder, data, use):
    read(folder, data.draw(damaged_lines(lines_of(folder))), use)
