"""Options after ``--`` that refuse an option of the recipe: the recipe leaves its own out."""

import pytest
from recipe_corpora import value

from fairseq_attn_plugin.recipes.settings import last_value


@pytest.fixture
def words(shown, tmp_path):
    """The words of the only command of a stage."""
    tools = {"train": "fairseq-train", "generate": "fairseq-generate"}

    def command(name, stage, *extra, **environment):
        commands = shown(name, stage, "--", *extra, OUT=tmp_path, **environment)
        (found,) = (one for one in commands if one[0] == tools[stage])
        return found

    return command


@pytest.mark.parametrize(
    ("name", "arch", "flag"),
    [
        ("iwslt15_en_vi", "lstm_soft", "--attention-score-gain"),
        ("wmt16_en_ro", "lstm_adm", "--attention-score-gain"),
        ("iwslt14_de_en", "lstm_latent", "--attention-score-no-bias"),
    ],
)
def test_another_score_has_no_flags_of_the_score_of_the_recipe(name, arch, flag, words):
    assert flag in words(name, "train", ARCH=arch)
    for extra in (["--attention-score", "dot"], ["--attention-score=dot"]):
        training = words(name, "train", *extra, ARCH=arch)
        assert flag not in training and training[-len(extra) - 1 : -1] == extra
    assert flag in words(name, "train", "--attention-score", "dot", flag, ARCH=arch), "the user's own flags stay"


@pytest.mark.parametrize("extra", [["--input-feeding", "none"], ["--input-feeding=none"]])
def test_models_that_feed_no_context_translate_with_topk(extra, words):
    generation = words("iwslt14_de_en", "generate", *extra, TOPK=5)
    assert value(generation, "--latent-topk") == "5" and "--latent-topk-feed" not in generation
    assert "--latent-topk-feed" in words("iwslt14_de_en", "generate", *extra, "--input-feeding", "context", TOPK=5)


def test_the_last_value_of_an_option():
    assert last_value(["--a", "1", "--b", "--a=2"], "--a") == "2"
    assert last_value(["--a=1", "--a", "2"], "--a") == "2"
    assert last_value(["--ab", "1"], "--a") is None and last_value(["--a"], "--a") == ""
