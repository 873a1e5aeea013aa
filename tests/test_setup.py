"""The pinned set of packages can be installed on every Python 3.11, the oldest patch release included."""

import importlib.metadata as metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cli import REPO

OLDEST = "3.11.0"


def pins():
    """The requirements of constraints.txt that apply to Python 3.11."""
    for line in (REPO / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"python_version": "3.11"}):
                yield requirement


def test_every_pin_is_exact_and_stands_once():
    names = [canonicalize_name(requirement.name) for requirement in pins()]
    assert len(names) > 100 and len(set(names)) == len(names)
    assert all(str(requirement.specifier).startswith("==") for requirement in pins())


def test_pinned_packages_take_every_python_3_11():
    """pip passes over a release that wants a later Python, and then searches for minutes for another set."""
    seen = 0
    for requirement in pins():
        try:
            distribution = metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed
        if distribution.version.split("+")[0] not in requirement.specifier:
            continue
        seen += 1
        wanted = distribution.metadata.get("Requires-Python") or ""
        assert OLDEST in SpecifierSet(wanted), f"{requirement}: needs Python {wanted}, and {OLDEST} is a Python 3.11"
    assert seen > 50
