"""axe-core on an open page. ``AXE_CORE`` names axe.min.js, or npm has installed axe-core in the repository."""

import os
from pathlib import Path
from typing import Any, List

import pytest
from browser import Page

_INSTALLED = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = [(width, mode) for width in (1280, 390) for mode in ("light", "dark")]


def script() -> str:
    """The text of axe-core; skips the test if there is none."""
    path = Path(os.environ.get("AXE_CORE") or _INSTALLED)
    if not path.is_file():
        pytest.skip(f"NO TEST WITH AXE: {path} is missing; AXE_CORE=axe.min.js, or npm install axe-core")
    return path.read_text(encoding="utf-8")


def look(page: Page, width: int, mode: str) -> None:
    """Gives the page this width, and the reader this preference."""
    page.resize(width, 900)
    media = {"features": [{"name": "prefers-color-scheme", "value": mode}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def violations(page: Page) -> List[str]:
    """The rules that elements of the page violate, and the elements."""
    if not page.script("return window.axe !== undefined"):
        page.script(script())
    page.driver.set_script_timeout(60)
    found: Any = page.driver.execute_async_script(
        "const done = arguments[0]; axe.run().then((result) => done(result.violations), (error) => done(String(error)))"
    )
    assert isinstance(found, list), found
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]
