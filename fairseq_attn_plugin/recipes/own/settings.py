"""What follows from a corpus: tokeniser, kind of subwords, and the options of the training."""

from __future__ import annotations

import difflib
from typing import Dict, List, Sequence

from ..errors import OptionError
from ..training import OptionGroups
from ..translation.model import FIRST_ORDER_ARCH
from .reading import Pair

__all__ = ["check_architecture", "groups", "tokenizer_of"]

LONGEST_WORD = 15  # characters between blanks, on average: longer in scripts without blanks between words
# objectives of latent alignment models, by the start of the architecture's name
DEFAULT_OBJECTIVES = {
    FIRST_ORDER_ARCH: "first-order",
    "lstm_latent": "elbo-enum",
    "lstm_posterior": "elbo-enum",
}


def tokenizer_of(pairs: Sequence[Pair]) -> str:
    """``moses``, or ``none`` for a language that writes no blanks between words."""
    for side in (0, 1):
        sentences = [pair[side] for pair in pairs[:1000]]
        if sum(map(len, sentences)) > LONGEST_WORD * sum(len(sentence.split()) for sentence in sentences):
            return "none"
    return "moses"


def groups(pairs: int, max_epoch: int, patience: int) -> OptionGroups:
    """Options of fairseq-train for a corpus of so many pairs.

    About 200 updates an epoch, in batches of 16 to 80 sentences. The rate is halved when the validation loss has not
    fallen for an epoch.
    """
    batch = max(16, min(80, pairs // 200))
    dropout = "0.3" if pairs < 50000 else "0.2"
    return OptionGroups(
        optimizer="--optimizer adam --lr 3e-3".split(),
        schedule="--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5".split(),
        criterion="--criterion label_smoothed_cross_entropy --label-smoothing 0.1".split(),
        batch=["--max-tokens", "4000", "--batch-size", str(batch), "--required-batch-size-multiple", "1"],
        other=[
            *("--dropout", dropout, "--clip-norm", "5", "--max-epoch", str(max_epoch), "--patience", str(patience)),
            *("--log-format", "json", "--log-interval", "20", "--num-workers", "0"),
        ],
    )


def check_architecture(arch: str) -> str:
    """The objective that the architecture needs; empty for most.

    Raises:
        OptionError: there is no such architecture, or it does not translate
    """
    from fairseq.models import ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel

    from ...models.agreement_lstm import AgreementLSTMModel

    known: Dict[str, type] = {
        name: model
        for name, model in ARCH_MODEL_REGISTRY.items()
        if issubclass(model, (FairseqEncoderDecoderModel, AgreementLSTMModel))
    }
    if arch not in known:
        own: List[str] = sorted(name for name, model in known.items() if model.__module__.startswith(__package__[:19]))
        close = difflib.get_close_matches(arch, sorted({*own, *known}), 2, 0.6)
        hint = f"did you mean {' or '.join(close)}?" if close else f"choose from {', '.join(own)}"
        raise OptionError(f"--arch {arch}: there is no such architecture of a translation model; {hint}")
    return next((objective for start, objective in DEFAULT_OBJECTIVES.items() if arch.startswith(start)), "")
