"""Draws the pictures of the documentation into docs/images: ``python docs/pictures.py [--out FOLDER] [NAME...]``.

The weights in the pictures are computed by the package, from fixed seeds. The measured values are read from the files
in benchmarks.
"""

from __future__ import annotations

import argparse
import sys
from inspect import isfunction, signature
from pathlib import Path
from typing import Optional, Sequence

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from _pictures import links, measured, weights  # noqa: E402
from _pictures.common import shrink  # noqa: E402

# every public function of a path draws the file of its name
PICTURES = {
    f"{name.replace('_', '-')}.png": function
    for module in (links, measured, weights)
    for name, function in vars(module).items()
    if isfunction(function) and function.__module__ == module.__name__ and [*signature(function).parameters] == ["path"]
}


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--out", type=Path, default=HERE / "images", metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as multi30k.png (default: all)")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(PICTURES))
    if unknown:
        parser.error(f"no picture {', '.join(unknown)}: expected any of {', '.join(PICTURES)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or PICTURES:
        PICTURES[name](given.out / name)
        shrink(given.out / name)


if __name__ == "__main__":
    main()
