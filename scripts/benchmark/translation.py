"""Translation of a test set: the sections ``translate`` (in batches) and ``sentence`` (one at a time).

One checkpoint is searched by fairseq's generator and by the plugin's, in turn for every batch. All see the same
sentences and options.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Optional

import torch
from benchmark.corpus import batches_of, open_task
from benchmark.measure import Clock, Sample, interleave, round_ratios, speed, sum_of, summary, table
from benchmark.models import Tick
from benchmark.systems import SOFT, Sizes, Spec, System, build_generator, to_device
from fairseq import checkpoint_utils
from fairseq.tasks.translation import TranslationTask
from sacrebleu.metrics import BLEU

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import vocabulary_subwords

TRANSLATORS = ("stock", "plugin", "plugin:decoding_precision=bfloat16", "plugin:decoding_precision=int8")
SHORTLIST = "plugin:decoding_precision=int8,shortlist_size=100"
SHOWN = 5  # differing sentences in the report
TIE = 1e-4  # of two scores in nats per word: float32 does not decide between them


class Translator:
    """A model that was read anew, because preparations for inference cannot be undone, and its way of searching."""

    def __init__(
        self, spec: Spec, task: TranslationTask, model: torch.nn.Module, device: torch.device, length: Mapping[str, Any]
    ):
        self.task, self.model, self.device = task, model, device
        self.generator = lru_cache(None)(lambda beam: build_generator(task, model, spec, beam=beam, **length))
        self.found: dict[tuple[int, int], Mapping[str, Any]] = {}

    def translate(self, batch: Mapping[str, Any], beam: int) -> Sample:
        """Seconds of one batch. The best hypotheses are kept in ``found``, by beam and number of the sentence."""
        generator = self.generator(beam)
        clock = Clock(self.device)
        hypotheses = self.task.inference_step(generator, [self.model], batch)
        sample = clock.seconds()
        for number, found in zip(batch["id"].tolist(), hypotheses):
            self.found[beam, number] = found[0]
        return sample


def open_translators(settings: Mapping[str, Any], device: torch.device) -> dict[str, Translator]:
    """The translators by name. All have the model of ``--checkpoint``, or the same random one.

    Raises:
        OptionError: the checkpoint or the data cannot be read; an unknown way of searching
    """
    task = open_task(settings, settings["subset"])
    translators = {}
    for text in settings["translators"] or [*TRANSLATORS, *([SHORTLIST] if settings["shortlist"] else [])]:
        spec = Spec.parse(text)
        if spec.arch not in ("stock", "plugin"):
            raise OptionError(f"--translators {text}: must start with stock or plugin")
        options = {**dict(spec.options), "decoding_engine": spec.arch}
        if "shortlist_size" in options:
            options["shortlist"] = settings["shortlist"]
        chosen = replace(spec, options=tuple(options.items()))
        unknown = sorted(set(options) - set(chosen.generation()))
        if unknown:
            raise OptionError(f"--translators {text}: fairseq-generate has no option {unknown[0]!r}")
        model, length = _model(settings, task, device)
        translators[text] = Translator(chosen, task, model, device, length)
    return translators


def _model(
    settings: Mapping[str, Any], task: TranslationTask, device: torch.device
) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model for inference, and the limits of a translation's length. A random model never ends a sentence itself."""
    path = settings["checkpoint"]
    if path is None:
        system = System(Spec(SOFT), Sizes(**settings["sizes"]), task, device, settings["seed"], "none")
        return system.decoding_model, {"max_len_a": 1, "max_len_b": 0}
    model, config = read_checkpoint(path, task)
    model = model.to(device).eval()
    model.prepare_for_inference_(config)
    return model, {}


def read_checkpoint(path: str, task: TranslationTask) -> tuple[torch.nn.Module, Any]:
    """The model of a checkpoint, and its configuration.

    Raises:
        OptionError: it cannot be read, or does not fit the data
    """
    try:
        (model,), config = checkpoint_utils.load_model_ensemble([path], task=task)
    except Exception as error:  # fairseq raises bare exceptions for files and sizes that do not fit
        raise OptionError(f"--checkpoint {path}: cannot be read: {str(error).splitlines()[0]}") from None
    return model, config


def texts(task: TranslationTask, tokens: torch.Tensor) -> str:
    """Words, from subwords of subword-nmt or sentencepiece."""
    dictionary = task.target_dictionary
    kind = {"bpe": "subword_nmt", "sentencepiece": "sentencepiece"}.get(vocabulary_subwords(dictionary))
    return dictionary.string(tokens[tokens.ne(dictionary.pad())].cpu(), kind)


