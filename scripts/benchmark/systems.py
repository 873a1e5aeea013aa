"""Systems of the benchmark, built with fairseq's registry, and their batches.

A system is written ``ARCH`` or ``ARCH:option=value,option=value``, with the options of ``fairseq-train --arch ARCH``,
the name of an ``optimizer``, and the options of ``fairseq-generate``.
Models are built from parsed command-line arguments, as in fairseq-train, with a dictionary in memory. No data are read.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Union

import torch
from fairseq import models, options
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import OPTIMIZER_REGISTRY, build_optimizer
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.translation import TranslationTask

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.cuda_graphs import GraphedSteps

TRUTH = {"true": True, "false": False}
STOCK = "lstm"
SOFT = "lstm_soft"
UNFED = "lstm_soft:input_feeding=none"


@dataclass(frozen=True)
class Sizes:
    """One set of sizes for every system, so that only the architecture differs."""

    vocab: int = 8000
    embed: int = 256
    hidden: int = 256
    layers: int = 2
    dropout: float = 0.2

    def as_options(self) -> dict[str, str]:
        return {
            "encoder_embed_dim": str(self.embed),
            "encoder_hidden_size": str(self.hidden),
            "encoder_layers": str(self.layers),
            "encoder_bidirectional": "true",
            "decoder_embed_dim": str(self.embed),
            "decoder_hidden_size": str(self.hidden),
            "decoder_layers": str(self.layers),
            "decoder_out_embed_dim": str(self.embed),
            "dropout": str(self.dropout),
        }


@dataclass(frozen=True)
class Spec:
    """A parsed system: architecture and the options that differ from its defaults."""

    arch: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Spec:
        arch, _, rest = text.partition(":")
        pairs: list[tuple[str, str]] = []
        for item in filter(None, rest.split(",")):
            name, equals, value = item.partition("=")
            if not equals and pairs:  # a value with commas, as in attention_bias=position,markov
                pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]},{item.strip()}")
                continue
            if not (name and equals and value):
                raise OptionError(f"system {text!r}: {item!r} must be option=value (lstm_soft:input_feeding=none)")
            pairs.append((name.strip().lstrip("-").replace("-", "_"), value.strip()))
        if not arch:
            raise OptionError(f"system {text!r}: must start with an architecture; {_registered()}")
        return cls(arch, tuple(pairs))

    def generation(self) -> dict[str, str]:
        """The options that are fairseq-generate's."""
        return {name: value for name, value in self.options if name in GenerationConfig.__dataclass_fields__}

    def __str__(self) -> str:
        return self.arch + ("" if not self.options else ":" + ",".join(f"{k}={v}" for k, v in self.options))


class MemoryTask:
    """The part of a translation task that models and criterions use: one dictionary for both sides."""

    def __init__(self, vocab: int):
        self.source_dictionary = self.target_dictionary = synthetic_dictionary(vocab)


def synthetic_dictionary(vocab: int) -> Dictionary:
    dictionary = Dictionary()
    for index in range(vocab - len(dictionary)):
        dictionary.add_symbol(f"w{index}")
    return dictionary


def _registered() -> str:
    every = models.ARCH_MODEL_REGISTRY
    ours = sorted(name for name, cls in every.items() if cls.__module__.startswith("fairseq_attn_plugin"))
    return f"registered: {', '.join(['lstm', *ours])} (and {len(every) - len(ours) - 1} others of fairseq)"


def training_arguments(spec: Spec, sizes: Sizes, optimizer: str = "adam") -> argparse.Namespace:
    """The namespace of ``fairseq-train --arch ...`` for this system; ``optimizer`` in its options goes first.

    Flags are set on the namespace, because a flag inverts the default of its architecture.

    Raises:
        OptionError: the architecture, an option or a value is unknown
    """
    if spec.arch not in models.ARCH_MODEL_REGISTRY:
        raise OptionError(f"unknown architecture {spec.arch!r}; {_registered()}")
    probe = argparse.ArgumentParser(allow_abbrev=False)
    models.ARCH_MODEL_REGISTRY[spec.arch].add_args(probe)
    actions = {action.dest: action for action in probe._actions if action.dest != "help"}
    chosen = {**sizes.as_options(), **dict(spec.options)}
    for name in spec.generation():
        del chosen[name]
    optimizer = chosen.pop("optimizer", optimizer)
    if optimizer not in OPTIMIZER_REGISTRY:
        raise OptionError(f"optimizer={optimizer} of {spec}: choose from {', '.join(sorted(OPTIMIZER_REGISTRY))}")
    line = f"no-data --arch {spec.arch} --task translation --optimizer {optimizer} --lr 0.001".split()
    line += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]
    flags = {}
    for name, value in chosen.items():
        action = actions.get(name)
        if action is None:
            raise OptionError(f"{spec.arch} has no option {name!r}; it has {', '.join(sorted(actions))}")
        if action.nargs == 0:
            if value.lower() not in TRUTH:
                raise OptionError(f"{name}={value} of {spec}: must be true or false")
            flags[name] = TRUTH[value.lower()]
            continue
        line += [f"--{name.replace('_', '-')}", value]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=line)
    for name, on in flags.items():
        setattr(args, name, on)
    return args


