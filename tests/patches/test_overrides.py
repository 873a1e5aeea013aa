"""Options of a trained model as flags: they are merged into --model-overrides."""

import pytest
from fairseq import options

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import flag, parse_overrides
from fairseq_attn_plugin.patches.trained_models import OPTIONS, check


def parsed(data, *arguments):
    parser = options.get_generation_parser()
    return options.parse_args_and_arch(parser, [str(data), "--path", "model.pt", *arguments])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {}),
        (["--latent-topk", "3"], {"latent_topk": 3}),
        (["--latent-topk", "3", "--latent-topk-feed"], {"latent_topk": 3, "latent_topk_feed": True}),
        (["--model-overrides", "{'a': 1}", "--latent-topk", "3"], {"a": 1, "latent_topk": 3}),
        (["--latent-topk", "3", "--model-overrides", "{'a': 1}"], {"a": 1, "latent_topk": 3}),
        (["--lexicon", "f.tsv", "--lexicon-epsilon", "0.5"], {"lexicon": "f.tsv", "lexicon_epsilon": 0.5}),
        (["--latent-topk", "3", "--model-overrides", "{'latent_topk': 8}"], {"latent_topk": 3}),
    ],
)
def test_flags_join_the_overrides_in_any_order(arguments, expected, tmp_path):
    result = parsed(tmp_path, *arguments)
    assert parse_overrides(result.model_overrides) == expected
    assert not any("override_" in name for name in vars(result))


def test_flags_of_validation_reach_the_overrides(tmp_path):
    """fairseq-validate parses its options twice, the second time without defaults."""
    arguments = [str(tmp_path), "--path", "model.pt", "--task", "translation", "--latent-topk", "3"]
    parser = options.get_validation_parser()
    options.parse_args_and_arch(parser, arguments)
    parser = options.get_validation_parser()
    found = options.parse_args_and_arch(parser, arguments, suppress_defaults=True)
    assert vars(found)["model_overrides"] == "{'latent_topk': 3}"


def test_a_direction_chooses_the_languages_of_the_data(tmp_path):
    for language in ("de", "en-gb"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\n")
    result = parsed(tmp_path, "--agreement-direction", "en-gb-de")
    assert (result.source_lang, result.target_lang) == ("en-gb", "de")
    assert parse_overrides(result.model_overrides) == {"agreement_direction": "en-gb-de"}
    for given in (["--agreement-direction", "fr-de"], ["--agreement-direction", "de-en-gb", "--source-lang", "xx"]):
        assert parsed(tmp_path, *given).target_lang is None


@pytest.mark.parametrize("text", ["latent_topk=5", "[1]", "{'a':", "f()"])
def test_overrides_that_are_not_a_dictionary(text, tmp_path):
    for arguments in (["--model-overrides", text], ["--model-overrides", text, "--latent-topk", "1"]):
        with pytest.raises(OptionError, match="--model-overrides .*: must be a dictionary, as in"):
            parsed(tmp_path, *arguments)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_no_model_takes_is_a_mistake(name):
    with pytest.raises(OptionError, match=f"{flag(name)} 1: none of the models of --path "):
        check([object()], {name: 1})
    check([object()], {"another": 1})
