"""A model is built for a checkpoint without the files that its training has read."""

import argparse
from dataclasses import dataclass, field
from typing import Optional

import pytest
from fairseq import models
from fairseq.dataclass import FairseqDataclass
from omegaconf import OmegaConf

import fairseq_attn_plugin  # noqa: F401
from fairseq_attn_plugin.options import file_options, option
from fairseq_attn_plugin.patches.trained_models import as_written


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


def test_configurations_that_name_no_files():
    for name in ("transformer", "lstm", "unknown", None):
        config = OmegaConf.create({"_name": name, "encoder_embed_path": "x"})
        assert as_written(config) is config


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
