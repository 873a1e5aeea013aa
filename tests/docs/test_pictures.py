"""The pictures of the documentation: docs/pictures.py names all of them and draws them, and a page shows each."""

import re
from pathlib import Path

import pytest

from cli import run_cli
from documentation import PAGES, REPO

IMAGES = REPO / "docs" / "images"
PICTURE = re.compile(r"!\[[^\]]+\]\(([^)\s]+)\)")


@pytest.mark.slow
def test_script_draws_a_picture_and_names_the_committed_ones(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    out = tmp_path / "new" / "images"
    command, variables = [REPO / "docs" / "pictures.py", "--out", out], {"MPLCONFIGDIR": str(tmp_path)}
    done = run_cli(*command, "start.png", env=variables, cwd=tmp_path, check=False)
    names = re.search("no picture start.png: expected any of (.*)", done.stderr)
    assert done.returncode == 2 and names is not None and not out.exists()
    assert sorted(names[1].split(", ")) == sorted(path.name for path in IMAGES.iterdir())
    drawn = ["density-matrix.png", "multi30k.png", "structured.png"]
    run_cli(*command, *drawn, env=variables, cwd=tmp_path)
    assert sorted(path.name for path in out.iterdir()) == drawn
    for path in [*out.iterdir(), *IMAGES.iterdir()]:
        with image.open(path) as picture:
            colours = picture.convert("RGBA").getcolors(1 << 24)
            corner = picture.convert("RGBA").getpixel((0, 0))
        assert corner == (255, 255, 255, 255), f"{path.name}: the background is not white"
        assert len(colours) > 10, f"{path.name}: nothing is drawn"


def test_pictures_are_small_and_shown() -> None:
    targets = ((page, target) for page in PAGES for target in PICTURE.findall(page.read_text(encoding="utf-8")))
    shown = {(page.parent / target).resolve() for page, target in targets}
    for path in IMAGES.iterdir():
        assert path.resolve() in shown, f"no page shows {path.name}"
        assert path.stat().st_size < 60_000, path.name
