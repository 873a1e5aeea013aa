"""The benchmark's section ``growth``: a quick run, and what it leaves out."""

import torch
from benchmark import growth
from benchmark.command_line import parse

from fairseq_attn_plugin.attention.registry import names

from bench_report import quick_report


def test_quick_run_measures_every_mechanism_and_vocabulary():
    figures, printed = quick_report("--sections", "growth")
    section = figures["sections"]["growth"]
    assert list(section["attention"]["mechanisms"]) == names()
    for mechanism in section["attention"]["mechanisms"].values():
        assert len(mechanism["seconds"]) == len(mechanism["peak_memory_bytes"]) == 2
        assert min(*mechanism["seconds"], *mechanism["peak_memory_bytes"]) > 0
    for system in section["vocabulary"]["systems"].values():
        smaller, larger = system["peak_memory_bytes"]
        assert 0 < smaller < larger
    assert "## Growth with the source" in printed and "## Growth with the vocabulary" in printed


def test_what_would_take_too_long_or_does_not_fit_is_left_out(monkeypatch):
    settings = {**vars(parse(["--quick"])), "clock": "cpu", "growth_lengths": [8, 16, 32, 64]}
    settings["sizes"] = {"vocab": 60, "embed": 8, "hidden": 8, "layers": 1, "dropout": 0.0}
    device = torch.device("cpu")
    slow = growth._mechanism("soft", {**settings, "growth_seconds": 0.0}, device, lambda name: None)
    assert all(seconds > 0 for seconds in slow["seconds"][:2]) and slow["seconds"][2:] == [None, None]
    monkeypatch.setattr(growth, "free_memory", lambda device: 0)
    large = growth._mechanism("soft", settings, device, lambda name: None)
    assert large["peak_memory_bytes"][2:] == [None, None]
    spec = growth.Spec("lstm")
    assert growth._vocabularies(spec, settings, device, lambda name: None)["peak_memory_bytes"] == [None, None]


def test_the_next_value_follows_the_last_growth():
    assert growth._next([10, 20, 40], [1.0, 4.0]) == 16.0
    assert growth._next([10, 20, 40], [4.0, 4.0]) == 8.0, "linear at least"
