"""The contract of every registered attention mechanism, and its weights and gradients against the oracles."""

import copy

import torch
from attention_cases import make, mechanisms, own_mechanisms, subject_of

from fairseq_attn_plugin.testing import check_attention
from fairseq_attn_plugin.testing.subject import attend, batch_of, draw_queries

import oracles


@own_mechanisms
def test_keeps_the_contract(name, options):
    subject = subject_of(name, options)
    check_attention(name, subject.prepare, **subject.options)


@mechanisms
def test_weights_and_gradients_equal_the_oracles(name, options):
    module = make(name, {"nodes": 28, **options} if name == "aqt" else options)
    encodings, pad_mask, sentences = batch_of()
    encodings.requires_grad_()
    query = draw_queries().requires_grad_()
    factor = torch.randn(*query.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    context, weights = attend(module, query, encodings, pad_mask)
    (context * factor).sum().backward()

    reference = copy.deepcopy(module)
    reference.zero_grad()
    sentences = [sentence.clone().requires_grad_() for sentence in sentences]
    other_query = query.detach().clone().requires_grad_()
    total = 0
    for row, sentence in enumerate(sentences):
        expected = oracles.sequence(name, reference, other_query[row], sentence)
        torch.testing.assert_close(weights[row][:, ~pad_mask[row]], expected, rtol=1e-9, atol=1e-10)
        total = total + ((expected @ sentence) * factor[row]).sum()
    total.backward()
    for row, sentence in enumerate(sentences):
        torch.testing.assert_close(encodings.grad[row, ~pad_mask[row]], sentence.grad, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(query.grad, other_query.grad, rtol=1e-6, atol=1e-7)
    theirs = dict(reference.named_parameters())
    for key, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.grad, theirs[key].grad, rtol=1e-6, atol=1e-7, msg=key)
