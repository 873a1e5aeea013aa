"""Parts of all reports: Markdown tables, and ratios with their spread."""

from __future__ import annotations

from collections.abc import Sequence

from benchmark.targets import median_ratio
from fairseq_attn_plugin.analysis.outputs.tables import markdown_table

MIB = float(1 << 20)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: first column left, the others right."""
    return markdown_table(header, rows, "l" + "r" * (len(header) - 1))


def speed(time_ratios: Sequence[float]) -> str:
    """Times faster: median, and lowest and highest round."""
    speeds = [1 / r for r in time_ratios]
    return f"{median_ratio(time_ratios, 'throughput'):.2f} ({min(speeds):.2f}–{max(speeds):.2f})"


def time(ratios: Sequence[float]) -> str:
    """Time over the baseline's: median, and lowest and highest round."""
    return f"{median_ratio(ratios, 'time'):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
