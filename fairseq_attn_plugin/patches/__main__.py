"""``python -m fairseq_attn_plugin.patches``: a table of the patches."""

from tabulate import tabulate

from fairseq_attn_plugin.patches import PATCHES
from fairseq_attn_plugin.patches.wrapping import CHECKED


def table() -> str:
    """Name, reason, and the functions that are wrapped, one row for each patch."""
    rows = [(one.name, one.reason, "\n".join(target.replace(":", ".") for target in one.wraps)) for one in PATCHES]
    return tabulate(rows, ("patch", "reason", "wraps"), tablefmt="grid", maxcolwidths=[None, 48, None])


if __name__ == "__main__":
    print(f"Checked with fairseq {' and '.join(CHECKED)}.\n{table()}")
