"""The mechanisms and options with which the contract and the oracles are compared.

Every mechanism has its defaults and its own options, one at a time, and the options that scored mechanisms share in
turn: each of them has every score, every normaliser that it takes, and biases.
"""

import pytest
import torch

from fairseq_attn_plugin.attention import attention_class, names
from fairseq_attn_plugin.testing import Subject

# Source words (see testing.subject.words_of) that further votes go to, by the decoder's input word; 1 is padding.
TABLE = [[1, 1, 1]] * 4 + [[4, 6, 1], [5, 1, 1], [7, 9, 10], [1, 1, 1], [11, 8, 4], [6, 1, 1], [10, 7, 5], [9, 11, 8]]

SCORES = ("dot", "scaled_dot", "general", "additive")
NORMALIZERS = ("softmax", "sparsemax", "entmax15", "fusedmax")
BIASES = ("", "position", "markov,fertility")


def shared():
    """Every scored mechanism with values of the options that they share."""
    for place, name in enumerate(names()):
        takes = attention_class(name).takes
        for number in range(4 if "bias" in takes else 0):
            options = {"score": SCORES[(number + place) % 4], "bias": BIASES[(number + 2 * place) % 3]}
            options["normalizer"] = NORMALIZERS[number] if "normalizer" in takes else "softmax"
            options["max_normalize"] = "max_normalize" in takes and (number + place) % 2 == 1
            yield name, options


def cases():
    for name in names():
        yield name, {}
    yield from shared()
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
OWN = [case for case in CASES if case not in list(shared())]
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
