"""Mechanisms and latent alignments learn a small task, and translate and align alike in every batch."""

import pytest
from learning import Learner, learns
from reversal import make_corpus

from fairseq_attn_plugin.attention.biases import BIASES

LEARNERS = [
    *((name, ()) for name in ("mqt", "aqt", "structured", "local-p")),
    ("soft", ("--attention-bias", ",".join(BIASES.names()))),
]


@pytest.mark.parametrize(
    ("attention", "options"),
    LEARNERS,
    ids=lambda value: value if isinstance(value, str) else value[-1] if value else "plain",
)
def test_learns_and_aligns(attention, options, short_data):
    learns(Learner(short_data, "attn_lstm", "--attention", attention, *options))


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        (
            "lstm_posterior_small",
            "--objective marginal --posterior-topk 3 --latent-posterior False --attention-bias markov",
        ),
        ("lstm_latent_first_order_small", "--objective first-order --soft-updates 100 --jump-window 3"),
    ],
    ids=["posterior", "first-order"],
)
def test_latent_alignments_learn_and_translate_alike_in_every_batch(arch, options, short_data):
    options += " --criterion latent_alignment --attention-hidden-dim 32"
    # at the rate of the others it depends on the rounding whether a tenth of the sentences goes wrong
    learns(Learner(short_data, arch, *options.split()), 1500, rate=0.01)


@pytest.mark.parametrize("attention", ["monotonic", "gaussian"])
def test_positions_learn_and_align(attention, once):
    """The words of the target, spelt backwards, are in the order of the source: the reversed order is beyond them."""
    data = once("ordered", lambda root: make_corpus(root, root / "bin", 4, 6, ordered=True)) / "bin"
    one = learns(Learner(data, "attn_lstm", "--attention", attention), ordered=True)
    for number in one.right if attention == "gaussian" else ():
        words = len(one.words[number]) - 1
        assert one.links[number][:words] == [(place, place) for place in range(words)]
