"""Train, valid and test of a user's pairs: no sentence of valid or test is in train, up to case and punctuation."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.corpora.errors import CorpusError
from fairseq_attn_plugin.corpora.pair_splits import VALID, assign, normalize

from .reading import Pair

__all__ = ["split"]

FEWEST = 100  # pairs
HELD_OUT = 2000  # pairs of valid and of test are about as many at most
MOST_CHARACTERS = 1000  # of a sentence; a sentence of so many subwords is still read by every model
SPLITS = ("train", "valid", "test")


def split(given: Dict[str, Optional[List[Pair]]]) -> Tuple[Dict[str, List[Pair]], List[str]]:
    """The splits, and lines about what was left out.

    Args:
        given: the pairs of ``train``, and of ``valid`` and ``test`` where the user has them; otherwise they are taken
            out of ``train``, about 5 % each: groups of pairs with a common sentence, chosen by a hash

    Raises:
        CorpusError: there are too few pairs
    """
    notes: List[str] = []
    parts = {name: _clean(pairs, name, notes) for name, pairs in given.items() if pairs is not None}
    held_out = [pair for name in ("test", "valid") for pair in parts.get(name, [])]
    if "valid" in parts and "test" in parts:
        parts["valid"] = _without(parts["valid"], parts["test"], "valid", notes)
    parts["train"] = _without(parts["train"], held_out, "train", notes)
    if len(parts["train"]) < FEWEST:
        raise CorpusError(f"{len(parts['train'])} different sentence pairs are too few: expected at least {FEWEST}")
    if not ("valid" in parts and "test" in parts):
        share = min(VALID, 100 * HELD_OUT / len(parts["train"]))
        found = assign(parts["train"], share)
        wanted = [name for name in ("valid", "test") if name not in parts]
        parts["train"] = [pair for name in SPLITS if name not in wanted for pair in found[name]]
        parts.update({name: found[name] for name in wanted})
    for name in SPLITS:
        if not parts[name]:
            raise CorpusError(f"the {name} split is empty: too few sentence pairs, or give --valid and --test")
    return {name: parts[name] for name in SPLITS}, notes


def _clean(pairs: Sequence[Pair], name: str, notes: List[str]) -> List[Pair]:
    """Distinct pairs with words on both sides that are not too long."""
    filled = [pair for pair in pairs if all(pair)]
    short = [pair for pair in filled if max(map(len, pair)) <= MOST_CHARACTERS]
    distinct = list(dict.fromkeys(short)) if name == "train" else short
    for count, what in (
        (len(pairs) - len(filled), "have an empty side"),
        (len(filled) - len(short), f"have more than {MOST_CHARACTERS} characters on a side"),
        (len(short) - len(distinct), "occur before"),
    ):
        if count:
            notes.append(f"{name}: {count:,} pairs are left out, which {what}")
    return distinct


def _without(pairs: List[Pair], others: Sequence[Pair], name: str, notes: List[str]) -> List[Pair]:
    """The pairs that share no sentence with others."""
    taken = [{normalize(pair[side]) for pair in others} for side in (0, 1)]
    kept = [pair for pair in pairs if not any(normalize(pair[side]) in taken[side] for side in (0, 1))]
    if len(kept) < len(pairs):
        where = "test" if name == "valid" else "valid or test"
        notes.append(f"{name}: {len(pairs) - len(kept):,} pairs are left out, which have a sentence of {where}")
    return kept
