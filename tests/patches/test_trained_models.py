"""Options of a trained model as flags, and models without the files of their training."""

import argparse
from dataclasses import dataclass, field, make_dataclass
from typing import Optional

import pytest
from fairseq import criterions, models, options
from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.tasks import FairseqTask
from models_for_tests import SIZES, build, fake_task
from omegaconf import OmegaConf

import fairseq_attn_plugin  # noqa: F401
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import file_options, flag, option, parse_overrides
from fairseq_attn_plugin.patches.trained_models import OPTIONS, OVERRIDES, as_written, check

# ---- options that have gone


@pytest.mark.parametrize(
    ("arch", "options", "gone"),
    [
        ("lstm_latent_small", {"input_feeding": "context"}, {"latent_alignment": "bayes"}),
        ("lstm_adm", {}, {"adm_pairing": "direct", "adm_chunk_size": 4}),
        ("lstm_agreement_small", {}, {"agreement_share_embeddings": True}),
    ],
)
def test_a_checkpoint_with_options_that_have_gone(arch, options, gone):
    config = OmegaConf.merge(OmegaConf.structured(MODEL_DATACLASS_REGISTRY[arch]), SIZES, options, {"_name": arch})
    saved = OmegaConf.create({"model": {**OmegaConf.to_container(config), **gone}})
    OmegaConf.set_struct(saved, True)
    model = models.build_model(saved.model, fake_task(), from_checkpoint=True)
    model.load_state_dict(build(arch, **options).state_dict(), strict=True, model_cfg=saved.model)


def test_a_criterion_with_options_that_have_gone():
    """fairseq-validate builds the criterion of the checkpoint."""
    own = {"_name": "latent_alignment", "objective": "elbo-gumbel", "num_samples": 7, "gumbel_tau_start": 1.0}
    saved = OmegaConf.create({"criterion": own, "optimization": {"sentence_avg": False}})
    OmegaConf.set_struct(saved, True)
    assert FairseqTask.build_criterion(fake_task(), saved.criterion).cfg.num_samples == 7


def test_an_option_of_another_criterion_is_not_taken_for_one_that_has_gone(monkeypatch):
    class Own:
        forward = print

        def __init__(self, cfg, task):
            self.cfg = cfg

    config = make_dataclass("OwnConfig", [("gumbel_tau_start", float, 0.0)], bases=(FairseqDataclass,))
    monkeypatch.setitem(criterions.CRITERION_REGISTRY, "own", Own)
    monkeypatch.setitem(criterions.CRITERION_DATACLASS_REGISTRY, "own", config)
    saved = OmegaConf.create({"_name": "own", "gumbel_tau_start": 2.0})
    assert FairseqTask.build_criterion(fake_task(), saved).cfg.gumbel_tau_start == 2.0


# ---- overrides


def parsed(data, *arguments):
    parser = options.get_generation_parser()
    return options.parse_args_and_arch(parser, [str(data), "--path", "model.pt", *arguments])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {}),
        (["--latent-topk", "3"], {"latent_topk": 3}),
        (["--model-overrides", "{'a': 1}", "--latent-topk", "3"], {"a": 1, "latent_topk": 3}),
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
    for more in ({}, {"suppress_defaults": True}):
        found = options.parse_args_and_arch(options.get_validation_parser(), arguments, **more)
    assert vars(found)["model_overrides"] == "{'latent_topk': 3}"


@pytest.mark.parametrize("text", ["latent_topk=5", "[1]", "{'a':", "f()", "{1: 2}", "{[]: 2}"])
def test_overrides_that_are_not_a_dictionary(text, tmp_path):
    with pytest.raises(OptionError, match="--model-overrides .*: must be a dictionary, as in"):
        parsed(tmp_path, "--model-overrides", text, "--latent-topk", "1")


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_no_model_takes_is_a_mistake(name):
    with pytest.raises(OptionError, match=f"{flag(name)} 1: none of the models of --path "):
        check([object()], {name: 1})
    check([object()], {"another": 1})


@pytest.mark.parametrize("name", OPTIONS)
def test_a_language_model_is_loaded_with_the_options_of_the_translation_model(name):
    """fairseq-generate gives ``--lm-path`` the overrides of ``--path`` and the data folder, fairseq-validate all."""
    model = models.FairseqLanguageModel(models.FairseqDecoder(None))
    load = OVERRIDES.wraps["fairseq.checkpoint_utils:load_model_ensemble_and_task"](lambda *_: ([model], {}, None))
    assert load(["lm.pt"], {name: 1, "data": "folder"})[0] == [model]
    with pytest.raises(OptionError, match=f"{flag(name)} 1: none of the models of --path "):
        load(["lm.pt"], {name: 1, "data": "folder", "path": "lm.pt"})


# ---- checkpoint files


@dataclass
class Config(FairseqDataclass):
    size: int = field(default=3, metadata={"help": "a number"})
    words: Optional[str] = option(None, "a file", file=True)
    reading: str = option("new", "an option that came later", before="old")


@pytest.fixture
def registered(monkeypatch):
    """A model of another package that declares an option as a file."""
    monkeypatch.setitem(models.MODEL_DATACLASS_REGISTRY, "own", Config)
    return OmegaConf.create({"_name": "own", "size": 5, "words": "/no/such/file", "reading": "new"})


def test_a_field_declares_itself_as_a_file(registered):
    assert file_options(Config) == ["words"]
    assert as_written(registered) == {"_name": "own", "size": 5, "words": None, "reading": "new"}
    assert registered.words == "/no/such/file", "the caller's configuration was changed"


def test_a_checkpoint_without_an_option_keeps_what_was_done_before(registered):
    for config in (OmegaConf.create({"_name": "own", "size": 5}), argparse.Namespace(arch="own", size=5)):
        written = as_written(config)
        assert written.reading == "old" and "reading" not in config
    assert as_written(OmegaConf.create({"_name": "own", "reading": "new"})).reading == "new"


def test_files_are_left_out_for_checkpoints_only(registered, monkeypatch):
    seen = []

    class Model:
        @classmethod
        def build_model(cls, config, task):
            seen.append(config.words)

    monkeypatch.setitem(models.MODEL_REGISTRY, "own", Model)
    models.build_model(registered, None)
    models.build_model(registered, None, from_checkpoint=True)
    assert seen == ["/no/such/file", None]
