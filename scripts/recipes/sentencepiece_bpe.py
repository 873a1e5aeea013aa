#!/usr/bin/env python3
"""Learns and applies a joint SentencePiece BPE model (the PyPI package brings no command-line tools).

``learn MODEL SIZE FILE...`` writes MODEL; ``apply MODEL FROM TO`` segments a file line by line.
"""

import os
import sys
from pathlib import Path
from typing import List

import sentencepiece
from parallel_text import read_lines, write_lines


def learn(model: Path, size: int, files: List[str]) -> None:
    lines = [line for name in files for line in read_lines(Path(name)) if line]
    partial = model.with_name(model.name + ".partial")
    with open(partial, "wb") as stream:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=stream,
            model_type="bpe",
            vocab_size=size,
            # a corpus too small for so many merges gets as many as it allows
            hard_vocab_limit=False,
            character_coverage=1.0,
            # the text is normalised already; NFKC would change tokens that the references keep
            normalization_rule_name="identity",
            minloglevel=2,
        )
    os.replace(partial, model)


def apply(model: Path, source: Path, target: Path) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    write_lines(target, (" ".join(pieces) for pieces in processor.encode(read_lines(source), out_type=str)))


def main(arguments: List[str]) -> int:
    command = arguments[0] if arguments else ""
    if command == "learn" and len(arguments) >= 4 and arguments[2].isdigit():
        learn(Path(arguments[1]), int(arguments[2]), arguments[3:])
    elif command == "apply" and len(arguments) == 4:
        apply(*map(Path, arguments[1:]))
    else:
        print("error: expected 'learn MODEL SIZE FILE...' or 'apply MODEL FROM TO'", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
