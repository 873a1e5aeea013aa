"""What a training step does on a GPU, counted and computed without one: launches, waits of the host, and results."""

import json
from statistics import mean

import latent_models
import models_for_tests as models
import pytest
import torch
from benchmark.launches import META, count, training_step
from benchmark.systems import Sizes, Spec, to_device
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from models_for_tests import build, fake_task, needs_autocast

from fairseq_attn_plugin.attention import NORMALIZERS
from fairseq_attn_plugin.criterions.objectives import OBJECTIVES
from fairseq_attn_plugin.modules import copying, recurrence
from fairseq_attn_plugin.modules.encoders import encoder
from fairseq_attn_plugin.ops import total_variation
from fairseq_attn_plugin.ops.likelihoods import alignment_blocks, vocabulary_loss
from fairseq_attn_plugin.ops.lstm import lstm_cell
from fairseq_attn_plugin.ops.pairs import all_pairs

from cli import REPO

# Launches with 80 sentences of 25 words, 256 units and two layers: decoder forward, and a whole training step.
# fairseq's own lstm has 539 and 1,702, and 31 in a step of the search.
BOUNDS = {
    "lstm_soft": (283, 830),
    "lstm_adm": (309, 879),
    "lstm_adm_aqt": (589, 1529),
    "lstm_soft:attention=structured": (694, 1751),
    "lstm_soft:input_feeding=none": (22, 135),
}
# Objectives whose shapes are what the model computes: the supports of sparse weights.
SUPPORTS = ("sparse-marginal", "sparse-elbo")


@pytest.mark.parametrize("system", BOUNDS)
def test_launches(system):
    found = count(Spec.parse(system), Sizes(), 2000, 25)
    decoder, step = BOUNDS[system]
    assert found["encoder"] <= 31 and found["decoder"] <= decoder and found["step"] <= step
    assert not found["waits"]
    assert found["search"] <= {"lstm_adm_aqt": 37, "lstm_soft:attention=structured": 55}.get(system, 31)


# ---- waits of the host


def waits(model, criterion=None):
    criterion = criterion or LabelSmoothedCrossEntropyCriterion(fake_task(), sentence_avg=False, label_smoothing=0.1)
    return list(training_step(criterion, model.to(META).train(), to_device(latent_models.sample(), META)).waits)


@models.systems
def test_no_mechanism_waits_for_the_host(attention, feeding):
    criterion = latent_models.criterion(objective="marginal") if attention.startswith("latent") else None
    found = waits(models.make(attention, feeding, torch.float32), criterion)
    assert len(found) == attention.startswith("latent-linear")  # whether its sums were safe, once at the end


NORMALIZED = [{"attention_normalizer": name} for name in NORMALIZERS.names()]


@pytest.mark.parametrize("options", [*NORMALIZED, {"copy_attention": True}], ids=str)
def test_no_normalizer_and_no_copy_waits_for_the_host(options):
    assert not waits(models.make("soft", "output", torch.float32, **options))


def test_a_trained_ratio_waits_once():
    """It says how many rows the Gaussian's table has."""
    assert len(waits(models.make("gaussian", "output", torch.float32, gaussian_trained=True))) == 1


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in SUPPORTS])
def test_no_objective_waits_for_the_host(name):
    for baseline in ("soft", "none", "average") if name.endswith("reinforce") else ("soft",):
        assert not waits(
            build(**latent_models.needed_by(name)).float(), latent_models.criterion(objective=name, baseline=baseline)
        )


def test_posterior_attention_waits_once_for_its_sums_and_once_for_the_loss():
    for objective, times in (("soft", 1), ("marginal", 2)):
        model = build("lstm_posterior_small", latent_posterior="False", output_layer="linear").float()
        assert len(waits(model, latent_models.criterion(objective=objective))) == times


# ---- results of what a GPU computes otherwise, on the processor


@pytest.fixture
def gpu_paths(monkeypatch):
    """Modules take the ways of a GPU; the fused cell is this project's own."""
    for module in (encoder, copying, alignment_blocks, all_pairs, total_variation, vocabulary_loss):
        monkeypatch.setattr(module, "on_gpu", lambda x: True)
    monkeypatch.setattr(recurrence, "has_fused_cell", lambda like: True)
    monkeypatch.setattr(recurrence, "fused_lstm_cell", lambda gates, others, cell: lstm_cell(gates + others, cell))


