"""A mechanism from outside the package: one file in a folder of one's own, or an entry point of an installed package.

Mechanisms stay registered as long as a process lives. They are therefore registered in processes of their own.
"""

import importlib
import os
import re
import sys

import pytest
import torch
from in_process import run_tool
from training import TRAINING

from fairseq_attn_plugin import attention
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMConfig

from cli import REPO, TINY, USER_DIR, run_cli

EXAMPLES = REPO / "docs" / "examples"
FOLDER = EXAMPLES / "distance_attention"
SHARED = "--attention-score additive --attention-bias markov".split()


@pytest.fixture
def python(tmp_path):
    """Runs code in a process whose path begins with some folders; its output and its errors."""

    def run(code, *folders):
        (tmp_path / "code.py").write_text(code)
        return run_cli(tmp_path / "code.py", env={"PYTHONPATH": os.pathsep.join(map(str, [*folders, REPO]))})

    return run


def generation(data, checkpoint, user_dir):
    command = ["fairseq-generate", data, "--user-dir", user_dir, "--path", checkpoint, "--gen-subset", "test", "--cpu"]
    return [*command, "--beam", 2, "--max-len-b", 8, "--print-alignment", "soft"]


@pytest.fixture(scope="module")
def trained(tiny_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("distance")
    command = ["fairseq-train", tiny_data, "--user-dir", FOLDER, *TINY["lstm_soft"], *TRAINING, *SHARED]
    run_cli([*command, "--save-dir", folder, "--max-update", 3, "--attention", "distance", "--distance-scale", 3])
    return folder / "checkpoint_last.pt"


def test_one_file_is_enough(trained, tiny_data):
    """Training and translation, with the mechanism's own options and with those that all scored mechanisms share."""
    state = torch.load(trained, weights_only=False)
    assert state["cfg"]["model"]["distance_scale"] == 3.0 and state["cfg"]["model"]["attention"] == "distance"
    assert state["model"]["decoder.attention.slope"] != 0
    assert "decoder.attention.biases.markov.projection.weight" in state["model"]
    lines = run_cli(generation(tiny_data, trained, FOLDER)).stdout.splitlines()
    assert sum(bool(re.match(r"H-\d", line)) for line in lines) == 40


def test_a_checkpoint_without_its_mechanism_is_one_line(trained, tiny_data):
    line = run_tool(*generation(tiny_data, trained, USER_DIR), fails=True).error
    assert line.startswith("--attention distance: unknown attention; choose from aqt, ") and "--user-dir" in line
    assert f"{trained} was trained with --user-dir {FOLDER}: code of a checkpoint is not imported by itself" in line


FORMULA = """
import torch
import distance_attention
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.testing import check_attention

for options in ({}, {"scale": 0.5, "score": "dot"}, {"bias": "position,markov", "normalizer": "sparsemax"}):
    check_attention("distance", **options)

torch.manual_seed(1)
module = build_attention("distance", 4, 4, scale=2.0, score="dot").double()
module.slope.data.fill_(0.3)
encodings, query = torch.randn(1, 5, 4).double(), torch.randn(1, 3, 4).double()
out = module.step(query, module.precompute(encodings), None, torch.tensor([[0, 1, 7]]))
for t, step in enumerate((0, 1, 7)):
    costs = [torch.log1p(torch.exp(torch.tensor(0.3).double())) * abs(j - step) / 2.0 for j in range(5)]
    scores = torch.stack([query[0, t] @ encodings[0, j] - costs[j] for j in range(5)])
    torch.testing.assert_close(out.weights[0, t], scores.exp() / scores.exp().sum(), rtol=1e-6, atol=1e-8)
"""

COVERAGE = """
import math
import tempfile
from pathlib import Path
import coverage_attention
import pytest
import torch
from models_for_tests import make
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.decoding.export.onnx_folder import compare
from fairseq_attn_plugin.decoding.export.onnx_graphs import write_graphs
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.testing import check_attention

every = {"bias": "markov,fertility", "normalizer": "sparsemax", "max_normalize": True}
for options in ({}, every, {"weight": 0.0}):
    check_attention("coverage", **options)

# the formula, one number at a time
torch.manual_seed(1)
module = build_attention("coverage", 3, 2, attention_hidden_dim=4, coverage_weight=0.5).double()
torch.nn.init.normal_(module.of_coverage)
encodings, queries = torch.randn(1, 4, 2).double(), torch.randn(1, 3, 3).double()
u, w = module.score.vector.tolist(), module.of_coverage.tolist()
of_keys = module.score.precompute(encodings)[0].tolist()
of_queries = module.score.query_projection(queries)[0].tolist()
covered, loss, expected = [0.0] * 4, 0.0, []
for of_query in of_queries:
    heights = [
        math.exp(sum(u[d] * math.tanh(of_query[d] + of_keys[j][d] + w[d] * covered[j]) for d in range(4)))
        for j in range(4)
    ]
    expected.append([height / sum(heights) for height in heights])
    loss += sum(map(min, expected[-1], covered))
    covered = [c + a for c, a in zip(covered, expected[-1])]
memory = module.precompute(encodings)
state, found = module.initial_state(memory), []
for t in range(3):
    out = module.step(queries[:, t : t + 1], memory, state, torch.tensor([[t]]))
    state = out.state
    found.append(out.weights[0, 0])
torch.testing.assert_close(torch.stack(found), torch.tensor(expected).double())
value, weight = module.penalties(memory, torch.stack(found)[None])["coverage_penalty"]
assert value.item() == pytest.approx(loss) and weight == 0.5

with pytest.raises(OptionError, match="--attention-score dot: must be additive with coverage attention"):
    build_attention("coverage", 3, 3, score="dot")

# exported, also as the prior of a latent alignment
for name in ("coverage", "latent/coverage"):
    model = make(name, "context", torch.float32)
    torch.nn.init.normal_(model.decoder.attention.of_coverage)
    with tempfile.TemporaryDirectory() as folder:
        write_graphs(model, Path(folder))
        assert max(compare(model, Path(folder))) < 1e-5
"""

FIELDS = """
import pickle
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMConfig
from fairseq_attn_plugin.models.han import HANConfig
from fairseq_attn_plugin.models.latent_lstm import LatentLSTMConfig
from fairseq_attn_plugin.options import file_options
before = AttnLSTMConfig()
files = file_options(AttnLSTMConfig)
import distance_attention
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from hydra.core.config_store import ConfigStore

for name, config in MODEL_DATACLASS_REGISTRY.items():
    if issubclass(config, AttnLSTMConfig):
        made = config(distance_scale=2.5)
        assert made.distance_scale == 2.5 and config().distance_scale == 5.0
        assert pickle.loads(pickle.dumps(made)) == made and "distance_scale=2.5" in repr(made)
        assert made != config() and made._get_help("distance_scale").startswith("source positions")
        node = ConfigStore.instance().load(f"model/{name}.yaml").node
        assert node.distance_scale == 5.0 and node._name == name
        assert pickle.loads(pickle.dumps(MODEL_REGISTRY[name])) is MODEL_REGISTRY[name]
assert MODEL_DATACLASS_REGISTRY["lstm_latent"]().latent_prediction == "auto"
assert MODEL_DATACLASS_REGISTRY["lstm_adm"]().attention == "mqt"
assert MODEL_DATACLASS_REGISTRY["attn_lstm_small"]().attention_score == "additive"
assert LatentLSTMConfig().distance_scale == before.distance_scale == 5.0
assert not hasattr(HANConfig, "distance_scale"), "it cannot pool documents"
assert file_options(AttnLSTMConfig) == files and len(files) >= 6
"""


def test_the_example_keeps_the_contract_and_its_formula_and_all_models_have_its_options(python):
    """Also classes that were imported before, subclasses, architectures, hydra's store, and copies by pickle."""
    assert python(FIELDS + FORMULA, EXAMPLES).stdout == ""


def test_coverage_keeps_the_contract_and_its_formula_and_is_exported(python):
    python(COVERAGE, EXAMPLES, REPO / "tests" / "support")


MECHANISM = """
from dataclasses import dataclass, field
from typing import ClassVar, Optional
from fairseq_attn_plugin.attention import AttentionConfig, register_attention
from fairseq_attn_plugin.attention.soft import SoftAttention
from fairseq_attn_plugin.options import option

@dataclass
class MineConfig(AttentionConfig):
    prefix: ClassVar[str] = "mine"
    size: Optional[int] = option(None, "size of mine")
    words: Optional[str] = option(None, "file of mine", file=True)

@register_attention("mine")
class MineAttention(SoftAttention):
    Config = MineConfig
"""


def install(folder, name, code, entry, group="fairseq_attn_plugin"):
    """What pip leaves of a package: a module, and a dist-info that names its entry point."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


PARSE = """
import sys
import fairseq_attn_plugin
from fairseq import options
from fairseq_attn_plugin.attention import names
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMConfig
from fairseq_attn_plugin.options import file_options
arguments = ["data", "--arch", "lstm_latent_small", "--attention", "mine", "--mine-size", "7"]
args = options.parse_args_and_arch(options.get_training_parser(), arguments)
assert args.mine_size == 7 and "mine_words" in file_options(AttnLSTMConfig)

from fairseq_attn_plugin.patches.trained_models import as_written
from omegaconf import OmegaConf
loaded = as_written(OmegaConf.create({"_name": "lstm_soft", "mine_words": "gone", "mine_size": 7}))
assert loaded.mine_words is None and loaded.mine_size == 7
"""


def test_entry_points_of_installed_packages(python, tmp_path):
    """Of both groups; a broken one is one line that names it."""
    install(tmp_path, "mine_package", MECHANISM, "mine = mine_package")
    other = MECHANISM.replace('"mine"', '"other"')
    install(tmp_path, "other_package", other, "other = other_package", "fairseq_attn_plugin.attention")
    install(tmp_path, "broken_package", "raise RuntimeError('no\\nluck')", "wrong = broken_package")
    done = python(f'import mine_package\n{PARSE}assert "other" in names()', tmp_path)
    warning = "the entry point wrong = broken_package (fairseq_attn_plugin) cannot be loaded: RuntimeError: "
    (line,) = [line for line in done.stderr.splitlines() if "entry point" in line]
    assert line.endswith(warning + "no luck")  # logging may prefix it


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('str] = "mine"', 'str] = "encoder"\n    layers: int = 3'), "'encoder_layers' has the name"),
        (('str] = "mine"', 'str] = "latent"\n    topk: int = 3'), "'latent_topk' has the name"),
        (('option(None, "size of mine")', "field(default_factory=int)"), "'mine_size' of .* needs a default"),
        (('Optional[int] = option(None, "size of mine")', "bool = True"), "'mine_size' of .* is on by default"),
        (("    Config = MineConfig", '    Config = MineConfig\n    takes = frozenset({"biases"})'), "takes 'biases'"),
        (('register_attention("mine")', 'register_attention("soft")'), "'soft' is registered already"),
        (('str] = "mine"', 'str] = "adm"\n    nodes: int = 3'), "redefines the option 'adm_nodes'"),
    ],
)
def test_mistakes_of_authors(change, message, tmp_path, monkeypatch):
    """What is refused leaves no trace, so that it needs no process of its own."""
    assert change[0] in MECHANISM
    (tmp_path / "mistaken_mechanism.py").write_text(MECHANISM.replace(*change))
    monkeypatch.syspath_prepend(tmp_path)
    before, options = attention.names(), list(AttnLSTMConfig.__dataclass_fields__)
    with pytest.raises(ValueError, match=message):
        importlib.import_module("mistaken_mechanism")
    assert attention.names() == before and list(AttnLSTMConfig.__dataclass_fields__) == options
    assert "mistaken_mechanism" not in sys.modules
