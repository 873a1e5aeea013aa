"""The leaderboard with fairseq's own commands: kill -9, resumption, results, and the page."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile

import pytest
import torch
from recipe_corpora import TINY, multi30k

from fairseq_attn_plugin.recipes.cli import open_recipe
from fairseq_attn_plugin.recipes.tables import read_scores

from cli import REPO


@pytest.fixture
def settings(corpus_folder, tmp_path):
    multi30k(corpus_folder, train=60)
    return {
        **{"DATA": str(corpus_folder), "OUT": str(tmp_path / "out"), "RESULTS": str(tmp_path / "results")},
        **{"SYSTEMS": "lstm_soft", "SEEDS": "1", "BPE": "none", "DEVICE": "cpu", "JOBS": "1"},
        "GENERATE_OPTIONS": "--max-len-b 12 --beam 2",
    }


EXTRA = [*TINY, "--no-progress-bar", "--log-format", "simple"]


def start(settings, *words):
    environment = {**os.environ, **settings, "PYTHONPATH": str(REPO)}
    command = [sys.executable, "-m", "fairseq_attn_plugin.recipes", "leaderboard", *words, "--", *EXTRA]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def epochs_of(job):
    log = job.folder / "train.log"
    return re.findall(r"end of epoch (\d+) ", log.read_text(encoding="utf-8")) if log.is_file() else []


def wait_for(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_no_run_starts_without_data(recipe, settings, tmp_path):
    done = recipe("leaderboard", "run", check=False, **settings)
    assert done.returncode == 1 and "data is not prepared: run the prepare stage first" in done.stderr
    assert not list((tmp_path / "out").rglob("job.log"))


def test_a_killed_queue_continues(recipe, settings, tmp_path):
    recipe("leaderboard", "prepare", **settings)
    (text,) = (tmp_path / "out").rglob("data/text")
    (text / "test.align").write_text("0-0\n" * 12)  # as if the corpus had gold alignments
    (job,) = open_recipe("leaderboard", {**settings, "MAX_EPOCH": "1000", "PATIENCE": "0"}, EXTRA).jobs
    queue = start({**settings, "MAX_EPOCH": "1000", "PATIENCE": "0"}, "run")
    wait_for(lambda: len(epochs_of(job)) > 2 and job.training.training.last.is_file())
    queue.send_signal(signal.SIGKILL)
    queue.communicate()
    # no process of the run is left when the second queue gets the lock; the copy of the last checkpoint was cut off
    time.sleep(0.5)
    before = epochs_of(job)
    best, last = job.training.training.best, job.training.training.last
    kept = torch.load(best, weights_only=False)["extra_state"]["train_iterator"]["epoch"]  # the next one
    last.write_bytes(best.read_bytes()[:1000])
    again = {**settings, "MAX_EPOCH": str(len(before) + 2), "PATIENCE": "0"}
    (job,) = open_recipe("leaderboard", again, EXTRA).jobs
    out, _ = start(again, "run", "report").communicate()
    assert "lstm_soft de-en seed 1: perplexity " in out, out + job.log.read_text(encoding="utf-8")[-3000:]
    assert zipfile.is_zipfile(last) and f"{last} is incomplete" in job.log.read_text(encoding="utf-8")
    resumed = [int(epoch) for epoch in epochs_of(job)[len(before) :]]
    # not by the log: an epoch's checkpoint is there before the log says that the epoch has ended
    assert kept > 1 and resumed == list(range(kept, len(before) + 3))
    check(job)
    assert "lstm\\_soft" in (tmp_path / "out" / "report" / "report.md").read_text(encoding="utf-8")
    assert job.is_done()
    found = json.loads(job.result.read_text(encoding="utf-8"))
    for options, same in ((f"--lr 1 {found['options']}", True), (f"{found['options']} --lr 1", False), ("", False)):
        job.result.write_text(json.dumps({**found, "options": options}), encoding="utf-8")
        assert job.is_done() == same, options


def check(job):
    """The results against the files that they are made of."""
    found = json.loads(job.result.read_text(encoding="utf-8"))
    assert [found[key] for key in ("system", "dataset", "pair", "seed")] == ["lstm_soft", "multi30k", "de-en", 1]
    assert found["command"] == job.command and found["device"] == "cpu" and found["split"] == "test"
    assert {"fairseq_attn_plugin", "fairseq", "torch", "sacrebleu", "python"} == set(found["versions"])
    tokenized, detokenized = (read_scores(job.folder / f"test.{name}.json") for name in ("tokenized", "detokenized"))
    assert found["bleu"] == {"tokenized": tokenized["BLEU"], "detokenized": detokenized["BLEU"]}
    assert found["chrf"] == detokenized["chrF2"] and found["ter"] == detokenized["TER"]
    assert (
        "case:lc" in found["bleu"]["tokenized"]["signature"] and "tok:none" in found["bleu"]["tokenized"]["signature"]
    )
    assert "tok:13a" in found["bleu"]["detokenized"]["signature"]
    assert found["entropy"] > 0 and 0 <= found["information"] <= 1
    assert found["parameters"] > 1000 and found["cpu_seconds_per_1000_updates"] > 0
    assert 0 <= found["aer"] <= 1
    assert 0 < found["best_updates"] <= found["updates"]
    perplexities = list(found["valid_perplexities"].values())
    assert found["valid_perplexity"] == perplexities[found["best_epoch"] - 1]
    assert len(found["statistics"]["sentences"]) == 12
    assert str(job.folder) not in job.result.read_text(encoding="utf-8"), "no path of this machine"