class System:
    """One architecture: a model for training, and a second one prepared for decoding.

    Both have the same parameters. Two models are necessary, because fairseq's ``prepare_for_inference_`` cannot be
    undone. ``optimizer`` is a name of fairseq-train's ``--optimizer``, or none: training steps without update.
    """

    def __init__(
        self,
        spec: Spec,
        sizes: Sizes,
        task: Union[MemoryTask, TranslationTask],
        device: torch.device,
        seed: int,
        optimizer: str = "adam",
    ):
        self.spec, self.task, self.device = spec, task, device
        updates = optimizer != "none"
        self.config = convert_namespace_to_omegaconf(training_arguments(spec, sizes, optimizer if updates else "adam"))
        torch.manual_seed(seed)
        self.model = models.build_model(self.config.model, task).to(device).train()
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.criterion: Any = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)
        if getattr(self.model, "cuda_graphs", False):
            self.criterion = GraphedSteps(self.criterion)
        self.optimizer = build_optimizer(self.config.optimizer, self.parameters) if updates else None
        self.generators: dict[tuple[int, int], SequenceGenerator] = {}

    @cached_property
    def decoding_model(self) -> torch.nn.Module:
        model = models.build_model(self.config.model, self.task).to(self.device).eval()
        model.load_state_dict(self.model.state_dict())
        model.prepare_for_inference_(self.config)
        return model

    def update(self, sample_size: float) -> None:
        """What follows the backward pass in fairseq's trainer."""
        if self.optimizer is not None:
            self.optimizer.multiply_grads(1.0 / sample_size)
            self.optimizer.clip_grad_norm(1.0)
            self.optimizer.step()
        self.model.zero_grad()

    def size(self) -> int:
        return sum(p.numel() for p in self.parameters)

    def generator(self, beam: int, steps: int) -> SequenceGenerator:
        """The beam search of fairseq-generate; all hypotheses have ``steps`` words and the end of sentence.

        As there, one generator searches all batches, and keeps the CUDA graphs of their shapes.
        """
        if (beam, steps) not in self.generators:
            self.generators[beam, steps] = build_generator(
                self.task, self.decoding_model, self.spec, beam=beam, max_len_a=0, max_len_b=steps, min_len=steps
            )
        return self.generators[beam, steps]


def build_generator(
    task: Union[MemoryTask, TranslationTask], model: torch.nn.Module, spec: Spec, **options: Any
) -> SequenceGenerator:
    """What fairseq-generate searches with: ``options`` and those of ``spec`` instead of its defaults.

    Raises:
        OptionError: a value that an option of the plugin's search cannot have
    """
    given = {name: literal(value) for name, value in spec.generation().items()}
    args = argparse.Namespace(**{**asdict(GenerationConfig()), **given, **options})
    return FairseqTask.build_generator(task, [model], args)


def literal(text: str) -> Any:
    """A number if it is one, otherwise the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def make_batch(task: MemoryTask, length: int, tokens: int, seed: int, device: torch.device) -> dict[str, Any]:
    """A batch of ``max(1, tokens // length)`` sentence pairs from fairseq's collater.

    Lengths (with end of sentence) are uniform over [0.8 length, length], similar to batches of sorted sentences. The
    longest is ``length`` on both sides. Words are uniform over the real symbols of the dictionary.
    """
    dictionary = task.source_dictionary
    draw = torch.Generator().manual_seed(seed)
    count = max(1, tokens // length)
    shortest = max(1, int(0.8 * length))

    def sentence(words: int) -> torch.Tensor:
        body = torch.randint(dictionary.nspecial, len(dictionary), (words - 1,), generator=draw)
        return torch.cat([body, torch.tensor([dictionary.eos()])])

    def lengths() -> list[int]:
        drawn = torch.randint(shortest, length + 1, (count,), generator=draw)
        drawn[0] = length
        return [int(n) for n in drawn]

    pairs = [
        {"id": index, "source": sentence(source), "target": sentence(target)}
        for index, (source, target) in enumerate(zip(lengths(), lengths()))
    ]
    batch = collate(pairs, pad_idx=dictionary.pad(), eos_idx=dictionary.eos())  # pads sources left, targets right
    return to_device(batch, device)


def to_device(value: Any, device: torch.device) -> Any:
    if torch.is_tensor(value):
        return value.to(device)
    if isinstance(value, dict):
        return {key: to_device(item, device) for key, item in value.items()}
    return value
