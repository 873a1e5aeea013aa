"""Document classifiers against a loop over documents, sentences and words; padding, batches and options."""

import copy
from dataclasses import asdict

import pytest
import torch
import torch.nn.functional as F
from fairseq import models
from fairseq.models import MODEL_DATACLASS_REGISTRY
from models_for_tests import dictionary, enlarged, fake_task
from omegaconf import OmegaConf
from refusals import refuses

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.han import HANConfig, HANModel
from fairseq_attn_plugin.modules.encoders import ragged
from fairseq_attn_plugin.modules.encoders.ragged import make_blocks
from fairseq_attn_plugin.options import file_options

import oracles

PAD, BOS, EOS, WORDS, CLASSES = 1, 0, 2, 12, 3
SIZES = {"word_embed_dim": 5, "word_hidden_size": 3, "sentence_hidden_size": 2}
# ragged: sentences of one word, documents of one sentence, a sentence of none, a document of none
DOCUMENTS = [
    [[4, 5, 6], [7], [8, 9, 10, 11, 4, 5, 6], [5, 5]],
    [[12]],
    [],
    [[6, 7, 8, 9], [], [13, 14]],
    [[15, 4, 4, 6, 9, 10, 11, 12, 13]],
    [[5], [6], [7], [8], [9], [10]],
]
CASES = [
    ("han", {}),
    ("han", {"rnn": "gru"}),
    ("han", {"rnn": "none"}),
    ("han_flat", {}),
    ("han_flat", {"rnn": "lstm"}),
    ("han_flat", {"pooling": "mean"}),
    ("han_mean", {}),
    *[("han", {"attention_score": score}) for score in ("dot", "scaled_dot", "general")],
    *[("han", {"attention_normalizer": normalizer}) for normalizer in ("sparsemax", "entmax15")],
    *[("han", {"attention": attention}) for attention in ("structured", "sigmoid", "mqt", "aqt")],
    ("han", {"attention_hidden_dim": 4}),
]
cases = pytest.mark.parametrize(
    ("arch", "options"), CASES, ids=["-".join([arch, *map(str, options.values())]) for arch, options in CASES]
)


