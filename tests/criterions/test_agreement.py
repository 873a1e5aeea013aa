"""Agreement models without the command line: the terms against loops, batches against sentences, both directions."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from fairseq.data.language_pair_dataset import collate
from models_for_tests import build, dictionary, enlarged, fake_task, logged, pad_batch
from refusals import refuses

from fairseq_attn_plugin.criterions import agreement
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.agreement_lstm import reverse_batch

PAD, EOS = 1, 2
LENGTHS = [(4, 6), (7, 3), (1, 5), (6, 1)]  # words of source and target, the end of the sentence included


def loop_loss(name, forward, reverse):
    """The formulas of ``--agreement-loss`` for one sentence without padding; lists of rows."""
    steps, width = len(forward), len(reverse)
    cells = list(itertools.product(range(steps), range(width)))
    product = sum(forward[t][j] * reverse[j][t] for t, j in cells)
    if name == "trace":
        return -product
    if name == "log-trace":
        return -product.log()
    if name == "squared":
        return sum((forward[t][j] - reverse[j][t]) ** 2 for t, j in cells)
    loss = 0.0
    for t, j in cells:
        of_word = reverse[j][t] / sum(reverse[k][t] for k in range(width))
        of_source_word = forward[t][j] / sum(forward[s][j] for s in range(steps))
        loss = loss - of_word.detach() * forward[t][j].log() - of_source_word.detach() * reverse[j][t].log()
    return loss


def random_attentions(lengths, side="left", dtype=torch.float64, seed=0):
    """Weights of both directions in padded batches, and the masks of words."""
    generator = torch.Generator().manual_seed(seed)
    width, steps = (max(column) for column in zip(*lengths))
    source = torch.zeros(len(lengths), width, dtype=torch.bool)
    target = torch.zeros(len(lengths), steps, dtype=torch.bool)
    for row, (n, t) in enumerate(lengths):
        first = width - n if side == "left" else 0
        source[row, first : first + n] = True
        target[row, :t] = True

    def weights(rows, columns):
        scores = torch.randn(len(lengths), rows, columns.size(1), generator=generator, dtype=dtype)
        return scores.masked_fill(~columns.unsqueeze(1), -torch.inf).softmax(-1)

    return weights(steps, source), weights(width, target), target, source


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", agreement.LOSSES)
def test_terms_equal_loops_over_words(name, side):
    forward, reverse, target, source = random_attentions(LENGTHS, side)
    for weights in (forward, reverse):
        weights.requires_grad_()
    both = agreement.attentions(forward, reverse, target, source)
    losses = agreement.LOSSES[name](both)
    assert agreement.trace_bound(both).tolist() == [min(pair) for pair in LENGTHS]
    words = zip(forward, reverse, target, source)
    expected = torch.stack([loop_loss(name, f[t][:, s], r[s][:, t]) for f, r, t, s in words])
    # 1e-6 is added to the weights in cross-entropy
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-6)
    actual = torch.autograd.grad(losses.sum(), (forward, reverse))
    torch.testing.assert_close(actual, torch.autograd.grad(expected.sum(), (forward, reverse)), rtol=2e-3, atol=1e-6)
    assert all(torch.isfinite(gradient).all() for gradient in actual)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("name", agreement.LOSSES)
def test_gradients_are_finite_at_exact_zeros(name, spread, dtype):
    """Sparse attentions that agree nowhere: every product is zero."""
    forward, reverse = torch.eye(3, dtype=dtype)[None], torch.eye(3, dtype=dtype)[None].roll(1, dims=2)
    if spread:
        forward, reverse = forward[:, [0] * 3], reverse[:, [0] * 3]
    for weights in (forward, reverse):
        weights.requires_grad_()
    words = torch.ones(1, 3, dtype=torch.bool)
    loss = agreement.LOSSES[name](agreement.attentions(forward, reverse, words, words)).sum()
    assert torch.isfinite(loss) and loss.dtype == torch.float32
    # 128: fairseq's first scale of half-precision losses
    for gradient in torch.autograd.grad(128 * loss, (forward, reverse)):
        assert torch.isfinite(gradient).all()


def test_weights_that_do_not_sum_to_one_are_divided_by_their_sums():
    forward, reverse, target, source = random_attentions(LENGTHS)
    expected = agreement.attentions(forward, reverse, target, source)
    actual = agreement.attentions(2 * forward, 0.3 * reverse, target, source, normalized=False)
    torch.testing.assert_close(actual[:2], expected[:2])
    nothing = agreement.attentions(0 * forward, reverse, target, source, normalized=False)
    assert all(torch.isfinite(loss(nothing)).all() for loss in agreement.LOSSES.values())


# ---- model and criterion


def sentences(side="left", target_side="right", width=None, rows=None):
    """A batch as fairseq's datasets make it, of all sentences or of some."""
    source, target = (
        pad_batch(n, symbols=symbols, seed=seed) for n, symbols, seed in zip(zip(*LENGTHS), (20, 15), (0, 1))
    )
    pairs = [
        {"id": row, "source": source[row][source[row] != PAD], "target": target[row][target[row] != PAD]}
        for row in (range(len(LENGTHS)) if rows is None else rows)
    ]
    sample = collate(pairs, PAD, EOS, side == "left", target_side == "left", pad_to_length=width)
    order = sample["id"].argsort()  # fairseq sorts the sentences of a batch by length
    for holder in (sample, sample["net_input"]):
        holder.update({name: value[order] for name, value in holder.items() if torch.is_tensor(value)})
    return sample


