"""Supervised attention: both losses against the formulas, batches against single sentences, the schedule, the logs."""

import math

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import LanguagePairDataset
from fairseq.data.language_pair_dataset import collate
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from in_process import run_tool
from models_for_tests import build, dictionary, logged, pad_batch
from omegaconf import OmegaConf
from refusals import refuses
from training import SIZES, training_command

from fairseq_attn_plugin.attention import NORMALIZERS
from fairseq_attn_plugin.criterions.guided_alignment import (
    GuidedAlignmentConfig,
    GuidedAlignmentCriterion,
    alignment_terms,
    links_matrix,
)
from fairseq_attn_plugin.errors import OptionError

LOSSES = ("cross-entropy", "squared")
PAD, EOS = 1, 2
# source and target lengths without the end of the sentence, links (source word, target word)
PAIRS = [((4, 3), [(0, 0), (3, 2), (1, 2)]), ((2, 4), [(1, 0), (1, 3), (0, 3)]), ((5, 2), []), ((1, 1), [(0, 0)])]


def translation_task(**config):
    config = OmegaConf.structured(TranslationConfig(**{"load_alignments": True, "train_subset": "train", **config}))
    return TranslationTask(config, dictionary(), dictionary(15))


def criterion(task=None, **options):
    options = {"sentence_avg": False, **options}
    return GuidedAlignmentCriterion(GuidedAlignmentConfig(**options), task or translation_task())


def sentence(number, seed=0):
    (source, target), links = PAIRS[number]
    return {
        "id": number,
        "source": pad_batch([source + 1], symbols=20, seed=seed + number)[0],
        "target": pad_batch([target + 1], symbols=15, seed=seed + 50 + number)[0],
        "alignment": torch.tensor(links, dtype=torch.int32).reshape(-1),
    }


def batch_of(numbers, left=True, **kwargs):
    return collate([sentence(number) for number in numbers], PAD, EOS, left_pad_source=left, **kwargs)


def by_hand(weights, links, loss):
    """sum over the words with links of D(g, a), one number at a time; weights are nested lists of rows."""
    total, words, right = 0.0, 0, 0
    for row, linked in zip(weights, links):
        if linked:
            a = [weight / sum(row) for weight in row]
            g = [1 / len(linked) if j in linked else 0.0 for j in range(len(a))]
            if loss == "squared":
                total += 0.5 * sum((x - y) ** 2 for x, y in zip(a, g))
            else:
                total -= sum(y * math.log(x) for x, y in zip(a, g) if y)
            words += 1
            right += max(range(len(a)), key=a.__getitem__) in linked
    return total, words, right


# --- the formulas


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1.0, 2.0, 0.3])
def test_against_the_formulas(loss, scale):
    draw = torch.Generator().manual_seed(1)
    weights = scale * torch.randn(3, 5, 6, generator=draw, dtype=torch.float64).softmax(-1)
    links = torch.rand(3, 5, 6, generator=draw) < 0.25
    terms = alignment_terms(weights, links, loss)
    for row in range(3):
        columns = [[j for j in range(6) if links[row, t, j]] for t in range(5)]
        total, words, right = by_hand(weights[row].tolist(), columns, loss)
        assert terms.losses[row].sum().item() == pytest.approx(total, rel=1e-12)
        assert (terms.aligned[row].sum().item(), terms.correct[row].sum().item()) == (words, right)
    weights.requires_grad_()
    assert torch.autograd.gradcheck(lambda w: alignment_terms(w, links, loss).losses, weights)


