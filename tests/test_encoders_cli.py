"""The real command-line tools with GRUs, and with encoders of stock fairseq under our decoder."""

import sys

import pytest
from test_end_to_end import short_data  # noqa: F401 (a fixture)
from training import generate, right_lines, train

from fairseq_attn_plugin.analysis.records import open_records

from cli import USER_DIR, run_cli

SIZES = "--encoder-embed-dim 32 --decoder-embed-dim 32 --decoder-hidden-size 64".split()
SIZES += "--decoder-out-embed-dim 32 --decoder-layers 1 --disable-validation --batch-size 40".split()
SYSTEMS = {
    "gru": ("--rnn gru --encoder-hidden-size 32 --encoder-layers 1 --encoder-bidirectional --lr 0.02".split(), 400),
    "transformer": (
        "--encoder-arch transformer_iwslt_de_en --encoder-layers 2 --lr 0.004 --warmup-updates 50 --encoder-options "
        "encoder-ffn-embed-dim=64".split(),
        400,
    ),
    "convolutional": ("--encoder-arch fconv --encoder-hidden-size 32 --encoder-layers 2 --lr 0.01".split(), 800),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_learns_translates_extracts_and_exports(name, short_data, tmp_path):  # noqa: F811
    options, updates = SYSTEMS[name]
    decay = ["--lr-scheduler", "polynomial_decay", "--total-num-update", updates]
    trained = train(short_data, tmp_path / "model", "--arch", "attn_lstm", *SIZES, *decay, *options, updates=updates)
    one = generate(short_data, trained.last, "--beam", 5, "--batch-size", 1, "--print-alignment", "hard")
    right = len(right_lines(one))
    assert right >= 0.9 * len(one["T"]), f"{right} of {len(one['T'])} lines right"
    many = generate(short_data, trained.last, "--beam", 5, "--batch-size", 32, "--print-alignment", "hard")
    assert {i: h[1] for i, h in many["H"].items()} == {i: h[1] for i, h in one["H"].items()}
    assert many["A"] == one["A"]

    records = tmp_path / "attention.jsonl"
    run_cli("fairseq-attn", "extract", short_data, "--path", trained.last, "--out", records)
    for record in open_records(str(records)):
        assert record.attention.shape == (len(record.target) + 1, len(record.source) + 1)

    source = tmp_path / "source"
    source.write_text("".join(line.split("\t")[-1] + "\n" for line in (" ".join(s) for s in one["S"].values())))
    stock = run_cli(
        *("fairseq-interactive", short_data, "--user-dir", USER_DIR, "--path", trained.last, "--input", source),
        *("--beam", 5, "--cpu", "--buffer-size", 40, "--no-progress-bar"),
    ).stdout
    lines = [line.split("\t")[2] for line in stock.splitlines() if line.startswith("H-")]
    assert sorted(lines) == sorted(h[1] for h in one["H"].values())

    folder = tmp_path / "exported"
    run_cli("fairseq-attn", "export", trained.last, "--data", short_data, "--to", folder, "--beam", 5)
    exported = run_cli(sys.executable, folder / "translate.py", stdin=source.read_text()).stdout.splitlines()
    assert exported == [one["H"][i][1] for i in one["S"]]
