"""A quick run of the benchmark, in this process."""

import contextlib
import io
import json
import tempfile
from pathlib import Path
from unittest.mock import patch

from bench import main
from benchmark import extract

from cli import prepare


def quick_report(*arguments: object) -> "tuple[dict, str]":
    """What ``scripts/bench.py --quick`` writes with --json, and what it prints. Its processes start warm."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        path = Path(folder) / "deep" / "report.json"
        with patch.object(extract, "process_of", prepare):
            words = ["--quick", "--threads", "1", "--json", *map(str, (path, *arguments))]
            status = main(words)
        assert status == 0, "see stderr"
        return json.loads(path.read_text()), printed.getvalue()
