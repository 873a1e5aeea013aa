"""--coverage-penalty: scores equal the definition, nothing else of a search changes, and the tools obey it."""

import math
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils, search
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from models_for_tests import build, dictionary, fake_task, pad_batch
from omegaconf import open_dict
from training import mistake

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.coverage import FLOOR, rank

from cli import USER_DIR

PAD, EOS, BEAM, BETA = 1, 2, 4, 0.3
SMALL_TRANSFORMER = {"encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2, "decoder_ffn_embed_dim": 16}
SMALL_TRANSFORMER.update(decoder_attention_heads=2, encoder_embed_dim=12, dropout=0.0)
MODELS = {
    "soft": [("attn_lstm", {})],
    "sparsemax": [("attn_lstm", {"attention_normalizer": "sparsemax"})],
    "mqt": [("lstm_adm", {"input_feeding": "none"})],
    "latent": [("lstm_latent_small", {})],
    "ensemble": [("attn_lstm", {}), ("lstm_adm_aqt", {})],
    "stock transformer": [("transformer", SMALL_TRANSFORMER)],
}


def make(kind, need_attn=False):
    """Random models with peaked attention and short translations, told by fairseq-generate to return no attention."""
    torch.manual_seed(5)
    models = [build(arch, **options) for arch, options in MODELS[kind]]
    for model in models:
        if kind != "stock transformer":
            for parameter in model.parameters():
                parameter.data.mul_(12)
            model.decoder.fc_out.bias.data[EOS] += 3
        model.make_generation_fast_(need_attn=need_attn)
    return models


def generator(models, **options):
    task = TranslationTask(Namespace(), fake_task().source_dictionary, fake_task().target_dictionary)
    return task.build_generator(models, Namespace(**{"beam": BEAM, "max_len_b": 9, **options}))


def sample(lengths=(8, 7, 7, 5, 3, 2, 1), side="left"):
    source = pad_batch(lengths, side)  # stock lstm wants sources sorted by length
    return {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}


def translate(models, batch=None, prefix=None, **options):
    """For each sentence its hypotheses in their order: [(words, score, positional scores)]."""
    torch.manual_seed(0)  # of --sampling
    found = generator(models, **options).generate(models, batch or sample(), prefix_tokens=prefix)
    return [
        [(tuple(h["tokens"].tolist()), float(h["score"]), h["positional_scores"].tolist()) for h in hypotheses]
        for hypotheses in found
    ]


def teacher_forced(models, source, tokens):
    """log p(Y | X) and the attention ``[T, N]`` of one sentence without padding, by whole targets."""
    previous = torch.tensor([[EOS, *tokens[:-1]]])
    probs, attention = 0, 0
    for model in models:
        model.decoder.need_attn = True
        with torch.no_grad():
            out = model(source.unsqueeze(0), torch.tensor([len(source)]), previous)
        probs = probs + model.get_normalized_probs(out, log_probs=True)[0].exp() / len(models)
        weights = out[1] if torch.is_tensor(out[1]) else out[1]["attn"][0]
        attention = attention + weights[0] / len(models)
    return float(probs.log()[range(len(tokens)), list(tokens)].sum()), attention


def by_definition(models, source, tokens, lenpen=1.0):
    """The normalised log probability, and sum_j log(min(sum_t a_tj, 1)) over the words j of the source (Wu et al. 2016,
    eq. 14). A coverage below 1e-6 counts as that."""
    log_prob, attention = teacher_forced(models, source, tokens)
    covered = [total for total, word in zip(attention.sum(0).tolist(), source) if int(word) not in (PAD, EOS)]
    return log_prob / len(tokens) ** lenpen, sum(math.log(max(min(total, 1.0), 1e-6)) for total in covered)


@pytest.mark.parametrize(("kind", "side"), [*((kind, "left") for kind in MODELS), ("soft", "right")])
def test_scores_equal_the_definition(kind, side):
    """In batches with padding, whose sentences finish at different steps."""
    models, batch = make(kind), sample(side=side)
    found = translate(models, batch, coverage_penalty=BETA, lenpen=0.7)
    lengths, floored = set(), 0
    for source, hypotheses in zip(batch["net_input"]["src_tokens"], found):
        assert len(hypotheses) == BEAM
        scores = [score for _, score, _ in hypotheses]
        assert scores == sorted(scores, reverse=True)
        lengths.add(max(len(tokens) for tokens, _, _ in hypotheses))
        source = source[source.ne(PAD)]
        for tokens, score, _ in hypotheses:
            plain, penalty = by_definition(models, source, tokens, lenpen=0.7)
            assert score == pytest.approx(plain + BETA * penalty, rel=1e-4, abs=1e-4)
            assert len(source) * math.log(FLOOR) <= penalty <= 0
            floored += penalty < math.log(FLOOR)
        if len(source) == 1:  # no words, nothing to cover
            assert penalty == 0
    assert len(lengths) > 1
    assert floored or kind != "sparsemax"


def test_without_a_penalty_the_search_is_that_of_fairseq():
    models, target = make("soft"), dictionary(15)
    theirs = SequenceGenerator(models, target, BEAM, max_len_b=9, search_strategy=search.BeamSearch(target))
    for options in ({}, {"coverage_penalty": 0}):
        ours = generator(models, **options)
        assert "generate" not in vars(ours)
        for expected, found in zip(theirs.generate(models, sample()), ours.generate(models, sample())):
            assert [one["tokens"].tolist() for one in expected] == [one["tokens"].tolist() for one in found]
            torch.testing.assert_close(*(torch.stack([one["score"] for one in some]) for some in (expected, found)))
    assert not models[0].decoder.need_attn  # no time is lost on returning it


@pytest.mark.parametrize(
    "options",
    [
        {"diverse_beam_groups": 2},
        {"sampling": True},
        {"no_repeat_ngram_size": 2, "min_len": 3, "unkpen": 1.0, "temperature": 1.3},
        {"print_alignment": "hard"},
        {"prefix": torch.tensor([[5, 6], [7, PAD], [4, 9], [8, 9], [5, 5], [6, 7], [4, 4]])},
    ],
    ids=lambda options: next(iter(options)),
)
def test_the_same_hypotheses_in_another_order(options):
    models = make("soft", need_attn="print_alignment" in options)
    plain, penalised = (translate(models, **options, coverage_penalty=beta) for beta in (0, BETA))
    for expected, found in zip(plain, penalised):
        assert sorted((words, steps) for words, _, steps in expected) == sorted(
            (words, steps) for words, _, steps in found
        )
        assert [score for _, score, _ in found] == sorted((score for _, score, _ in found), reverse=True)
    assert plain != penalised


@pytest.mark.parametrize("value", [-0.1, math.nan, "much", None])
def test_wrong_values(value):
    with pytest.raises(OptionError, match=f"--coverage-penalty {value}: must be a number that is at least 0"):
        generator(make("soft"), coverage_penalty=value)


def test_models_that_say_nothing_of_coverage():
    without = build("attn_lstm", decoder_attention="False")
    with pytest.raises(OptionError, match=r"--coverage-penalty 0\.3: the model returns no attention"):
        generator([without], coverage_penalty=BETA).generate([without], sample())
    with pytest.raises(OptionError, match="stock lstm returns its attention in another order"):
        generator([build("lstm")], coverage_penalty=BETA)
    with pytest.raises(OptionError, match="0.3: needs a beam search, which --score-reference is not"):
        generator(make("soft"), coverage_penalty=BETA, score_reference=True)
    for words in (None, torch.ones(1, 5, dtype=torch.bool)):
        hypothesis = {"score": torch.tensor(-1.0), "attention": torch.ones(6, 2)}
        with pytest.raises(OptionError, match="the model does not attend to the words of the source"):
            rank([[hypothesis]], words, BETA)
    assert rank([[]], None, BETA) == [[]]


def test_tools_and_the_hub_interface(zoo, tiny_data):
    """A keyword of fairseq's hub interface, also for a checkpoint that has never heard of it."""
    trained = zoo("lstm_soft").last
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", trained, "--coverage-penalty", "-0.1"]
    mistake(command, ["--coverage-penalty -0.1: must be a number that is at least 0, such as 0.2"])
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(trained)], arg_overrides={"data": str(tiny_data)}
    )
    config = checkpoint_utils.load_checkpoint_to_cpu(str(trained))["cfg"]
    with open_dict(config):
        del config.generation["coverage_penalty"]
    hub = GeneratorHubInterface(config, task, models)
    tokens = hub.encode("ama bel cor dun")
    plain, found = (hub.generate(tokens, beam=BEAM, max_len_b=10, **given) for given in ({}, {"coverage_penalty": 0.5}))
    scores = {tuple(hypothesis["tokens"].tolist()): float(hypothesis["score"]) for hypothesis in plain}
    for hypothesis in found:
        penalty = by_definition(models, tokens, hypothesis["tokens"].tolist())[1]
        expected = scores[tuple(hypothesis["tokens"].tolist())] + 0.5 * penalty
        assert float(hypothesis["score"]) == pytest.approx(expected, abs=1e-4)
