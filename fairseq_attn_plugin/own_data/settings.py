"""What follows from a corpus and an architecture: tokeniser, number of subwords, and the options of the training."""

import argparse
import re
from typing import Dict, List, Sequence, Tuple

from fairseq_attn_plugin.corpora.parallel import Pair
from fairseq_attn_plugin.errors import OptionError, did_you_mean
from fairseq_attn_plugin.text.reading import build_normalizer, moses_tokenizer, scored_by

LONGEST_WORD = 15  # characters between blanks, on average: longer in scripts without blanks between words
MOST_TORN = 0.1  # of the sentences; of German and English 0.001, of Arabic, Hindi or Persian more than a third
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


def parsed(words: Sequence[str]) -> Dict[str, str]:
    """Options with their values; of an option that is given several times the last one counts, as for fairseq."""
    found: Dict[str, str] = {}
    name = ""
    for word in words:
        if re.fullmatch("-[A-Za-z]|--[A-Za-z].*", word, re.DOTALL):
            name, _, found[name] = word.partition("=")
        elif name:
            found[name] = f"{found[name]} {word}".strip()
    return found


def check_model(args: argparse.Namespace) -> str:
    """The objective of ``--criterion latent_alignment``; empty: cross entropy. The words after ``--`` are
    ``args.extra``.

    Raises:
        OptionError: there is no such architecture or objective, the two do not fit, or an option behind ``--`` chooses
            what another one chooses
    """
    from fairseq.models import ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel

    from fairseq_attn_plugin.attention import attention_class
    from fairseq_attn_plugin.criterions.objectives import OBJECTIVES
    from fairseq_attn_plugin.models.agreement_lstm import AgreementLSTMModel

    arch, kinds = args.arch, (FairseqEncoderDecoderModel, AgreementLSTMModel)
    known: Dict[str, type] = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, kinds)}
    if arch not in known:
        own: List[str] = sorted(name for name, model in known.items() if model.__module__.startswith(__package__[:19]))
        hint = did_you_mean(arch, known, f"choose from {', '.join(own)}", 2)
        raise OptionError(f"--arch {arch}: there is no such architecture of a translation model; {hint}")
    usual = next((objective for start, objective in DEFAULT_OBJECTIVES.items() if arch.startswith(start)), "")
    objective: str = args.objective or usual
    chosen = {
        "-a --arch": f"the architecture is chosen by --arch {arch}, before --",
        "--seed": f"the seed is chosen by --seed {args.seed}",
        "--save-dir": "the folder is chosen by --out FOLDER",
        "--user-dir": "the folder of code is given by --user-dir FOLDER, before --",
        "-s --source-lang -t --target-lang": "the languages are given by --from and --to",
        "--no-save --disable-validation --checkpoint-suffix": "leaves no checkpoint_best.pt, and so no model folder; "
        "leave it out",
        "--restore-file --reset-optimizer --reset-lr-scheduler --reset-meters --reset-dataloader": "counts again when "
        "this command continues the training; --finetune-from-model and --continue-once count once",
        "--criterion --objective": f"the criterion and its objective are chosen by --objective {objective}",
    }
    given = parsed(args.extra)
    for option in given:
        for names, message in chosen.items():
            if option in names.split() and (objective or "--objective" not in names):
                raise OptionError(f"{option}: {message}")
    if "--attention" in given:
        attention_class(given["--attention"])  # an unknown one is refused before the text is prepared
    if objective and objective not in OBJECTIVES:
        raise OptionError(f"--objective {objective}: is unknown; choose from {', '.join(OBJECTIVES)}")
    if objective and not usual:
        raise OptionError(
            f"--objective {objective} needs latent alignments: choose --arch lstm_latent, or leave it out"
        )
    if (objective == "first-order") != (usual == "first-order"):
        raise OptionError(
            f"--objective {objective} does not fit --arch {arch}: choose --objective first-order with --arch "
            f"{FIRST_ORDER}, or neither of the two"
        )
    return objective


