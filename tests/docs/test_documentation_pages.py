"""Links, pictures and lines of the documentation."""

import re
from pathlib import Path
from typing import Iterator, List, Set

from documentation import PAGES, REPO

LONGEST = 120
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
    long: List[str] = []
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > LONGEST and not line.startswith("|") and len(LINK.sub("", line)) > LONGEST:
                long.append(f"{name_of(page)}, {number}: {line}")
    assert long == []


def test_readme_is_short() -> None:
    lines = (REPO / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    pictures = [number for number, line in enumerate(lines) if line.startswith("![")]
    assert pictures and pictures[0] < 20


def test_pages_have_one_title() -> None:
    for page in PAGES:
        titles = re.findall(r"^# .+$", outside_of_code(page), flags=re.M)
        assert len(titles) == (0 if page.name in ("changelog.md", "security.md") else 1), name_of(page)


def test_citation_has_the_package_version() -> None:
    init = (REPO / "fairseq_attn_plugin" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "([^"]+)"', init)
    assert found is not None
    assert f"\nversion: {found.group(1)}\n" in (REPO / "CITATION.cff").read_text(encoding="utf-8")


def test_short_names_of_density_matrices_are_spelled_out() -> None:
    """Where `mqt` or `aqt` stands first on a page: before, in the same line or in the next."""
    for page in PAGES:
        text = outside_of_code(page)
        first = re.search(r"`(--attention )?[ma]qt`|\b[ma]qt:", text)
        if first is not None and page.name != "CHANGELOG.md":
            beginning = text[: first.end() + LONGEST]
            assert re.search("quantum[-\\s]theoretical", beginning), f"{name_of(page)}: {first.group()} is unexplained"
