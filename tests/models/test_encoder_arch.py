"""``--encoder-arch``: encoders of stock fairseq under our decoder."""

import pytest
import torch
from models_for_tests import LENGTHS, assert_steps_equal_the_whole, build, enlarged, fake_task, pad_batch, targets
from refusals import refuses
from test_stepper import assert_same, batch

from fairseq_attn_plugin.decoding.export.onnx_folder import compare
from fairseq_attn_plugin.decoding.export.onnx_graphs import write_graphs
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.encoders.stock_encoder import StockEncoder

ENCODERS = {
    "transformer": {"encoder_options": "encoder-attention-heads=2 encoder-normalize-before encoder-learned-pos"},
    "transformer_iwslt_de_en": {"encoder_options": "encoder-attention-heads=5"},
    "fconv": {},
    "lightconv": {"encoder_options": "encoder-attention-heads=2 encoder-kernel-size-list=[3,7]"},
}
encoders = pytest.mark.parametrize("arch", ENCODERS)


def make(arch, family="attn_lstm", **options):
    model = build(family, seed=7, encoder_arch=arch, **{**ENCODERS[arch], **options}).double().eval()
    enlarged(model.decoder, 3)
    return model


@encoders
def test_encodings_are_the_encoders_own(arch):
    """On every sentence alone, without padding, in its place; their mean is what the decoder starts from."""
    model, source = make(arch), pad_batch([3, 6, 1, 4], width=8)
    out = model.encoder(source)
    for row, tokens in enumerate(source):
        real = tokens.ne(1)
        stock = model.encoder.stock(tokens[real].unsqueeze(0), real.sum().view(1))["encoder_out"]
        alone = (stock[-1] if isinstance(stock, (list, tuple)) else stock).view(int(real.sum()), -1)
        torch.testing.assert_close(out["encodings"][row, real], alone)
        assert out["encodings"][row, ~real].eq(0).all()
        torch.testing.assert_close(out["hidden"][row, 0], alone.mean(0))
    encoder_out = model.encoder(source)
    state = model.decoder.initial_state(encoder_out, model.decoder.remember(encoder_out))
    torch.testing.assert_close(state.hidden[:, 1], model.decoder.hidden_projection(out["hidden"][:, 0]))
    torch.testing.assert_close(state.cell[:, 0], model.decoder.cell_projection(out["hidden"][:, 0]))


@encoders
@pytest.mark.parametrize("options", [{}, {"decoder_zero_init": True}, {"rnn": "gru"}], ids=str)
def test_models_train(arch, options, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("1 10\nw3 " + " ".join(["0.5"] * 10) + "\n")
    model = make(arch, **options, encoder_embed_path=str(path), embed_init_range=0.3).train()
    # w3's vector is the only one that is not drawn
    drawn = model.encoder.embed_tokens.weight[model.encoder.embed_tokens.weight.ne(0.5)]
    assert 0.2 < drawn.abs().max() < 0.3
    assert (model.encoder.embed_tokens.weight[model.encoder.dictionary.index("w3")] == 0.5).all()
    logits, extra = model(pad_batch(LENGTHS), None, targets())
    assert extra["attn"][0].masked_select(pad_batch(LENGTHS).eq(1).unsqueeze(1)).eq(0).all()
    logits.sin().sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if not name.endswith("conv_bias")}
    assert all(gradient.isfinite().all() for gradient in gradients.values())  # lightconv has a bias that it never reads
    assert all(gradient.any() for name, gradient in gradients.items() if not name.endswith("k_proj.bias"))


@encoders
def test_steps_of_a_search_equal_the_whole(arch):
    assert_steps_equal_the_whole(make(arch), pad_batch(LENGTHS))


@encoders
def test_packed_products_are_the_plain_ones(arch):
    assert_same(make(arch).float(), batch(), 1e-4)


@pytest.mark.parametrize("arch", [arch for arch in ENCODERS if arch != "lightconv"])
@pytest.mark.parametrize("rnn", ["lstm", "gru"])
def test_exported_graphs(arch, rnn, tmp_path):
    model = make(arch, rnn=rnn).float()
    write_graphs(model, tmp_path)
    assert compare(model, tmp_path).log_probs < 1e-4


