"""The limits of the fuzz tests: work is bounded by processor time, waiting by the clock."""

import time

import fuzzing
import pytest


def work():
    while True:
        pass


@pytest.mark.parametrize(
    ("run", "limits", "line"),
    [
        (work, {"SECONDS": 0.1}, "more than 0.1 seconds"),
        (lambda: time.sleep(fuzzing.WAIT + 30), {"SECONDS": 5.0, "WAIT": 0.1}, "more than 0.1 seconds"),
        (lambda: time.sleep(0.3), {"SECONDS": 0.2}, ""),  # it leaves the processor to others
    ],
)
def test_limits_of_time(run, limits, line, monkeypatch):
    for name, limit in limits.items():
        monkeypatch.setattr(fuzzing, name, limit)
    ended = fuzzing._end_of(run, lambda: None)
    assert ended.how == ("fault" if line else "result") and ended.line.endswith(line)
