"""The package registers itself when fairseq is imported, and needs neither fairseq nor torch before."""

import json
import subprocess
import sys

import pytest

from fairseq_attn_plugin.cli import module_of

from cli import prepare

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
assert all(patch.is_installed() for patch in patches.PATCHES if patch.needed())
assert module.__spec__.name == "{0}" and type(module.__spec__.loader).__module__ != registration.__name__
for name, below in list(sys.modules.items()):  # executed once: a second time, the modules below would not be set
    parent, _, child = name.rpartition(".")
    if parent == "{0}":
        assert vars(module)[child] is below, name
print(logging.root.level)
"""


def output(code):
    environment = prepare("fairseq-train")[1]
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "tensorboardX" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("command", "explore plot align aer compare lexicon frequency translate".split())
def test_what_reads_records_imports_neither_torch_nor_fairseq(command):
    assert json.loads(output(LIGHT.format(module_of(command)))) == []


@pytest.mark.parametrize(
    "first",
    ["fairseq_attn_plugin", *(f"fairseq_attn_plugin.{part}" for part in ("added_options", "attention", "models"))],
)
def test_everything_is_registered_with_fairseq(first):
    """The root logger does not show the debugging messages of every library, either."""
    assert output(WHOLE.format(first)) == "20\n"


def test_a_configured_log_stays_as_it_is():
    code = (
        "import logging; logging.basicConfig(level=10)\nimport fairseq_attn_plugin, fairseq; print(logging.root.level)"
    )
    environment = prepare("fairseq-train")[1]
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "10\n"
