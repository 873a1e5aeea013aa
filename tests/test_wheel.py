"""The wheel holds all that works without the checkout, and its description all that a package index can show."""

import email
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from fairseq_attn_plugin import toy_corpus

from cli import REPO, usual_environment


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The content of the wheel, built from a copy of what it is made of, as site-packages has it."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("fairseq_attn_plugin", "configs", "scripts/recipes"):
        shutil.copytree(REPO / name, folder / "copy" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, folder / "copy" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(folder / "copy")], check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_holds_every_file_of_the_package(site):
    def files(folder):
        found = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix() for path in found if "__pycache__" not in path.parts}

    configs = {f"configs/{name}" for name in files(REPO / "configs")}
    recipes = {f"recipes/{name}" for name in files(REPO / "scripts" / "recipes")}
    assert files(site / "fairseq_attn_plugin") == files(REPO / "fairseq_attn_plugin") | configs | recipes


def test_the_description_shows_nothing_that_an_index_lacks(site):
    (metadata,) = site.glob("*.dist-info/METADATA")
    message = email.message_from_string(metadata.read_text(encoding="utf-8"))
    description = message.get_payload()
    links = re.findall(r"\]\(([^)]*)\)", description)
    assert len(description) > 3000 and links and all(link.startswith("https:") for link in links)
    assert (message["License"], message["Requires-Python"]) == ("MIT", ">=3.11")
    assert "\n" not in message["Author"] and len(message.get_all("Classifier")) > 8


def python(site, folder, *words, **variables):
    """Runs Python with the content of the wheel, and without the checkout."""
    environment = {**usual_environment(), "PYTHONPATH": str(site), **variables}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_recipes_work_in_any_folder(site, tmp_path):
    command = ["-m", "fairseq_attn_plugin.cli", "recipe"]
    assert "\ntoy_corpus  " in python(site, tmp_path, *command)
    assert "Variables (default): SRC and TGT" in python(site, tmp_path, *command, "toy_corpus", "--help")
    data = tmp_path / "out" / "toy_corpus" / "vr-dm.subword-nmt1500" / "data"
    toy_corpus.write(toy_corpus.generate(1, {"train": 30, "valid": 5, "test": 5}), tmp_path / "corpus")
    python(site, tmp_path, *command, "toy_corpus", "prepare", DATA=str(tmp_path / "corpus"))
    assert (data / "bin" / "dict.vr.txt").is_file()


def test_fairseq_finds_the_package_beside_itself_by_name(site, tmp_path):
    """fairseq looks for --user-dir beside its own folder, too."""
    code = f"""
import argparse, fairseq.utils
fairseq.utils.__file__ = "{site}/fairseq/utils.py"
(__import__("pathlib").Path("{site}") / "fairseq").mkdir()
fairseq.utils.import_user_module(argparse.Namespace(user_dir="fairseq_attn_plugin"))
import fairseq_attn_plugin
from fairseq.models import ARCH_MODEL_REGISTRY
print("lstm_adm" in ARCH_MODEL_REGISTRY, fairseq_attn_plugin.__file__)
"""
    known, file = python("", tmp_path, "-c", code).split()
    assert known == "True" and file.startswith(str(site))
