"""The systems of the comparison, and the settings of their workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

STOCK_SIZES = "--encoder-embed-dim 256 --encoder-hidden-size 256 --encoder-layers 2 --encoder-bidirectional "
STOCK_SIZES += "--decoder-embed-dim 256 --decoder-hidden-size 256 --decoder-layers 2 --decoder-out-embed-dim 256"
TRAINING = "--optimizer adam --lr 1e-3 --lr-scheduler fixed --clip-norm 5 --dropout 0.2 --batch-size 64 "
TRAINING += "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --log-format none"
FAST = "--matmul-precision bfloat16 --optimizer fused_adam"
LONGEST = 100  # words of a translation


@dataclass(frozen=True)
class System:
    """A system that is trained.

    Attributes:
        tool: fairseq, joeynmt or opennmt: its worker and its environment
        options: of fairseq-train
        decoders: options of fairseq-generate, by the name of the decoding; the plain one has the name ""
    """

    tool: str
    options: str = ""
    decoders: tuple[tuple[str, str], ...] = (("", ""),)


PRECISIONS = tuple((name, f"--decoding-precision {name}" if name else "") for name in ("", "bfloat16", "int8"))
# OpenNMT-py has half the encoder of the others, and exactly the parameters of the last two.
SYSTEMS = {
    "joeynmt": System("joeynmt"),
    "OpenNMT-py": System("opennmt"),
    "fairseq lstm": System("fairseq", f"--arch lstm {STOCK_SIZES}"),
    "lstm_soft": System("fairseq", "--arch lstm_soft", PRECISIONS),
    "lstm_soft bfloat16": System("fairseq", f"--arch lstm_soft {FAST}"),
    "lstm_soft, encoder 128": System("fairseq", "--arch lstm_soft --encoder-hidden-size 128", PRECISIONS),
    "lstm_soft bfloat16, encoder 128": System("fairseq", f"--arch lstm_soft --encoder-hidden-size 128 {FAST}"),
}
BASELINES = ("joeynmt", "OpenNMT-py", "fairseq lstm")  # what the ratios of the table divide by


def settings(name: str, data: Path, work: Path, seed: int, checkpoint: str = "", decoder: str = "") -> dict[str, Any]:
    """The settings of a worker. For a peer, its configuration and vocabularies are written to ``work``.

    Args:
        name: of the system
        data: folder of a prepared recipe, with segmented/ and bin/
        checkpoint: to translate with; empty to train
        decoder: options of fairseq-generate
    """
    system, text = SYSTEMS[name], data / "segmented"
    common = {"seed": seed, "checkpoint": checkpoint, "train": str(text / "train"), "test": str(text / "test")}
    if system.tool == "fairseq":
        words = f"--beam 5 --max-len-b {LONGEST} {decoder}" if checkpoint else f"{TRAINING} {system.options}"
        own = ["--user-dir", str(ROOT / "fairseq_attn_plugin"), "--seed", str(seed), "--cpu"]
        return {**common, "options": [str(data / "bin"), *own, *words.split()]}
    vocabulary = work / "words"
    for end in (".de", ".en"):
        lines = (data / "bin" / f"dict{end}.txt").read_text(encoding="utf-8").splitlines()
        words = [line.split(" ")[0] for line in lines if not line.startswith("madeupword")]
        vocabulary.with_suffix(end).write_text("\n".join(words) + "\n", encoding="utf-8")
    config = work / f"{name}.yaml"
    template = Template((HERE / f"{system.tool}.yaml").read_text(encoding="utf-8").split("\n", 1)[1])
    names = {"text": text, "words": vocabulary, "out": work / name}
    config.write_text(template.substitute(names, seed=seed, longest=LONGEST), encoding="utf-8")
    translation = f"-beam_size 5 -length_penalty avg -max_length {LONGEST} -max_length_ratio 0"
    return {**common, "config": str(config), "translation": translation.split()}  # the latter for OpenNMT-py
