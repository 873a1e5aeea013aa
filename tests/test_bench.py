"""The benchmark: its instruments against known quantities, and a tiny run of the whole. No time is judged."""

import re
from argparse import ArgumentTypeError

import pytest
import torch
from bench import main
from benchmark.documents import document_lengths, document_systems
from benchmark.latency import LatencyRun, percentiles, random_table, sentences
from benchmark.latent import LatentSystem
from benchmark.measure import (
    growth_exponent,
    interleave,
    peak_memory,
    round_ratios,
    summary,
)
from benchmark.options import class_list
from benchmark.report import markdown
from benchmark.systems import MemoryTask, Sizes, Spec, make_batch
from benchmark.tables import table
from benchmark.targets import Target, judge

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
    with pytest.raises(ValueError, match="2 rounds .* 1 of the other"):
        round_ratios(samples(1, 2), samples(1), "wall")


def test_growth():
    sizes = [100, 200, 400]
    assert growth_exponent(sizes, [5, 10, 20]) == pytest.approx(1.0)
    assert growth_exponent(sizes, [1, 4, 16]) == pytest.approx(2.0)


# targets and tables


def measured(ratios):
    return {"25": {"systems": {"new": {"time_ratio": {"old": {"rounds": ratios}}}}}}


def test_targets_are_judged():
    faster = Target("train", "new", "old", "throughput", "at least", 1.25)
    cheaper = Target("train", "new", "old", "time", "at most", 0.75, length=25)
    elsewhere = Target("train", "new", "old", "time", "at most", 0.75, length=50)
    targets = [faster, cheaper, elsewhere]

    def verdicts(ratios):
        return [(v["length"], v["value"], v["met"]) for v in judge({"train": measured(ratios)}, targets)]

    assert verdicts([0.5, 0.8, 0.9]) == [(25, 1.25, True), (25, 0.8, False), (50, None, None)]
    assert verdicts([0.5, 0.75]) == [
        (25, pytest.approx((2 + 4 / 3) / 2), True),
        (25, 0.625, True),
        (50, None, None),
    ]
    assert [v["met"] for v in judge({}, targets)] == [None] * 3


def test_latency_targets_are_judged_in_every_class_of_lengths():
    def at(time, step):
        ratios = {"time_ratio": {"old": {"rounds": time}}, "step_ratio": {"old": {"rounds": step}}}
        return {"systems": {"new": ratios}}

    sections = {"latency_attention": {"4-7": at([0.7, 0.5, 0.6], [0.3]), "8-11": at([0.4], [0.55])}}
    targets = [Target("latency_attention", "new", "old", kind, "at most", 0.5) for kind in ("time", "step")]
    got = [(v["quantity"], v["length"], v["value"], v["met"]) for v in judge(sections, targets)]
    assert got == [
        ("time", "4-7", 0.6, False),
        ("time", "8-11", 0.4, True),
        ("step", "4-7", 0.3, True),
        ("step", "8-11", 0.55, False),
    ]


def test_pairing_and_growth_targets_are_judged():
    sections = {
        "aqt": {"speedup": {"median": 29.0}, "max_relative_difference": 2e-6},
        "growth": {
            "attention": {
                "mechanisms": {
                    "aqt": {"time growth": 1.04, "memory growth": 1.58},
                    "mqt": {"time growth": 1.9, "memory growth": 0.98},
                }
            },
            "vocabulary": {
                "sizes": [8000, 20000, 50000],
                "systems": {
                    "lstm": {"peak_memory_bytes": [10, 20, None]},
                    "lstm_soft": {"peak_memory_bytes": [8, 22, 30]},
                },
            },
        },
    }
    verdicts = judge(sections)
    met = {(v["section"], v["system"], v["quantity"]): v["met"] for v in verdicts}
    assert met["aqt", "pooled", "throughput"] is False
    assert met["aqt", "pooled", "difference"] is True
    assert met["growth", "aqt", "time growth"] is True and met["growth", "aqt", "memory growth"] is False
    assert met["growth", "mqt", "time growth"] is False and met["growth", "mqt", "memory growth"] is True
    assert met["growth", "soft", "time growth"] is None
    by_vocabulary = [(v["length"], v["value"], v["met"]) for v in verdicts if v["system"] == "lstm_soft"]
    assert ("V=8,000", 0.8, True) in by_vocabulary and ("V=20,000", 1.1, False) in by_vocabulary
    assert not any(length == "V=50,000" for length, _, _ in by_vocabulary), "stock was left out"


def test_figures_of_a_system_are_judged():
    figures = {"different without ties": 1, "BLEU lost": 0.1, "median": 3.6}
    sections = {
        "translate": {"beam 5": {"systems": {"new": figures}}},
        "sentence": {"greedy": {"systems": {"new": figures}}},
    }
    targets = [
        Target("translate", "new", "old", "different without ties", "at most", 0),
        Target("translate", "new", "old", "BLEU lost", "at most", 0.2),
        Target("sentence", "new", "old", "median", "at least", 3.5),
        Target("sentence", "new", "old", "p99", "at least", 3.5),
    ]
    got = [(v["length"], v["value"], v["met"]) for v in judge(sections, targets)]
    assert got == [("beam 5", 1, False), ("beam 5", 0.1, True), ("greedy", 3.6, True), (None, None, None)]


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


