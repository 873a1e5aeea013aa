"""The list of patches: each is installed when the plugin is imported, once, and says why it is there."""

import importlib
import pkgutil
import re

import pytest

from fairseq_attn_plugin import patches
from fairseq_attn_plugin.patches import PATCHES, __main__
from fairseq_attn_plugin.patches.wrapping import Patch, resolve, wrapped_by

NAMES = [patch.name for patch in PATCHES]
needed = pytest.mark.parametrize("patch", [patch for patch in PATCHES if patch.needed()], ids=lambda patch: patch.name)


@needed
def test_a_patch_is_installed_once_when_the_plugin_is_imported(patch):
    assert patch.is_installed()
    before = {target: getattr(*resolve(target)) for target in patch.wraps}
    patches.install()
    patch.install()
    for target, function in before.items():
        assert getattr(*resolve(target)) is function, target
        assert wrapped_by(*resolve(target)).count(patch.name) == 1
    assert patch.wraps or patch.extra is not None, "the patch does nothing"


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_a_patch_says_why_it_is_there(patch):
    assert 20 < len(patch.reason) < 110 and "\n" not in patch.reason


def test_every_patch_of_the_package_is_in_the_list():
    declared = []
    for module in pkgutil.walk_packages(patches.__path__, patches.__name__ + "."):
        declared += [one for one in vars(importlib.import_module(module.name)).values() if isinstance(one, Patch)]
    assert sorted(patch.name for patch in declared) == sorted(NAMES) and len(set(NAMES)) == len(NAMES)


def test_the_table_names_every_patch_and_target():
    table = __main__.table()
    assert all(re.search(rf"^\| {name} +\|", table, re.MULTILINE) for name in NAMES)
    assert all(target.replace(":", ".") in table for patch in PATCHES for target in patch.wraps)
