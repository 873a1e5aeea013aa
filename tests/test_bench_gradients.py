"""The benchmark's section ``gradients``: its figures from vectors that are known, and a quick run."""

import pytest
import torch
from benchmark.gradients import PARTS, _compare

from bench_report import quick_report


def test_figures_of_known_vectors():
    exact = [{"all": torch.tensor([3.0, 4.0])}, {"all": torch.tensor([1.0, 0.0])}]
    rounded = [{"all": torch.tensor([3.0, 4.5])}, {"all": torch.tensor([1.5, 0.0])}]
    found = _compare(exact, rounded, "all")  # means (2, 2) and (2.25, 2.25)
    assert found["error"] == pytest.approx((0.5 / 5 + 0.5 / 1) / 2)
    assert found["error_of_mean"] == pytest.approx(0.125) and found["scale"] == pytest.approx(1.125)
    assert found["noise"] == pytest.approx((5 / 8) ** 0.5)


def test_quick_run(bfloat16):
    report, printed = quick_report("--sections", "gradients")
    parts = report["sections"]["gradients"]["all"]
    assert list(parts) == list(PARTS)
    for part, figures in parts.items():
        assert 0 < figures["error"] < 0.05 and 0 < figures["error_of_mean"] < 0.05, part
        assert figures["scale"] == pytest.approx(1, abs=0.03) and figures["noise"] > figures["error"], part
    assert "| vocabulary projection" in printed
