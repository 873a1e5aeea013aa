#!/usr/bin/env python3
"""Takes the best translations out of what fairseq-generate wrote, in the order of the test set.

fairseq-generate sorts sentences by length and writes lines ``D-<number> TAB score TAB translation``. Here
they are put back in order; a sentence that is missing is an error, since the lines after it would be scored
against the references of other sentences.
"""

import argparse
import sys
from pathlib import Path
from typing import Dict, List

from parallel_text import CorpusError, read_lines, read_text, split_lines, status_of, write_lines


def read_hypotheses(path: Path, expected: int) -> List[str]:
    best: Dict[int, str] = {}
    for line in split_lines(read_text(path)):
        if line.startswith("D-"):
            name, _, sentence = line.split("\t", 2)
            # with --nbest the best comes first
            best.setdefault(int(name[2:]), " ".join(sentence.split()))
    missing = [number for number in range(expected) if number not in best]
    if missing or len(best) != expected:
        raise CorpusError(
            "%s holds %d translations for %d sentences%s: run the generate stage again"
            % (path, len(best), expected, " (number %d is missing)" % missing[0] if missing else "")
        )
    return [best[number] for number in range(expected)]


def detokenize(lines: List[str], language: str) -> List[str]:
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang=language)
    return [detokenizer.detokenize(line.split(), unescape=True) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("generated", help="generate-test.txt of fairseq-generate")
    parser.add_argument("--reference", required=True, help="says how many sentences there must be")
    parser.add_argument("--to", required=True)
    parser.add_argument("--detokenize", nargs=2, metavar=("LANGUAGE", "FILE"), help="also write FILE, detokenised")
    args = parser.parse_args()
    lines = read_hypotheses(Path(args.generated), len(read_lines(Path(args.reference))))
    write_lines(Path(args.to), lines)
    if args.detokenize:
        language, path = args.detokenize
        write_lines(Path(path), detokenize(lines, language))


if __name__ == "__main__":
    sys.exit(status_of(main))
