"""The package registers itself when fairseq is imported, and needs neither fairseq nor torch before."""

import json
import sys

import pytest

from fairseq_attn_plugin.cli import module_of

from cli import USER_DIR, run_cli

LIGHT = (
    "import {0}; import json, sys; print(json.dumps([name for name in ('torch', 'fairseq') if name in sys.modules]))"
)
WHOLE = """
import logging, sys
import {0}
import fairseq, fairseq_attn_plugin.registration as registration
from fairseq.models import MODEL_REGISTRY
from fairseq_attn_plugin import attention, patches
module = sys.modules["{0}"]
assert "lstm_adm" in MODEL_REGISTRY and "mqt" in attention.names()
for patch in patches.PATCHES:
    for target in patch.wraps if patch.needed() else ():
        assert patch.name in patches.wrapping.wrapped_by(*patches.wrapping.resolve(target)), target
assert module.__spec__.name == "{0}" and type(module.__spec__.loader).__module__ != registration.__name__
for name, below in list(sys.modules.items()):  # executed once: a second time, the modules below would not be set
    parent, _, child = name.rpartition(".")
    if parent == "{0}":
        assert vars(module)[child] is below, name
print(logging.root.level)
"""
BY_USER_DIR = f"""
import argparse
from fairseq import utils
utils.import_user_module(argparse.Namespace(user_dir={USER_DIR!r}))  # fairseq complains of what is registered twice
"""
WITHOUT_FAIRSEQ = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "fairseq" else find_spec(name)
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("fairseq", "fairseq_cli", "hydra", "omegaconf"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hide())
import torch
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError
attention = build_attention("soft", query_dim=4, memory_dim=4)
memory = attention.precompute(torch.randn(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))
context, weights, *_ = attention.step(torch.randn(2, 1, 4), memory, attention.initial_state(memory))
print(context.shape == (2, 1, 4) and weights.shape == (2, 1, 3))
try:
    build_attention("no such mechanism", query_dim=4, memory_dim=4)
except OptionError as error:
    print("soft" in str(error))
"""


def output(code):
    done = run_cli(sys.executable, "-c", code)
    ours = [line for line in done.stderr.splitlines() if "fairseq_attn_plugin" in line or "tensorboardX" in line]
    assert [line for line in ours if not line.endswith("has already been imported.")] == []  # fairseq's own line
    return done.stdout


def test_what_reads_records_imports_neither_torch_nor_fairseq():
    modules = map(module_of, "explore plot align aer compare lexicon frequency translate".split())
    assert json.loads(output(LIGHT.format(", ".join(modules)))) == []


@pytest.mark.parametrize(
    ("before", "first", "level"),
    [
        ("", "fairseq_attn_plugin", 20),
        ("import logging; logging.basicConfig(level=10)", "fairseq_attn_plugin.models", 10),
        ("import fairseq_attn_plugin", "fairseq_cli.generate", 20),
    ],
)
def test_everything_is_registered_with_fairseq(before, first, level):
    """The root logger does not show the debugging messages of every library, either, and one that is configured stays
    as it is; a --user-dir changes nothing."""
    assert output(before + WHOLE.format(first) + BY_USER_DIR) == f"{level}\n"


def test_attention_without_fairseq():
    """With neither fairseq nor hydra installed the attention mechanisms work, and OptionError is raised."""
    assert output(WITHOUT_FAIRSEQ) == "True\nTrue\n"
