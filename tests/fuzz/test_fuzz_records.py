"""Damaged records of fairseq-attn extract, read by the commands that take them."""

import io
import json
import math
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzzing import attempt, fuzz
from hypothesis import strategies as st
from mutations import damaged_bytes, damaged_lines, damaged_value
from records_for_tests import write_records

from fairseq_attn_plugin.analysis.cli import main


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


def check_kept(out: Path) -> None:
    assert all(line.isdecimal() for line in Path(f"{out}.lines").read_text(encoding="utf-8").splitlines())


# a command, what it makes of a file, and whether the output is valid
USES = {
    "align": (lambda file, out: ["align", file, "--out", out], check_links),
    "lexicon": (lambda file, out: ["lexicon", file, "--soft", "--out", out], check_lexicon),
    "explore": (lambda file, out: ["explore", file, "--out", out + ".html"], None),
    "confidence": (lambda file, out: ["confidence", file, "--samples", "2", "--json", out], check_figures),
    "confidence --keep": (lambda file, out: ["confidence", file, "--keep", "0.5", "--out", out], check_kept),
    "compare": (lambda file, out: ["compare", file, "--reference", file, "--out", out + ".html"], None),
}


def lines_of(folder: Path) -> list:
    text = write_records(folder / "valid.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


def read(folder: Path, data: bytes, suffix: str, use: str) -> None:
    file, out = folder / f"damaged{suffix}", folder / "out"
    file.write_bytes(data)
    for made in folder.glob("out*"):
        made.unlink()
    arguments, check = USES[use]
    check = check or (lambda _: check_page(Path(f"{out}.html")))
    attempt(f"records {suffix[1:]}", lambda: main(arguments(str(file), str(out))), lambda: check(out))


def arrays_of(folder: Path) -> dict:
    """Each part of an archive, with its bytes."""
    with zipfile.ZipFile(write_records(folder / "valid.npz")) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(value: object, pickled: bool = False) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(value), allow_pickle=pickled)
    return stream.getvalue()


def declared(shape: tuple, kind: str) -> bytes:
    """An array whose header promises more than there is."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue() + b"12345678"


class Call:
    """A pickle that would leave a trace if it were run."""

    def __reduce__(self) -> tuple:
        return (os.mkdir, ("executed",))


shapes = st.sampled_from([(), (0,), (1,), (3, 0), (2, 2), (1, 1, 1), (2**45,), (2**62, 4), (10**6, 10**6)])
kinds = st.sampled_from(["<f4", "<i8", "<U5", "|O", "|S3", "<c16", "|b1", "<M8[s]", "<U100000000", "|V9"])
small = shapes.filter(lambda shape: math.prod(shape) < 100)
arrays = st.one_of(
    st.builds(declared, shapes, kinds),
    st.builds(lambda value: npy(value), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    st.builds(lambda value: npy(value), st.lists(st.floats(), max_size=4)),
    st.builds(
        lambda value, shape: npy(np.full(shape, value)), st.sampled_from([0, -1, math.nan, "x", True, 1j]), small
    ),
    st.just(npy(np.array([Call()], dtype=object), pickled=True)),
    st.binary(max_size=9),
)


@st.composite
def damaged_archive(draw, parts: dict) -> bytes:
    parts, compression = (
        dict(parts),
        draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])),
    )
    name = draw(st.sampled_from(sorted(parts)))
    change = draw(st.sampled_from(["array", "array", "bytes", "leave out", "header", "bomb", "none"]))
    if change == "array":
        parts[name] = draw(arrays)
    elif change == "bytes":
        parts[name] = draw(damaged_bytes(parts[name]))
    elif change == "leave out":
        del parts[name]
    elif change == "header":
        header = json.loads(str(np.load(io.BytesIO(parts["header.npy"]))))
        parts["header.npy"] = npy(json.dumps(draw(damaged_value(header))))
    elif change == "bomb":
        parts[name] = npy(
            np.zeros(draw(st.sampled_from([10**5, 3 * 10**7])), dtype=draw(st.sampled_from(["f8", "U1"])))
        )
        compression = zipfile.ZIP_DEFLATED
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for one, data in parts.items():
            archive.writestr(one, data)
        if draw(st.booleans()) and change == "none":
            archive.writestr(name, b"")  # twice the same name
    data = stream.getvalue()
    return draw(damaged_bytes(data)) if change == "none" else data


uses = st.sampled_from(sorted(USES))


@fuzz(st.data(), uses)
def test_jsonl(folder, data, use):
    read(folder, data.draw(damaged_lines(lines_of(folder))), ".jsonl", use)


@fuzz(st.data(), uses)
def test_npz(folder, data, use):
    read(folder, data.draw(damaged_archive(arrays_of(folder))), ".npz", use)
    assert not Path("executed").exists()