def agreement_model(task=None, **options):
    return build("lstm_agreement", task or task_of("de", "en"), seed=3, **{"attention_hidden_dim": 8, **options})


def sharp_model(**options):
    """In float64, with attentions far from uniform."""
    return enlarged(agreement_model(**options).double(), 8)


def task_of(source, target, **config):
    return fake_task(dictionary(20), dictionary(15), source_lang=source, target_lang=target, **config)


def criterion(**options):
    config = agreement.AgreementConfig(**{"sentence_avg": False, **options})
    return agreement.AgreementCriterion(config, SimpleNamespace(target_dictionary=dictionary(15)))


def run(model, sample, training=False, **options):
    return criterion(**options).train(training)(model.train(training), sample)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("target_side", ["left", "right"])
def test_reverse_batch_is_what_fairseq_makes_of_the_swapped_pair(side, target_side):
    given = sentences(side, target_side)["net_input"]["src_tokens"]
    batch = reverse_batch(given, PAD, EOS)
    words = sentences(side="right", target_side="right")["net_input"]["src_tokens"]
    assert torch.equal(batch.target, words)
    previous = torch.full_like(words, PAD)
    for row, (n, _) in enumerate(LENGTHS):
        previous[row, 0], previous[row, 1:n] = EOS, words[row, : n - 1]
    assert torch.equal(batch.prev_output_tokens, previous)
    assert torch.equal(given.gather(1, batch.to_front), batch.target)