def test_small_weights_go_on_in_a_straight_line():
    """log is exact down to 1e-6, and continues with the same value and slope: finite at zero."""
    links = torch.tensor([[[True, False]]])

    def loss_and_slope(x):
        weights = torch.tensor([[[x, 1 - x]]], dtype=torch.float64, requires_grad=True)
        loss = alignment_terms(weights, links).losses.sum()
        return loss.item(), torch.autograd.grad(loss, weights)[0][0, 0, 0].item()

    assert loss_and_slope(2e-6)[0] == pytest.approx(-math.log(2e-6), rel=1e-9)
    above, below = loss_and_slope(1e-6 * (1 + 1e-7)), loss_and_slope(1e-6 * (1 - 1e-7))
    assert above == pytest.approx(below, rel=1e-6)
    assert loss_and_slope(0.0)[0] == pytest.approx(1 - math.log(1e-6))
    assert loss_and_slope(0.0)[1] == pytest.approx(-1e6, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax15", "fusedmax"])
def test_gradient_is_finite_where_weights_are_zero(loss, name):
    scores = torch.tensor([[[4.5, -3.0, 0.0, 5.0], [1.0, 1.1, 0.9, -500.0]]], requires_grad=True)
    weights = NORMALIZERS.build(name)(scores, torch.tensor([[[False, False, True, False]]]))
    links = torch.tensor([[[True, True, False, False], [False, False, False, True]]])
    terms = alignment_terms(weights, links, loss)
    assert (weights == 0).sum() >= 3 and terms.losses.isfinite().all()
    (gradient,) = torch.autograd.grad(terms.losses.sum(), scores)
    assert gradient.isfinite().all() and gradient[..., 2].eq(0).all()
    assert gradient[0, 0].abs().sum() > 0 and gradient[0, 0, 0] <= 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(loss, dtype):
    """In float32, and with gradients that float16 can hold at fairseq's first scale of the loss."""
    scores = torch.tensor([[[3.0, 1.0, 2.0], [9.0, -9.0, 0.0], [60.0, 0.0, 0.0]]])
    links = torch.tensor([[[True, False, True], [True, False, False], [False, True, False]]])
    weights = scores.softmax(-1).to(dtype).requires_grad_()
    losses = alignment_terms(weights, links, loss).losses
    assert losses.dtype == torch.float32
    exact = alignment_terms(scores.softmax(-1), links, loss).losses
    assert torch.allclose(losses[:, :2], exact[:, :2], atol=4 * torch.finfo(dtype).eps)
    (gradient,) = torch.autograd.grad(128 * 0.5 * losses.sum(), weights)
    assert gradient.dtype == dtype and gradient.isfinite().all()


def test_links_matrix():
    """fairseq numbers words over the whole batch, b * T + t."""
    attention = torch.zeros(2, 3, 4)
    matrix = links_matrix(torch.tensor([[3, 0], [1, 4], [1, 4], [2, 4]]), attention)
    assert matrix.nonzero().tolist() == [[0, 0, 3], [1, 1, 1], [1, 1, 2]]
    assert not links_matrix(None, attention).any()
    assert links_matrix(None, attention).shape == attention.shape


# --- the criterion

EIGHT = [f"{side}_{part}" for side in ("encoder", "decoder") for part in ("embed_dim", "ffn_embed_dim")]
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
ARCHES = {
    "lstm_soft": {},
    "lstm_soft, sparsemax": {"attention_normalizer": "sparsemax", "attention_score": "additive"},
    "lstm_adm": {},
    "lstm_latent_small": {"attention_hidden_dim": 8},
    "transformer": {**dict.fromkeys([*EIGHT, "decoder_output_dim"], 8), **HEADS},
}


def model_and_task(name="lstm_soft"):
    task = translation_task()
    return build(name.split(",")[0], task, seed=5, **ARCHES[name]), task


def run(model, guide, sample, train=True):
    model.train(train)
    guide.train(train)
    loss, size, sums = guide(model, sample)
    return loss, size, {name: float(value) for name, value in sums.items()}


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ARCHES)
def test_padded_batch_is_the_sum_of_its_sentences(name, loss, left):
    """Padding of sources on either side, of targets on the right, with a sentence that has no links."""
    model, task = model_and_task(name)
    guide = criterion(task, alignment_loss=loss, label_smoothing=0.1)
    numbers = range(len(PAIRS))
    total, size, sums = run(model, guide, batch_of(numbers, left))
    singles = [run(model, guide, batch_of([number], left)) for number in numbers]
    assert total.item() == pytest.approx(sum(loss.item() for loss, _, _ in singles), rel=1e-5)
    assert size == sum(size for _, size, _ in singles) == sums["ntokens"]
    for key in sums:
        assert sums[key] == pytest.approx(sum(single[key] for _, _, single in singles), rel=1e-5, abs=1e-6), key
    assert sums["aligned_words"] == 5
    total.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("loss", LOSSES)
