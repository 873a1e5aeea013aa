"""The real command-line tools: every mechanism learns a small task, and its alignments are right in padded batches."""

import json
import re

import pytest
from conftest import WORDS, write_reversal
from fairseq.data import Dictionary

from fairseq_attn_plugin.attention import names
from fairseq_attn_plugin.attention.biases import BIASES
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary

from cli import USER_DIR, run_cli

SIZES = (
    "--encoder-embed-dim 32 --encoder-hidden-size 32 --encoder-layers 1 --encoder-bidirectional "
    "--decoder-embed-dim 32 --decoder-hidden-size 64 --decoder-layers 1 --decoder-out-embed-dim 32"
).split()
TRAINING = (
    "--optimizer adam --lr 0.01 --clip-norm 1 --batch-size 20 --dropout 0 --seed 1 --cpu --num-workers 0 "
    "--no-epoch-checkpoints --no-progress-bar --log-interval 1000"
).split()


def train(data, folder, arch, *options, updates=400):
    run_cli(
        ["fairseq-train", data, "--user-dir", USER_DIR, "--save-dir", folder, "--arch", arch, *SIZES, *TRAINING]
        + ["--max-update", updates, *options]
    )
    return folder / "checkpoint_last.pt"


def generate(data, checkpoint, *options):
    """Lines of fairseq-generate by their kind and sentence: {"H": {0: [...]}, "A": ..., "T": ...}."""
    done = run_cli(
        ["fairseq-generate", data, "--user-dir", USER_DIR, "--path", checkpoint, "--gen-subset", "test", "--cpu"]
        + ["--no-progress-bar", *options]
    )
    result = {}
    for line in done.stdout.splitlines():
        match = re.match(r"([A-Z])-(\d+)\t(.*)", line)
        if match:
            result.setdefault(match[1], {})[int(match[2])] = match[3].split("\t")
    return result


MAXIMUM = "--attention-max-normalize"
POSITIONAL = ("gaussian", "election")  # which the reversed order of the tiny corpus is beyond
LEARNERS = [
    *((name, ()) for name in names() if name not in POSITIONAL),
    *(("soft", ("--attention-bias", bias)) for bias in BIASES),
    ("soft", ("--attention-score", "additive", MAXIMUM)),
]


@pytest.mark.parametrize(
    ("attention", "options"),
    LEARNERS,
    ids=lambda value: value if isinstance(value, str) else value[-1] if value else "plain",
)
def test_learns_and_aligns(attention, options, tiny_data, tmp_path):
    # weights that do not come from a softmax alone take longer to become sharp
    updates = {"sigmoid": 800, "local-p": 800, "structured": 1200}.get(attention, 800 if MAXIMUM in options else 400)
    checkpoint = train(tiny_data, tmp_path, "attn_lstm", "--attention", attention, *options, updates=updates)
    one = generate(tiny_data, checkpoint, "--beam", 5, "--batch-size", 1, "--print-alignment", "hard")
    right = sum(one["H"][i][1] == one["T"][i][0] for i in one["T"])
    assert right >= 0.9 * len(one["T"]), f"{right} of {len(one['T'])} lines right"

    many = generate(tiny_data, checkpoint, "--beam", 5, "--batch-size", 32, "--print-alignment", "hard")
    assert {i: h[1] for i, h in many["H"].items()} == {i: h[1] for i, h in one["H"].items()}
    assert many["A"] == one["A"]


@pytest.fixture(scope="module")
def ordered_data(tmp_path_factory):
    """As the tiny corpus, but the words of the target, spelt backwards, are in the order of the source."""
    root = tmp_path_factory.mktemp("ordered")
    for seed, (split, lines) in enumerate([("train", 400), ("valid", 40), ("test", 40)]):
        write_reversal(root, split, lines, seed)
        target = (root / f"{split}.yy").read_text().splitlines()
        (root / f"{split}.yy").write_text("".join(" ".join(reversed(line.split())) + "\n" for line in target))
    run_cli(
        ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--destdir", root / "bin"]
        + ["--trainpref", root / "train", "--validpref", root / "valid", "--testpref", root / "test"]
    )
    return root / "bin"


def table_of(data, path):
    """A table for ``--election-table``: half of the target words vote for the source word that they translate."""
    dictionaries = [Dictionary.load(str(data / f"dict.{side}.txt")) for side in ("xx", "yy")]
    described = dict(zip(("source_vocabulary", "target_vocabulary"), map(describe_vocabulary, dictionaries)))
    words = {word[::-1]: [word] for word in WORDS[:5]}
    path.write_text(json.dumps({"format": "fairseq_attn_plugin words 1", **described, "words": words}))
    return path


@pytest.mark.parametrize("attention", POSITIONAL)
@pytest.mark.parametrize("options", [(), (MAXIMUM, "--gaussian-trained")], ids=["plain", "trained"])
def test_positions_learn_and_align(attention, options, ordered_data, tmp_path):
    if attention == "election":
        options = ("--election-table", table_of(ordered_data, tmp_path / "words.json"), *options)
    checkpoint = train(ordered_data, tmp_path, "attn_lstm", "--attention", attention, *options, updates=800)
    one, many = (
        generate(ordered_data, checkpoint, "--beam", 5, "--batch-size", size, "--print-alignment", "hard")
        for size in (1, 32)
    )
    right = [i for i in one["T"] if one["H"][i][1] == one["T"][i][0]]
    assert len(right) >= 0.9 * len(one["T"]), f"{len(right)} of {len(one['T'])} lines right"
    for i in right if attention == "gaussian" else ():  # a vote may outweigh the centre
        words = len(one["T"][i][0].split())
        assert one["A"][i][0].split()[:words] == [f"{j}-{j}" for j in range(words)]
    assert {i: h[1] for i, h in many["H"].items()} == {i: h[1] for i, h in one["H"].items()}
    assert many["A"] == one["A"]


def soft_weights(lines):
    return [[[float(p) for p in row.split(",")] for row in line[0].split()] for _, line in sorted(lines.items())]


def test_soft_alignments_do_not_depend_on_the_batch_and_stock_ones_do(tiny_data, tmp_path):
    """Stock ``lstm`` returns its weights for sources moved to the left but never moves them back."""
    differing = {}
    for arch in ("lstm_soft", "lstm"):
        checkpoint = train(tiny_data, tmp_path / arch, arch, updates=60)
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
    text = tiny_data.parent / "text"
    for split in ("train", "valid"):
        lines = (text / f"{split}.xx").read_text().splitlines()
        links = [" ".join(f"{n - 1 - j}-{j}" for j in range(n)) for n in (len(line.split()) for line in lines)]
        (text / f"{split}.align").write_text("".join(line + "\n" for line in links))
    data = tmp_path / "bin"
    run_cli(
        ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--destdir", data]
        + ["--trainpref", text / "train", "--validpref", text / "valid", "--align-suffix", "align"]
        + ["--srcdict", tiny_data / "dict.xx.txt", "--tgtdict", tiny_data / "dict.yy.txt"]
    )
    losses = []
    for updates in (1, 120):
        done = run_cli(
            ["fairseq-train", data, "--user-dir", USER_DIR, "--save-dir", tmp_path / str(updates), *SIZES, *TRAINING]
            + ["--arch", "lstm_adm", "--load-alignments", "--max-update", updates, "--log-format", "json"]
            + ["--criterion", "label_smoothed_cross_entropy_with_alignment", "--alignment-lambda", 0.5]
        )
        losses.append(float(re.findall(r'"valid_alignment_loss": "([\d.]+)"', done.stderr + done.stdout)[-1]))
    assert losses[1] < 0.5 * losses[0]