def test_sentences_go_round_their_class_of_lengths():
    task = MemoryTask(50)
    drawn = sentences(task, (4, 7), 9, seed=3)
    assert [len(sentence) - 1 for sentence in drawn] == [4, 5, 6, 7, 4, 5, 6, 7, 4]
    assert all(sentence[-1] == task.source_dictionary.eos() for sentence in drawn)
    assert min(int(sentence[:-1].min()) for sentence in drawn) >= task.source_dictionary.nspecial


def test_a_third_of_the_words_name_source_words_half_of_them_of_the_sentences():
    task = MemoryTask(3004)
    spoken = sentences(task, (4, 7), 20, seed=3)
    words = random_table(task, spoken, seed=1)["words"]
    assert 0.3 < len(words) / 3000 < 0.37
    assert {len(names) for names in words.values()} == {1, 2, 3}
    occurring = {task.source_dictionary[int(word)] for sentence in spoken for word in sentence}
    named = [name for names in words.values() for name in names]
    assert 0.45 < sum(name in occurring for name in named) / len(named) < 0.6


def test_percentiles():
    assert percentiles([float(n) for n in range(1, 11)]) == {"median": 5.5, "p90": 9.0}
    assert percentiles([float(n) for n in range(1, 12)]) == {"median": 6.0, "p90": 10.0}
    assert percentiles([3.0]) == {"median": 3.0, "p90": 3.0}


# the whole


@pytest.fixture(scope="module")
def report():
    return quick_report("--sections", "train,decode,latency,latent,aqt,chain,documents,extract")


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
    phases = figures["sections"]["train"]["4"]["raw"]["lstm"][0]
    assert phases["wall"] == pytest.approx(sum(phases[f"{p}_wall"] for p in ("forward", "backward", "update")))


def test_quick_run_measures_attention(report):
    figures, _ = report
    aqt = figures["sections"]["aqt"]
    assert {"scores", "weights", "context", "d query", "d encodings"} <= set(aqt["relative_difference"])
    assert aqt["max_relative_difference"] == max(aqt["relative_difference"].values()) < 1e-4
    assert aqt["max_relative_difference"] > 0, "two ways of computing do not agree to the last bit"
    assert len(aqt["raw"]["pooled"]) == len(aqt["raw"]["direct"]) == len(aqt["speedup"]["rounds"]) == 2


def test_quick_run_measures_latent_alignment(report):
    figures, printed = report
    train, decoding = (figures["sections"][name]["5"]["systems"] for name in ("latent", "latent_decode"))
    assert {"soft", "marginal", "marginal (all logits)", "elbo-enum (all logits)", "elbo-reinforce"} <= set(train)
    names = ("soft", "top-5", "marginal", "posterior attention")
    assert set(decoding) == {name + layer for name in names for layer in ("", " (linear)")}
    assert train["elbo-enum (all logits)"]["peak_memory_bytes"] > train["soft"]["peak_memory_bytes"]
    judged = [v for v in figures["targets"] if v["section"].startswith("latent")]
    assert len(judged) == 9 and all(v["met"] is not None for v in judged)
    assert "## Latent alignment: training step" in printed


def test_quick_run_measures_latency(report):
    figures, printed = report
    names = ["lstm_soft:attention_score=additive", "lstm_gaussian", "lstm_election"]
    assert figures["settings"]["latency_clock"] == "cpu" and figures["settings"]["latency_threads"] == 1
    for section in ("latency", "latency_attention"):
        assert list(figures["sections"][section]) == ["1-2", "3-5"]
        for measured_at in figures["sections"][section].values():
            assert list(measured_at["systems"]) == names and measured_at["sentences"] == 3
            for name, system in measured_at["systems"].items():
                assert len(measured_at["raw"][name]) == 2
                assert 0 < system["seconds"]["median"] <= system["seconds"]["p90"]
                rounds = system["time_ratio"][names[0]]["rounds"]
                assert len(rounds) == 2 and (name != names[0] or rounds == [1.0, 1.0])
    alone = figures["sections"]["latency_attention"]["3-5"]["systems"]["lstm_election"]
    assert 0 < alone["step_seconds"]["median"] < alone["seconds"]["median"]
    assert alone["precompute_seconds"]["median"] < alone["seconds"]["median"]
    judged = [v for v in figures["targets"] if v["section"].startswith("latency")]
    assert len(judged) == 12 and all(v["met"] is not None for v in judged)
    assert "## Latency of one sentence" in printed and "## Attention of one sentence" in printed


def test_election_is_timed_with_a_table_that_names_words_of_the_sentences():
    settings = {
        "sizes": {"vocab": 60, "embed": 8, "hidden": 8, "layers": 1, "dropout": 0.0},
        "latency_archs": ["lstm_soft:attention_score=additive", "lstm_election"],
        "latency_classes": [(4, 7)],
        "latency_sentences": 4,
        "seed": 1,
    }
    run = LatencyRun(settings, CPU)
    for model in (run.systems["lstm_election"].model, run.systems["lstm_election"].decoding_model):
        table = model.decoder.attention.table
        assert table.shape == (60, 3)
        occurring = torch.cat(run.classes["4-7"]).unique()
        assert torch.isin(table, occurring).any()


