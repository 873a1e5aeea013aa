"""Links and lines of the documentation, and the version of the citation."""

import re
from pathlib import Path
from typing import Iterator, Set

from documentation import PAGES, REPO

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(REPO).as_posix()


def outside_of_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def targets(page: Path) -> Iterator[str]:
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", outside_of_code(page))):
        if not target.startswith(("https://", "http://")):
            yield target


def anchors(page: Path) -> Set[str]:
    """The names that headings have in a link, as in GitHub and MyST."""
    headings = re.findall(r"^#+ (.*)$", outside_of_code(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page, target in [(one, target) for one in PAGES for target in targets(one)]:
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)}: {target} does not exist"
        if anchor:
            assert anchor in anchors(file), f"{name_of(page)}: {target}: there is no such heading"


def test_lines_are_short() -> None:
    """Outside of tables, and of lines whose length is that of a link."""
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert len(LINK.sub("", line)) <= 120 or line.startswith("|"), f"{name_of(page)}, line {number}"


def test_citation_has_the_package_version() -> None:
    init = (REPO / "fairseq_attn_plugin" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "([^"]+)"', init)
    assert found is not None
    assert f"\nversion: {found.group(1)}\n" in (REPO / "CITATION.cff").read_text(encoding="utf-8")
