"""What follows from a corpus: tokeniser, kind of subwords, and the options of the training."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

from fairseq_attn_plugin.errors import OptionError, did_you_mean

from .pairs import Pair

__all__ = ["Model", "check_architecture", "fitting_size", "last_value", "tokenizer_of"]

LONGEST_WORD = 15  # characters between blanks, on average: longer in scripts without blanks between words
PER_ROOT, FEWEST, MOST = 8, 200, 32000  # subwords
EPOCH_UPDATES = 200  # of an epoch, about
FIRST_ORDER = "lstm_latent_first_order"  # start of the names of architectures that need --objective first-order
# objectives of latent alignment models, by the start of the architecture's name
DEFAULT_OBJECTIVES = {FIRST_ORDER: "first-order", "lstm_latent": "marginal", "lstm_posterior": "elbo-enum"}
# more options of an objective
OBJECTIVE_OPTIONS = {
    "sparse-marginal": "--attention-normalizer sparsemax",
    "sparse-elbo": "--posterior-normalizer sparsemax",
    "elbo-gumbel": "--gumbel-tau 0.1",
    "wake-sleep": "--num-samples 5 --control-variates",
    # it does not learn without an epoch of soft attention and an epoch in which the weight of the KL rises
    "dirichlet": f"--soft-updates {EPOCH_UPDATES} --kl-warmup-updates {EPOCH_UPDATES}",
}
# stock fairseq's LSTM in the default sizes of the plugin's architectures
STOCK_SIZES = (
    "--encoder-embed-dim 256 --encoder-hidden-size 256 --encoder-layers 2 --encoder-bidirectional "
    "--decoder-embed-dim 256 --decoder-hidden-size 256 --decoder-layers 2 --decoder-out-embed-dim 256"
).split()


class Model(NamedTuple):
    """The model that the user chose.

    Attributes:
        arch: architecture
        objective: of ``--criterion latent_alignment``; empty: cross entropy
        seed: of the training
        user_dir: folder of code that registers parts of the model, or empty
        extra: further options of fairseq-train
    """

    arch: str
    objective: str
    seed: int
    user_dir: str
    extra: Sequence[str]

    @property
    def is_latent(self) -> bool:
        return self.arch.startswith(("lstm_latent", "lstm_posterior"))

    def check(self) -> None:
        """Raises ``OptionError`` if an option behind ``--`` chooses what another one chooses, or two do not fit."""
        from fairseq_attn_plugin.criterions.objectives import OBJECTIVES

        objective, arch = self.objective, self.arch
        chosen = {
            "-a --arch": f"the architecture is chosen by --arch {arch}",
            "--seed": f"the seed is chosen by --seed {self.seed}",
            "--save-dir": "the folder is chosen by --out FOLDER",
            "--user-dir -s --source-lang -t --target-lang": "is set by --user-dir, --from and --to",
        }
        if objective:
            chosen["--criterion --objective"] = f"the criterion and its objective are chosen by --objective {objective}"
        for option in self.extra:
            for names, message in chosen.items():
                if option.partition("=")[0] in names.split():
                    raise OptionError(f"{option}: {message}")
        if self.user_dir and not Path(self.user_dir).is_dir():
            raise OptionError(f"--user-dir {self.user_dir}: there is no such folder; must be a Python package")
        if not objective:
            return
        if arch.startswith("lstm_agreement"):
            raise OptionError(
                f"--objective {objective} is for models of one direction: leave it out with --arch {arch}"
            )
        if objective not in OBJECTIVES and self.user_dir:
            return
        if objective not in OBJECTIVES:
            raise OptionError(f"--objective {objective} is unknown: expected one of {', '.join(OBJECTIVES)}")
        if not self.is_latent and objective != "soft":
            raise OptionError(
                f"--objective {objective} needs latent alignments: choose --arch lstm_latent, or --objective soft with "
                f"--arch {arch}"
            )
        if (objective == "first-order") != arch.startswith(FIRST_ORDER):
            raise OptionError(
                f"--objective {objective} does not fit --arch {arch}: choose --objective first-order with --arch "
                f"{FIRST_ORDER}, or neither of the two"
            )

    def options(self, pairs: int, max_epoch: int, patience: int) -> List[str]:
        """Options of fairseq-train for a corpus of so many pairs; those of the user come last and win.

        About 200 updates an epoch, in batches of 16 to 80 sentences. The rate is halved when the validation loss has
        not fallen for an epoch. fairseq refuses, for example, ``--label-smoothing`` with ``--criterion cross_entropy``:
        a group of options is left out if the user gives its leading option. ``fused_adam`` keeps Adam's options.
        """
        from fairseq.models import MODEL_DATACLASS_REGISTRY

        from fairseq_attn_plugin.criterions.objectives import OBJECTIVES

        batch = max(16, min(80, pairs // 200))
        criterion = "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
        if self.arch.startswith("lstm_agreement"):
            criterion = "--criterion agreement --label-smoothing 0.1"
        if self.objective:
            criterion = f"--criterion latent_alignment --objective {self.objective} "
            criterion += OBJECTIVE_OPTIONS.get(self.objective, "")
        chosen = ["--arch", self.arch, *(STOCK_SIZES if self.arch == "lstm" else ())]
        if hasattr(MODEL_DATACLASS_REGISTRY.get(self.arch), "embed_init_range"):
            chosen += ["--embed-init-range", "1"]  # attention begins to align within the first epoch
        optimizer = () if last_value(self.extra, "--optimizer") in ("adam", "fused_adam") else ("--optimizer",)
        for group, leading in (
            ("--optimizer adam --lr 3e-3", optimizer),
            ("--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5", ("--lr-scheduler",)),
            (criterion, ("--criterion",)),
            (
                f"--max-tokens 4000 --batch-size {batch} --required-batch-size-multiple 1",
                ("--batch-size", "--max-sentences", "--max-tokens"),
            ),
        ):
            if not given(self.extra, *leading):
                chosen += group.split()
        chosen += ["--dropout", "0.3" if pairs < 50000 else "0.2", "--clip-norm", "5"]
        chosen += ["--max-epoch", str(max_epoch), "--patience", str(patience)]
        chosen += "--log-format json --log-interval 20 --num-workers 0".split()
        if self.is_latent and self.objective in OBJECTIVES and not OBJECTIVES[self.objective].posterior:
            chosen += ["--latent-posterior", "False"]
        return [*chosen, "--seed", str(self.seed), "--no-epoch-checkpoints", *self.extra]


def given(extra: Sequence[str], *names: str) -> bool:
    """Whether one of the options ``names`` is among those after ``--``."""
    return any(option.partition("=")[0] in names for option in extra)


def last_value(extra: Sequence[str], name: str) -> Optional[str]:
    """The value of the option ``name``, the last one if there are several; None without the option."""
    found = None
    for option, following in zip(extra, [*extra[1:], ""]):
        key, equals, value = option.partition("=")
        if key == name:
            found = value if equals else following
    return found


def fitting_size(words: int) -> int:
    """The number of subwords for a training text of so many words, both languages together.

    8 sqrt(words): 1,300 for 2,000 short pairs, 7,000 for Multi30k. A larger vocabulary has subwords that occur too
    seldom to be learned.
    """
    return max(FEWEST, min(MOST, int(round(PER_ROOT * words**0.5, -2))))


def tokenizer_of(pairs: Sequence[Pair]) -> str:
    """``moses``, or ``none`` for a language that writes no blanks between words."""
    for side in (0, 1):
        sentences = [pair[side] for pair in pairs[:1000]]
        if sum(map(len, sentences)) > LONGEST_WORD * sum(len(sentence.split()) for sentence in sentences):
            return "none"
    return "moses"


def check_architecture(arch: str) -> str:
    """The objective that the architecture needs; empty for most.

    Raises:
        OptionError: there is no such architecture, or it does not translate
    """
    from fairseq.models import ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel

    from fairseq_attn_plugin.models.agreement_lstm import AgreementLSTMModel

    known: Dict[str, type] = {
        name: model
        for name, model in ARCH_MODEL_REGISTRY.items()
        if issubclass(model, (FairseqEncoderDecoderModel, AgreementLSTMModel))
    }
    if arch not in known:
        own: List[str] = sorted(name for name, model in known.items() if model.__module__.startswith(__package__[:19]))
        hint = did_you_mean(arch, known, f"choose from {', '.join(own)}", 2)
        raise OptionError(f"--arch {arch}: there is no such architecture of a translation model; {hint}")
    return next((objective for start, objective in DEFAULT_OBJECTIVES.items() if arch.startswith(start)), "")
