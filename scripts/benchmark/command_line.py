"""The command line of the benchmark: its options, its sections, and the sizes of a quick run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from benchmark import epochs, gradients, growth, launches, roofline, translation
from benchmark.latency import CLASSES
from benchmark.latency import SYSTEMS as LATENCY_ARCHS
from benchmark.latent import OBJECTIVES, objective
from benchmark.options import class_list, number_list, positive
from benchmark.targets import SOFT, STOCK, UNFED


class Section(NamedTuple):
    """A section with tables of its own."""

    turns: Callable[[Mapping[str, Any]], int]  # of the progress bar
    measure: Callable[..., dict[str, Any]]  # settings, device, tick: what goes into the report
    tables: Callable[[Mapping[str, Any]], list[str]]  # the report: Markdown


OWNERS = (epochs, translation, roofline, growth, gradients, launches)
OWN = {
    "epochs": Section(epochs.turns, epochs.measure, epochs.tables),
    "translate": Section(translation.batch_turns, translation.measure_batches, translation.batch_tables),
    "sentence": Section(translation.sentence_turns, translation.measure_sentences, translation.sentence_tables),
    "growth": Section(growth.turns, growth.measure, growth.tables),
    "roofline": Section(roofline.turns, roofline.measure, roofline.tables),
    "gradients": Section(gradients.turns, gradients.measure, gradients.tables),
    "launches": Section(launches.turns, launches.measure, launches.tables),
}
SECTIONS = (*OWN, "train", "decode", "latency", "latent", "aqt", "chain", "documents", "extract")
FED_CONTEXT = "lstm_soft:input_feeding=context"
DEFAULT_ARCHS = (STOCK, SOFT, FED_CONTEXT, UNFED, "lstm_adm", "lstm_adm_aqt")
QUICK = {
    "archs": [STOCK, SOFT, "lstm_adm"],
    "rounds": 2,
    "aqt_rounds": 2,
    "warmup": 1,
    "lengths": [4, 6],
    "tokens": 24,
    "decode_tokens": 12,
    "beam": 3,
    "vocab": 60,
    "embed": 8,
    "hidden": 8,
    "layers": 1,
    "aqt_positions": 12,
    "aqt_batch": 2,
    "attention_width": 8,
    "latency_classes": [(1, 2), (3, 5)],
    "latency_sentences": 3,
    "latency_repeats": 2,
    "latent_batch": 3,
    "latent_length": 5,
    "chain_rows": [3],
    "chain_lengths": [1, 5],
    "extract_sentences": [20, 40],
    "document_batch": 3,
    "document_embed": 4,
    "document_hidden": 3,
    "document_scale": 0.15,
    **{name: value for owner in OWNERS for name, value in owner.QUICK.items()},
}


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
    add(
        "--archs",
        nargs="+",
        metavar="ARCH[:opt=value,...]",
        default=list(DEFAULT_ARCHS),
        help="systems to compare",
    )
    add("--baselines", nargs="+", default=[STOCK, SOFT], help="systems that the ratios refer to (lstm lstm_soft)")
    add("--sections", type=section_list, default=list(SECTIONS), help=f"comma list of {','.join(SECTIONS)}")
    add("--lengths", type=number_list, default=[10, 25, 50], help="source lengths (default: 10,25,50)")
    add("--tokens", type=positive, default=2000, help="tokens per training batch (2000)")
    add("--decode-tokens", type=positive, default=500, help="source tokens per decoding batch (500)")
    add("--beam", type=positive, default=10)
    add("--vocab", type=positive, default=8000)
    add("--embed", type=positive, default=256)
    add("--hidden", type=positive, default=256)
    add("--layers", type=positive, default=2)
    add("--dropout", type=float, default=0.2)
    add(
        "--optimizer",
        default="adam",
        help="of the systems that name none (adam); none: training steps without update",
    )
    add(
        "--objectives",
        nargs="+",
        type=objective,
        default=list(OBJECTIVES),
        help="objectives of the latent section, and 'posterior attention'; ' (all logits)' after a name: direct "
        "computation; ' (linear)': --output-layer linear",
    )
    add("--latent-batch", type=positive, default=16, help="sentences of the latent section (16)")
    add("--latent-length", type=positive, default=25, help="source and target length of the latent section (25)")
    add(
        "--latency-archs",
        nargs="+",
        metavar="ARCH[:opt=value,...]",
        default=list(LATENCY_ARCHS),
        help=f"systems of the latency section; ratios are against the first ({' '.join(LATENCY_ARCHS)})",
    )
    add(
        "--latency-classes",
        type=class_list,
        default=list(CLASSES),
        help="classes of source words (4-7,8-11,12-15,16-25)",
    )
    add("--latency-sentences", type=positive, default=20, help="sentences of each class (20)")
    add("--latency-beam", type=number_list, default=[1], help="beams of the latency section, as in 1,5 (1: greedy)")
    add("--latency-repeats", type=positive, default=5, help="number of timings of a sentence's attention (5)")
    add("--aqt-positions", type=positive, default=200, help="N and T of the aqt section (200)")
    add("--aqt-batch", type=positive, default=4)
    add("--chain-rows", type=number_list, default=[80, 2000], help="chains of the chain section (80,2000)")
    add("--chain-lengths", type=number_list, default=[10, 25, 50, 100, 200], help="their lengths (10,25,50,100,200)")
    add("--document-batch", type=positive, default=16, help="documents in a batch of the documents section (16)")
    add("--document-embed", type=positive, default=100, help="their word embeddings (100)")
    add("--document-hidden", type=positive, default=50, help="units of their LSTMs, per direction (50)")
    add(
        "--document-scale",
        type=float,
        default=1.0,
        help="factor of the lengths of documents and sentences (1.0: film reviews)",
    )
    add("--attention-width", type=positive, default=256, help="D of the aqt and growth sections (256)")
    add("--aqt-rounds", type=positive, default=2, help="rounds of the aqt section (2)")
    add(
        "--extract-sentences",
        type=number_list,
        default=[1000, 10000],
        help="numbers of sentences of the extract section (1000,10000)",
    )
    add("--rounds", type=positive, default=7)
    add("--warmup", type=int, default=1, help="first rounds, which are not counted (1)")
    add(
        "--clock",
        choices=["auto", "wall", "cpu"],
        default="auto",
        help="cpu: processor time, which depends least on other programs; auto: cpu for one thread on the CPU, "
        "otherwise wall",
    )
    add("--device", default="cpu", help="cpu, cuda, cuda:1, ...")
    add("--threads", type=positive, help="torch's CPU threads (default: torch's own choice)")
    add("--seed", type=int, default=1)
    add("--json", type=Path, metavar="PATH", help="file for all measurements")
    add(
        "--report",
        nargs="+",
        type=Path,
        default=[],
        metavar="PATH",
        help="writes the Markdown of files of --json beside them, and measures nothing",
    )
    add("--profile", metavar="ARCH", help="print torch.profiler's table of ARCH instead of measuring")
    add("--profile-rows", type=positive, default=25)
    add("--quick", action="store_true", help="tiny sizes and two rounds, to test the script")
    for owner in OWNERS:
        owner.add_options(parser)
    return parser


def parse(argv: Optional[Sequence[str]], description: str = "") -> argparse.Namespace:
    parser = make_parser(description)
    if parser.parse_args(argv).quick:
        parser.set_defaults(**QUICK)
    return parser.parse_args(argv)
