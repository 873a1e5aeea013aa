"""Weights of padding, weights divided by their maximum, and logarithms of weights, down to the smallest numbers."""

import math

import pytest
import torch

from fairseq_attn_plugin.attention.normalizers import (
    LOG_ZERO,
    NORMALIZERS,
    build_normalizer,
    divide_by_maximum,
    log_of_weights,
)


@pytest.mark.parametrize("name", NORMALIZERS.names())
def test_padding_has_no_weight_in_a_row_without_words_either(name):
    mask = torch.tensor([[False, True, True], [True, True, True], [True, False, False]])
    weights = build_normalizer(name)(torch.tensor([[1.0, 9.0, 2.0], [0.5, 0.5, 3.0], [7.0, 1.0, 1.0]]), mask)
    torch.testing.assert_close(weights, torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.5]]))


def test_the_greatest_weight_of_every_row_becomes_one():
    weights = torch.tensor([[0.05, 0.025, 0.0], [1e-6, 1e-7, 1e-8], [0.7, 0.2, 0.1]], dtype=torch.float64)
    divided = divide_by_maximum(weights)
    torch.testing.assert_close(divided, weights / weights.amax(1, keepdim=True), rtol=1e-12, atol=0)
    assert divided.amax(1).tolist() == [1.0, 1.0, 1.0]


def test_a_row_of_zeros_stays_zero_with_finite_gradients():
    weights = torch.tensor([[0.0, 0.0], [1e-38, 0.0]], requires_grad=True)
    divided = divide_by_maximum(weights)
    divided.sum().backward()
    assert divided[0].tolist() == [0.0, 0.0] and weights.grad.isfinite().all()


def test_logarithms_are_exact_down_to_the_floor():
    weights = torch.tensor([[1.0, 1e-12, 1e-25, 0.0, 0.3]])
    mask = torch.tensor([[False, False, False, False, True]])
    logs = log_of_weights(weights, mask)
    expected = torch.tensor([[0.0, math.log(1e-12), math.log(1e-25), math.log(1e-30), LOG_ZERO]])
    torch.testing.assert_close(logs, expected, rtol=1e-6, atol=0)
