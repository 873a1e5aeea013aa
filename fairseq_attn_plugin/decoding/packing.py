"""Which stepper a model gets, and with which precision and shortlist."""

from __future__ import annotations

from typing import Any, List

from ..errors import OptionError
from .options import DecodingOptions
from .packed import PackedStepper, is_packable
from .products import say_once
from .shortlist import Shortlist
from .stepper import ModelStepper, Stepper

__all__ = ["steppers"]


def steppers(models: List[Any], temperature: float, options: DecodingOptions) -> List[Stepper]:
    """A stepper for each model of an ensemble, as the options want them.

    Raises:
        OptionError: the shortlist cannot be read, or a model takes none
    """
    packable = [is_packable(model) and is_final(model) for model in models]
    shortlist = None
    if options.shortlist is not None and any(model.decoder.copying is not None for model in models):
        raise OptionError(
            f"--shortlist {options.shortlist}: a model that copies (--copy-attention) may copy any word of the source; "
            "leave it out"
        )
    if options.shortlist is not None:
        if not all(packable):
            raise OptionError(
                f"--shortlist {options.shortlist}: a model with an adaptive softmax, with first-order alignments, with "
                "posterior attention without --output-layer linear, with retained dropout, in half precision or in "
                "training takes none; leave it out"
            )
        source, target = models[0].encoder.dictionary, models[0].decoder.dictionary
        shortlist = Shortlist(options.shortlist, options.shortlist_size, options.shortlist_frequent, source, target)
    if options.decoding_precision != "float32" and not all(packable):
        say_once(
            options.decoding_precision,
            "models with an adaptive softmax, with first-order alignments, with posterior attention without "
            "--output-layer linear, with retained dropout, in half precision or in training translate in their own "
            "precision",
        )
    return [
        PackedStepper(model, options.decoding_precision, temperature, shortlist)
        if fast
        else ModelStepper(model, temperature)
        for model, fast in zip(models, packable)
    ]


def is_final(model: Any) -> bool:
    """Whether fairseq has prepared the model for translation: its weights do not change any more, unlike those of a
    model that translates between epochs of its training."""
    return bool(getattr(model, "_is_generation_fast", False))
