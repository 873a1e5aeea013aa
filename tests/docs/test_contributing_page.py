"""The tree of docs/contributing.md has the folders and files that there are."""

import re

import pytest

from documentation import REPO, fenced

PACKAGE = REPO / "fairseq_attn_plugin"
TREE = next(one for one in fenced(REPO / "docs/contributing.md", "text") if one.startswith("fairseq_attn_plugin/"))


def listed(section, indent):
    """The names at the beginning of the lines of a section, with this indentation."""
    found = set()
    for line in section.splitlines():
        names = re.match(rf" {{{indent}}}((?:\w+(?:/|\.py),? )*\w+(?:/|\.py))(?: |;|$)", line)
        found.update(re.split(",? ", names.group(1)) if names else ())
    return found


def present(folder, *others):
    """Folders that have Python files, and the files beside them."""
    folders = {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    return folders | {path.name for path in folder.glob("*.py")} - set(others)


@pytest.mark.parametrize(
    ("title", "indent", "real"),
    [
        ("fairseq_attn_plugin/", 2, present(PACKAGE)),
        ("  analysis/", 4, present(PACKAGE / "analysis", "__init__.py")),
    ],
)
def test_the_tree_is_as_it_is(title, indent, real):
    section = re.search(rf"^{title}.*\n((?: {{{indent}}}.*\n)*)", TREE, re.MULTILINE).group(1)
    assert listed(section, indent) == real


def test_the_folders_of_the_repository():
    assert listed(TREE, 0) == {"fairseq_attn_plugin/", "configs/", "scripts/", "benchmarks/", "docs/", "tests/"}
    assert all((REPO / name).is_dir() for name in listed(TREE, 0))
