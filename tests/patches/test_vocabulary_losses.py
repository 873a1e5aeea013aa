"""Criterions whose model forms the loss: the same numbers and gradients as from logits, and when logits are taken."""

from unittest import mock

import latent_models
import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)
from latent_models import longest_first
from models_for_tests import build, data_parallel, fake_task

from fairseq_attn_plugin.criterions.guided_alignment import GuidedAlignmentConfig, GuidedAlignmentCriterion
from fairseq_attn_plugin.criterions.vocabulary_losses import loss_in
from fairseq_attn_plugin.modules.decoder import LSTMDecoder

TASK = fake_task(load_alignments=True)
MODELS = {
    "lstm_soft": {},
    "another layer": {"decoder_out_embed_dim": 9},
    "shared embeddings": {"share_decoder_input_output_embed": True, "decoder_out_embed_dim": 12},
    "no attention": {"decoder_attention": "False"},
    "penalties": {"attention_bias": "fertility"},
}
SMOOTHED = {"sentence_avg": False, "label_smoothing": 0.1}
STOCK = {
    "cross_entropy": lambda **options: CrossEntropyCriterion(TASK, **{"sentence_avg": False, **options}),
    "smoothed": lambda **options: LabelSmoothedCrossEntropyCriterion(TASK, **{**SMOOTHED, **options}),
    "with_alignment": lambda: LabelSmoothedCrossEntropyCriterionWithAlignment(TASK, False, 0.1, 0.05),
    "guided": lambda **options: GuidedAlignmentCriterion(GuidedAlignmentConfig(**{**SMOOTHED, **options}), TASK),
}


@pytest.fixture(autouse=True)
def task():
    TASK.source_dictionary.pad_index = 1
    return TASK


def model_of(name="lstm_soft", dtype=torch.float64):
    return build("attn_lstm", TASK, seed=5, **MODELS[name]).to(dtype)


def sample():
    links = torch.tensor([[3, 0], [5, 6], [4, 10]])  # (source position, target word of the batch)
    return {**longest_first(latent_models.sample()), "alignments": links, "align_weights": torch.ones(3)}


def run(criterion, model, training=True, **arguments):
    """Loss, sample size, logged numbers and gradients; and whether the model formed the loss."""
    model.train(training)
    criterion.train(training)
    model.zero_grad()
    formed = []
    handle = model.register_forward_hook(lambda module, inputs, output: formed.append(loss_in(output) is not None))
    loss, size, logged = criterion(model, sample(), **arguments)
    handle.remove()
    if training:
        loss.sum().backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    return (loss.detach(), size, {name: torch.as_tensor(value) for name, value in logged.items()}, gradients), formed[0]


def log_softmax(logits, dim, **unused):
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim)


def with_logits(criterion, model, *arguments, **options):
    # fairseq's function rounds float64 to float32
    with mock.patch.object(LSTMDecoder, "sums_losses", False), mock.patch("fairseq.utils.log_softmax", log_softmax):
        result, formed = run(criterion, model, *arguments, **options)
    assert not formed
    return result


def close(found, expected, tolerance):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def compare(criterion, model, tolerance, training=True):
    """The model forms the loss, and it is that of logits."""
    found, formed = run(criterion, model, training)
    expected = with_logits(criterion, model, training)
    assert formed and found[0].dtype == expected[0].dtype
    close(found, expected, tolerance)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("name", "model"),
    [(n, m) for n in STOCK for m in MODELS if m != "no attention" or n not in ("with_alignment", "guided")],
)
def test_the_same_numbers_as_from_logits(name, model, training):
    compare(STOCK[name](), model_of(model), 1e-10, training)


@pytest.mark.parametrize("name", ["smoothed", "guided"])
@pytest.mark.parametrize(
    "options", [{"label_smoothing": 0.0}, {"ignore_prefix_size": 2}, {"sentence_avg": True}], ids=str
)
def test_options_of_criterions(name, options):
    compare(STOCK[name](**options), model_of(), 1e-10)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_precisions_of_models(dtype, tolerance):
    compare(STOCK["smoothed"](), model_of(dtype=dtype), tolerance)


class OwnLoss(LabelSmoothedCrossEntropyCriterion):
    def compute_loss(self, model, net_output, sample, reduce=True):
        return net_output[0].sum(), net_output[0].sum()


class OwnWords(LabelSmoothedCrossEntropyCriterion):
    def get_lprobs_and_target(self, model, net_output, sample):
        log_probs, target = super().get_lprobs_and_target(model, net_output, sample)
        return 2 * log_probs, target


def test_logits_where_more_than_sums_are_needed():
    criterions = [
        (STOCK["smoothed"](report_accuracy=True), {}),
        (STOCK["guided"](report_accuracy=True), {}),
        *((STOCK[name](), {"reduce": False}) for name in ("cross_entropy", "smoothed", "guided")),
        (OwnLoss(TASK, False, 0.1), {}),
        (OwnWords(TASK, False, 0.1), {}),
    ]
    for criterion, arguments in criterions:
        found, formed = run(criterion, model_of(dtype=torch.float32), **arguments)
        assert not formed
        close(found, with_logits(criterion, model_of(dtype=torch.float32), **arguments), 0.0)


def test_logits_of_models_that_need_them(tmp_path):
    lexicon = tmp_path / "lexicon.tsv"
    lexicon.write_text("w0\tw1\t0.5\n", encoding="utf-8")
    assert not build("attn_lstm", TASK, adaptive_softmax_cutoff="8,12").decoder.sums_losses
    biased = build("attn_lstm", TASK, lexicon=str(lexicon))
    for model in (biased, build("lstm_latent_small", TASK), build("lstm", TASK)):
        assert not run(STOCK["smoothed"](), model, training=False)[1]


@pytest.mark.parametrize("find_unused", [False, True])
def test_data_parallel_wrapper_sees_every_parameter(find_unused, tmp_path):
    model, expected, criterion = model_of(), model_of(), STOCK["smoothed"]()
    loss = criterion(expected, sample())[0]
    loss.backward()
    with data_parallel(model, tmp_path, find_unused_parameters=find_unused) as wrapped:
        found, formed = run(criterion, wrapped)
    assert formed and found[0] == loss
    torch.testing.assert_close(*([p.grad for p in one.parameters()] for one in (model, expected)))