def results(model, criterion=None):
    """Loss, weights and gradients of a training step."""
    torch.manual_seed(3)
    criterion = criterion or LabelSmoothedCrossEntropyCriterion(fake_task(), sentence_avg=False, label_smoothing=0.1)
    loss = criterion(model, latent_models.sample())[0]
    model.zero_grad()
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return {"loss": loss.detach(), **found}


CASES = [
    (attention, feeding, options)
    for attention in ("soft", "mqt", "aqt", "structured", "local-p", "monotonic")
    for feeding in ("output", "context", "none")
    for options in ({}, {"decoder_layers": 1}, {"decoder_layers": 3, "dropout": 0.3})
]
CASES += [
    ("soft", "output", options)
    for options in (
        {"attention_normalizer": "fusedmax"},
        {"copy_attention": True},
        {"output_layer": "linear"},
        {"output_layer": "linear", "decoder_layers": 1},
        {"output_layer": "linear", "decoder_layers": 3, "dropout": 0.3},
        {"rnn": "gru"},
        {"matmul_precision": "bfloat16"},
        {"decoder_attention": False},
    )
]


@pytest.mark.parametrize(("attention", "feeding", "options"), CASES, ids=str)
def test_a_gpu_computes_the_same(attention, feeding, options, request):
    model = models.make(attention, feeding, **options).train()
    expected = results(model)
    request.getfixturevalue("gpu_paths")
    torch.testing.assert_close(results(model), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("feeding", models.FEEDING)
@pytest.mark.parametrize("options", [{}, {"decoder_layers": 2}, {"rnn": "gru"}, {"attention": "structured"}], ids=str)
def test_a_gpu_searches_by_the_same_steps(feeding, options, request):
    model = models.make(**{"attention": "soft", "feeding": feeding, **options})
    source, words = latent_models.sample()["net_input"]["src_tokens"], models.targets(4)

    @torch.no_grad()
    def steps():
        state = {}
        encoded = model.encoder(source, src_lengths=None)
        return torch.cat(
            [model.decoder(words[:, : t + 1], encoder_out=encoded, incremental_state=state)[0] for t in range(4)]
        )

    expected = steps()
    request.getfixturevalue("gpu_paths")
    torch.testing.assert_close(steps(), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("half", [torch.bfloat16, pytest.param(None, marks=needs_autocast)], ids=["whole", "autocast"])
def test_a_gpu_trains_in_half_precision(half, gpu_paths):
    model = models.make("soft", "output", torch.float32, decoder_layers=2).train()
    exact = results(model)
    with torch.autocast("cpu", torch.bfloat16, enabled=half is None):
        found = results(model if half is None else model.to(half))
    for name, value in exact.items():
        assert found[name].isfinite().all()
        torch.testing.assert_close(found[name].float(), value, rtol=0.2, atol=0.05 * float(value.abs().max()))


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in (*SUPPORTS, "first-order")])
def test_a_gpu_computes_the_same_objectives(name, request):
    model, criterion = latent_models.make().train(), latent_models.criterion(objective=name, label_smoothing=0.1)
    expected = results(model, criterion)
    request.getfixturevalue("gpu_paths")
    torch.testing.assert_close(results(model, criterion), expected, rtol=1e-7, atol=1e-9)


PAGE = (REPO / "docs/gpu.md").read_text(encoding="utf-8")
TEXT, CHANGES = (" ".join(page.split()) for page in (PAGE, (REPO / "CHANGELOG.md").read_text(encoding="utf-8")))


def measured(name):
    return json.loads((REPO / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))


def _ratio(one, stock):
    speed = one["words_per_second"]
    return f"{speed:,} ({speed / stock['words_per_second']:.2f})"


