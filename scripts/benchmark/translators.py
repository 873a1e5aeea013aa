"""What translates in the sections ``translate`` and ``sentence``: one checkpoint, searched in several ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask

from benchmark.corpus import open_task
from benchmark.measure import Clock, Sample
from benchmark.systems import Sizes, Spec, System, build_generator
from benchmark.targets import SOFT
from fairseq_attn_plugin.errors import OptionError

Hypothesis = Mapping[str, Any]


class Translator:
    """A model that was read anew, because preparations for inference cannot be undone, and its way of searching."""

    def __init__(
        self, spec: Spec, task: TranslationTask, model: torch.nn.Module, device: torch.device, length: Mapping[str, Any]
    ):
        self.spec, self.task, self.model, self.device, self.length = spec, task, model, device, length
        self.generator = lru_cache(None)(self._generator)
        self.found: dict[tuple[int, int], Hypothesis] = {}

    def _generator(self, beam: int) -> SequenceGenerator:
        return build_generator(self.task, self.model, self.spec, beam=beam, **self.length)

    def translate(self, batch: Mapping[str, Any], beam: int) -> Sample:
        """Seconds of one batch. The best hypotheses are kept in ``found``, by beam and number of the sentence."""
        generator = self.generator(beam)
        clock = Clock(self.device)
        hypotheses = self.task.inference_step(generator, [self.model], batch)
        sample = clock.lap()
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
    for text in settings["translators"]:
        spec = Spec.parse(text)
        if spec.arch not in ("stock", "plugin"):
            raise OptionError(f"--translators {text}: must start with stock or plugin")
        options = dict(spec.options)
        if spec.arch == "plugin" or "decoding_engine" in GenerationConfig.__dataclass_fields__:
            options["decoding_engine"] = spec.arch
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
    kept = tokens[tokens.ne(dictionary.pad())].cpu()
    return dictionary.string(kept, _subwords(dictionary), escape_unk=False)


def _subwords(dictionary: Any) -> Any:
    symbols = dictionary.symbols[dictionary.nspecial :]
    if any(symbol.endswith("@@") for symbol in symbols):
        return "subword_nmt"
    return "sentencepiece" if any(symbol.startswith("▁") for symbol in symbols) else None
