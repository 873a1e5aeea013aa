"""p(z | x, y) of models that predict from a weighted sum: against a forward pass for each step and each encoding."""

import pytest
import torch
from latent_models import PAD, longest_first, make, sample
from models_for_tests import build, enlarged, fake_task

from fairseq_attn_plugin.analysis.inference.attributions import exact_posterior
from fairseq_attn_plugin.analysis.inference.forcing import attention
from fairseq_attn_plugin.errors import OptionError

SYSTEMS = {
    "soft": ("lstm_soft", {}),
    "no feeding": ("lstm_soft", {"input_feeding": "none"}),
    "context": ("lstm_soft", {"input_feeding": "context", "decoder_out_embed_dim": 9}),
    "linear": ("lstm_soft", {"output_layer": "linear"}),
    "adaptive": ("lstm_soft", {"adaptive_softmax_cutoff": "8"}),
    "mqt": ("lstm_adm", {}),
    "structured": ("lstm_soft", {"attention": "structured"}),
    "sigmoid": ("lstm_soft", {"attention": "sigmoid"}),
    "fertility": ("lstm_soft", {"attention_bias": "fertility"}),
    "sparsemax": ("lstm_soft", {"attention_normalizer": "sparsemax"}),
    "stock": ("lstm", {"decoder_out_embed_dim": 9}),
}


def with_one_encoding(model, one, step, place):
    """log p(y_step) of one sentence where the context of that step is A h_place, by the model's own forward pass."""
    decoder, calls = model.decoder, []
    if hasattr(decoder.attention, "step"):
        original = decoder.attention.step

        def changed(query, memory, *rest, **named):
            out = original(query, memory, *rest, **named)
            context = out.context.clone()
            for t in range(query.size(1)):
                if len(calls) + t == step:
                    context[:, t] = out.weights[:, t].sum() * memory.encodings[:, place]
            calls.extend(range(query.size(1)))
            return out._replace(context=context)

        decoder.attention.step = changed
    else:
        original = decoder.attention.forward

        def changed(hidden, encodings, mask):
            out, weights = original(hidden, encodings, mask)
            if len(calls) == step:
                out = torch.tanh(decoder.attention.output_proj(torch.cat([encodings[place], hidden], 1)))
            calls.append(step)
            return out, weights

        decoder.attention.forward = changed
    try:
        output = model(**one["net_input"])
    finally:
        del decoder.attention.__dict__["step" if hasattr(decoder.attention, "step") else "forward"]
    log_probs = model.get_normalized_probs(output, log_probs=True, sample=one)
    return log_probs[0, step, one["target"][0, step]]


def single(batch, row):
    """A sentence without padding."""
    net, target = batch["net_input"], batch["target"][row]
    source, target = net["src_tokens"][row], target[target.ne(PAD)]
    source = source[source.ne(PAD)]
    previous = net["prev_output_tokens"][row, : len(target)]
    lengths = torch.tensor([len(source)])
    inputs = {"src_tokens": source[None], "src_lengths": lengths, "prev_output_tokens": previous[None]}
    return {"net_input": inputs, "target": target[None]}


@pytest.mark.parametrize("name", SYSTEMS)
@torch.no_grad()
def test_equals_a_forward_pass_for_each_encoding(name):
    arch, options = SYSTEMS[name]
    model, batch = enlarged(build(arch, seed=3, **options).double().eval(), 3), longest_first(sample())
    found = exact_posterior(model, batch, "here")
    assert found.shape == (*batch["target"].shape, batch["net_input"]["src_tokens"].size(1))
    moved = 0.0
    for row in range(len(found)):
        one = single(batch, row)
        weights = attention(model, model(**one["net_input"]), one, "here")[0].double()
        steps, places = weights.shape
        words = torch.stack(
            [
                torch.stack([with_one_encoding(model, one, step, place) for place in range(places)])
                for step in range(steps)
            ]
        )
        expected = (weights * words.exp()) / (weights * words.exp()).sum(1, keepdim=True)
        real = batch["net_input"]["src_tokens"][row].ne(PAD)
        torch.testing.assert_close(found[row, :steps][:, real].double(), expected, atol=2e-6, rtol=1e-4)
        assert not found[row][:, ~real].any() and not found[row, steps:].any()
        moved = max(moved, float((expected - weights / weights.sum(1, keepdim=True)).abs().max()))
    assert moved > 1e-3  # it is not the attention


def test_a_step_that_attends_to_nothing_has_no_posterior():
    model = build("lstm_soft", attention="monotonic", monotonic_lossy=True).eval()
    assert not model(**sample()["net_input"])[1]["attn"][0].sum(-1).all()
    found = exact_posterior(model, sample(), "here").sum(-1)
    assert (found.eq(0) | found.sub(1).abs().lt(1e-5)).all()


@torch.no_grad()
def test_a_latent_model_has_its_own():
    model, batch = make(), sample()
    net = batch["net_input"]
    bayes = model.forced(net["src_tokens"], net["prev_output_tokens"], batch["target"])[1]["bayes"]
    torch.testing.assert_close(exact_posterior(model, batch, "here"), bayes.float())


def test_a_lexicon_counts_with_the_one_word(tmp_path):
    """Its bias is that of the source word of the encoding."""
    (tmp_path / "lexicon").write_text("".join(f"w{i}\tw{i % 15}\t0.9\t5\n" for i in range(20)))
    task = fake_task()
    model = build("lstm_soft", task, seed=3).eval()
    batch = sample()
    before = exact_posterior(model, batch, "here")
    model.decoder.lexicon.read(str(tmp_path / "lexicon"), task.source_dictionary, task.target_dictionary)
    model.decoder.lexicon.epsilon = 1e-3
    after = exact_posterior(model, batch, "here")
    source, target = batch["net_input"]["src_tokens"], batch["target"]
    translated = ((source - 4) % 15 + 4).unsqueeze(1).eq(target.unsqueeze(2)) & source.unsqueeze(1).ge(4)
    translated &= target.ge(4).unsqueeze(2)
    assert translated.any() and (after[translated] > before[translated]).all()


def test_a_model_without_one_context_is_refused():
    model = build("lstm", decoder_attention="0").eval()
    with pytest.raises(OptionError, match=r"^here: --method posterior: a LSTMModel does not predict from one sum"):
        exact_posterior(model, sample(), "here")