def test_an_encoder_that_has_no_exported_form(tmp_path):
    with pytest.raises(OptionError, match="^encoder.onnx: the encoder .fairseq's LightConvEncoder. cannot be recorded"):
        write_graphs(make("lightconv").float(), tmp_path)


@pytest.mark.parametrize("family", ["lstm_latent_small", "lstm_agreement_small", "lstm_soft"])
def test_families(family):
    model = make("transformer", family, encoder_options="encoder-attention-heads=2")
    assert isinstance(model.encoder, StockEncoder)
    logits, extra = model(pad_batch(LENGTHS), None, targets())
    assert extra["attn"][0].shape == (4, 5, 6) and logits.isfinite().all()
    if family == "lstm_agreement_small":
        assert all(isinstance(one.encoder, StockEncoder) for one in model.models.values())


def test_sizes_and_options():
    layers = make("transformer", encoder_embed_dim=8, encoder_layers=3).encoder.stock.layers
    assert len(layers) == 3 and layers[0].fc1.in_features == 8 and layers[0].fc1.out_features == 2048
    options = "--encoder-attention-heads=2 encoder-ffn-embed-dim=20"
    (layer,) = make("transformer", encoder_layers=1, encoder_options=options).encoder.stock.layers
    assert layer.fc1.out_features == 20 and layer.self_attn.num_heads == 2 and not layer.normalize_before
    convolutions = make("fconv", encoder_layers=2, encoder_hidden_size=7).encoder.stock.convolutions
    assert [(c.in_channels, c.out_channels, c.kernel_size) for c in convolutions] == [(7, 14, (3,))] * 2
    convolutions = make("fconv", encoder_options="encoder-layers='[(6, 5)] * 4'").encoder.stock.convolutions
    assert [c.kernel_size for c in convolutions] == [(5,)] * 4


@refuses(
    ({"encoder_arch": "transfomer"}, "^--encoder-arch transfomer: is unknown; choose an architecture such as transf"),
    ({"encoder_arch": "transformer_lm"}, "^--encoder-arch transformer_lm: not an encoder-decoder model; choose"),
    ({"encoder_arch": "lstm_soft"}, "^--encoder-arch lstm_soft: has the recurrent encoder that there is without"),
    ({"encoder_arch": "lstm"}, "^--encoder-arch lstm: its encoder cannot be used: "),
    ({"encoder_arch": "transformer"}, "^--encoder-arch transformer: .*divisible by num_heads; choose other sizes"),
    ({"encoder_arch": "fconv", "encoder_options": "heads=2"}, "^--encoder-options heads=2: unrec.*--heads=2"),
    ({"encoder_arch": "transformer", "encoder_options": "encoder-layers=2"}, "has --encoder-layers itself"),
    ({"encoder_arch": "transformer", "encoder_options": "decoder-layers=2"}, "--decoder-layers is of a decoder"),
    ({"encoder_arch": "fconv", "encoder_options": "encoder-layers='open(0)'"}, "'open\\(0\\)': must be a literal"),
    ({"encoder_arch": "fconv", "encoder_options": "encoder-layers='"}, "-options .*: no closing quotation"),
    ({"encoder_options": "encoder-normalize-before"}, "^--encoder-options .*: are of --encoder-arch, which is not"),
)
def test_mistakes(options):
    build("attn_lstm", **options)


@pytest.mark.parametrize("arch", ["transformer", "fconv"])
@pytest.mark.parametrize(("trained", "now"), [(20, 50), (50, 20)])
def test_a_table_of_positions_is_that_of_the_training(arch, trained, now):
    """The limit of the task at another time, --max-source-positions, may be another."""
    models = [make(arch, task=fake_task(max_source_positions=limit)) for limit in (trained, now)]
    models[1].load_state_dict(models[0].state_dict())
    before = [*map(id, models[1].parameters())]
    models[1].load_state_dict(models[0].state_dict())
    assert [*map(id, models[1].parameters())] == before, "data-parallel wrappers of a resumed training keep them"
    torch.testing.assert_close(*(model(pad_batch(LENGTHS), None, targets())[0] for model in models))
    assert models[0].max_positions()[0] in (trained, trained - 2) and models[1].max_positions()[0] <= min(trained, now)
