"""The files and names of docs/where.md exist, and a file has the equations that the page says it has."""

import re

import pytest

from documentation import REPO

TEXT = (REPO / "docs/where.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if "/" in line[:-1]]
ROWS = [row for row in ROWS if len(row) == 3]
EQUATIONS = {int(number) for row in ROWS if row[0][0].isdigit() for number in re.findall(r"\d+", row[0])}


@pytest.mark.parametrize(("what", "files", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_leads_there(what, files, name):
    code = [(REPO / file).read_text(encoding="utf-8") for file in re.findall(r"`([^`]+\.\w+)`", files)]
    assert code
    if name:
        assert re.search(rf"^ *(?:(?:def|class) )?{name.strip('`')}\b", "".join(code), re.MULTILINE)
    for number in re.findall(r"\d+", what) if what[0].isdigit() else ():
        assert re.search(rf"\beqs?\. (?:\d+ (?:and|or) )?{number}\b", "".join(code)), number


def test_all_equations_of_the_model_are_there():
    assert {*range(1, 13)} <= EQUATIONS
