"""The settings of the election recipe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from ..errors import OptionError
from ..settings import Variables, check_extra
from ..translation.recipe import DEFAULTS as CORPUS_DEFAULTS
from .systems import SYSTEMS

__all__ = ["DEFAULTS", "ElectionSettings", "read_election_settings"]

# the stages choose the models of this recipe
REFUSED = ("ARCH", "ATTENTION", "BIAS", "OBJECTIVE", "TOPK")
DEFAULTS: Dict[str, str] = {
    **CORPUS_DEFAULTS,
    **dict.fromkeys(REFUSED, ""),
    "EPOCHS": "12",
    "TUNE_EPOCHS": "6",
    "MAX_NORMALIZE": "1",
    "BEAM": "5",
    "ARCH_OPTIONS": "",
    "TEACHER": "",
    "ELECTION_OPTIONS": "",
    "AGENT_OPTIONS": "",
    "EMBEDDINGS_SOURCE": "",
    "EMBEDDINGS_TARGET": "",
    "SYSTEMS": " ".join(SYSTEMS),
}


@dataclass(frozen=True)
class ElectionSettings:
    """Settings in addition to those of the corpus.

    Attributes:
        epochs: of the teacher
        tune_epochs: of the students that are trained further
        max_normalize: whether weights are divided by their maximum instead of their sum
        beam: of the translation
        arch_options: of the models of all systems
        teacher: a checkpoint that is used instead of training a teacher
        election_options, agent_options: more options of the two commands
        embeddings: files of word vectors of the source and the target; None: made from the training pairs
        systems: systems that are trained, used for translation and scored
    """

    epochs: int
    tune_epochs: int
    max_normalize: bool
    beam: int
    arch_options: Sequence[str]
    teacher: Optional[Path]
    election_options: Sequence[str]
    agent_options: Sequence[str]
    embeddings: Optional[Tuple[str, str]]
    systems: Sequence[str]

    def epochs_of(self, system: str) -> int:
        if SYSTEMS[system].rate is None:
            return 1
        return self.epochs if system == "teacher" else self.tune_epochs


def read_election_settings(variables: Variables, extra: Sequence[str]) -> ElectionSettings:
    """The settings.

    Args:
        variables: of the recipe
        extra: options after ``--``; these must not choose what a variable or a stage chooses

    Raises:
        OptionError: a variable has a wrong value, or must be left out
    """
    for name in REFUSED:
        if variables.text(name):
            raise OptionError(
                f"{name}={variables.text(name)}: the stages choose the models of this recipe; leave {name} out"
            )
    chosen: List[Tuple[Tuple[str, ...], str]] = [
        (("-a", "--arch"), "the stages choose the architectures"),
        (("--seed",), f"the seed is chosen by SEED={variables.text('SEED')}"),
        (("--save-dir",), "the folder is chosen by OUT=FOLDER"),
        (("--user-dir", "-s", "--source-lang", "-t", "--target-lang"), "is set by the recipe (SRC, TGT)"),
    ]
    check_extra(extra, chosen)
    source, target = variables.text("EMBEDDINGS_SOURCE"), variables.text("EMBEDDINGS_TARGET")
    if bool(source) != bool(target):
        raise OptionError("EMBEDDINGS_SOURCE and EMBEDDINGS_TARGET go together: give both or neither")
    for name in ("TEACHER", "EMBEDDINGS_SOURCE", "EMBEDDINGS_TARGET"):
        path = variables.path(name)
        if path is not None and not path.is_file() and not variables.flag("DRY_RUN"):
            raise OptionError(f"{name}={variables.text(name)} is not a file")
    return ElectionSettings(
        epochs=variables.number("EPOCHS", least=1),
        tune_epochs=variables.number("TUNE_EPOCHS", least=1),
        max_normalize=variables.choice("MAX_NORMALIZE", ("0", "1")) == "1",
        beam=variables.number("BEAM", least=1),
        arch_options=variables.words("ARCH_OPTIONS"),
        teacher=variables.path("TEACHER"),
        election_options=variables.words("ELECTION_OPTIONS"),
        agent_options=variables.words("AGENT_OPTIONS"),
        embeddings=(source, target) if source else None,
        systems=variables.several("SYSTEMS", tuple(SYSTEMS)),
    )
