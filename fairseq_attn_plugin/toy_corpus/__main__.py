"""``python -m fairseq_attn_plugin.toy_corpus --out FOLDER``."""

import argparse
from pathlib import Path
from typing import Sequence

from fairseq_attn_plugin.errors import install_hook

from .generation import SOURCE, SPLITS, TARGET, generate, write

DESCRIPTION = "Generates a small parallel corpus in two invented languages, with gold word alignments, from a seed."


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the corpus that the options describe."""
    parser = argparse.ArgumentParser(prog="python -m fairseq_attn_plugin.toy_corpus", description=DESCRIPTION)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write, created if missing")
    parser.add_argument("--seed", type=int, default=1, help="of the words and the sentences (default: 1)")
    for split, size in SPLITS.items():
        parser.add_argument(f"--{split}", type=int, default=size, metavar="N", help=f"sentences (default: {size})")
    args = parser.parse_args(argv)
    corpus = generate(args.seed, {split: getattr(args, split) for split in SPLITS})
    write(corpus, args.out)
    counts = ", ".join(f"{split} {len(pairs)}" for split, pairs in corpus.items())
    print(f"{args.out}: {counts} sentence pairs ({SOURCE} Velarin, {TARGET} Dormeth, gold alignments in *.align)")


if __name__ == "__main__":
    install_hook()
    main()