def test_value(loss):
    """The criterion's loss is fairseq's of the words plus the weighted sum of the formulas, word by word."""
    model, task = model_and_task()
    guide = criterion(task, alignment_loss=loss, alignment_weight=0.7, label_smoothing=0.1)
    total, words, right = 0.0, 0, 0
    for number in range(len(PAIRS)):
        sample = batch_of([number])
        attention = model.train()(**sample["net_input"])[1]["attn"][0][0].tolist()
        linked = [[i for i, j in PAIRS[number][1] if j == t] for t in range(len(attention))]
        value = by_hand(attention, linked, loss)
        total, words, right = total + value[0], words + value[1], right + value[2]
    sample = batch_of(range(len(PAIRS)))
    plain, size, _ = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)(model, sample)
    guided, guided_size, sums = run(model, guide, sample)
    assert guided_size == size
    assert guided.item() == pytest.approx(plain.item() + 0.7 * total, rel=1e-5)
    assert sums["alignment_loss"] == pytest.approx(total, rel=1e-5)
    assert (sums["aligned_words"], sums["aligned_correct"]) == (words, right)
    each, _, _ = guide(model, sample, reduce=False)
    assert each.sum().item() == pytest.approx(guided.item(), rel=1e-5) and each.numel() == sample["target"].numel()


def test_validation_and_a_weight_of_zero_count_words_alone():
    """The loss that chooses checkpoint_best.pt does not change with the weight."""
    model, task = model_and_task()
    sample = batch_of(range(len(PAIRS)))
    losses = [run(model, criterion(task, alignment_weight=w), sample, train=False) for w in (0.0, 3.0)]
    assert losses[0][0].item() == losses[1][0].item() == losses[0][2]["nll_loss"]
    assert losses[0][2] == losses[1][2] and "alignment_weight" not in losses[0][2]
    loss, _, sums = run(model, criterion(task, alignment_weight=0.0), sample)
    plain = LabelSmoothedCrossEntropyCriterion(task, False, 0.0)(model, sample)[0]
    assert loss.item() == plain.item() and sums["alignment_loss"] > 0 and sums["aligned_words"] == 5


def test_batches_without_links():
    """fairseq leaves the entry out where no sentence has usable links, and skips sentences whose links do not fit."""
    model, task = model_and_task()
    guide = criterion(task)
    sample = batch_of([2])
    assert "alignments" not in sample
    loss, _, sums = run(model, guide, sample)
    assert sums["alignment_loss"] == sums["aligned_words"] == sums["aligned_correct"] == 0
    assert loss.item() == pytest.approx(sums["nll_loss"], rel=1e-6)
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    values = logged(guide, [sums])
    assert "loss" in values and not {"alignment_loss", "alignment_accuracy"} & set(values)

    wrong = sentence(0)
    wrong["alignment"] = torch.tensor([9, 0])
    _, _, sums = run(model, guide, collate([wrong, sentence(1)], PAD, EOS))
    assert sums["aligned_words"] == 2
    # the entries that workers add up are the same in every batch
    assert set(sums) == set(run(model, guide, batch_of([2]))[2])


def test_ignored_prefix_is_not_aligned():
    model, task = model_and_task()
    sample = batch_of([0])  # words 0 and 2 have links
    assert run(model, criterion(task), sample)[2]["aligned_words"] == 2
    guide = criterion(task, ignore_prefix_size=1)
    loss, _, sums = run(model, guide, sample)
    assert sums["aligned_words"] == 1
    assert guide(model, sample, reduce=False)[0].sum().item() == pytest.approx(loss.item(), rel=1e-5)


# --- the schedule


