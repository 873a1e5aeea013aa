"""scripts/demo.sh, much reduced: every product is there, nothing is done twice, mistakes get one line."""

import shutil

import pytest

from cli import REPO, run_bash

SMALL = {"TRAIN": "300", "VALID": "20", "TEST": "21", "MAX_EPOCH": "0", "MAX_UPDATE": "20", "MERGES": "300"}
STAGES = ["corpus", "prepare", "train", "translate", "report", "explore"]


@pytest.fixture(scope="module")
def demo(warm_path):
    """Runs the demo; its commands start from a warm process."""

    def run(out, *arguments, **settings):
        given = {"SETUP": "0", **SMALL, "OUT": str(out), **settings}
        return run_bash(REPO / "scripts" / "demo.sh", *arguments, path=warm_path, cwd=out.parent, **given)

    return run


def refused(run, message):
    assert run.returncode == 1
    lines = run.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("demo: ") and message in lines[0], run.stderr


@pytest.fixture(scope="module")
def finished(demo, tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "out"
    run = demo(out)
    assert run.returncode == 0, run.stdout + run.stderr
    return out, run.stdout


def test_every_product_is_there(finished):
    out, said = finished
    assert sorted(path.name for path in (out / "done").iterdir()) == sorted(STAGES)
    for split, size in (("train", 300), ("valid", 20), ("test", 21)):
        for kind in ("vr", "dm", "align"):
            assert len((out / "text" / f"{split}.{kind}").read_text(encoding="utf-8").splitlines()) == size
    assert (out / "checkpoints" / "checkpoint_best.pt").stat().st_size > 10**5
    # 21 is not a multiple of 8: no sentence may be left out
    assert len((out / "translation.dm").read_text(encoding="utf-8").splitlines()) == 21
    assert "@@" not in (out / "translation.dm").read_text(encoding="utf-8")
    links = (out / "attention.align").read_text().splitlines()
    targets = (out / "text" / "test.dm").read_text(encoding="utf-8").splitlines()
    assert [len(line.split()) for line in links] == [len(line.split()) for line in targets]
    pictures = list((out / "heatmaps").iterdir())
    assert pictures and all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    page = (out / "explore.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "lstm_adm" in page
    assert (out / ".gitignore").read_text() == "*\n"
    for text in ("BLEU", "nrefs:1|", "version:", "AER", str(out / "heatmaps"), str(out / "explore.html")):
        assert text in said
    assert "epoch 1" in said and "valid ppl" in said


def test_a_finished_run_is_not_repeated(demo, finished):
    out, said = finished
    before = {path: path.stat().st_mtime_ns for path in (out / "done").iterdir()}
    run = demo(out)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("done before") == len(STAGES)
    assert before == {path: path.stat().st_mtime_ns for path in (out / "done").iterdir()}
    assert (out / "report.txt").read_text() in run.stdout


def test_an_interrupted_training_goes_on_and_what_follows_is_done_again(demo, finished):
    out, _ = finished
    for stage in ("train", "report"):
        (out / "done" / stage).unlink()
    translated = (out / "done" / "translate").stat().st_mtime_ns
    (out / "log" / "train").unlink()
    run = demo(out)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("done before") == 2
    assert "Loaded checkpoint" in (out / "log" / "train").read_text(encoding="utf-8")
    assert (out / "done" / "translate").stat().st_mtime_ns > translated


def test_other_settings_do_not_mix_with_a_finished_run(demo, finished):
    out, _ = finished
    refused(demo(out, SEED="2"), "holds a run with other settings")
    assert (out / "done" / "report").exists()


def test_mistakes_get_one_line_and_touch_nothing(demo, tmp_path):
    refused(demo(tmp_path / "out", TRAIN="many"), "TRAIN=many: must be a whole number")
    refused(demo(tmp_path / "out", MAX_EPOCH="08"), "MAX_EPOCH=08: must be a whole number")
    refused(demo(tmp_path / "out", MAX_UPDATE="0"), "MAX_EPOCH=0 MAX_UPDATE=0")
    refused(demo(tmp_path / "out", "--frehs"), "unknown argument --frehs")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "settings").write_text("of another program")
    refused(demo(tmp_path / "mine", "--fresh"), "is not a folder of this demo")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "settings"]


def test_an_unknown_architecture_is_named(demo, tmp_path, finished):
    out = tmp_path / "out"
    shutil.copytree(finished[0], out)
    for stage in ("train", "translate", "report"):
        (out / "done" / stage).unlink()
    (out / "settings").write_text((out / "settings").read_text().replace("lstm_adm", "lstm_amd"))
    run = demo(out, ARCH="lstm_amd")
    assert run.returncode == 1
    assert "lstm_amd" in run.stderr.strip().splitlines()[-1]
    assert not (out / "done" / "train").exists()
