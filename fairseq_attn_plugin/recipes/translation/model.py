"""The model of a translation recipe: architecture, attention, and the criterion for both."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.analysis.alignment.linking import METHODS

from ..errors import OptionError
from ..settings import Variables, check_extra, given
from ..training import OptionGroups
from .recipe import Corpus

__all__ = ["DEFAULTS", "OBJECTIVES", "ModelSettings", "choose_groups", "read_model_settings"]

# defaults of the variables that choose a model
DEFAULTS: Dict[str, str] = {
    "ARCH": "lstm_adm",
    **dict.fromkeys(("OBJECTIVE", "TOPK", "ATTENTION", "BIAS", "TEACHER", "USER_DIR"), ""),
    "TEACHER_METHOD": "attention",
}

# objectives that need the prior alone: the model has no posterior
PRIOR_ONLY = ("soft", "marginal", "topk-marginal", "sparse-marginal", "first-order", "hard-enum", "hard-reinforce")
OBJECTIVES = (
    *PRIOR_ONLY, "elbo-enum", "sparse-elbo", "elbo-reinforce", "elbo-gumbel", "elbo-sum-and-sample", "wake-sleep",
    "dirichlet",
)  # fmt: skip
FIRST_ORDER_ARCH = "lstm_latent_first_order"  # start of the names of architectures that need --objective first-order


@dataclass(frozen=True)
class ModelSettings:
    """Settings of the model.

    Attributes:
        arch: architecture
        objective: of ``--criterion latent_alignment``; empty for the criterion of the recipe
        topk: number of alignments per word in translation; None: all
        attention: replaces the attention mechanism of the architecture
        bias: ``--attention-bias``
        teacher: checkpoint whose alignments guide the attention
        user_dir: folder of code that registers the attention; None: this package
        teacher_method: ``--method`` of ``teacher-alignments``
    """

    arch: str
    objective: str
    topk: Optional[int]
    attention: str
    bias: str
    teacher: Optional[Path]
    user_dir: Optional[Path] = None
    teacher_method: str = DEFAULTS["TEACHER_METHOD"]

    @property
    def is_latent(self) -> bool:
        return self.arch.startswith(("lstm_latent", "lstm_posterior"))

    @property
    def name(self) -> str:
        """Of the folder, without the seed."""
        guided = "guided" if self.teacher_method == DEFAULTS["TEACHER_METHOD"] else f"guided-{self.teacher_method}"
        parts = [self.arch, self.attention, self.bias, self.objective, guided if self.teacher else ""]
        return ".".join(filter(None, parts))


def read_model_settings(variables: Variables, extra: Sequence[str]) -> ModelSettings:
    """The settings of the model.

    Args:
        variables: of the recipe
        extra: options after ``--``; these must not choose what a variable chooses

    Raises:
        OptionError: a variable has a wrong value, or two do not go together
    """
    arch, objective = variables.text("ARCH"), variables.text("OBJECTIVE")
    if "/" in arch:
        raise OptionError(f"ARCH='{arch}': must be the name of an architecture")
    chosen: List[Tuple[Tuple[str, ...], str]] = [
        (("-a", "--arch"), f"the architecture is chosen by ARCH={arch}"),
        (("--seed",), f"the seed is chosen by SEED={variables.text('SEED')}"),
        (("--save-dir",), "the folder is chosen by OUT=FOLDER"),
        (("--user-dir", "-s", "--source-lang", "-t", "--target-lang"), "is set by the recipe (USER_DIR, SRC, TGT)"),
    ]
    if objective:
        chosen.append(
            (("--criterion", "--objective"), f"the criterion and its objective are chosen by OBJECTIVE={objective}")
        )
    check_extra(extra, chosen)
    model = ModelSettings(
        arch=arch,
        objective=objective,
        topk=variables.number("TOPK", least=1) if variables.text("TOPK") else None,
        attention=variables.text("ATTENTION"),
        bias=variables.text("BIAS"),
        teacher=variables.path("TEACHER"),
        user_dir=variables.path("USER_DIR"),
        teacher_method=variables.choice("TEACHER_METHOD", tuple(METHODS)),
    )
    if model.user_dir is not None and not model.user_dir.is_dir():
        raise OptionError(f"USER_DIR={variables.text('USER_DIR')}: there is no such folder; must be a Python package")
    _check_objective(model, extra)
    _check_attention(model)
    if model.teacher is not None:
        _check_teacher(variables, model, extra)
    elif model.teacher_method != DEFAULTS["TEACHER_METHOD"]:
        raise OptionError(f"TEACHER_METHOD={model.teacher_method} needs a TEACHER: name a checkpoint, or leave it out")
    return model


def _check_objective(model: ModelSettings, extra: Sequence[str]) -> None:
    arch, objective = model.arch, model.objective
    if model.topk and not model.is_latent:
        raise OptionError(
            f"TOPK={model.topk} needs latent alignments: choose ARCH=lstm_latent, or leave TOPK out with ARCH={arch}"
        )
    if model.topk and arch.startswith(FIRST_ORDER_ARCH):
        raise OptionError(
            f"TOPK={model.topk}: first-order alignments are summed over all positions; leave it out with ARCH={arch}"
        )
    if not objective:
        if model.is_latent and not given(extra, "--criterion"):
            raise OptionError(f"ARCH={arch} needs an OBJECTIVE: expected one of {', '.join(OBJECTIVES)}")
        return
    if objective not in OBJECTIVES and model.user_dir is None:
        raise OptionError(f"OBJECTIVE={objective} is unknown: expected one of {', '.join(OBJECTIVES)}")
    if not model.is_latent and objective != "soft":
        raise OptionError(
            f"OBJECTIVE={objective} needs latent alignments: choose ARCH=lstm_latent, or OBJECTIVE=soft with "
            f"ARCH={arch}"
        )
    if objective in OBJECTIVES and (objective == "first-order") != arch.startswith(FIRST_ORDER_ARCH):
        chain = f"OBJECTIVE=first-order with ARCH={FIRST_ORDER_ARCH}"
        raise OptionError(f"OBJECTIVE={objective} does not fit ARCH={arch}: choose {chain}, or neither of the two")


def _check_attention(model: ModelSettings) -> None:
    arch, both = model.arch, f"ATTENTION='{model.attention}' BIAS='{model.bias}'"
    if arch == "lstm" and (model.attention or model.bias):
        raise OptionError(f"{both}: stock fairseq's lstm has neither; choose ARCH=lstm_soft or another")
    if re.search("[^a-z0-9,_-]", model.attention + model.bias):
        raise OptionError(f"{both}: expected names, as in ATTENTION=structured BIAS=position,markov")
    if arch.startswith("lstm_agreement"):
        if model.objective:
            raise OptionError(
                f"OBJECTIVE={model.objective} is for models of one direction: leave it out with ARCH={arch}"
            )
        if model.teacher:
            raise OptionError(f"TEACHER={model.teacher} guides models of one direction: leave it out with ARCH={arch}")


def _check_teacher(variables: Variables, model: ModelSettings, extra: Sequence[str]) -> None:
    teacher = variables.text("TEACHER")
    if model.objective:
        raise OptionError(f"OBJECTIVE={model.objective} and TEACHER={teacher} both choose the criterion: leave one out")
    if given(extra, "--criterion"):
        raise OptionError("--criterion: must be left out, because TEACHER=%s chooses guided_alignment" % teacher)
    if model.teacher is None or not (model.teacher.is_file() or variables.flag("DRY_RUN")):
        raise OptionError(f"TEACHER={teacher} is not a file: expected a checkpoint of a trained model")


def choose_groups(corpus: Corpus, model: ModelSettings) -> OptionGroups:
    """The options of the recipe with the criterion and the options of the model.

    An objective replaces the criterion. Models of two directions and trainings with a teacher have other criterions,
    with the label smoothing of the recipe.
    """
    groups = corpus.training
    criterion, other = list(groups.criterion), list(groups.other)
    if model.objective:
        criterion = ["--criterion", "latent_alignment", "--objective", model.objective]
        criterion += _objective_options(model.objective, corpus.epoch_updates)
        if model.objective in PRIOR_ONLY and model.is_latent:
            other += ["--latent-posterior", "False"]
    if model.arch.startswith("lstm_agreement"):
        criterion[1] = "agreement"
    if model.attention:
        other += ["--attention", model.attention]
    if model.bias:
        other += ["--attention-bias", model.bias]
    if model.teacher:
        criterion[1] = "guided_alignment"
        other += ["--load-alignments"]
    return replace(groups, criterion=criterion, other=other)


def _objective_options(objective: str, epoch_updates: int) -> List[str]:
    """The options of an objective."""
    if objective == "sparse-marginal":
        return ["--attention-normalizer", "sparsemax"]
    if objective == "sparse-elbo":
        return ["--posterior-normalizer", "sparsemax"]
    if objective == "elbo-gumbel":
        return ["--gumbel-tau", "0.1"]
    if objective == "wake-sleep":
        return ["--num-samples", "5", "--control-variates"]
    if objective == "dirichlet":
        # it does not learn without an epoch of soft attention and an epoch in which the weight of the KL rises
        return ["--soft-updates", str(epoch_updates), "--kl-warmup-updates", str(epoch_updates)]
    return []
