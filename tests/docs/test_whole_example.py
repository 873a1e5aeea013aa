"""The examples of docs/extending.md; the first one from an empty folder to a report and a picture."""

import importlib
import math
import re

import pytest
import torch

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.testing import check_attention

from documentation import REPO, run_script

PAGE = (REPO / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## From an empty folder to a report\n")[1].split("\n## ")[0]
EXAMPLE = REPO / "docs" / "examples" / "distance_attention" / "__init__.py"


def block(language, text=SECTION):
    return re.search(rf"```{language}\n(.*?)```", text, re.DOTALL).group(1)


def test_the_page_shows_the_file():
    assert block("python", PAGE) == EXAMPLE.read_text(encoding="utf-8")


def test_the_commands_of_the_page(tmp_path, warm_path):
    """As they stand, but with one system, a smaller model, a few updates and short translations."""
    (tmp_path / "distance_attention").mkdir()
    (tmp_path / "distance_attention" / "__init__.py").write_text(EXAMPLE.read_text(encoding="utf-8"))
    (tmp_path / "test_distance.py").write_text(block("python"), encoding="utf-8")
    small = " ".join(f"--{side}-{size} 16" for side in ("encoder", "decoder") for size in ("embed-dim", "hidden-size"))
    corpus = "python -m fairseq_attn_plugin.toy_corpus --out corpus --train 60 --valid 8 --test 8"
    commands = block("bash")
    for text, shorter in (
        ("fairseq-attn recipe toy_corpus prepare", f"{corpus}; DATA=corpus fairseq-attn recipe toy_corpus prepare"),
        ("--max-epoch 18", f"{small} --decoder-out-embed-dim 16 --max-update 3"),
        ("--out report", "--beam 1 --samples 0 --out report"),
    ):
        assert text in commands
        commands = commands.replace(text, shorter)
    shown = run_script(commands, tmp_path, warm_path)
    assert "2 passed" in shown
    assert re.search(r"\| *distance ", (tmp_path / "report" / "report.md").read_text(encoding="utf-8"))
    assert (tmp_path / "distance.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def coverage(monkeypatch):
    monkeypatch.syspath_prepend(REPO / "docs" / "examples")
    importlib.import_module("coverage_attention")


@pytest.mark.parametrize(
    "options",
    [{}, {"bias": "markov,fertility", "normalizer": "sparsemax", "max_normalize": True}, {"weight": 0.0}],
)
def test_the_contract_of_coverage(coverage, options):
    check_attention("coverage", **options)


def test_coverage_is_its_formula(coverage):
    """One number at a time."""
    torch.manual_seed(1)
    module = build_attention(
        "coverage", query_dim=3, memory_dim=2, attention_hidden_dim=4, coverage_weight=0.5
    ).double()
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


def test_coverage_refuses_other_scores(coverage):
    with pytest.raises(OptionError, match="--attention-score dot: must be additive with coverage attention"):
        build_attention("coverage", 3, 3, score="dot")
