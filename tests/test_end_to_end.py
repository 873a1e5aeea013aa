"""The real command-line tools: every mechanism learns a small task, and its alignments are right in padded batches."""

import json
import shutil

import pytest
import training
from fairseq.data import Dictionary
from learning import Learner, learns
from reversal import WORDS, make_corpus
from training import SIZES, generate, soft_weights

from fairseq_attn_plugin.analysis.alignment.subword_links import binarize
from fairseq_attn_plugin.attention import names
from fairseq_attn_plugin.attention.biases import BIASES
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

MAXIMUM = "--attention-max-normalize"
MONOTONIC = ("monotonic", "mocha")
POSITIONAL = ("gaussian", "election")
IN_ORDER = [*MONOTONIC, *POSITIONAL]  # which the reversed order of the tiny corpus is beyond
LEARNERS = [
    *((name, ()) for name in names() if name not in IN_ORDER),
    ("soft", ("--attention-bias", ",".join(BIASES.names()))),
]


@pytest.mark.parametrize(
    ("attention", "options"),
    LEARNERS,
    ids=lambda value: value if isinstance(value, str) else value[-1] if value else "plain",
)
def test_learns_and_aligns(attention, options, short_data):
    learns(Learner(short_data, "attn_lstm", "--attention", attention, *options))


def test_posterior_attention_learns_and_translates_alike_in_every_batch(short_data):
    """Also by stock fairseq's search, because the packed one leaves it to the model."""
    options = "--criterion latent_alignment --objective marginal --posterior-topk 3 --latent-posterior False"
    options += " --attention-hidden-dim 32 --attention-bias markov"
    learns(Learner(short_data, "lstm_posterior_small", *options.split()), 1500)


@pytest.fixture(scope="module")
def ordered_data(once):
    """As the short corpus, but the words of the target, spelt backwards, are in the order of the source."""
    return once("ordered", lambda root: make_corpus(root, root / "bin", 4, 6, ordered=True)) / "bin"


def table_of(data, path):
    """A table for ``--election-table``: half of the target words vote for the source word that they translate."""
    dictionaries = [Dictionary.load(str(data / f"dict.{side}.txt")) for side in ("xx", "yy")]
    described = dict(zip(("source_vocabulary", "target_vocabulary"), map(describe_vocabulary, dictionaries)))
    words = {word[::-1]: [word] for word in WORDS[:3]}
    path.write_text(json.dumps({"format": "fairseq_attn_plugin words 1", **described, "words": words}))
    return path


@pytest.mark.parametrize(
    ("attention", "options"),
    [*((name, ()) for name in (*MONOTONIC, "gaussian")), ("election", (MAXIMUM, "--gaussian-trained"))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_positions_learn_and_align(attention, options, ordered_data, tmp_path):
    if attention == "election":
        options = ("--election-table", table_of(ordered_data, tmp_path / "words.json"), *options)
    one = learns(Learner(ordered_data, "attn_lstm", "--attention", attention, *options))
    for number in one.right if attention == "gaussian" else ():  # a vote may outweigh the centre
        words = len(one.words[number]) - 1
        assert one.links[number][:words] == [(place, place) for place in range(words)]


def test_soft_alignments_do_not_depend_on_the_batch_and_stock_ones_do(tiny_data, zoo):
    """Stock ``lstm`` returns its weights for sources moved to the left but never moves them back."""
    differing = {}
    for arch in ("lstm_soft", "lstm"):
        checkpoint = zoo(arch).last
        one, many = (
            generate(tiny_data, checkpoint, "--beam", 2, "--batch-size", size, "--print-alignment", "soft")
            for size in (1, 32)
        )
        assert {i: h[1] for i, h in one["H"].items()} == {i: h[1] for i, h in many["H"].items()}
        pairs = zip(soft_weights(one["A"]), soft_weights(many["A"]))
        # Six printed decimals: a last digit may be rounded either way.
        differing[arch] = sum(max(abs(p - q) for r, s in zip(x, y) for p, q in zip(r, s)) > 5e-6 for x, y in pairs)
    assert differing["lstm_soft"] == 0
    assert differing["lstm"] > 0


def test_alignment_criterion_trains(tiny_data, tmp_path):
    """fairseq's own ``label_smoothed_cross_entropy_with_alignment`` pulls the attention to given alignments."""
    data = shutil.copytree(tiny_data, tmp_path / "bin")
    for split in ("train", "valid"):
        lengths = [len(line.split()) for line in (tiny_data.parent / "text" / f"{split}.xx").read_text().splitlines()]
        links = [" ".join(f"{n - 1 - j}-{j}" for j in range(n)) for n in lengths]
        (tmp_path / split).write_text("".join(line + "\n" for line in links))
        binarize(str(tmp_path / split), str(data / f"{split}.align.xx-yy"))
    options = ["--arch", "lstm_soft", *SIZES, "--load-alignments", "--log-format", "json", "--lr", 0.02]
    options += ["--criterion", "label_smoothed_cross_entropy_with_alignment", "--alignment-lambda", 0.5]
    losses = [
        training.train(data, tmp_path / str(updates), *options, updates=updates).validations[-1]["valid_alignment_loss"]
        for updates in (1, 60)
    ]
    assert losses[1] < 0.5 * losses[0]