@pytest.mark.parametrize(
    ("updates_to_zero", "updates", "expected"), [(100, [0, 75, 120], [0.8, 0.2, 0.0]), (0, [0, 10**6], [0.8, 0.8])]
)
def test_annealing(updates_to_zero, updates, expected, monkeypatch):
    """The weight in force in ``task.train_step``, as the trainer calls it; a resumed training begins later."""
    seen = []
    monkeypatch.setattr(TranslationTask, "train_step", lambda self, *args, **more: seen.append(guide.alignment_weight))
    task = translation_task()
    guide = criterion(task, alignment_weight=0.8, alignment_anneal_updates=updates_to_zero)
    assert guide.alignment_weight == 0.8
    for number in updates:
        task.train_step({}, None, guide, None, number)
        task.train_step(sample={}, model=None, criterion=guide, optimizer=None, update_num=number, ignore_grad=True)
    assert seen[::2] == seen[1::2] == pytest.approx(expected)


# --- the logs


@pytest.mark.parametrize("train", [True, False])
def test_two_workers_log_what_one_does(train):
    model, task = model_and_task()
    guide = criterion(task, report_accuracy=True, label_smoothing=0.1)
    one = run(model, guide, batch_of(range(4)), train)[2]
    two = [run(model, guide, batch_of(numbers), train)[2] for numbers in ([0, 2, 3], [1])]
    values = logged(guide, [one])
    assert logged(guide, two) == pytest.approx(values, rel=1e-3)
    assert values["alignment_loss"] == pytest.approx(one["alignment_loss"] / 5, abs=1e-4)
    assert values["alignment_accuracy"] == pytest.approx(20 * one["aligned_correct"], abs=1e-2)
    assert values["nll_loss"] == pytest.approx(one["nll_loss"] / one["ntokens"] / math.log(2), abs=1e-3)
    assert {"loss", "ppl", "accuracy"} <= set(values)
    assert ("alignment_weight" in values) == train
    if train:
        assert values["alignment_weight"] == 0.5


# --- mistakes


@refuses(
    ({"alignment_loss": "l1"}, r"^--alignment-loss l1: must be one of cross-entropy, squared$"),
    ({"alignment_weight": -1.0}, r"^--alignment-weight -1.0: must be 0 or more$"),
    ({"alignment_anneal_updates": -5}, r"^--alignment-anneal-updates -5: must be 0 or more$"),
)
def test_wrong_options(options):
    criterion(**options)


def test_data_that_hold_no_alignments(tiny_data, tmp_path):
    options = ["--criterion", "guided_alignment", "--arch", "lstm_soft", *SIZES]
    error = run_tool(*training_command(tiny_data, tmp_path, *options, updates=1), fails=True).error
    assert "--criterion guided_alignment: needs word alignments" in error and "--load-alignments" in error


def test_alignments_of_other_data():
    """For validation they are enough."""
    model, task = model_and_task()
    guide, data = criterion(task), [torch.tensor([5, EOS])] * 3
    task.datasets["train"] = LanguagePairDataset(
        *(data, [2] * 3, task.source_dictionary, data, [2] * 3, task.target_dictionary),
        align_dataset=[torch.tensor([0, 0])] * 4,
    )
    run(model, guide, batch_of([2]), train=False)
    with pytest.raises(OptionError, match="4 alignments for the 3 sentences of the split train"):
        task.begin_epoch(1, model)


def test_models_without_attention():
    task = translation_task()
    sample = batch_of([0])
    for name, options in (("lstm_soft", {"decoder_attention": "False"}), ("lstm", {})):
        model = build(name, task, **options)
        with pytest.raises(OptionError, match="returns no attention in training; choose .* such as lstm_soft"):
            run(model, criterion(task), sample)

    model = build("lstm_soft", task)
    forward = model.forward
    model.forward = lambda **batch: (forward(**batch)[0], {"attn": [torch.zeros(2, 1, 4, 5)]})  # as of two heads
    with pytest.raises(OptionError, match=r"returns attention of the shape \(2, 1, 4, 5\), must be \(1, 4, 5\)"):
        run(model, criterion(task), sample)

    for name in ("gaussian", "election"):
        model = build("lstm_soft", task, attention=name)
        run(model, criterion(task), sample, train=False)
        with pytest.raises(OptionError, match="nothing of the attention of .* is trained; .* --gaussian-trained, w"):
            run(model, criterion(task), sample)
        run(build("lstm_soft", task, attention=name, gaussian_trained=True), criterion(task), sample)
