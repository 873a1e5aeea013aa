"""Translation of a test set: the sections ``translate`` (in batches) and ``sentence`` (one at a time).

One checkpoint is searched by fairseq's generator and by the plugin's, in turn for every batch. All see the same
sentences and options.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from sacrebleu.metrics import BLEU

from benchmark.corpus import batches_of
from benchmark.measure import Sample, interleave, round_ratios, summary
from benchmark.options import number_list, positive
from benchmark.sections import Tick
from benchmark.systems import to_device
from benchmark.tables import speed, table
from benchmark.targets import PLUGIN, SHORTLIST, STOCK_SEARCH
from benchmark.translators import Translator, open_translators, texts

TRANSLATORS = (STOCK_SEARCH, PLUGIN, f"{PLUGIN}:decoding_precision=bfloat16", f"{PLUGIN}:decoding_precision=int8")
SHOWN = 5  # differing sentences in the report
TIE = 1e-4  # of two scores in nats per word: float32 does not decide between them
QUICK = {"translate_beams": [2], "sentence_beams": [1], "translate_tokens": 80, "sentences": 4, "sentence_group": 2}


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("translation of a test set").add_argument
    add("--checkpoint", metavar="FILE", help="model of translate, sentence, gradients (default: random)")
    add("--subset", default="test", help="dataset of --data that is translated (test)")
    add(
        "--translators",
        nargs="+",
        metavar="stock|plugin[:opt=value,...]",
        help="searches to compare, with options of fairseq-generate; ratios are against the first "
        f"({' '.join(TRANSLATORS)}; with --shortlist also {SHORTLIST})",
    )
    add("--shortlist", metavar="FILE", help="lexicon of the translators with shortlist_size")
    add("--translate-beams", type=number_list, default=[5, 10], help="beams of the translate section (5,10)")
    add("--translate-tokens", type=positive, default=4000, help="source tokens of a batch to translate (4000)")
    add("--translate-sentences", type=positive, help="sentences of a batch to translate (default: any number)")
    add("--sentence-beams", type=number_list, default=[1, 5], help="beams of the sentence section (1,5; 1: greedy)")
    add("--sentences", type=positive, default=300, help="sentences of the sentence section (300)")
    add("--sentence-group", type=positive, default=20, help="sentences in a round of the sentence section (20)")


def chosen(settings: Mapping[str, Any]) -> list[str]:
    texts = settings["translators"] or [*TRANSLATORS, *([SHORTLIST] if settings["shortlist"] else [])]
    return list(texts)


def batch_turns(settings: Mapping[str, Any]) -> int:
    """A guess, for the progress bar: the number of batches is not known yet."""
    return len(settings["translate_beams"]) * len(chosen(settings)) * (settings["batches"] or 10)


def sentence_turns(settings: Mapping[str, Any]) -> int:
    return len(settings["sentence_beams"]) * len(chosen(settings)) * settings["sentences"]


def measure_batches(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    size = {"max_tokens": settings["translate_tokens"], "max_sentences": settings["translate_sentences"]}
    translators, batches = _open(settings, device, size)
    batches = _spread(batches, settings["batches"])
    section = {}
    for beam in settings["translate_beams"]:
        raw = _in_turn(translators, batches, beam, settings, tick)
        section[f"beam {beam}"] = _figures(translators, batches, beam, raw, raw, settings)
    return {"translate": section}


def measure_sentences(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    translators, batches = _open(settings, device, {"max_sentences": 1})
    batches = _spread(batches, settings["sentences"])
    # in another order than by length, so that a group has sentences of all lengths
    batches = [batches[number] for number in torch.randperm(len(batches), generator=torch.Generator().manual_seed(1))]
    section = {}
    for beam in settings["sentence_beams"]:
        raw = _in_turn(translators, batches, beam, settings, tick)
        groups = {name: _sums(samples, settings["sentence_group"]) for name, samples in raw.items()}
        measured = _figures(translators, batches, beam, raw, groups, settings)
        clock, baseline = settings["clock"], next(iter(translators))
        for name, figures in measured["systems"].items():
            times = sorted(sample[clock] for sample in raw[name])
            figures["latency"] = {"median": statistics.median(times), "p99": times[-(-len(times) * 99 // 100) - 1]}
            first = measured["systems"][baseline]["latency"]
            for part, seconds in figures["latency"].items():
                figures[part] = first[part] / seconds
        section[f"beam {beam}" if beam > 1 else "greedy"] = measured
    return {"sentence": section}


def _open(
    settings: Mapping[str, Any], device: torch.device, size: Mapping[str, Any]
) -> tuple[dict[str, Translator], Any]:
    translators = open_translators({**settings, "translators": chosen(settings)}, device)
    task = next(iter(translators.values())).task
    batches = batches_of(task, settings["subset"], settings, shuffle=False, **size)
    return translators, [to_device(batch, device) for batch in batches]


def _spread(batches: list[Any], count: Optional[int]) -> list[Any]:
    """``count`` of the batches, which are sorted by length: short and long ones."""
    if count is None or count >= len(batches):
        return batches
    return [batches[number * len(batches) // count] for number in range(count)]


def _in_turn(
    translators: Mapping[str, Translator],
    batches: Sequence[Mapping[str, Any]],
    beam: int,
    settings: Mapping[str, Any],
    tick: Tick,
) -> dict[str, list[Sample]]:
    """Every batch by every translator; warm-up takes the last batches."""
    place = dict.fromkeys(translators, -settings["warmup"])

    def run(name: str) -> Sample:
        sample = translators[name].translate(batches[place[name]], beam)
        place[name] += 1
        return sample

    runs = {name: (lambda name=name: run(name)) for name in translators}
    return interleave(runs, len(batches), settings["warmup"], lambda name: tick(f"translate, beam {beam}, {name}"))


def _sums(samples: Sequence[Sample], size: int) -> list[Sample]:
    groups = [samples[start : start + size] for start in range(0, len(samples), size)]
    return [{clock: sum(sample[clock] for sample in group) for clock in group[0]} for group in groups]


def _figures(
    translators: Mapping[str, Translator],
    batches: Sequence[Mapping[str, Any]],
    beam: int,
    raw: Mapping[str, Sequence[Sample]],
    rounds: Mapping[str, Sequence[Sample]],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Speeds, and how the translations differ from the first translator's."""
    clock, baseline = settings["clock"], next(iter(translators))
    first = translators[baseline]
    numbers = [number for batch in batches for number in batch["id"].tolist()]
    references = [texts(first.task, target) for batch in batches for target in batch["target"]]
    result: dict[str, Any] = {
        "checkpoint": Path(settings["checkpoint"]).name if settings["checkpoint"] else "random",
        "sentences": len(numbers),
        "batches": len(batches),
        "raw": raw,
        "systems": {},
    }
    for name, translator in translators.items():
        found = [translator.found[beam, number] for number in numbers]
        seconds = sum(sample[clock] for sample in raw[name])
        ratios = round_ratios(rounds[name], rounds[baseline], clock)
        whole = seconds / sum(sample[clock] for sample in raw[baseline])
        lines = [texts(first.task, hypothesis["tokens"]) for hypothesis in found]
        differing = []
        for number, ours in zip(numbers, found):
            stock = first.found[beam, number]
            if not torch.equal(ours["tokens"].cpu(), stock["tokens"].cpu()):
                differing.append({"sentence": number, "scores": [float(stock["score"]), float(ours["score"])]})
        result["systems"][name] = {
            "seconds": seconds,
            "sentences_per_second": len(numbers) / seconds,
            "tokens_per_second": sum(len(hypothesis["tokens"]) for hypothesis in found) / seconds,
            "bleu": BLEU(tokenize="none", force=True).corpus_score(lines, [references]).score,
            "differing": differing,
            "different": len(differing),
            "different without ties": sum(abs(a - b) > TIE for a, b in (item["scores"] for item in differing)),
            "time_ratio": {baseline: {**summary(ratios), "whole": whole, "rounds": ratios}},
        }
        result["systems"][name]["BLEU lost"] = result["systems"][baseline]["bleu"] - result["systems"][name]["bleu"]
    return result