def test_the_page_has_what_was_measured():
    """docs/gpu.md and CHANGELOG.md say what benchmarks/h200.json has."""
    report = measured("h200")
    assert f"{report['environment']['device']} (driver {report['environment']['driver']}" in TEXT
    found, base = report["training"]["25"], report["beam 10"]["25"]
    options, stock = "cuda_graphs=true,optimizer=fused_adam", found["lstm"]["words_per_second"]
    ratios = {}
    for name, searched in base.items():
        if name != "sentences":
            graphs = found.get(name + ("," if ":" in name else ":") + options)
            cells = [_ratio(found[name], found["lstm"]), "", _ratio(searched, base["lstm"])]
            cells[1] = "" if graphs is None else _ratio(graphs, found["lstm"])
            assert " ".join(f"| `{name}` | {' | '.join(cells)} |".split()) in PAGE
            ratios[name] = graphs and graphs["words_per_second"] / stock
    assert f"updates of `lstm_soft` are {ratios['lstm_soft']:.2f} times as fast" in CHANGES
    assert f"those of `lstm_adm` {ratios['lstm_adm']:.2f} times." in CHANGES
    slower = ratios["lstm_soft"] / ratios["lstm_adm"]
    assert f"takes {slower:.2f} times as long" in CHANGES and f"{100 * slower - 100:.0f} per cent of an update" in TEXT
    speeds = [one["words_per_second"] / base["lstm"]["words_per_second"] for one in list(base.values())[2:]]
    assert f"with beam 10 is {min(speeds):.1f} to {max(speeds):.1f} times as fast" in CHANGES
    front = " ".join((REPO / "README.md").read_text(encoding="utf-8").split())
    assert f"were {ratios['lstm_soft']:.2f} and {ratios['lstm_adm']:.2f} times as fast as those of stock" in front
    assert f"with beam 10 was {speeds[0]:.2f} and {speeds[1]:.2f} times as fast" in front
    short, searched = report["training"]["10"], report["beam 10"]["10"]
    for part, name in ((short, f"lstm_adm:{options}"), (searched, "lstm_adm")):
        assert round(part[name]["words_per_second"] / part["lstm"]["words_per_second"], 1) == 2.2
    busy = {name: round(100 * one["busy"]) for name, one in report["work"]["systems"].items()}
    graphed = [share for name, share in busy.items() if "cuda_graphs" in name]
    assert f"is busy for {min(graphed)} to {max(graphed)} per cent" in TEXT
    assert f"is busy for {busy['lstm']} per cent" in TEXT
    speed = {name: mean(one["sentences_per_second"]) for name, one in report["translation"].items() if name != "what"}
    assert f"translates {speed['lstm_adm.float32.1']:.0f} a second" in TEXT
    assert f"and {speed['lstm.float32.1']:.0f} with stock `lstm`" in TEXT


def test_the_page_has_the_perplexities():
    found = measured("h200")["epochs"]["valid_ppl"]
    for arch in ("lstm_soft", "lstm_adm"):
        last = {p: mean(found[f"{arch}.{p}.{seed}"][-1] for seed in (1, 2)) for p in ("float32", "fp16", "bf16")}
        assert all(abs(value - last["float32"]) <= 0.15 for value in last.values()) and "at\nmost 0.15" in PAGE
        for precision in last:
            seeds = [", ".join(f"{value:.2f}" for value in found[f"{arch}.{precision}.{seed}"]) for seed in (1, 2)]
            name = precision if precision == "float32" else f"`--{precision}`"
            assert f"| `{arch}` | {name} | {' | '.join(seeds)} |" in PAGE


def test_the_page_has_the_passes_that_were_measured():
    report = measured("h100")
    step = report["decoder_step"]
    assert f"step of {step['hypotheses']:,} hypotheses took {step['ms']:.1f} ms without a graph and" in TEXT
    assert f"{step['ms_with_graph']:.1f} ms with one" in TEXT
    assert "making the graph took {:.0f} to {:.0f} ms".format(*step["capture_ms"]) in TEXT
    seconds = report["compile_seconds"]
    said = f"took {seconds['lstm_adm']:.0f} seconds at the first capture, and {seconds['lstm_adm_aqt']:.0f} seconds"
    assert said in TEXT
    stock = {(one["run"], one["precision"]): one["ms"] for one in report["runs"] if one["system"] == "lstm"}
    for one in report["runs"]:
        if one["system"] != "lstm":
            base, plain, graphs = stock[one["run"], one["precision"]], one["ms"], one["ms_with_graphs"]
            times = " | ".join(f"{value:.1f}" for value in (base, plain, graphs))
            said = f"| `{one['system']}` | {one['precision']} | {times} | {base / plain:.2f} | {base / graphs:.1f} |"
            assert said in PAGE


def test_the_page_has_what_was_counted():
    """docs/gpu.md, CHANGELOG.md and the bounds of this file say what benchmarks/launches.json has."""
    report = measured("launches")
    assert report["command"] in PAGE
    rows = [
        f"| `{name}` | {found['encoder']} | {found['decoder']:,} | {found['step']:,} | {found['search']} | "
        f"{sum(found['waits'].values())} |"
        for name, found in report["sections"]["launches"]["systems"].items()
    ]
    assert "\n".join(rows) in PAGE
    for name, bounds in BOUNDS.items():
        found = report["sections"]["launches"]["systems"][name]
        assert (found["decoder"], found["step"]) == bounds
