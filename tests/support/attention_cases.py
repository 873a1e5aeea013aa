"""The mechanisms and options with which the contract and the oracles are compared.

Every mechanism has its defaults and its own options, one at a time. The options that scored mechanisms share are
combined so that every pair of values of two options, and of a mechanism and an option, occurs at least once.
"""

import itertools

import pytest
import torch

from fairseq_attn_plugin.attention import attention_class, names
from fairseq_attn_plugin.testing import Subject
from fairseq_attn_plugin.testing.subject import DIM, attend, batch_of, draw_queries, precompute, step_at

__all__ = ["CASES", "DIM", "attend", "batch_of", "draw_queries", "make", "mechanisms", "precompute", "step_at"]

# Source words (see oracles.words) that further votes go to, by the decoder's input word; 1 is padding.
TABLE = [[1, 1, 1]] * 4 + [[4, 6, 1], [5, 1, 1], [7, 9, 10], [1, 1, 1], [11, 8, 4], [6, 1, 1], [10, 7, 5], [9, 11, 8]]

SHARED = {
    "mechanism": [name for name in names() if "bias" in attention_class(name).takes],
    "score": ["dot", "scaled_dot", "general", "additive"],
    "normalizer": ["softmax", "sparsemax", "entmax15", "fusedmax"],
    "bias": ["", "position", "markov,fertility"],
    "max_normalize": [False, True],
}


def allowed(row):
    """Whether a mechanism takes these options; ``row`` may be a part of them."""
    takes = attention_class(row["mechanism"]).takes if "mechanism" in row else {"normalizer", "max_normalize"}
    fixed = "normalizer" not in takes and row.get("normalizer", "softmax") != "softmax"
    return not fixed and ("max_normalize" in takes or not row.get("max_normalize"))


def pairs_of(row):
    return set(itertools.combinations(sorted(row.items()), 2))


def all_pairs():
    """Every pair of values of two different options that is possible."""
    for one, other in itertools.combinations(sorted(SHARED), 2):
        for values in itertools.product(SHARED[one], SHARED[other]):
            row = dict(zip((one, other), values))
            if allowed(row):
                yield tuple(sorted(row.items()))


def pairwise():
    """Rows that have every pair: each time the row with the most pairs that are missing."""
    rows = [dict(zip(SHARED, values)) for values in itertools.product(*SHARED.values())]
    rows = [row for row in rows if allowed(row)]
    missing, chosen = set(all_pairs()), []
    while missing:
        best = max(rows, key=lambda row: len(pairs_of(row) & missing))
        missing -= pairs_of(best)
        chosen.append(best)
    return chosen


def cases():
    for name in names():
        yield name, {}
    for row in pairwise():
        row = dict(row)
        yield row.pop("mechanism"), row
    for bias in ("markov", "fertility", "position,markov,fertility"):
        yield "soft", {"bias": bias}
    yield "soft", {"bias": "markov,fertility", "bias_window": 2, "bias_dim": 3}
    yield "soft", {"bias": "position,fertility", "normalizer": "sparsemax", "bias_window": 0}
    for name in ("soft", "structured", "mqt"):
        yield name, {"score_gain": True}
    yield "mqt", {"score_gain": True, "pairs": "encodings"}
    yield "aqt", {"score_gain": True, "score": "general"}
    yield "soft", {"score": "additive", "score_no_bias": True}
    yield "aqt", {"score_no_bias": True}
    yield "soft", {"normalizer": "fusedmax", "fusedmax_strength": 0.7}
    yield "structured", {"scale": 1.0}
    yield "gaussian", {"ratio": 1.5, "sigma": 0.7}
    yield "gaussian", {"ratio": 0.4, "rule": "1", "mean": 0.3, "max_normalize": True}
    yield "gaussian", {"trained": True}
    yield "gaussian", {"trained": True, "rule": "9", "max_normalize": True}
    yield "election", {"max_normalize": True}
    yield "election", {"table": TABLE}
    yield "election", {"table": TABLE, "ratio": 0.7, "share": 0.5, "trained": True, "max_normalize": True}
    for more in ({}, {"predicted": True}, {"table": [0.4, 1.3] * 15}, {"bias": "markov,fertility"}):
        yield "constrained-sparsemax", {"fertility": 0.7, **more}
    yield "constrained-sparsemax", {"fertility": 0.2, "exhaustion": 0.0}
    for name in ("monotonic", "mocha"):
        for more in ({"offset": 0.3}, {"lossy": True, "bias": "markov"}, {"eval": True}, {"eval": True, "lossy": True}):
            yield name, more
    yield "mocha", {"chunk": 1}
    yield "mocha", {"chunk": 9, "eval": True, "score": "general"}
    for name in ("local-m", "local-p"):
        yield name, {"window": 1}
        yield name, {"window": 2, "normalizer": "entmax15", "bias": "markov"}
    for name in ("mqt", "aqt"):
        for score in ("general", "additive"):
            for pairs in ("keys", "encodings"):
                yield name, {"pairs": pairs, "score": score}
        yield name, {"pairs": "encodings", "score": "dot", "normalizer": "entmax15", "bias": "position,markov"}


def described(name, options):
    shown = (key if isinstance(value, (bool, list)) else str(value) for key, value in options.items() if value)
    return "-".join([name, *shown])


CASES = list(cases())
OWN = [case for case in CASES if set(case[1]) != set(SHARED) - {"mechanism"}]  # without the pairs of shared options
mechanisms, own_mechanisms = (
    pytest.mark.parametrize(("name", "options"), chosen, ids=[described(*case) for case in chosen])
    for chosen in (CASES, OWN)
)


def subject_of(name, options):
    """A subject of the contract; the option ``table`` is the content of the file of a mechanism that reads words,
    ``eval`` its form in evaluation."""
    given = {key: value for key, value in options.items() if key not in ("table", "eval")}

    def prepare(module):
        if "table" in options:
            module.table = torch.tensor(options["table"])
        module.train(not options.get("eval"))

    return Subject(name, given, prepare)


def make(name, options, dtype=torch.float64):
    return subject_of(name, options).build(dtype)