def build(arch="han", seed=1, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    config = OmegaConf.merge(OmegaConf.structured(MODEL_DATACLASS_REGISTRY[arch]), {**SIZES, **options, "_name": arch})
    model = models.build_model(config, fake_task(source=dictionary(WORDS)))
    model.register_classification_head("head", num_classes=CLASSES)
    return enlarged(model, 8).to(dtype).eval()  # weights differ, and sparse ones have zeros


def batch(documents, side="right", width=None, bos=False):
    """``src_tokens`` of documents: every sentence and every document ends with </s>."""
    lines = []
    for sentences in documents:
        line = [BOS] if bos else []
        for sentence in sentences or [[]]:
            line += [*sentence, EOS]
        lines.append(line)
    width = width or max(map(len, lines))
    tokens = torch.full((len(lines), width), PAD)
    for row, line in enumerate(lines):
        start = 0 if side == "right" else width - len(line)
        tokens[row, start : start + len(line)] = torch.tensor(line)
    return tokens


def classify(model, tokens):
    return model(tokens, features_only=True, classification_head_name="head")


def by_loop(model, documents):
    """What the model must give: logits ``[B, C]``, and the weights of words and of sentences, document by document."""
    head = model.classification_heads["head"]
    vectors, words, sentences = zip(*(oracles.document(model, document) for document in documents))
    return torch.stack([head.weight @ vector + head.bias for vector in vectors]), words, sentences


@cases
def test_is_the_loop_over_documents_sentences_and_words_forward_and_backward(arch, options):
    model = build(arch, **options)
    logits, attention = classify(model, batch(DOCUMENTS))
    expected, words, sentences = by_loop(model, DOCUMENTS)
    torch.testing.assert_close(logits, expected)
    tokens = batch(DOCUMENTS)
    real = (tokens != PAD) & (tokens != EOS)
    assert not attention["word_attention"][~real].any()
    for row, (word_weights, sentence_weights) in enumerate(zip(words, sentences)):
        if len(word_weights):
            torch.testing.assert_close(attention["word_attention"][row][real[row]], torch.cat(word_weights))
        if model.sentences is None:
            assert set(attention) == {"word_attention"}
            continue
        numbers = [k for k, weights in enumerate(word_weights) for _ in weights]
        assert attention["sentences"][row][real[row]].tolist() == numbers
        assert (attention["sentences"][row][~real[row]] == -1).all()
        shares = attention["sentence_attention"][row]
        assert not shares[len(word_weights) :].any()
        if len(word_weights):
            torch.testing.assert_close(shares[: len(word_weights)], sentence_weights)

    labels = torch.arange(len(DOCUMENTS)) % CLASSES
    losses, parameters = (F.cross_entropy(x, labels) for x in (logits, expected)), list(model.parameters())
    ours, theirs = (torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in losses)
    torch.testing.assert_close(ours, theirs)
    assert any(grad.abs().max() > 1e-4 for grad in theirs)


@pytest.mark.parametrize("fill", [1.0, 0.01])
@cases
def test_blocks_of_any_kind_give_the_same(arch, options, fill, monkeypatch):
    monkeypatch.setattr(ragged, "CPU_FILL", fill)
    model = build(arch, **options)
    vectors, _ = model.encode(batch(DOCUMENTS))
    torch.testing.assert_close(vectors, torch.stack([oracles.document(model, d)[0] for d in DOCUMENTS]))


@cases
def test_padding_batch_mates_and_their_order_change_nothing(arch, options):
    model = build(arch, **options)
    whole, attention = classify(model, batch(DOCUMENTS))
    real = batch(DOCUMENTS) != PAD
    for side, width in (("left", None), ("right", 40), ("left", 40)):
        tokens = batch(DOCUMENTS, side, width)
        moved, found = classify(model, tokens)
        torch.testing.assert_close(moved, whole)
        torch.testing.assert_close(found["word_attention"][tokens != PAD], attention["word_attention"][real])
    torch.testing.assert_close(classify(model, batch(DOCUMENTS, bos=True))[0], whole)
    for row, document in enumerate(DOCUMENTS):
        tokens = batch([document])
        alone, weights = classify(model, tokens)
        torch.testing.assert_close(alone[0], whole[row])
        torch.testing.assert_close(weights["word_attention"][0], attention["word_attention"][row, : tokens.size(1)])
    torch.testing.assert_close(classify(model, batch(DOCUMENTS[::-1]))[0], whole.flip(0))


@pytest.mark.parametrize("arch", ["han", "han_flat", "han_mean"])
def test_a_batch_of_empty_documents(arch):
    model = build(arch).train()
    logits, attention = classify(model, batch([[], []]))
    assert torch.equal(logits, model.classification_heads["head"].bias.expand(2, -1))
    assert not attention["word_attention"].any()
    logits.sum().backward()


def test_blocks_hold_every_sequence_once_and_are_full():
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(0, 120, (400,), generator=generator).numpy()
    starts = lengths.cumsum() - lengths
    for fill in (1.0, 0.85, 0.5, 0.01):
        blocks = make_blocks(starts, lengths, fill)
        seen = []
        for block in blocks:
            sizes = lengths[block.rows]
            assert block.places.shape == (len(sizes), sizes.max()) and sizes.min() >= fill * sizes.max()
            real = block.places[~block.padding] if block.padding is not None else block.places.ravel()
            seen += real.tolist()
            assert (block.padding is None) == (sizes.min() == sizes.max())
        assert sorted(seen) == list(range(lengths.sum()))
        assert sum(block.places.size for block in blocks) <= lengths.sum() / fill
    assert len(make_blocks(starts, lengths, 1.0)) == len(set(lengths.tolist()) - {0})
    assert len(make_blocks(starts, lengths, 0.005)) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@cases
def test_half_precision_trains_finitely(arch, options, dtype):
    model = build(arch, dtype=torch.float32, **options)
    half = copy.deepcopy(model).to(dtype).train()
    logits, _ = classify(half, batch(DOCUMENTS))
    assert logits.dtype == dtype
    F.cross_entropy(logits.float(), torch.arange(len(DOCUMENTS)) % CLASSES).backward()
    gradients = [parameter.grad for parameter in half.parameters() if parameter.grad is not None]
    assert len(gradients) >= 3 and all(torch.isfinite(grad).all() for grad in gradients)
    expected, _ = classify(model, batch(DOCUMENTS))
    torch.testing.assert_close(logits.float(), expected, rtol=0, atol=0.015)


def test_dropout_and_word_dropout_act_in_training_only():
    tokens = batch(DOCUMENTS)
    for options in ({"dropout": 0.5}, {"word_dropout": 0.5}):
        model = build(**options)
        assert torch.equal(classify(model, tokens)[0], classify(build(), tokens)[0])
        model.train()
        assert not torch.allclose(classify(model, tokens)[0], classify(model, tokens)[0])
    # every word dropped: every word is the unknown one
    model = build(word_dropout=0.999999).train()
    unknown = [[[3] * len(sentence) for sentence in document] for document in DOCUMENTS]
    torch.testing.assert_close(classify(model, tokens)[0], classify(build(), batch(unknown))[0])


def test_pretrained_embeddings_are_taken_and_frozen(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("w0 1 2 3 4 5\nnowhere 9 9 9 9 9\nw3 -1 -2 -3 -4 -5\n")  # as GloVe: no first line of its own
    weight = build(word_embeddings=str(path), freeze_word_embeddings=True).embed_words.weight / 8
    assert weight[4].tolist() == [1, 2, 3, 4, 5] and weight[7].tolist() == [-1, -2, -3, -4, -5]
    assert 0 < weight[5].abs().max() <= 0.1 and not weight[PAD].any()
    assert not build(word_embeddings=str(path), freeze_word_embeddings=True).embed_words.weight.requires_grad
    assert file_options(HANConfig) == ["word_embeddings"], "a checkpoint has them: the file is not asked for again"
    path.write_text("w0 1 2 3\n")
    with pytest.raises(OptionError, match="give --word-embed-dim 3 .now 5."):
        build(word_embeddings=str(path))


@refuses(
    ({"attention": "hard"}, "--attention hard.*soft"),
    ({"attention": "local-p"}, "--attention local-p.*one of aqt, mqt, sigmoid, soft, structured.*documents"),
    ({"attention_score": "cosine"}, "--attention-score cosine.*additive"),
    ({"attention_normalizer": "hardmax"}, "--attention-normalizer hardmax.*entmax15"),
    ({"document_encoder": "deep"}, "--document-encoder deep.*hierarchical, flat"),
    ({"pooling": "max"}, "--pooling max.*attention, mean"),
    ({"rnn": "elman"}, "--rnn elman.*lstm, gru, none"),
    ({"word_hidden_size": 0}, "--word-hidden-size 0.*at least 1"),
    ({"word_embeddings": "/no/file"}, "--word-embeddings /no/file.*cannot be read"),
)
def test_wrong_options_are_one_line(options):
    build(**options)


@refuses(
    ("han", {"rnn": "none", "word_hidden_size": 64}, "^--word-hidden-size 64: has no effect with --rnn none; .*$"),
    ("han", {"rnn": "none", "sentence_hidden_size": 64}, "^--sentence-hidden-size 64: has no effect with --rnn.*$"),
    ("han", {"document_encoder": "flat", "sentence_hidden_size": 64}, "^--sentence-.* 64: has no effect with --d.*$"),
    ("han", {"attention_score": "dot", "attention_hidden_dim": 64}, "^--attention-hidden-dim 64: has no effect .*$"),
    ("han", {"attention": "mqt", "attention_hidden_dim": 64}, "^--attention-hidden-dim 64: has no effect without.*$"),
    ("han_mean", {"attention_score": "dot"}, "^--attention-score dot: there is no attention with --pooling mean.*$"),
)
def test_an_option_without_effect_is_refused(arch, options):
    defaults = {**asdict(MODEL_DATACLASS_REGISTRY[arch]()), "_name": arch}
    for ours in ({}, {"attention_hidden_dim": 64} if arch == "han" else {}, {"word_hidden_size": 64, "rnn": "gru"}):
        HANModel.check_training({"model": {**defaults, **ours}})
    yield lambda: HANModel.check_training({"model": {**defaults, **options}})