@pytest.mark.parametrize("name", ["trace", "cross-entropy"])
@pytest.mark.parametrize("attention", ["soft", "sigmoid", "mqt"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_is_the_sum_of_its_sentences(side, attention, name):
    """Whatever the side of the padding, and with padding that nobody needs."""
    model = sharp_model(attention=attention)
    keys = ("loss", "forward_nll_loss", "reverse_nll_loss", "agreement", "agreement_bound", "agreement_loss")
    options = {"agreement_loss": name, "label_smoothing": 0.1}
    width = {"source": 9, "target": 10}
    with torch.no_grad():
        for training in (False, True):
            loss, size, batch = run(model, sentences(side, width=width), training, **options)
            single = [run(model, sentences(rows=[row]), training, **options) for row in range(len(LENGTHS))]
            assert size == sum(part[1] for part in single) == sum(n + t for n, t in LENGTHS)
            for key in keys:
                total = sum(float(part[2][key]) for part in single)
                assert float(batch[key]) == pytest.approx(total, rel=1e-6), key  # fairseq's log-softmax is in float32
            assert float(loss) == pytest.approx(float(batch["loss"]))


def test_loss_is_two_likelihoods_and_the_term():
    """Against both directions run by hand, the reverse one on the swapped pair; validation leaves the term out."""
    model, sample = agreement_model(), sentences()
    swapped = sentences(side="right")
    batch = reverse_batch(sample["net_input"]["src_tokens"], PAD, EOS)
    with torch.no_grad():
        model.eval()

        def nll(net, source, previous, target):
            log_probs = net.get_normalized_probs(net(source, None, previous), log_probs=True)
            return -log_probs.gather(-1, target.unsqueeze(-1)).squeeze(-1)[target != PAD].sum().item()

        forward = nll(model.of("de-en"), *list(sample["net_input"].values())[::2], sample["target"])
        reverse = nll(model.of("en-de"), sample["target"], batch.prev_output_tokens, swapped["net_input"]["src_tokens"])
        loss, _, logged = run(model, sample)
        assert logged["forward_nll_loss"].item() == pytest.approx(forward, rel=1e-6)
        assert logged["reverse_nll_loss"].item() == pytest.approx(reverse, rel=1e-6)
        assert loss.item() == pytest.approx(forward + reverse, rel=1e-6)
        trained, size, logged = run(model, sample, True, agreement_weight=0.5, sentence_avg=True)
        assert trained.item() == pytest.approx(forward + reverse - 0.5 * logged["agreement"].item(), rel=1e-6)
        words = run(model, sample, False, sentence_avg=True)[1]
        assert size == len(LENGTHS) and words == sum(map(sum, LENGTHS))
        assert torch.is_tensor(words), "the host waits for a number"


def test_weight_rises_in_the_warm_up():
    judge = criterion(agreement_weight=2.0, agreement_warmup_updates=10)
    assert [judge.agreement_weight(updates) for updates in (0, 5, 10, 99)] == [0, 1, 2, 2]
    judge.updates.number = 5
    logged = judge.train()(agreement_model().train(), sentences())[2]
    assert logged["agreement_weight"] == 1.0 * len(LENGTHS)


@pytest.mark.parametrize("options", [{}, {"attention_normalizer": "sparsemax"}])
def test_every_parameter_is_trained(options):
    """By one call of the model, as data-parallel wrappers want it; with exact zeros in the weights, too."""
    for name in agreement.LOSSES:
        model = agreement_model(**options)
        run(model, sentences(), True, agreement_loss=name)[0].backward()
        for key, parameter in model.named_parameters():
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), key


def test_term_reaches_both_directions():
    """Likelihoods of one direction have no gradient in the other; the term has some in both."""
    gradients = []
    for weight in (0.0, 1.0):
        model = sharp_model()
        run(model, sentences(), True, agreement_weight=weight)[0].backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    for direction in ("de-en", "en-de"):
        name = f"models.{direction}.encoder.lstm.weight_ih_l0"
        assert (gradients[0][name] - gradients[1][name]).abs().max() > 1e-4


def test_workers_log_what_one_logs():
    model = agreement_model()
    parts = [run(model, sentences(rows=rows), True)[2] for rows in ([0, 3], [1, 2])]
    one, two = (logged(agreement.AgreementCriterion, logs) for logs in ([run(model, sentences(), True)[2]], parts))
    assert agreement.AgreementCriterion.logging_outputs_can_be_summed() and one == pytest.approx(two, rel=2e-3)
    assert 0 < one["agreement"] < 1 and {"loss", "ppl", "agreement_loss", "agreement_weight"} <= set(one)
    assert {"nll_loss", "forward_ppl", "forward_nll_loss", "reverse_ppl", "reverse_nll_loss"} <= set(one)


# ---- directions


def test_the_task_chooses_the_direction():
    """A checkpoint of de-en, read for en-de: the same two models, the other one in use."""
    forward = agreement_model().eval()
    swapped = fake_task(dictionary(15), dictionary(20), source_lang="en", target_lang="de")
    reverse = agreement_model(swapped)
    assert [name for name, _ in forward.named_parameters()] == [name for name, _ in reverse.named_parameters()]
    reverse.load_state_dict(forward.state_dict())
    reverse.eval()
    assert (forward.direction, reverse.direction) == ("de-en", "en-de")
    sample = sentences()
    batch = reverse_batch(sample["net_input"]["src_tokens"], PAD, EOS)
    with torch.no_grad():
        logits = reverse(sample["target"], None, batch.prev_output_tokens)[0]
        both = forward(**sample["net_input"], target=sample["target"])
        torch.testing.assert_close(logits, both.reverse[0])
        torch.testing.assert_close(forward(**sample["net_input"])[0], both.forward[0])
    assert reverse.encoder is reverse.of("en-de").encoder and reverse.decoder.dictionary == dictionary(20)


def test_languages_of_other_names():
    state = agreement_model().state_dict()
    with pytest.raises(OptionError, match="the model translates de-en and en-de, not src-tgt; .* export --direction"):
        agreement_model(task_of("src", "tgt")).load_state_dict(state)
    with pytest.raises(OptionError, match="two different languages"):
        agreement_model(task_of("de", "de"))
    model = agreement_model(task_of("zh-cn", "tok.de", max_source_positions=50, max_target_positions=60))
    assert model.direction == "zh-cn-tok_de"
    assert model.max_positions() == (50, 60) and model.of(model.reverse).max_positions() == (60, 50)


def test_embeddings_are_shared_within_a_direction():
    joint = dictionary(15)
    task = fake_task(joint, joint, source_lang="de", target_lang="en")
    options = {"encoder_embed_dim": 12, "decoder_out_embed_dim": 12, "share_all_embeddings": True}
    for model, count in ((agreement_model(), 4), (agreement_model(task, **options), 2)):
        assert len({id(net.embed_tokens) for m in model.models.values() for net in (m.encoder, m.decoder)}) == count
    assert model.of("en-de").decoder.output_layer(torch.zeros(1, 1, 12)).shape[-1] == len(joint)


def test_pretrained_embeddings_follow_the_language(tmp_path):
    path = tmp_path / "de.vec"
    path.write_text("1 12\nw3 " + " ".join(["7.5"] * 12) + "\n")
    model = agreement_model(encoder_embed_path=str(path), encoder_freeze_embed=True, encoder_embed_dim=12)
    row = dictionary(20).index("w3")
    for net in (model.of("de-en").encoder, model.of("en-de").decoder):
        assert (net.embed_tokens.weight[row] == 7.5).all() and not net.embed_tokens.weight.requires_grad
    for net in (model.of("de-en").decoder, model.of("en-de").encoder):
        assert net.embed_tokens.weight.requires_grad and (net.embed_tokens.weight.abs() <= 0.1).all()


@refuses(
    ({"agreement_loss": "mse"}, "--agreement-loss mse: must be one of trace, "),
    ({"agreement_weight": -1.0}, "--agreement-weight -1.0: must be 0 or more"),
    ({"agreement_warmup_updates": -1}, "--agreement-warmup-updates -1: must be 0 or more"),
)
def test_wrong_options_of_the_criterion(options):
    criterion(**options)


def test_models_and_criterions_that_do_not_fit():
    sample = sentences()
    with pytest.raises(OptionError, match="--criterion agreement: needs a model of two directions"):
        run(build("lstm_soft"), sample)
    model = agreement_model()
    with pytest.raises(OptionError, match="trains with --criterion agreement, which trains both de-en and en-de"):
        model.train()(**sample["net_input"])
    with pytest.raises(OptionError, match="--adaptive-softmax-cutoff"):
        agreement_model(adaptive_softmax_cutoff="10,15")
    with pytest.raises(OptionError, match="--decoder-attention False"):
        agreement_model(decoder_attention="False")
