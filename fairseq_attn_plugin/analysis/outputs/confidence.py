"""Correlation of confidence with the quality of translations, and the sentence pairs whose attention looks sure.

The correlations are Spearman's rho and Kendall's tau-b with sentence chrF. Their interval is the bootstrap's: the 2.5
and 97.5 per cent quantiles over samples of the sentences with replacement.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.records.confidence import measures_of
from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import iter_lines
from fairseq_attn_plugin.writing import whole_text

Interval = Optional[Tuple[float, float]]


class Correlation(NamedTuple):
    """Of one measure. A coefficient is None if the measure is the same for all sentences."""

    mean: float  # of the measure
    spearman: Optional[float]
    spearman_interval: Interval
    kendall: Optional[float]
    kendall_interval: Interval
    best_half: float  # mean chrF of the better half of the sentences by this measure
    given_score: Optional[float] = None  # Spearman's partial correlation, the measure ``score`` held fixed


def scipy() -> Any:
    """scipy with ``stats`` and ``spatial``; raises ``OptionError`` without it."""
    try:
        import scipy.spatial.distance
        import scipy.stats
    except ImportError:
        raise OptionError("correlations need scipy: pip install 'fairseq_attn_plugin[analysis]'") from None
    return scipy


def sentence_chrf(translations: Sequence[str], references: Sequence[str]) -> List[float]:
    """sacrebleu's chrF2 of each sentence, 0 to 100."""
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return [metric.sentence_score(one, [other]).score for one, other in zip(translations, references)]


def correlate(
    measures: Dict[str, Sequence[float]], quality: Sequence[float], samples: int = 1000, seed: int = 12345
) -> Dict[str, Correlation]:
    """The correlation of each measure {name: values} with the quality of the same sentences.

    All measures are sampled alike. Raises ``OptionError`` without scipy, or with fewer than three sentences.
    """
    stats = scipy().stats
    if len(quality) < 3:
        raise OptionError(f"{len(quality)} sentences: a correlation needs at least 3 that have a reference")
    right = np.asarray(quality, dtype=float)
    draws = np.random.default_rng(seed).integers(len(right), size=(samples, len(right)))
    found = {}
    score = stats.rankdata(measures["score"]) if "score" in measures else None
    for name, values in measures.items():
        left = np.asarray(values, dtype=float)
        # ranks of a sample equal those of its values' ranks over all sentences, which are finite
        ranks = stats.rankdata(left)
        order = np.argsort(-ranks, kind="stable")[: (len(left) + 1) // 2]
        coefficients = []
        for function in (stats.spearmanr, stats.kendalltau):
            whole = _coefficient(function, ranks, right)
            drawn = [_coefficient(function, ranks[draw], right[draw]) for draw in draws] if whole is not None else []
            known = [one for one in drawn if one is not None]
            ends = np.quantile(known, (0.025, 0.975)).tolist() if known else None
            coefficients.append((whole, None if ends is None else (ends[0], ends[1])))
        (spearman, first), (kendall, second) = coefficients
        partial = None if score is None or name == "score" else _partial(ranks, stats.rankdata(right), score)
        better = float(right[order].mean())
        found[name] = Correlation(float(left.mean()), spearman, first, kendall, second, better, partial)
    return found


def _partial(left: np.ndarray, right: np.ndarray, given: np.ndarray) -> Optional[float]:
    """(r_lr - r_lg r_rg) / sqrt((1 - r_lg^2) (1 - r_rg^2)), of ranks."""
    if any((one == one[0]).all() for one in (left, right, given)):
        return None
    (_, lr, lg), (_, _, rg), _ = np.corrcoef([left, right, given])
    rest = (1 - lg**2) * (1 - rg**2)
    return float((lr - lg * rg) / np.sqrt(rest)) if rest > 1e-12 else None


def _coefficient(function: object, left: np.ndarray, right: np.ndarray) -> Optional[float]:
    if (left == left[0]).all() or (right == right[0]).all():
        return None
    return float(function(left, right).statistic)  # type: ignore[operator]


class Kept(NamedTuple):
    """The outcome, in numbers of sentences."""

    kept: int
    read: int
    corpus: int  # the records may lack sentences, which are not kept
    least: float  # value of a kept sentence; NaN if there is none
    empty: int  # sentences without words on one side, which are not kept


def filter_records(records: Records, args: argparse.Namespace) -> Kept:
    """Writes ``PREFIX.SOURCE`` and ``PREFIX.TARGET`` (languages), and the numbers of their sentences ``PREFIX.lines``.

    Of equal sentences the first are kept; one without words on one side never is. One record is in memory at a time,
    and a number for each if the best are sought, for which the file is read twice.

    Args:
        records: with the sentences
        args: the options of ``fairseq-attn confidence``: ``by``, ``threshold`` or ``keep``, ``weights``; ``out``, the
            prefix; ``source_text`` and ``target_text``, lines to write in the place of the records' words

    Raises:
        OptionError: a file cannot be read or written, has no such measure, or the texts have other numbers of lines
    """
    header = records.header
    paths = (args.source_text, args.target_text)
    texts = [None if path is None else list(iter_lines(path)) for path in paths]
    for path, text in zip(paths, texts):
        if text is not None and len(text) != header.sentences:
            raise OptionError(f"{path}: has {len(text)} lines, the corpus has {header.sentences} sentences")
    least, ties = (args.threshold, None) if args.threshold is not None else _quantile(records, args)
    kept = read = empty = 0
    smallest = np.inf
    names = (header.source_lang, header.target_lang, "lines")
    with contextlib.ExitStack() as stack:
        outs = [
            stack.enter_context(
                whole_text(f"{args.out}.{name}", f"--out {args.out}: {args.out}.{name} cannot be written")
            )
            for name in names
        ]
        for record, value in _valued(records, args, "filter"):
            read += 1
            if value is None:
                empty += 1
                continue
            if value < least or (value == least and ties == 0):
                continue
            if value == least and ties is not None:
                ties -= 1
            kept, smallest = kept + 1, min(smallest, value)
            words = (record.source_words, record.target_words)
            lines = [" ".join(side) if text is None else text[record.id] for side, text in zip(words, texts)]
            for out, line in zip(outs, (*lines, str(record.id))):
                out.write(line + "\n")
    return Kept(kept, read, header.sentences, smallest if kept else float("nan"), empty)


def _valued(records: Records, args: argparse.Namespace, what: str) -> Iterator[Tuple[Record, Optional[float]]]:
    """Yields the records with their values: None without words on one side, where attention tells nothing."""
    for record in tqdm(records, what, records.header.sentences, unit=" sentences", disable=None):
        if not any(record.source_words) or not any(record.target_words):
            yield record, None
            continue
        values = measures_of(record, records.weights_name(args.weights))
        by = args.by or "confidence"
        if by not in values:
            raise OptionError(f"--by {by}: {records.path}, sentence {record.id}, has no probabilities")
        yield record, values[by]


def _quantile(records: Records, args: argparse.Namespace) -> Tuple[float, Optional[int]]:
    """The least value that is kept, and how many sentences with exactly this value."""
    found = [value for _, value in _valued(records, args, "measure")]
    values = np.array([value for value in found if value is not None])
    wanted = min(round(args.keep * len(found)), len(values))
    if not wanted:
        return np.inf, 0
    least = float(np.partition(values, len(values) - wanted)[len(values) - wanted])
    return least, wanted - int((values > least).sum())
