"""``fairseq-attn recipe NAME [options of fairseq-train]``: runs the shell file of a recipe.

A recipe prepares a published corpus, trains, translates or classifies, and scores. It is a file to read and to copy;
``fairseq-attn where --recipes`` prints its folder.
"""

import os
import shutil
import sys
from typing import List, Sequence

from fairseq_attn_plugin.commands.where import RECIPES
from fairseq_attn_plugin.corpora.tools import environment
from fairseq_attn_plugin.errors import OptionError, did_you_mean


def names() -> List[str]:
    return sorted(path.stem for path in RECIPES.glob("*.sh"))


def header(name: str) -> str:
    """The comment at the beginning of a recipe: what it does, and its variables."""
    lines = (RECIPES / f"{name}.sh").read_text(encoding="utf-8").splitlines()[1:]
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "".join(line[2:] + "\n" for line in lines[:end])


def main(words: Sequence[str]) -> None:
    """Runs a recipe in place of this process; without a name, or with ``--help``, prints what there is."""
    name = words[0] if words else "--help"
    if name in ("-h", "--help"):
        print("usage: fairseq-attn recipe NAME [options of fairseq-train]; NAME --help prints its settings\n")
        print("".join(f"{one:18} {header(one).splitlines()[0]}\n" for one in names()), end="")
        return
    if name not in names():
        hint = did_you_mean(name, names(), f"choose from {', '.join(names())}")
        raise OptionError(f"{name}: there is no such recipe; {hint}")
    if {"-h", "--help"} & {*words[1:]}:
        print(header(name), end="")
        return
    bash = shutil.which("bash")
    if bash is None:
        raise OptionError(f"{name}: bash is not installed, which runs the recipes")
    if ":" in (out := os.environ.get("OUT", "")):
        raise OptionError(f"OUT={out}: has a colon, which separates paths in fairseq; name another")
    sys.stdout.flush()
    os.execve(bash, [bash, str(RECIPES / f"{name}.sh"), *words[1:]], environment())
