"""The documentation builds without a warning, and its pages hold what they are generated from."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_attn_plugin import attention
from fairseq_attn_plugin.cli import COMMANDS
from fairseq_attn_plugin.commands.recipe import names

from documentation import REPO, environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    out = folder / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "-b", "html"]
    command += ["-d", str(folder / "doctrees"), str(REPO / "docs"), str(out)]
    variables = environment(MPLCONFIGDIR=str(folder))
    done = subprocess.run(command, env=variables, cwd=folder, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr[-6000:]
    return out


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:link|script|img|iframe|source)\b[^>]*\s(?:href|src)="([^"]+)"', text)
        assert loaded and [item for item in loaded if re.match(r"(https?:)?//", item)] == [], page.name


def test_formulas_are_mathml(site: Path) -> None:
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    assert page.count("<math ") > 100 and page.count('display="block"') > 15
    assert "$" not in text_of(site / "mathematics.html").split("Hierarchical attention")[0]
    assert "\\" not in "".join(re.findall(r"<math .*?</math>", page, re.S))


def test_tables_hold_every_option_of_every_mechanism(site: Path) -> None:
    page = text_of(site / "reference" / "options.html")
    for name in attention.names():
        for option in attention.options_taken(attention.attention_class(name)):
            assert "--" + option.replace("_", "-") in page, option
    for option in ("--objective", "--alignment-weight", "--agreement-loss", "--encoder-hidden-size", "--num-classes"):
        assert option in page
    assert "lstm_adm_aqt" in page


def test_help_pages_hold_every_command(site: Path) -> None:
    page = text_of(site / "reference" / "commands.html")
    for name in COMMANDS:
        assert f"usage: fairseq-attn {name}" in page


def test_api_pages_hold_docstrings(site: Path) -> None:
    assert "build_attention(name, query_dim, memory_dim" in text_of(site / "api" / "attention.html")
    assert "open_records(" in text_of(site / "api" / "analysis.html")


def test_notebook_is_shown_with_its_pictures(site: Path) -> None:
    page = (site / "start" / "first_look.html").read_text(encoding="utf-8")
    assert page.count("<img") >= 3 and "greatest weight on padding: 0.0" in page


def test_recipes_are_shown_with_their_manuals(site: Path) -> None:
    page = text_of(site / "recipes.html")
    for name in names():
        assert f"fairseq-attn recipe {name} [" in page