def measure_batches(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    size = {"max_tokens": settings["translate_tokens"], "max_sentences": settings["translate_sentences"]}
    translators, batches = _open(settings, device, settings["batches"], size)
    beams = settings["translate_beams"]
    return {f"beam {beam}": _compare(translators, batches, beam, 1, settings, tick) for beam in beams}


def measure_sentences(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    translators, batches = _open(settings, device, settings["sentences"], {"max_sentences": 1})
    # in another order than by length, so that a group has sentences of all lengths
    batches = [batches[number] for number in torch.randperm(len(batches), generator=torch.Generator().manual_seed(1))]
    section = {}
    for beam in settings["sentence_beams"]:
        measured = _compare(translators, batches, beam, settings["sentence_group"], settings, tick)
        first: dict[str, float] = {}
        for name, figures in measured["systems"].items():
            times = sorted(sample[settings["clock"]] for sample in measured["raw"][name])
            figures["latency"] = {"median": statistics.median(times), "p99": times[-(-len(times) * 99 // 100) - 1]}
            first = first or figures["latency"]
            figures.update({part: first[part] / seconds for part, seconds in figures["latency"].items()})
        section[f"beam {beam}" if beam > 1 else "greedy"] = measured
    return section


def _open(
    settings: Mapping[str, Any], device: torch.device, count: Optional[int], size: Mapping[str, Any]
) -> tuple[dict[str, Translator], list[dict[str, Any]]]:
    """The translators, and ``count`` of the batches, which are sorted by length: short and long ones."""
    translators = open_translators(settings, device)
    task = next(iter(translators.values())).task
    batches = batches_of(task, settings["subset"], settings, shuffle=False, **size)
    count = min(count or len(batches), len(batches))
    return translators, [to_device(batches[number * len(batches) // count], device) for number in range(count)]


def _compare(
    translators: Mapping[str, Translator],
    batches: Sequence[Mapping[str, Any]],
    beam: int,
    group: int,
    settings: Mapping[str, Any],
    tick: Tick,
) -> dict[str, Any]:
    """Every batch by every translator: speeds, and how the translations differ from the first translator's.

    Ratios are those of groups of ``group`` batches. Warm-up takes the last batches.
    """
    clock, baseline = settings["clock"], next(iter(translators))
    place = dict.fromkeys(translators, -settings["warmup"])

    def run(name: str) -> Sample:
        place[name] += 1
        return translators[name].translate(batches[place[name] - 1], beam)

    runs = {name: partial(run, name) for name in translators}
    raw = interleave(runs, len(batches), settings["warmup"], lambda name: tick(f"translate, beam {beam}, {name}"))
    starts = range(0, len(batches), group)
    rounds = {name: [sum_of(samples[start : start + group]) for start in starts] for name, samples in raw.items()}
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
        seconds = sum_of(raw[name])[clock]
        ratios = round_ratios(rounds[name], rounds[baseline], clock)
        lines = [texts(first.task, hypothesis["tokens"]) for hypothesis in found]
        differing = []
        for number, ours in zip(numbers, found):
            stock = first.found[beam, number]
            if not torch.equal(ours["tokens"].cpu(), stock["tokens"].cpu()):
                differing.append({"sentence": number, "scores": [float(stock["score"]), float(ours["score"])]})
        whole = seconds / sum_of(raw[baseline])[clock]
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
    return result


def batch_tables(report: Mapping[str, Any]) -> list[str]:
    section = report["sections"]["translate"]
    measured = next(iter(section.values()))
    return [
        "## Translation of a test set",
        f"{measured['sentences']} sentences in {measured['batches']} batches, checkpoint `{measured['checkpoint']}`. "
        "Ratios are medians over batches, slowest and fastest batch in brackets; *whole* is the ratio of all batches "
        "together. *different*: best hypotheses that differ from the first search's, and how many of these are ties "
        f"(scores differ by at most {TIE:g}).",
        _table(
            section,
            ("sentences/s", "words/s"),
            lambda figures: (f"{figures['sentences_per_second']:,.1f}", f"{figures['tokens_per_second']:,.0f}"),
        ),
        *_differences(section),
    ]


def sentence_tables(report: Mapping[str, Any]) -> list[str]:
    section = report["sections"]["sentence"]
    measured = next(iter(section.values()))
    return [
        "## One sentence at a time",
        f"{measured['sentences']} sentences, checkpoint `{measured['checkpoint']}`. Median and 99th percentile of the "
        "time of a sentence, in brackets how many times lower than the first search's. Ratios are medians over groups "
        f"of {report['settings']['sentence_group']} sentences.",
        _table(
            section,
            ("median, ms", "99 %, ms"),
            lambda figures: [f"{1e3 * s:.2f} ({figures[part]:.2f})" for part, s in figures["latency"].items()],
        ),
        *_differences(section),
    ]


def _table(section: Mapping[str, Any], names: Sequence[str], cells: Callable[[Any], Sequence[str]]) -> str:
    rows = []
    for beam, measured in section.items():
        for name, figures in measured["systems"].items():
            (ratio,) = figures["time_ratio"].values()
            ties = figures["different"] - figures["different without ties"]
            compared = (f"`{name}`", speed(ratio["rounds"]), f"{1 / ratio['whole']:.2f}")
            rows.append(
                [beam, *compared, *cells(figures), str(figures["different"]), str(ties), f"{figures['bleu']:.2f}"]
            )
    return table(["beam", "search", "× first", "whole", *names, "different", "ties", "BLEU"], rows)


def _differences(section: Mapping[str, Any]) -> list[str]:
    """The first differing sentences of the exact search, with both scores."""
    lines = []
    for beam, measured in section.items():
        for item in measured["systems"].get("plugin", {}).get("differing", [])[:SHOWN]:
            stock, ours = item["scores"]
            lines.append(f"- {beam}, sentence {item['sentence']}: scores {stock:.7f} and {ours:.7f}")
    return ["Differences of `plugin`:", "\n".join(lines)] if lines else []
