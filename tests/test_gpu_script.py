"""scripts/gpu.sh in tiny sizes on the processor: every step leaves its file, a step that fails stops no other one."""

import json
import re
import sys
from importlib.metadata import requires

import gpu_check
import pytest
import torch
from packaging.requirements import Requirement

from cli import REPO, run_bash


def script(name, *arguments, **settings):
    return run_bash(REPO / "scripts" / name, *arguments, **settings)


def results(folder):
    return {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}


@pytest.mark.slow
def test_every_step_runs_on_the_processor(tmp_path, warm_path):
    data = tmp_path / "data"  # looks like a corpus and is none: the training fails, after all other steps have run
    data.mkdir()
    for name in ("train.xx-yy.xx.idx", "test.xx-yy.xx.idx"):
        (data / name).touch()
    out = tmp_path / "out"
    done = script("gpu.sh", path=warm_path, DEVICE="cpu", OUT=str(out), DATA=str(data))
    found = results(out)
    statuses = {step: found[step]["status"] for step in ("smoke", "tests", "benchmark", "training")}
    assert statuses == {"smoke": "passed", "tests": "skipped", "benchmark": "passed", "training": "failed"}
    assert done.returncode == 1 and re.search(r"training +failed", done.stdout), done.stdout + done.stderr
    assert found["environment"]["packages"]["torch"] == torch.__version__
    runs = found["smoke"]["runs"]
    assert {name for name, run in runs.items() if run["status"] == "ok"} == {
        *("lstm, float32", "lstm_soft, float32", "han, float32"),
        *("lstm, beam 10, float32", "lstm_soft, beam 10, float32"),
    }
    assert all(run["loss"] > 0 for run in runs.values() if run["status"] == "ok" and "loss" in run)
    assert "NO GPU" in found["tests"]["reason"]
    measured = found["benchmark"]["busy"]["systems"]
    assert measured.keys() >= {"lstm", "lstm_soft"} and all(one["seconds"] > 0 for one in measured.values())
    for section in ("train", "decode"):
        for cell in found["benchmark"][section].values():
            assert all(one["tokens_per_second"] > 0 for one in cell["systems"].values())
    assert "fairseq-train" in (out / "log.txt").read_text()
    assert not [line for line in done.stdout.splitlines() if "Traceback" in line]


@pytest.mark.slow
def test_a_step_that_takes_too_long_is_stopped_and_says_so(tmp_path, warm_path):
    steps = {"SMOKE": "1", "TESTS": "0", "BENCHMARK": "0", "TRAINING": "0"}
    done = script("gpu.sh", path=warm_path, DEVICE="cpu", OUT=str(tmp_path), **steps)
    assert done.returncode == 1 and re.search(r"smoke +(stopped|failed)", done.stdout)
    assert results(tmp_path).keys() <= {"environment", "smoke"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"DEVICE": "tpu"}, "DEVICE=tpu: must be cuda or cpu"),
        ({"DEVICE": "cpu", "SMOKE": "long"}, "SMOKE=long: must be a whole number of seconds, 0 to leave the step out"),
        ({"DEVICE": "cpu", "WHEELS": "/nowhere"}, "WHEELS=/nowhere: must be a folder with wheels"),
        ({"DEVICE": "cpu", "DATA": "/nowhere"}, "DATA=/nowhere: must be a folder of fairseq-preprocess"),
        ({"DEVICE": "cpu", "OUT": str(REPO / "setup.py")}, "is no folder"),
    ],
)
def test_wrong_settings_get_one_line(settings, message):
    done = script("gpu.sh", **settings)
    assert done.returncode == 1 and done.stderr.startswith("gpu: ") and message in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="A GPU: it would be used")
def test_without_a_gpu_it_says_so(tmp_path):
    done = script("gpu.sh", OUT=str(tmp_path / "out"))
    assert done.returncode == 1 and "torch sees no GPU here" in done.stderr and "DEVICE=cpu" in done.stderr
    assert not (tmp_path / "out").exists()


def test_wheels_go_into_an_empty_folder(tmp_path):
    (tmp_path / "file").touch()
    for arguments, message in (((tmp_path,), "exists and is no empty folder"), ((), "name one folder")):
        done = script("gpu_wheels.sh", *arguments)
        assert done.returncode == 1 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_relative_paths_are_of_the_folder_of_the_call(tmp_path):
    (tmp_path / "file").touch()
    done = script("gpu.sh", cwd=tmp_path, DEVICE="cpu", OUT="file")
    assert done.stderr == f"gpu: OUT={tmp_path}/file: is no folder; name another one\n"
    done = script("gpu_wheels.sh", "file", cwd=tmp_path)
    assert done.stderr.startswith(f"gpu_wheels: {tmp_path}/file: exists and is no empty folder")


def test_every_package_is_a_wheel_or_known_to_be_there():
    """What the plugin and all it needs import, by the metadata of what is installed here."""
    text = (REPO / "scripts" / "gpu_wheels.sh").read_text()
    wanted, present = (re.search(rf'{name}="([^"]*)"', text)[1].split() for name in ("WANTED", "PRESENT"))
    needed, missing = set(), ["fairseq-attn-plugin"]
    while missing:
        name = missing.pop()
        needed.add(name)
        if name in present:  # with what it needs
            continue
        for line in requires(name) or []:
            other = Requirement(line)
            if other.marker is None or other.marker.evaluate({"python_version": "3.12", "extra": ""}):
                other = re.sub(r"[-_.]+", "-", other.name).lower()
                if other not in needed:
                    missing.append(other)
    assert needed - {"fairseq-attn-plugin", "ve-fairseq", *wanted, *present} == set()


def test_a_failed_command_is_named_by_its_error(tmp_path, monkeypatch, capsys):
    """The last line of a CUDA error is the same for all of them."""
    for name, value in (("OUT", tmp_path), ("WORK", tmp_path), ("CPU", True), ("DEVICE", "cpu"), ("BENCHMARKED", ())):
        monkeypatch.setattr(gpu_check, name, value)
    code = "raise RuntimeError('CUDA error: misaligned address\\n\\nCompile with TORCH_USE_CUDA_DSA')"
    done = gpu_check.run("one", sys.executable, "-c", code)
    assert done.error == "RuntimeError: CUDA error: misaligned address"
    assert "== one\n" in (tmp_path / "log.txt").read_text()
    monkeypatch.setattr(gpu_check, "run", lambda *words: done)
    assert gpu_check.benchmark() == 1 == gpu_check.summary()
    assert f"benchmark: train: {done.error}" in capsys.readouterr().out
