"""GRUs, and encoders of stock fairseq under our decoder: all tools take them."""

import pytest
from in_process import run_tool
from training import generate, train

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.records import open_records
from fairseq_attn_plugin.decoding.export.runtime import Translator

from cli import USER_DIR

SIZES = "--encoder-embed-dim 32 --decoder-embed-dim 32 --decoder-hidden-size 64 --decoder-out-embed-dim 32".split()
SIZES += "--decoder-layers 1".split()
SYSTEMS = {
    "gru": "--rnn gru --encoder-hidden-size 32 --encoder-layers 1 --encoder-bidirectional",
    "transformer": (
        "--encoder-arch transformer_iwslt_de_en --encoder-layers 2 --encoder-options encoder-ffn-embed-dim=64"
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_translates_extracts_and_exports(name, short_data, tmp_path):
    options = [*SIZES, *SYSTEMS[name].split(), "--batch-size", 40, "--lr", 0.004, "--disable-validation"]
    path = train(short_data, tmp_path / "model", "--arch", "attn_lstm", *options, updates=20).last
    found = generate(short_data, path, "--beam", 5, "--batch-size", 32)
    lines, expected = ([found[kind][i][-1] for i in found["S"]] for kind in "SH")

    records = tmp_path / "attention.jsonl"
    cli.main(["extract", str(short_data), "--path", str(path), "--out", str(records), "--cpu"])
    for record in open_records(str(records)):
        assert record.attention.shape == (len(record.target) + 1, len(record.source) + 1)

    command = ["fairseq-interactive", short_data, "--user-dir", USER_DIR, "--path", path, "--beam", 5]
    shown = run_tool(*command, "--buffer-size", 40, stdin="".join(line + "\n" for line in lines)).stdout
    assert [line.split("\t")[2] for line in shown.splitlines() if line.startswith("H-")] == expected

    cli.main(["export", str(path), "--data", str(short_data), "--to", str(tmp_path / "exported"), "--beam", "5"])
    assert Translator(str(tmp_path / "exported")).translate(lines) == expected
