"""Mechanisms and latent alignments learn a small task with the real tools: its words and its alignment."""

import pytest
from reversal import make_corpus
from training import SIZES, generate, right_lines, train

from fairseq_attn_plugin.attention.biases import BIASES

UPDATES = 120
BUDGET = ["--lr", 0.03, "--lr-scheduler", "polynomial_decay", "--total-num-update", UPDATES, "--batch-size", 50]
LATENT = "--criterion latent_alignment --attention-hidden-dim 32 --arch"
LEARNERS = {
    **{name: f"--arch attn_lstm --attention {name}" for name in ("mqt", "aqt", "structured", "local-p")},
    "biases": "--arch attn_lstm --attention-bias " + ",".join(BIASES.names()),
    "posterior": (
        f"{LATENT} lstm_posterior_small --objective marginal --posterior-topk 3 --latent-posterior False "
        "--attention-bias markov"
    ),
    "first-order": f"{LATENT} lstm_latent_first_order_small --objective first-order --jump-window 3 --soft-updates 50",
}


def assert_learns(data, folder, options, ordered):
    """Most sentences of the test set are translated as the reference, and most words linked to the right ones."""
    options = [*options.split(), *SIZES, *BUDGET, "--embed-init-range", 1, "--disable-validation"]
    trained = train(data, folder, *options, updates=UPDATES)
    found = generate(data, trained.last, "--beam", 5, "--print-alignment", "hard")
    assert len(right_lines(found)) >= 0.75 * len(found["T"]), f"{len(right_lines(found))} of {len(found['T'])} right"
    right = total = 0
    for number, line in found["A"].items():
        last = len(found["S"][number][0].split()) - 1
        links = [tuple(map(int, link.split("-"))) for link in line[0].split()]
        right += sum(source == (target if ordered else last - target) for source, target in links)
        total += len(links)
    assert right >= 0.7 * total, f"{right} of {total} links right"


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_and_aligns(name, short_data, tmp_path):
    assert_learns(short_data, tmp_path, LEARNERS[name], ordered=False)


@pytest.fixture(scope="module")
def ordered_data(once):
    """As the short corpus, but the words of the target, spelt backwards, are in the order of the source."""
    return once("ordered", lambda root: make_corpus(root, root / "bin", 4, 6, ordered=True)) / "bin"


@pytest.mark.parametrize("attention", ["monotonic", "gaussian"])
def test_positions_learn_and_align(attention, ordered_data, tmp_path):
    """The reversed order of the tiny corpus is beyond them."""
    assert_learns(ordered_data, tmp_path, f"--arch attn_lstm --attention {attention}", ordered=True)
