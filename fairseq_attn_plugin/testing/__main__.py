"""Checks the contract of all that a folder registers.

    python -m fairseq_attn_plugin.testing --user-dir FOLDER

Options have their defaults; a test of one's own calls ``check_attention`` and its neighbours with others. The exit
status is 1 if something breaks a rule.
"""

from __future__ import annotations

import argparse
import sys
from typing import Callable, Dict, List

from ..analysis.inference.model_options import import_user_dir
from ..attention import BIASES, NORMALIZERS, SCORES
from ..attention import names as mechanisms
from ..criterions.objectives import OBJECTIVES
from ..errors import OptionError, install_hook
from . import check_attention, check_bias, check_normalizer, check_objective, check_score

# kind, as in messages: the registered names, and the check
KINDS: Dict[str, tuple[Callable[[], List[str]], Callable[[str], None]]] = {
    "attention": (mechanisms, check_attention),
    "score": (SCORES.names, check_score),
    "normalizer": (NORMALIZERS.names, check_normalizer),
    "bias": (BIASES.names, check_bias),
    "objective": (lambda: sorted(OBJECTIVES), check_objective),
}


def main() -> None:
    """Runs the checks.

    Raises:
        OptionError: a folder cannot be imported, or registers nothing
    """
    install_hook()
    parser = argparse.ArgumentParser(prog="python -m fairseq_attn_plugin.testing", description=__doc__.split("\n")[0])
    parser.add_argument("--user-dir", action="append", required=True, metavar="FOLDER", help="may be repeated")
    folders = parser.parse_args().user_dir
    before = {kind: set(names()) for kind, (names, _) in KINDS.items()}
    for folder in folders:
        import_user_dir(folder)
    broken = checked = 0
    for kind, (names, check) in KINDS.items():
        for name in sorted(set(names()) - before[kind]):
            checked += 1
            try:
                check(name)
            except (AssertionError, OptionError) as error:
                broken += 1
                print(f"{kind} {name}: breaks the contract. {error}")
            else:
                print(f"{kind} {name}: keeps the contract")
    if not checked:
        raise OptionError(
            f"--user-dir {' '.join(folders)}: registers no mechanism, score, normaliser, bias or objective"
        )
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
