"""Latency of one sentence: the sections ``latency`` and ``latency_attention`` of the benchmark.

The sections compare a teacher, which has an attention network, with models whose attention depends on positions only.
Sentences are translated one at a time, without batches. Measured are the time per sentence by class of source length,
and the time of attention alone.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import torch

from benchmark.measure import Clock, Sample, interleave, round_ratios, summary
from benchmark.sections import Tick, decode
from benchmark.systems import MemoryTask, Sizes, Spec, System, as_batch
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

TEACHER = "lstm_soft:attention_score=additive"
SYSTEMS = (TEACHER, "lstm_gaussian", "lstm_election")
CLASSES = ((4, 7), (8, 11), (12, 15), (16, 25))
NAMED = 1 / 3  # share of the target words that name source words
MOST_NAMES = 3
FROM_SENTENCES = 1 / 2  # share of the named source words that are words of the sentences


def sentences(task: MemoryTask, words: tuple[int, int], count: int, seed: int) -> list[torch.Tensor]:
    """``count`` sentences. Their lengths, without end of sentence, cycle from the shortest of the class to its longest.

    Words are uniform over the real symbols of the dictionary.
    """
    dictionary = task.source_dictionary
    draw = torch.Generator().manual_seed(seed)
    shortest, longest = words
    sizes = [shortest + number % (longest - shortest + 1) for number in range(count)]
    end = torch.tensor([dictionary.eos()])
    return [
        torch.cat([torch.randint(dictionary.nspecial, len(dictionary), (size,), generator=draw), end]) for size in sizes
    ]


def random_table(task: MemoryTask, spoken: Sequence[torch.Tensor], seed: int) -> dict[str, Any]:
    """The content of an agent's file: a third of the target words name one to three source words, and half of these
    are words of the sentences ``spoken``."""
    source, target = task.source_dictionary, task.target_dictionary
    draw = random.Random(seed)
    real = source.symbols[source.nspecial :]
    occurring = sorted({source[int(word)] for sentence in spoken for word in sentence[:-1]})
    words = {}
    for word in target.symbols[target.nspecial :]:
        if draw.random() < NAMED:
            names = [draw.choice(occurring if draw.random() < FROM_SENTENCES else real) for _ in range(MOST_NAMES)]
            words[word] = list(dict.fromkeys(names[: draw.randint(1, MOST_NAMES)]))
    return {
        "format": "fairseq_attn_plugin words 1",
        "source_vocabulary": describe_vocabulary(source),
        "target_vocabulary": describe_vocabulary(target),
        "threshold": 0.79,
        "horizon": 5,
        "words": words,
    }


class LatencyRun:
    """The sentences of every class, and the systems that translate them.

    Raises OptionError for an unknown architecture, option or value.
    """

    def __init__(self, settings: Mapping[str, Any], device: torch.device):
        self.settings = settings
        self.device = device
        task = self.task = MemoryTask(settings["sizes"]["vocab"])
        self.classes = {
            f"{shortest}-{longest}": sentences(
                task, (shortest, longest), settings["latency_sentences"], settings["seed"]
            )
            for shortest, longest in settings["latency_classes"]
        }
        table = random_table(task, [sentence for part in self.classes.values() for sentence in part], settings["seed"])
        self.systems: dict[str, System] = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "words.json"
            path.write_text(json.dumps(table))
            for text in settings["latency_archs"]:
                spec = Spec.parse(text)
                built = spec
                if spec.arch == "lstm_election" and "election_table" not in dict(spec.options):
                    built = replace(spec, options=(*spec.options, ("election_table", str(path))))
                system = System(built, Sizes(**settings["sizes"]), task, device, settings["seed"], optimizer="none")
                _ = system.decoding_model  # is built while the table's file exists
                self.systems[str(spec)] = system

    def ticks(self) -> int:
        turns = (self.settings["rounds"] + self.settings["warmup"]) * len(self.classes)
        return turns * (len(self.settings["latency_beam"]) * len(self.systems) + len(self.attending()))

    def attending(self) -> dict[str, System]:
        """The systems with an attention of this package, which can be timed alone."""
        return {
            name: system
            for name, system in self.systems.items()
            if getattr(getattr(system.decoding_model.decoder, "attention", None), "precompute", None) is not None
        }

    def sections(self, tick: Tick) -> dict[str, Any]:
        """Both sections; on the CPU with ``latency_threads`` threads."""
        threads = torch.get_num_threads()
        torch.set_num_threads(self.settings["latency_threads"])
        try:
            return {"latency": self._whole(tick), "latency_attention": self._attention(tick)}
        finally:
            torch.set_num_threads(threads)

    def _whole(self, tick: Tick) -> dict[str, Any]:
        """Stock beam search, sentence by sentence; a translation has as many words as its source."""
        section = {}
        for beam in self.settings["latency_beam"]:
            for label, spoken in self.classes.items():
                batches = [as_batch(sentence, self.task, self.device) for sentence in spoken]

                def translate(system: System, beam: int = beam, batches: Sequence[Any] = batches) -> list[Sample]:
                    return [decode(system, batch, beam, words_of(batch), self.device) for batch in batches]

                section[class_name(label, beam)] = self._compare(
                    self.systems,
                    translate,
                    lambda name, label=label, beam=beam: tick(f"latency {label} words, beam {beam}, {name}"),
                )
        return section

    def _attention(self, tick: Tick) -> dict[str, Any]:
        """Attention alone, as in greedy search: ``precompute`` once per sentence, and a step for each word and the
        end of sentence."""
        section: dict[str, Any] = {}
        if not self.attending():
            return section
        for label, spoken in self.classes.items():
            batches = [as_batch(sentence, self.task, self.device) for sentence in spoken]
            section[label] = self._compare(
                self.attending(),
                lambda system, batches=batches: [self.attend(system, batch) for batch in batches],
                lambda name, label=label: tick(f"attention {label} words, {name}"),
            )
        return section

    @torch.no_grad()
    def attend(self, system: System, batch: dict[str, Any]) -> Sample:
        """Seconds of one sentence's attention: ``precompute``, all ``steps``, one ``step`` (their mean), and the whole.

        Queries are random. The rest of the decoder is not timed.
        """
        decoder = system.decoding_model.decoder
        encoded = system.decoding_model.encoder(batch["net_input"]["src_tokens"])
        attention, encodings, mask = decoder.attention, encoded["encodings"], encoded["pad_mask"]
        steps = words_of(batch) + 1
        draw = torch.Generator().manual_seed(self.settings["seed"])
        queries = torch.randn(steps, 1, 1, decoder.hidden_size, generator=draw).to(self.device).unbind(0)
        positions = torch.arange(steps, device=self.device).view(-1, 1, 1).unbind(0)
        low, high = system.task.target_dictionary.nspecial, len(system.task.target_dictionary)
        inputs = torch.randint(low, high, (steps, 1, 1), generator=draw).to(self.device).unbind(0)
        source = {"source_tokens": encoded["tokens"]} if attention.needs_words else {}
        samples = []
        for _ in range(self.settings["latency_repeats"]):
            clock = Clock(self.device)
            memory = attention.precompute(encodings, mask, **source)
            state = attention.initial_state(memory)
            before = clock.lap()
            for step in range(steps):
                words = {"inputs": inputs[step]} if attention.needs_words else {}
                state = attention.step(queries[step], memory, state, positions[step], **words).state
            after = clock.lap()
            samples.append(
                {
                    **{f"precompute_{name}": before[name] for name in before},
                    **{f"step_{name}": after[name] / steps for name in after},
                    **{name: before[name] + after[name] for name in after},
                }
            )
        return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}

    def _compare(
        self,
        systems: Mapping[str, System],
        work: Callable[[System], list[Sample]],
        tick: Tick,
    ) -> dict[str, Any]:
        """Times ``work``, which returns a sample for every sentence, for all systems in turn.

        A ratio is the quotient of two sums over the same sentences in one round.
        """
        collected: dict[str, list[list[Sample]]] = {name: [] for name in systems}

        def whole_round(name: str, system: System) -> Sample:
            samples = work(system)
            collected[name].append(samples)
            return {part: sum(sample[part] for sample in samples) for part in samples[0]}

        raw = interleave(
            {name: (lambda name=name, system=system: whole_round(name, system)) for name, system in systems.items()},
            self.settings["rounds"],
            self.settings["warmup"],
            tick,
        )
        clock = self.settings["latency_clock"]
        result: dict[str, Any] = {"sentences": self.settings["latency_sentences"], "raw": raw, "systems": {}}
        baseline = next(iter(systems))
        for name, system in systems.items():
            kept = [sample for samples in collected[name][self.settings["warmup"] :] for sample in samples]
            figures: dict[str, Any] = {"parameters": system.size()}
            for part in ("", "precompute_", "step_"):
                if part + clock in kept[0]:
                    figures[part + "seconds"] = percentiles([sample[part + clock] for sample in kept])
                    ratios = round_ratios(raw[name], raw[baseline], part + clock)
                    figures[(part or "time_") + "ratio"] = {baseline: {**summary(ratios), "rounds": ratios}}
            result["systems"][name] = figures
        return result


def class_name(label: str, beam: int) -> str:
    """The name of a class of lengths in the report; greedy search is not mentioned."""
    return label if beam == 1 else f"{label}, beam {beam}"


def words_of(batch: Mapping[str, Any]) -> int:
    """The number of source words, without the end of sentence."""
    return int(batch["net_input"]["src_tokens"].size(1)) - 1


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Median and 90th percentile (the smallest value that is at least as large as nine tenths of the values)."""
    ordered = sorted(values)
    rank = -(-len(ordered) * 9 // 10)  # ceil
    return {"median": statistics.median(ordered), "p90": ordered[rank - 1]}
