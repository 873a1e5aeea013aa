"""Stand-ins of fairseq's commands, for tests of what a recipe does around them."""

import json
from pathlib import Path
from typing import Any, List

from recipe_corpora import tool_of, value


class FakeTools:
    """Takes the place of ``Shell.execute``; ``commands`` are the commands so far."""

    def __init__(self) -> None:
        self.commands: List[List[str]] = []
        self.fails: str = ""  # the tool that fails

    def count(self, tool: str) -> int:
        return sum(tool_of(command) == tool for command in self.commands)

    def __call__(self, shell: Any, words: List[str], stdout: Any = None, stderr: Any = None) -> int:
        self.commands.append(list(words))
        if self.fails == tool_of(words):
            return 1
        getattr(self, tool_of(words).replace("-", "_"))(words, stdout)
        return 0

    def fairseq_preprocess(self, words: List[str], stdout: Any) -> None:
        folder = Path(value(words, "--destdir"))
        folder.mkdir(parents=True)
        sides = [value(words, option) for option in ("--source-lang", "--target-lang") if option in words]
        for side in sides or [""]:
            (folder / f"dict.{side}.txt".replace("..", ".")).write_text(f"word{side} 1\n")

    def fairseq_train(self, words: List[str], stdout: Any) -> None:
        folder = Path(value(words, "--save-dir"))
        for name in ("checkpoint_best.pt", "checkpoint_last.pt"):
            (folder / name).write_text(" ".join(words))
        (folder / "train.log").write_text("")

    def fairseq_generate(self, words: List[str], stdout: Any) -> None:
        folder = Path(value(words, "--results-path"))
        folder.mkdir(parents=True, exist_ok=True)
        data = Path(words[1]).parent / "text"
        split, target = value(words, "--gen-subset"), value(words, "--target-lang")
        count = len((data / f"{split}.{target}").read_text(encoding="utf-8").splitlines())
        lines = [f"D-{number}\t-1.0\tword {number}\n" for number in reversed(range(count))]
        (folder / f"generate-{split}.txt").write_text("".join(lines))

    def sacrebleu(self, words: List[str], stdout: Any) -> None:
        names = words[words.index("--metrics") + 1 : words.index("--format")]
        shown = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
        scores = [{"name": shown[name], "score": 12.5, "signature": "tok:none"} for name in names]
        stdout.write(json.dumps(scores).encode() + b"\n")

    def teacher_alignments(self, words: List[str], stdout: Any) -> None:
        data = Path(next(word for word in words if word.startswith("/")))
        (data / f"{value(words, '--gen-subset')}.align").write_text(value(words, "--path"))

    def election(self, words: List[str], stdout: Any) -> None:
        Path(value(words, "--out")).write_text("{}")

    q_agent = election

    def classify(self, words: List[str], stdout: Any) -> None:
        scores = '{"accuracy": 75.0, "macro_f1": 70.0, "documents": 8}'
        Path(value(words, "--scores")).write_text(scores)
