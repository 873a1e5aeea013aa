#!/usr/bin/env python3
"""Executes a notebook and stores its outputs in it, for the documentation.

    python scripts/notebook.py docs/start/first_look.ipynb

The kernel is a separate process with a connection over the loopback interface. Tests and the build of the documentation
need no kernel: a test executes the same cells in another process, and the pages show the stored outputs.
"""

import argparse
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fairseq_attn_plugin.errors import OptionError, install_hook

ROOT = Path(__file__).resolve().parent.parent


def execute(path: Path) -> None:
    """Runs all cells in the root of the checkout and writes the notebook without messages on stderr."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(notebook, path)


def main() -> None:
    install_hook()
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("notebook", type=Path, help="file to execute and to write")
    path = parser.parse_args().notebook
    if not path.is_file():
        raise OptionError(f"notebook {path}: no such file; give a notebook, such as docs/start/first_look.ipynb")
    execute(path)


if __name__ == "__main__":
    main()
