"""The notebook runs, in a process without a kernel, a network or a home folder, and prints what it shows."""

import json
import os
import subprocess
import sys
from pathlib import Path

from documentation import REPO, environment

NOTEBOOK = REPO / "docs" / "start" / "first_look.ipynb"


def cells() -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict) -> str:
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def test_cells_run_and_print_what_is_stored(tmp_path: Path) -> None:
    code = "\n".join("".join(cell["source"]) + "\nprint('--- end of cell')" for cell in cells())
    script = tmp_path / "notebook.py"
    script.write_text(code, encoding="utf-8")
    variables = environment(MPLBACKEND="Agg", MPLCONFIGDIR=str(tmp_path))
    words = [sys.executable, str(script)]
    done = subprocess.run(words, env=variables, cwd=tmp_path, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("--- end of cell\n")[:-1] == [printed(cell) for cell in cells()]


def test_pictures_are_stored_and_nothing_of_the_machine() -> None:
    outputs = [output for cell in cells() for output in cell["outputs"]]
    assert len([output for output in outputs if "image/png" in output.get("data", {})]) == 3
    assert not any(output.get("name") == "stderr" for output in outputs)
    assert os.path.getsize(NOTEBOOK) < 200_000 and str(REPO) not in NOTEBOOK.read_text(encoding="utf-8")
