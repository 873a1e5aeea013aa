"""``scripts/rent.py``: optimisations that are switched off, one at a time."""

import json
import sys

import pytest
import rent

from fairseq_attn_plugin.modules import recurrence
from fairseq_attn_plugin.modules.decoder import LSTMDecoder
from fairseq_attn_plugin.ops import deferred

from cli import REPO


def test_a_function_is_replaced_wherever_it_was_imported():
    usual = deferred.share
    with rent.without(rent.OF_TRAINING["deferred gradients"]):
        assert recurrence.share is deferred.share is not usual
    assert recurrence.share is deferred.share is usual
    with rent.without(rent.OF_TRAINING["loss in blocks"]):
        assert LSTMDecoder.sums_losses is False
    assert isinstance(LSTMDecoder.sums_losses, property)


@pytest.mark.slow
def test_a_quick_run(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(rent, "TRAINED", ("lstm_adm",))
    monkeypatch.setattr(rent.precision, "has_bfloat16", lambda device: False)
    monkeypatch.setattr(rent, "SEARCHES", {"batch": (2, 4, "float32")})
    monkeypatch.setattr(sys, "argv", ["rent.py", "--quick", "--json", str(tmp_path / "rent.json")])
    rent.main()
    found = json.loads((tmp_path / "rent.json").read_text())
    assert found["works"]["lstm_adm"]["without"].keys() == rent.OF_TRAINING.keys() - rent.IN_BFLOAT16
    assert found["works"]["batch"]["without"].keys() == rent.OF_TRANSLATION.keys()
    assert rent.markdown(found["works"]) in capsys.readouterr().out


@pytest.mark.parametrize("name", ["avx2-rent", "avx512-rent", "avx512-rent-search"])
def test_the_page_has_the_table(name):
    measured = json.loads((REPO / f"benchmarks/{name}.json").read_text(encoding="utf-8"))
    assert rent.markdown(measured["works"]) in (REPO / "docs/speed.md").read_text(encoding="utf-8")


def test_what_is_gone_saved_nothing():
    measured = json.loads((REPO / "benchmarks/avx512-rent-gone.json").read_text(encoding="utf-8"))
    runs = [run["without"].items() for of in measured["works"].values() for run in of]
    gone = [round(ratio["median"], 2) for run in runs for name, ratio in run if name != "again"]
    again = [round(ratio["median"], 2) for run in runs for name, ratio in run if name == "again"]
    text = " ".join((REPO / "docs/speed.md").read_text(encoding="utf-8").split())
    assert f"updates took {min(gone):.2f} to {max(gone):.2f} of the time without them" in text
    assert f"and {min(again):.2f} to {max(again):.2f} when nothing was changed" in text