def batch_tables(report: Mapping[str, Any]) -> list[str]:
    section = report["sections"]["translate"]
    rows = [
        [
            beam,
            *_compared(name, figures),
            f"{figures['sentences_per_second']:,.1f}",
            f"{figures['tokens_per_second']:,.0f}",
            *_agreement(figures),
        ]
        for beam, measured in section.items()
        for name, figures in measured["systems"].items()
    ]
    measured = next(iter(section.values()))
    header = ["beam", "search", "× first", "whole", "sentences/s", "words/s", "different", "ties", "BLEU"]
    return [
        "## Translation of a test set",
        f"{measured['sentences']} sentences in {measured['batches']} batches, checkpoint `{measured['checkpoint']}`. "
        "Ratios are medians over batches, slowest and fastest batch in brackets; *whole* is the ratio of all batches "
        "together. *different*: best hypotheses that differ from the first search's, and how many of these are ties "
        f"(scores differ by at most {TIE:g}).",
        table(header, rows),
        *_differences(section),
    ]


def sentence_tables(report: Mapping[str, Any]) -> list[str]:
    section = report["sections"]["sentence"]
    rows = [
        [
            beam,
            *_compared(name, figures),
            *(f"{1e3 * seconds:.2f} ({figures[part]:.2f})" for part, seconds in figures["latency"].items()),
            *_agreement(figures),
        ]
        for beam, measured in section.items()
        for name, figures in measured["systems"].items()
    ]
    header = ["beam", "search", "× first", "whole", "median, ms", "99 %, ms", "different", "ties", "BLEU"]
    measured = next(iter(section.values()))
    return [
        "## One sentence at a time",
        f"{measured['sentences']} sentences, checkpoint `{measured['checkpoint']}`. Median and 99th percentile of the "
        "time of a sentence, in brackets how many times lower than the first search's. Ratios are medians over groups "
        f"of {report['settings']['sentence_group']} sentences.",
        table(header, rows),
        *_differences(section),
    ]


def _compared(name: str, figures: Mapping[str, Any]) -> list[str]:
    (ratio,) = figures["time_ratio"].values()
    return [f"`{name}`", speed(ratio["rounds"]), f"{1 / ratio['whole']:.2f}"]


def _agreement(figures: Mapping[str, Any]) -> list[str]:
    ties = figures["different"] - figures["different without ties"]
    return [str(figures["different"]), str(ties), f"{figures['bleu']:.2f}"]


def _differences(section: Mapping[str, Any]) -> list[str]:
    """The first differing sentences of the exact search, with both scores."""
    lines = []
    for beam, measured in section.items():
        for item in measured["systems"].get(PLUGIN, {}).get("differing", [])[:SHOWN]:
            stock, ours = item["scores"]
            lines.append(f"- {beam}, sentence {item['sentence']}: scores {stock:.7f} and {ours:.7f}")
    return ["Differences of `plugin`:", "\n".join(lines)] if lines else []
