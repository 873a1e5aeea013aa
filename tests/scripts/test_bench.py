"""The benchmark: its instruments against known quantities, and tiny runs of its sections. No time is judged."""

import contextlib
import io
import json
import tempfile
from pathlib import Path

import pytest
import torch
from bench import main
from benchmark.corpus import batches_of, open_task
from benchmark.gradients import PARTS, _compare
from benchmark.measure import interleave, peak_memory, round_ratios, speed, summary, table
from benchmark.sections import markdown
from benchmark.systems import MemoryTask, Spec, make_batch
from refusals import refuses

from cli import REPO

CPU = torch.device("cpu")
MIB = 1 << 20


def quick_report(*arguments):
    """What ``scripts/bench.py --quick`` writes with --json, and what it prints."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        path = Path(folder) / "deep" / "report.json"
        main(["--quick", "--threads", "1", "--json", *map(str, (path, *arguments))])
        return json.loads(path.read_text()), printed.getvalue()


# ---- instruments


def samples(*seconds: float):
    return [{"wall": value} for value in seconds]


def mebibytes(count: int) -> torch.Tensor:
    return torch.empty(count * MIB, dtype=torch.uint8)


def test_peak_memory_is_that_of_the_worst_moment():
    def run():
        first = mebibytes(3)
        second = mebibytes(5)
        del first
        third = mebibytes(1)  # 5 + 1 now, 3 + 5 before
        del second, third

    assert peak_memory(run, CPU) == 8 * MIB
    before = mebibytes(7)  # counts no more than what is returned
    assert peak_memory(lambda: mebibytes(9), CPU) == 9 * MIB
    assert peak_memory(lambda: before.view(7, MIB).sum, CPU) == 0


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
    assert round_ratios(samples(1, 2, 10), samples(2, 4, 20), "wall") == [0.5, 0.5, 0.5]
    assert summary([3.0, 1.0, 2.0, 10.0]) == {"median": 2.5, "min": 1.0, "max": 10.0}
    assert speed([0.5, 0.25, 1.0, 0.2]) == "3.00 (1.00–5.00)"
    with pytest.raises(ValueError, match="2 rounds .* 1 of the other"):
        round_ratios(samples(1, 2), samples(1), "wall")
    assert table(["a", "b"], [["x", "1"]]) == "| a   |   b |\n|:----|----:|\n| x   |   1 |"


def test_figures_of_known_gradients():
    exact = [{"all": torch.tensor([3.0, 4.0])}, {"all": torch.tensor([1.0, 0.0])}]
    rounded = [{"all": torch.tensor([3.0, 4.5])}, {"all": torch.tensor([1.5, 0.0])}]
    found = _compare(exact, rounded, "all")  # means (2, 2) and (2.25, 2.25)
    assert found["error"] == pytest.approx((0.5 / 5 + 0.5 / 1) / 2)
    assert found["error_of_mean"] == pytest.approx(0.125) and found["scale"] == pytest.approx(1.125)
    assert found["noise"] == pytest.approx((5 / 8) ** 0.5)


# ---- systems, batches, corpora


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


def test_an_epoch_has_every_sentence_once_in_ragged_batches_within_the_limit():
    settings = {"data": None, "sizes": {"vocab": 200}, "corpus_sentences": 500, "seed": 1}
    batches = batches_of(open_task(settings, "train"), "train", settings, True, epochs=2, max_tokens=200)
    ids = [int(number) for batch in batches for number in batch["id"]]
    assert sorted(ids) == sorted([*range(500), *range(500)])
    sizes = [batch["target"].shape for batch in batches]
    assert max(rows * columns for rows, columns in sizes) <= 200 and len(set(sizes)) > 10
    widths = [columns for _, columns in sizes]
    assert widths != sorted(widths), "shuffled"
    again = batches_of(open_task(settings, "train"), "train", settings, True, max_tokens=200)
    assert all(torch.equal(one["target"], other["target"]) for one, other in zip(batches, again))


# ---- quick runs


def test_quick_run_measures_every_system():
    figures, printed = quick_report("--sections", "train,decode")
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
    where = figures["environment"]
    assert where["torch"] == torch.__version__ and where["threads"] == 1 and where["device_name"]
    assert figures["settings"]["clock"] == "cpu"
    assert figures["command"].startswith("python scripts/bench.py --quick")
    assert printed.strip() == markdown(figures).strip()
    assert "## Training step" in printed and "## Beam-3 decoding" in printed


def test_every_system_trains_on_every_batch_in_turn():
    figures, printed = quick_report("--sections", "epochs", "--baselines", "lstm")
    section = figures["sections"]["epochs"]["all"]
    assert section["batches"] == 4 and list(section["systems"]) == ["lstm", "lstm_soft"]
    for name, system in section["systems"].items():
        groups = section["raw"][name]
        assert len(groups) == 2 and all(group["cpu"] > 0 for group in groups)
        assert system["seconds"] == pytest.approx(sum(group["cpu"] for group in groups))
        assert system["tokens_per_second"] == pytest.approx(section["target_tokens"] / system["seconds"])
        assert system["peak_memory_bytes"] > 0 and 0 < system["last_loss"] < 6
    quotients = [ours["cpu"] / stock["cpu"] for ours, stock in zip(section["raw"]["lstm_soft"], section["raw"]["lstm"])]
    assert section["systems"]["lstm_soft"]["time_ratio"]["lstm"]["rounds"] == pytest.approx(quotients)
    assert "## Whole epochs" in printed and "`lstm_soft`" in printed


def test_gradients(bfloat16):
    report, printed = quick_report("--sections", "gradients")
    parts = report["sections"]["gradients"]["all"]
    assert list(parts) == list(PARTS)
    for part, figures in parts.items():
        assert 0 < figures["error"] < 0.05 and 0 < figures["error_of_mean"] < 0.05, part
        assert figures["scale"] == pytest.approx(1, abs=0.03) and figures["noise"] > figures["error"], part
    assert "| vocabulary projection" in printed


def test_every_search_translates_every_sentence(zoo, tiny_data):
    options = ["--sections", "translate,sentence", "--translators", "stock", "plugin", "plugin:lenpen=0"]
    options += ["--data", tiny_data, "--checkpoint", zoo("reversal").last, "--translate-beams", 3]
    figures, printed = quick_report(*options)
    for section, label, sentences in (("translate", "beam 3", 40), ("sentence", "greedy", 4)):
        measured = figures["sections"][section][label]
        assert measured["sentences"] == sentences and measured["checkpoint"] == "checkpoint_last.pt"
        assert list(measured["systems"]) == ["stock", "plugin", "plugin:lenpen=0"]
        for name, system in measured["systems"].items():
            raw = measured["raw"][name]
            assert len(raw) == measured["batches"] and all(sample["cpu"] > 0 for sample in raw)
            assert system["seconds"] == pytest.approx(sum(sample["cpu"] for sample in raw))
            assert system["sentences_per_second"] == pytest.approx(sentences / system["seconds"])
            assert system["bleu"] > 50, "the model has learnt the corpus"
    assert "## Translation of a test set" in printed and "## One sentence at a time" in printed
    stock, plugin, other = figures["sections"]["translate"]["beam 3"]["systems"].values()
    assert stock["different"] == 0 and stock["time_ratio"]["stock"]["whole"] == 1
    assert plugin["different without ties"] == 0 and plugin["bleu"] == pytest.approx(stock["bleu"], abs=0.1)
    assert other["different"] == len(other["differing"])
    for item in plugin["differing"]:
        assert f"sentence {item['sentence']}: scores" in printed
    stock, plugin, _ = figures["sections"]["sentence"]["greedy"]["systems"].values()
    assert plugin["latency"]["median"] <= plugin["latency"]["p99"]
    assert plugin["p99"] == stock["latency"]["p99"] / plugin["latency"]["p99"]


@refuses(
    ("--archs lstm_sofd", "unknown architecture 'lstm_sofd'; registered: lstm, .*lstm_soft"),
    ("--archs lstm:input_fed=x", "lstm has no option 'input_fed'; it has .*encoder_layers"),
    ("--archs lstm:encoder_layers", "'encoder_layers' must be option=value"),
    ("--archs lstm:encoder_bidirectional=perhaps", "must be true or false"),
    ("--device abacus", "--device abacus: not a device; use cpu or cuda"),
    ("--sections epochs --data /nowhere", "--data /nowhere: no dictionaries there"),
    ("--sections epochs --optimizer madam", "optimizer=madam of lstm: choose from .*adam"),
    ("--sections translate --translators fast", "--translators fast: must start with stock or plugin"),
    ("--sections translate --translators plugin:beem=3", "fairseq-generate has no option 'beem'"),
    ("--sections translate --translators stock --checkpoint /nowhere.pt", "--checkpoint /nowhere.pt: cannot be read"),
)
def test_mistakes_get_one_line(options):
    main(["--quick", "--threads", "1", *options.split()])


@pytest.mark.parametrize(
    ("file", "model"), [("avx512-search", "`lstm_soft`"), ("avx512-search-tanh", "`lstm_soft --output-layer tanh`")]
)
def test_the_page_has_the_searches(file, model):
    sections = json.loads((REPO / f"benchmarks/{file}.json").read_text(encoding="utf-8"))["sections"]
    page = (REPO / "docs/speed.md").read_text(encoding="utf-8")
    for precision in ("float32", "bfloat16", "int8"):
        search = "plugin" if precision == "float32" else f"plugin:decoding_precision={precision}"
        cells = []
        for section in ("translate", "sentence"):
            times = [
                {name: sum(one["cpu"] for one in runs) for name, runs in work["raw"].items()}
                for work in sections[section].values()
            ]
            cells.append(" / ".join(f"{time['stock'] / time[search]:.2f}" for time in times))
        name = f"{model}, float32" if precision == "float32" else precision
        assert f"| {name} | {cells[0]} | {cells[1]} |" in page
