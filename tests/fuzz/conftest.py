"""Gives each fuzz test its share of the minutes, and prints the counts."""

from typing import Any, List

import fuzzing
from fuzzing import COUNTS, FAULTS, MINUTES

HOW = ("result", "refusal", "fault")


def pytest_collection_modifyitems(items: List[Any]) -> None:
    fuzzing.shares = max(1, sum(hasattr(getattr(item, "function", None), "shares") for item in items))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not MINUTES or not COUNTS:
        return
    terminalreporter.section("fuzzed")
    total = {how: sum(counts[how] for counts in COUNTS.values()) for how in HOW}
    width = max(map(len, COUNTS))
    terminalreporter.write_line(f"{'':{width}}  {'cases':>8}  {'results':>8}  {'refusals':>8}  {'faults':>8}")
    for kind, counts in [*sorted(COUNTS.items()), ("all", total)]:
        numbers = [sum(counts[how] for how in HOW), *(counts[how] for how in HOW)]
        terminalreporter.write_line(f"{kind:{width}}  " + "  ".join(f"{number:8,}" for number in numbers))
    for fault, example in FAULTS.items():
        terminalreporter.write_line(f"\n{fault}\n    {example}")