def test_the_direct_computation_is_the_same_function():
    """What the blocks are compared with: the losses and gradients of one step agree."""
    systems = [
        LatentSystem(Sizes(40, 8, 8, 1, 0.0), MemoryTask(40), CPU, 1, "none", name)
        for name in ("elbo-enum", "elbo-enum (all logits)")
    ]
    results = []
    for system in systems:
        system.model.load_state_dict(systems[0].model.state_dict())
        loss, _, _ = system.criterion(system.model, make_batch(system.task, 5, 15, 1, CPU))
        results.append((loss, torch.autograd.grad(loss, system.parameters)))
    torch.testing.assert_close(results[0], results[1])


def test_quick_run_says_where_and_how_it_was_measured(report):
    figures, printed = report
    where = figures["environment"]
    assert where["torch"] == torch.__version__ and where["threads"] == 1 and where["device_name"]
    assert figures["settings"]["clock"] == "cpu"
    assert figures["command"].startswith("python scripts/bench.py --quick")
    assert all(verdict["met"] in (True, False, None) for verdict in figures["targets"])
    assert printed.strip() == markdown(figures).strip()
    for heading in ("## Training step", "## Beam-3 decoding", "## aqt", "## Targets"):
        assert heading in printed


@pytest.mark.parametrize("text", ["4", "7-4", "0-3", "a-b"])
def test_a_class_of_lengths_has_two_numbers(text):
    assert class_list("4-7,8-8") == [(4, 7), (8, 8)]
    with pytest.raises(ArgumentTypeError, match=f"{text!r} must be a class of lengths"):
        class_list(f"4-7,{text}")


def test_profile_prints_the_profilers_table(capsys):
    assert main(["--quick", *"--threads 1 --profile lstm --sections train --profile-rows 5".split()]) == 0
    printed = capsys.readouterr().out
    assert "### lstm, train, N = 6" in printed and "aten::" in printed


@pytest.mark.parametrize(
    "args, message",
    [
        (["--archs", "lstm_sofd"], "unknown architecture 'lstm_sofd'; registered: lstm, .*lstm_soft"),
        (["--archs", "lstm:input_fed=x"], "lstm has no option 'input_fed'; it has .*encoder_layers"),
        (["--archs", "lstm:encoder_layers=two"], "encoder_layers=two .* cannot be read"),
        (["--archs", "lstm:encoder_layers"], "'encoder_layers' must be option=value"),
        (["--archs", "lstm:encoder_bidirectional=perhaps"], "must be true or false"),
        (["--latency-archs", "lstm_soft:width=3"], "lstm_soft has no option 'width'"),
        (["--device", "abacus"], "--device abacus: not a device; use cpu or cuda"),
    ],
)
def test_mistakes_get_one_line(args, message, capsys):
    assert main(["--quick", "--threads", "1", *args]) == 2
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if line.strip()]
    assert len(lines) == 1, printed
    assert re.search("^bench.py: error: .*" + message, lines[0]), lines[0]


def test_quick_run_measures_documents(report):
    figures, printed = report
    measured = figures["sections"]["documents"]["ragged"]
    assert list(measured["systems"]) == ["han", "padded", "packed"]
    for system in measured["systems"].values():
        assert set(system["time_ratio"]) == {"padded", "packed"} and system["peak_memory_bytes"] > 0
    assert measured["sentences"] == 3 and measured["padded_words"] > measured["target_tokens"]
    judged = [v for v in figures["targets"] if v["section"] == "documents"]
    assert len(judged) == 2 and all(v["met"] is not None for v in judged)
    assert "## Classification of documents: training step" in printed


def test_every_system_of_documents_computes_the_same():
    settings = {
        "sizes": {"vocab": 50, "dropout": 0.0}, "document_embed": 6, "document_hidden": 5, "document_batch": 4,
        "document_scale": 0.3, "optimizer": "adam", "seed": 1,
    }  # fmt: skip
    systems, batch = document_systems(settings, CPU)
    before = {name: system.logits(batch) for name, system in systems.items()}
    for system in systems.values():
        system.step(batch, CPU)
    after = {name: system.logits(batch) for name, system in systems.items()}
    for logits in (before, after):
        for name in ("padded", "packed"):
            torch.testing.assert_close(logits[name], logits["han"], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(before["han"], after["han"], atol=1e-4)


def test_lengths_of_documents_are_those_of_film_reviews():
    lengths = document_lengths(2000, torch.Generator().manual_seed(1))
    sentences = [count for document in lengths for count in document]
    # the polarity corpus has 32.4 sentences a document and 23.1 words a sentence
    assert sum(map(len, lengths)) / 2000 == pytest.approx(32.4, rel=0.05)
    assert sum(sentences) / len(sentences) == pytest.approx(23.1, rel=0.05)
