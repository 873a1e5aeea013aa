"""A quick run of the benchmark, in this process."""

import contextlib
import io
import json
import tempfile
from pathlib import Path

from bench import main


def quick_report(*arguments: object) -> "tuple[dict, str]":
    """What ``scripts/bench.py --quick`` writes with --json, and what it prints."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        path = Path(folder) / "deep" / "report.json"
        status = main(["--quick", "--threads", "1", "--json", *map(str, (path, *arguments))])
        assert status == 0, "see stderr"
        return json.loads(path.read_text()), printed.getvalue()
