"""``python -m fairseq_attn_plugin.patches``: a table of the patches."""

from tabulate import tabulate

from fairseq_attn_plugin.patches import PATCHES


def table() -> str:
    """Name, reason, versions of fairseq, and the functions that are wrapped, one row for each patch."""
    rows = [
        (
            patch.name,
            patch.reason,
            ", ".join(patch.checked),
            "\n".join(target.replace(":", ".") for target in patch.wraps),
        )
        for patch in PATCHES
    ]
    headers = ("patch", "reason", "checked with fairseq", "wraps")
    return tabulate(rows, headers, tablefmt="grid", maxcolwidths=[None, 48, 10, None])


if __name__ == "__main__":
    print(table())
