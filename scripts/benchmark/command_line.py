"""The command line of the benchmark: its options, and the sizes of a quick run."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from benchmark import epochs, launches
from benchmark.sections import SECTIONS
from benchmark.systems import SOFT, STOCK, UNFED
from benchmark.translation import SHORTLIST, TRANSLATORS

QUICK: dict[str, Any] = {
    "archs": [STOCK, SOFT, "lstm_adm"],
    "epoch_archs": [STOCK, SOFT],
    "launches_archs": [STOCK, SOFT],
    **{"rounds": 2, "lengths": [4, 6], "tokens": 24, "decode_tokens": 12, "beam": 3},
    **{"vocab": 60, "embed": 8, "hidden": 8, "layers": 1},
    **{"max_tokens": 60, "batches": 4, "group": 2, "corpus_sentences": 24, "gradient_batches": 2},
    **{"translate_beams": [2], "sentence_beams": [1], "translate_tokens": 80, "sentences": 4, "sentence_group": 2},
}


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} must be at least 1")
    return value


def number_list(text: str) -> list[int]:
    return [positive(item) for item in text.split(",")]


def section_list(text: str) -> list[str]:
    unknown = [name for name in text.split(",") if name not in SECTIONS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown section {unknown[0]!r}, choose from {','.join(SECTIONS)}")
    return text.split(",")


def make_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument

    def add_systems(name: str, systems: Sequence[str], text: str) -> None:
        about = f"{text} ({' '.join(systems)})"
        add(name, nargs="+", metavar="ARCH[:opt=value,...]", default=list(systems), help=about)

    add("--sections", type=section_list, default=list(SECTIONS), help=f"comma list of {','.join(SECTIONS)}")
    add("--rounds", type=positive, default=7)
    add("--warmup", type=int, default=1, help="first rounds, which are not counted (1)")
    about = "cpu: processor time, which depends least on other programs; auto: cpu for one thread on the CPU, else wall"
    add("--clock", choices=["auto", "wall", "cpu"], default="auto", help=about)
    add("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    add("--threads", type=positive, help="torch's CPU threads (default: torch's own choice)")
    add("--seed", type=int, default=1)
    add("--json", type=Path, metavar="PATH", help="file for all measurements")
    about = "writes the Markdown of files of --json beside them, and measures nothing"
    add("--report", nargs="+", type=Path, default=[], metavar="PATH", help=about)
    add("--quick", action="store_true", help="tiny sizes and two rounds, to test the script")

    add = parser.add_argument_group("models").add_argument
    archs = (STOCK, SOFT, "lstm_soft:input_feeding=context", UNFED, "lstm_adm", "lstm_adm_aqt")
    add_systems("--archs", archs, "systems of train and decode")
    add("--baselines", nargs="+", default=[STOCK, SOFT], help="systems that the ratios refer to (lstm lstm_soft)")
    add("--lengths", type=number_list, default=[10, 25, 50], help="source lengths (10,25,50)")
    add("--tokens", type=positive, default=2000, help="tokens per training batch (2000)")
    add("--decode-tokens", type=positive, default=500, help="source tokens per decoding batch (500)")
    add("--beam", type=positive, default=10)
    for name, size in (("vocab", 8000), ("embed", 256), ("hidden", 256), ("layers", 2)):
        add(f"--{name}", type=positive, default=size)
    add("--dropout", type=float, default=0.2)
    add("--optimizer", default="adam", help="of systems that name none (adam); none: training steps without update")
    add_systems("--launches-archs", launches.SYSTEMS, "systems of the launches section")

    add = parser.add_argument_group("whole epochs").add_argument
    add("--data", metavar="FOLDER", help="folder of fairseq-preprocess (default: a random corpus)")
    add("--corpus-sentences", type=positive, default=29000, help="sentences of the random corpus (29000)")
    add_systems("--epoch-archs", epochs.SYSTEMS, "systems of the epochs section; ratios are against the first")
    add("--epochs", type=positive, default=1, help="epochs of the epochs section (1)")
    add("--batches", type=positive, help="batches of the sections epochs and translate (default: all)")
    add("--group", type=positive, default=15, help="batches that a system trains on before the next one (15)")
    add("--max-tokens", type=positive, default=2000, help="fairseq's --max-tokens of training (2000)")
    add("--gradient-batches", type=positive, default=20, help="batches of the gradients section (20)")

    add = parser.add_argument_group("translation of a test set").add_argument
    add("--checkpoint", metavar="FILE", help="model of translate, sentence, gradients (default: random)")
    add("--subset", default="test", help="dataset of --data that is translated (test)")
    about = (
        f"searches to compare, with options of fairseq-generate; ratios are against the first ({' '.join(TRANSLATORS)}"
    )
    about += f"; with --shortlist also {SHORTLIST})"
    add("--translators", nargs="+", metavar="stock|plugin[:opt=value,...]", help=about)
    add("--shortlist", metavar="FILE", help="lexicon of the translators with shortlist_size")
    add("--translate-beams", type=number_list, default=[5, 10], help="beams of the translate section (5,10)")
    add("--translate-tokens", type=positive, default=4000, help="source tokens of a batch to translate (4000)")
    add("--translate-sentences", type=positive, help="sentences of a batch to translate (default: any number)")
    add("--sentence-beams", type=number_list, default=[1, 5], help="beams of the sentence section (1,5; 1: greedy)")
    add("--sentences", type=positive, default=300, help="sentences of the sentence section (300)")
    add("--sentence-group", type=positive, default=20, help="sentences in a round of the sentence section (20)")
    return parser


def parse(argv: Optional[Sequence[Any]], description: str = "") -> argparse.Namespace:
    parser = make_parser(description)
    if parser.parse_args(argv).quick:
        parser.set_defaults(**QUICK)
    return parser.parse_args(argv)
