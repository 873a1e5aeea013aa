"""Draws the pictures of the documentation into docs/images: ``python docs/pictures.py [--out FOLDER] [NAME...]``.

The weights in the pictures are computed by the package, from fixed seeds. The measured values are read from the files
in benchmarks.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Optional, Sequence

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from _pictures.common import shrink  # noqa: E402
from _pictures.links import alignments, supervision  # noqa: E402
from _pictures.measured import (  # noqa: E402
    faithfulness,
    first_word,
    latent,
    learning_rates,
    mechanisms,
    mechanisms_seven,
    multi30k,
    multi30k_slow,
    multi30k_ten,
    pairs,
    speed,
    starts,
    tatoeba,
    translation,
)
from _pictures.methods import alignment_methods  # noqa: E402
from _pictures.stages import exported, recipe_stages  # noqa: E402
from _pictures.weights import biases, constrained, density_matrix, monotonic, normalizers, sparse, structured  # noqa: E402

PICTURES = {
    "alignment-methods.png": alignment_methods,
    "alignments.png": alignments,
    "biases.png": biases,
    "constrained.png": constrained,
    "density-matrix.png": density_matrix,
    "export.png": exported,
    "faithfulness.png": faithfulness,
    "first-word.png": first_word,
    "latent.png": latent,
    "learning-rates.png": learning_rates,
    "mechanisms.png": mechanisms,
    "mechanisms-seven.png": mechanisms_seven,
    "monotonic.png": monotonic,
    "multi30k.png": multi30k,
    "multi30k-slow.png": multi30k_slow,
    "multi30k-ten.png": multi30k_ten,
    "normalizers.png": normalizers,
    "pairs.png": pairs,
    "recipe-stages.png": recipe_stages,
    "sparse.png": sparse,
    "speed.png": speed,
    "starts.png": starts,
    "structured.png": structured,
    "supervision.png": supervision,
    "tatoeba.png": tatoeba,
    "translation.png": translation,
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
