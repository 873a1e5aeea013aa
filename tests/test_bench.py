"""The benchmark: its instruments against known quantities, and a tiny run of the whole. No time is judged."""

import re

import pytest
import torch
from bench import main
from benchmark.measure import interleave, peak_memory, round_ratios, speed, summary, table
from benchmark.sections import markdown
from benchmark.systems import MemoryTask, Spec, make_batch

from bench_report import quick_report

CPU = torch.device("cpu")
MIB = 1 << 20


def samples(*seconds: float):
    return [{"wall": value} for value in seconds]


def mebibytes(count: int) -> torch.Tensor:
    return torch.empty(count * MIB, dtype=torch.uint8)


# instruments


def test_peak_memory_is_that_of_the_worst_moment():
    def run():
        first = mebibytes(3)
        second = mebibytes(5)
        del first
        third = mebibytes(1)  # 5 + 1 now, 3 + 5 before
        del second, third

    assert peak_memory(run, CPU) == 8 * MIB


def test_peak_memory_counts_what_is_returned_and_not_what_was_there_before():
    before = mebibytes(7)
    assert peak_memory(lambda: mebibytes(9), CPU) == 9 * MIB
    assert peak_memory(lambda: before.view(7, MIB).sum, CPU) == 0


def test_peak_memory_sees_the_backward_pass():
    weight = torch.zeros(MIB // 4, requires_grad=True)  # one MiB

    def run():
        (gradient,) = torch.autograd.grad((weight * 2.0).sum(), weight)
        return gradient

    # the product is dropped after the sum; the expanded gradient takes no room, twice it takes one MiB
    assert MIB <= peak_memory(run, CPU) < 2 * MIB


def test_every_system_runs_once_a_round_and_warmup_is_dropped():
    order = []

    def run(name):
        order.append(name)
        return {"wall": float(len(order))}

    got = interleave({name: lambda name=name: run(name) for name in "abc"}, rounds=3, warmup=1)
    rounds = [order[i : i + 3] for i in range(0, 12, 3)]
    assert [sorted(r) for r in rounds] == [["a", "b", "c"]] * 4
    assert len({r[0] for r in rounds[1:]}) == 3, "everybody is first once"
    assert all(len(kept) == 3 for kept in got.values())
    assert min(sample["wall"] for kept in got.values() for sample in kept) == 4, "the first three runs are warm-up"


def test_ratios_are_taken_within_rounds():
    # the machine is twice as slow in the second round and ten times in the third; the ratio stays 0.5
    ratios = round_ratios(samples(1, 2, 10), samples(2, 4, 20), "wall")
    assert ratios == [0.5, 0.5, 0.5]
    assert summary([3.0, 1.0, 2.0, 10.0]) == {"median": 2.5, "min": 1.0, "max": 10.0}
    assert speed([0.5, 0.25, 1.0, 0.2]) == "3.00 (1.00–5.00)"
    with pytest.raises(ValueError, match="2 rounds .* 1 of the other"):
        round_ratios(samples(1, 2), samples(1), "wall")


# tables


def test_table_is_markdown():
    assert table(["a", "b"], [["x", "1"]]) == "| a   |   b |\n|:----|----:|\n| x   |   1 |"


# systems and batches


def test_spec():
    spec = Spec.parse("lstm_soft:--input-feeding=none,dropout=0.3")
    assert (spec.arch, spec.options) == ("lstm_soft", (("input_feeding", "none"), ("dropout", "0.3")))
    assert str(spec) == "lstm_soft:input_feeding=none,dropout=0.3"
    text = "lstm_soft:attention_bias=position,markov,dropout=0.3"
    assert Spec.parse(text).options == (("attention_bias", "position,markov"), ("dropout", "0.3"))
    assert str(Spec.parse(text)) == text


def test_batch():
    task = MemoryTask(50)
    assert len(task.source_dictionary) == 50
    batch = make_batch(task, length=10, tokens=120, seed=3, device=CPU)
    source, target, pad = batch["net_input"]["src_tokens"], batch["target"], task.source_dictionary.pad()
    assert source.shape == target.shape == (12, 10)
    lengths = source.ne(pad).sum(1)
    assert lengths.max() == 10 and lengths.min() >= 8
    assert lengths.tolist() == batch["net_input"]["src_lengths"].tolist() == sorted(lengths.tolist(), reverse=True)
    assert source[:, -1].eq(task.source_dictionary.eos()).all(), "padded on the left"
    assert int(target.ne(pad).sum()) == batch["ntokens"]
    again = make_batch(task, length=10, tokens=120, seed=3, device=CPU)
    assert torch.equal(again["net_input"]["src_tokens"], source)


# the whole


@pytest.fixture(scope="module")
def report():
    return quick_report("--sections", "train,decode")


def test_quick_run_measures_every_system(report):
    figures, _ = report
    names = set(figures["parameters"])
    assert names == {"lstm", "lstm_soft", "lstm_adm"}
    for section in ("train", "decode"):
        assert set(figures["sections"][section]) == {"4", "6"}
        for measured_at in figures["sections"][section].values():
            assert set(measured_at["systems"]) == set(measured_at["raw"]) == names
            for name, system in measured_at["systems"].items():
                rounds = measured_at["raw"][name]
                assert len(rounds) == figures["settings"]["rounds"] == 2
                assert all(sample[clock] > 0 for sample in rounds for clock in ("wall", "cpu"))
                assert system["tokens_per_second"] > 0 and system["sentences_per_second"] > 0
                assert system["peak_memory_bytes"] > 0
                assert set(system["time_ratio"]) == {"lstm", "lstm_soft"}
            assert measured_at["systems"]["lstm"]["time_ratio"]["lstm"]["rounds"] == [1.0, 1.0]


def test_quick_run_says_where_and_how_it_was_measured(report):
    figures, printed = report
    where = figures["environment"]
    assert where["torch"] == torch.__version__ and where["threads"] == 1 and where["device_name"]
    assert figures["settings"]["clock"] == "cpu"
    assert figures["command"].startswith("python scripts/bench.py --quick")
    assert printed.strip() == markdown(figures).strip()
    for heading in ("## Training step", "## Beam-3 decoding"):
        assert heading in printed


@pytest.mark.parametrize(
    "args, message",
    [
        (["--archs", "lstm_sofd"], "unknown architecture 'lstm_sofd'; registered: lstm, .*lstm_soft"),
        (["--archs", "lstm:input_fed=x"], "lstm has no option 'input_fed'; it has .*encoder_layers"),
        (["--archs", "lstm:encoder_layers=two"], "encoder_layers=two .* cannot be read"),
        (["--archs", "lstm:encoder_layers"], "'encoder_layers' must be option=value"),
        (["--archs", "lstm:encoder_bidirectional=perhaps"], "must be true or false"),
        (["--device", "abacus"], "--device abacus: not a device; use cpu or cuda"),
    ],
)
def test_mistakes_get_one_line(args, message, capsys):
    assert main(["--quick", "--threads", "1", *args]) == 2
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if line.strip()]
    assert len(lines) == 1, printed
    assert re.search("^bench.py: error: .*" + message, lines[0]), lines[0]