def training_options(args: argparse.Namespace, objective: str, pairs: int) -> List[str]:
    """Options of fairseq-train for a corpus of so many pairs; those of the user come last and win.

    About 200 updates an epoch, in batches of 16 to 80 sentences. The rate is halved when the validation loss has not
    fallen for an epoch. fairseq refuses, for example, ``--label-smoothing`` with ``--criterion cross_entropy``: a group
    of options is left out if the user gives its leading option. ``fused_adam`` keeps Adam's options.
    """
    from fairseq.models import MODEL_DATACLASS_REGISTRY

    from fairseq_attn_plugin.criterions.objectives import OBJECTIVES

    arch, given = args.arch, parsed(args.extra)
    criterion = "--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
    if arch.startswith("lstm_agreement"):
        criterion = "--criterion agreement --label-smoothing 0.1"
    if objective:
        more = OBJECTIVE_OPTIONS.get(objective, "")
        criterion = f"--criterion latent_alignment --objective {objective} {more}"
    chosen = ["--arch", arch]
    if hasattr(MODEL_DATACLASS_REGISTRY.get(arch), "embed_init_range"):
        chosen += ["--embed-init-range", "1"]  # attention begins to align within the first epoch
    batches = f"--max-tokens 4000 --batch-size {max(16, min(80, pairs // 200))} --required-batch-size-multiple 1"
    for group, leading in (
        ("--optimizer adam --lr 3e-3", () if given.get("--optimizer") in ("adam", "fused_adam") else ("--optimizer",)),
        ("--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5", ("--lr-scheduler",)),
        (criterion, ("--criterion",)),
        (batches, ("--batch-size", "--max-sentences", "--max-tokens")),
    ):
        if not any(option in given for option in leading):
            chosen += group.split()
    chosen += ["--dropout", "0.3" if pairs < 50000 else "0.2", "--clip-norm", "5"]
    chosen += ["--max-epoch", str(args.max_epoch), "--patience", str(args.patience)]
    chosen += "--log-format json --log-interval 20 --num-workers 0".split()
    if objective and not OBJECTIVES[objective].posterior:
        chosen += ["--latent-posterior", "False"]
    return [*chosen, "--seed", str(args.seed), "--no-epoch-checkpoints", *args.extra]


def fitting_size(words: int) -> int:
    """The number of subwords for a training text of so many words, both languages together.

    8 sqrt(words): 1,300 for 2,000 short pairs, 7,000 for Multi30k. A larger vocabulary has subwords that occur too
    seldom to be learned.
    """
    return max(FEWEST, min(MOST, int(round(PER_ROOT * words**0.5, -2))))


def tokenizer_of(pairs: Sequence[Pair], languages: Sequence[str]) -> str:
    """``moses``, or ``none`` for a language that writes no blanks between words, known by its name or its text, and for
    a target in which Moses' rules leave blanks, as before the question mark of Arabic."""
    sides: List[Sequence[str]] = list(zip(*pairs[:1000]))
    has_blanks = all(blanks for _, blanks in map(_counted, sides, languages))
    return "moses" if has_blanks and _torn(sides[1], languages[1]) <= MOST_TORN else "none"


def _torn(sentences: Sequence[str], language: str) -> float:
    """The share of sentences that have more blanks after Moses' rules have split and joined them than before."""
    from sacremoses import MosesDetokenizer

    tokenize, detokenizer = moses_tokenizer(language), MosesDetokenizer(language)
    torn = 0
    for sentence in map(build_normalizer("moses", language), sentences):
        joined = detokenizer.detokenize(tokenize(sentence, escape=False))
        torn += len(joined.split()) > len(sentence.split())
    return torn / len(sentences)


def words_in(sentences: Sequence[str], language: str) -> int:
    """The number of words; two characters count as one where no blanks are written, as in Japanese or Chinese."""
    return _counted(sentences, language)[0]


def _counted(sentences: Sequence[str], language: str) -> Tuple[int, bool]:
    """The number of words, and whether there are blanks between them."""
    words, characters = sum(len(sentence.split()) for sentence in sentences), sum(map(len, sentences))
    blanks = not scored_by(language) and characters <= LONGEST_WORD * words
    return words if blanks else characters // 2, blanks
