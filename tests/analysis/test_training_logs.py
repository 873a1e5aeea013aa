"""TensorBoard files: values, resumed trainings, files that are cut off or damaged; logs over updates."""

import sys

import pytest
import torch

from fairseq_attn_plugin.analysis.drawing.curves import plot_curves
from fairseq_attn_plugin.analysis.training_logs import Curves, read_log, read_run, read_scalars, read_tensorboard
from fairseq_attn_plugin.errors import OptionError

from cli import TINY, USER_DIR, run_cli

pytest.importorskip("tensorboard")


def write_events(folder, *values, name="a"):
    """(tag, value, step) each, into a file whose name sorts by ``name``."""
    from torch.utils.tensorboard import SummaryWriter

    known = set(folder.glob("*tfevents*"))
    with SummaryWriter(str(folder)) as writer:
        for tag, value, step in values:
            writer.add_scalar(tag, value, step)
    (written,) = set(folder.glob("*tfevents*")) - known
    return written.rename(folder / f"events.out.tfevents.{name}")


def test_folders_of_fairseq(tmp_path):
    write_events(tmp_path / "train", ("loss", 7.67, 100), ("loss", 5, 200))
    write_events(tmp_path / "train_inner", ("loss", 99, 50))
    file = write_events(tmp_path / "valid", ("loss", 6.5, 100), ("ppl", 91.1, 100), ("loss", float("nan"), 200))
    curves = read_tensorboard(tmp_path)
    assert curves.x == "updates"
    assert curves.train == {"loss": {100: 7.67, 200: 5.0}}  # the shortest number with this float32 value
    assert curves.valid["ppl"] == {100: 91.1} and list(curves.valid["loss"]) == [100, 200]
    assert read_run(file).valid["ppl"] == read_run(tmp_path / "valid").valid["ppl"] == {100: 91.1}
    assert read_run(tmp_path / "train_inner") == Curves({"loss": {50: 99.0}}, {}, "updates")


def test_within_the_first_epoch_training_is_that_of_the_latest_updates(tmp_path):
    write_events(tmp_path / "train_inner", ("loss", 9, 50))
    write_events(tmp_path / "train")  # a file without values
    assert read_tensorboard(tmp_path).train == {"loss": {50: 9.0}}


def test_a_resumed_training_replaces_what_came_after(tmp_path):
    folder = tmp_path / "valid"
    write_events(folder, ("loss", 5, 100), ("loss", 4, 200), ("loss", 3, 250), ("ppl", 8, 300), name="1")
    write_events(folder, ("loss", 3.5, 200), ("loss", 2, 400), name="2")
    assert read_tensorboard(tmp_path).valid == {"loss": {100: 5.0, 200: 3.5, 400: 2.0}, "ppl": {300: 8.0}}


def test_numbers_in_tensors_and_other_summaries(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "valid")) as writer:
        writer.add_text("sys.argv", "fairseq-train data")
        writer.add_histogram("weights", torch.arange(5.0))
        writer.add_scalar("loss", 0.5, 10)
        writer.add_scalar("ppl", 2.25, 10, new_style=True)  # a tensor
    assert read_tensorboard(tmp_path).valid == {"loss": {10: 0.5}, "ppl": {10: 2.25}}


def test_the_record_being_written_is_left_out_and_damage_is_named(tmp_path):
    file = write_events(tmp_path / "valid", ("loss", 6, 100), ("loss", 5, 200))
    content = file.read_bytes()
    for cut in (1, 5, 20):
        file.write_bytes(content[:-cut])
        assert read_scalars([file]) == {"loss": {100: 6.0}}
    # the last record's content is 4 bytes of checksum before the end
    for place in (-6, -4):
        damaged = bytearray(content)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(OptionError, match=r"tfevents\.a\S*: is not a TensorBoard file, or is damaged$"):
            read_scalars([file])
    file.write_bytes(b"2026-11-20 | INFO | fairseq.trainer | begin training epoch 1\n")
    with pytest.raises(OptionError, match="is not a TensorBoard file, or is damaged"):
        read_scalars([file])
    with pytest.raises(OptionError, match=r"none: cannot be read: No such file"):
        read_scalars([tmp_path / "none"])


def test_contents_that_are_not_events(tmp_path):
    from tensorboard.summary.writer.record_writer import RecordWriter

    file = tmp_path / "a.tfevents"
    with open(file, "wb") as stream:
        RecordWriter(stream).write(b"\xff\xff\xff")
    with pytest.raises(OptionError, match=r"a\.tfevents: is not a TensorBoard file, or is damaged"):
        read_scalars([file])


def test_folders_that_are_none(tmp_path, monkeypatch):
    with pytest.raises(
        OptionError, match=r"has no TensorBoard files .*train, train_inner, valid, and no train.log; name"
    ):
        read_run(tmp_path)
    file = write_events(tmp_path / "mine", ("loss", 1, 1))
    with pytest.raises(OptionError, match="name a log, or the folder of fairseq-train --tensorboard-logdir"):
        read_run(file)
    write_events(tmp_path / "valid")
    with pytest.raises(OptionError, match="its TensorBoard files have no values yet"):
        read_run(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(OptionError, match=r"needs tensorboard: pip install 'fairseq_attn_plugin\[analysis\]'"):
        read_run(tmp_path)


def test_logs_over_updates(tmp_path):
    log = tmp_path / "train.log"
    line = 'x | INFO | valid | {"epoch": %d, "valid_loss": "%s", "valid_num_updates": "%d"}\n'
    # two validations in epoch 1; then resumed from update 100
    log.write_text("".join(line % values for values in ((1, 9, 50), (1, 8, 100), (2, 7, 200), (2, 6, 190))))
    assert read_log(log, "updates") == Curves({}, {"loss": {50: 9.0, 100: 8.0, 190: 6.0}}, "updates")
    assert read_log(log).valid["loss"] == {1: 8.0, 2: 6.0}
    log.write_text('x | INFO | valid | {"epoch": 1, "valid_loss": "9"}\n')
    with pytest.raises(OptionError, match=r"train\.log: does not contain num_updates; .* over epochs"):
        read_log(log, "updates")


def test_a_training_of_fairseq_logs_the_same_both_ways(tiny_data, tmp_path):
    pytest.importorskip("matplotlib")
    options = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "adam", "--cpu"]
    options += ["--max-tokens", 800, "--log-format", "json", "--log-file", tmp_path / "log", "--save-dir", tmp_path]
    run_cli(*options, "--tensorboard-logdir", tmp_path / "board", "--max-epoch", 2)
    log, board = read_log(tmp_path / "log", "updates"), read_tensorboard(tmp_path / "board")
    assert len(board.valid["loss"]) == 2
    for name in ("loss", "ppl", "lr"):
        assert board.train[name] == pytest.approx(log.train[name])
    assert board.valid["loss"] == pytest.approx(log.valid["loss"])
    runs = {"log": tmp_path / "log", "board": tmp_path / "board"}
    plot_curves(runs, ["ppl"], tmp_path / "a.svg")
    assert ">updates</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_lines_that_no_training_writes_are_left_out(tmp_path):
    lines = ['{"epoch": 1, "train_loss": "5.5"}', '{"epoch":' + "[" * 100000]
    lines.append('{"epoch": 2, "train_loss": 1' + "0" * 400 + "}")
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    assert read_log(tmp_path / "log").train["loss"] == {1: 5.5}
