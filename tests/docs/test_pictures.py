"""The pictures of the documentation: docs/pictures.py draws all of them, and every subject has one."""

import re
import subprocess
from pathlib import Path

import pytest

from cli import run_cli
from documentation import PAGES, REPO

IMAGES = REPO / "docs" / "images"
LARGEST = 60_000  # bytes
PICTURE = re.compile(r"!\[[^\]]+\]\(([^)\s]+)\)")
SUBJECTS = sorted((REPO / "docs" / "subjects").glob("*.md"))


def draw(work: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    script = REPO / "docs" / "pictures.py"
    return run_cli(script, *arguments, env={"MPLCONFIGDIR": str(work)}, cwd=work, check=False)


@pytest.mark.slow
def test_script_draws_the_committed_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    out = tmp_path / "new" / "images"
    done = draw(tmp_path, "--out", str(out))
    assert done.returncode == 0, done.stderr[-6000:]
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in IMAGES.iterdir())
    for path in [*out.iterdir(), *IMAGES.iterdir()]:
        with image.open(path) as picture:
            colours = picture.convert("RGBA").getcolors(1 << 24)
            corner = picture.convert("RGBA").getpixel((0, 0))
        assert corner == (255, 255, 255, 255), f"{path.name}: the background is not white"
        assert len(colours) > 10, f"{path.name}: nothing is drawn"


@pytest.mark.slow
def test_script_draws_only_the_named_pictures(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    out = tmp_path / "images"
    done = draw(tmp_path, "--out", str(out), "starts.png")
    assert done.returncode == 0, done.stderr[-6000:]
    assert [path.name for path in out.iterdir()] == ["starts.png"]
    done = draw(tmp_path, "--out", str(out / "none"), "start.png")
    assert done.returncode == 2
    assert "no picture start.png: expected any of" in done.stderr
    assert not (out / "none").exists()


def test_pictures_are_small_and_shown() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in PICTURE.findall(page.read_text(encoding="utf-8"))
    }
    for path in IMAGES.iterdir():
        assert path.resolve() in shown, f"no page shows {path.name}"
        assert path.stat().st_size < LARGEST, path.name


@pytest.mark.parametrize("page", SUBJECTS, ids=lambda page: page.stem)
def test_subjects_have_a_picture(page: Path) -> None:
    assert PICTURE.search(page.read_text(encoding="utf-8")), f"{page.name} has no picture"


def test_subjects_are_found() -> None:
    assert len(SUBJECTS) >= 8
