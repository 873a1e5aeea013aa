"""``kill -9`` of a whole recipe at random moments, with all of its processes; the same command then ends as always.

On demand: ``FAIRSEQ_ATTN_KILLS=10 pytest tests/recipes/test_recipe_kills.py``.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from recipe_corpora import TINY, multi30k

from cli import REPO

KILLS = int(os.environ.get("FAIRSEQ_ATTN_KILLS") or 0)
# what does not depend on the clock: texts, subwords, binarised data, hypotheses
COMPARED = ("text/*", "bin/dict.*", "bin/*.bin", "bin/*.idx", "codes", "test.hyp", "test.detok.hyp")


def start(corpus, out):
    variables = {"DATA": corpus, "OUT": out, "BPE_SIZE": 60, "DEVICE": "cpu", "JOBS": 1, "MAX_EPOCH": 3}
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}, "PYTHONPATH": str(REPO)}
    options = [*TINY, "--max-tokens", "200", "--max-epoch", "3", "--save-interval-updates", "1"]
    options += ["--keep-interval-updates", "1"]
    command = [sys.executable, "-m", "fairseq_attn_plugin.recipes", "multi30k", "--", *options]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def contents(out):
    found = {}
    for pattern in COMPARED:
        for path in out.rglob(pattern):
            found[str(path.relative_to(out))] = path.read_bytes()
    return found


@pytest.mark.skipif(not KILLS, reason="NO KILLS OF RECIPES: FAIRSEQ_ATTN_KILLS says how many")
def test_a_killed_recipe_ends_as_one_that_went_through(corpus_folder, tmp_path):
    multi30k(corpus_folder, train=60)
    begin = time.monotonic()
    whole = start(corpus_folder, tmp_path / "whole")
    output = whole.communicate()[0]
    assert whole.returncode == 0, output[-3000:]
    lasts, expected = time.monotonic() - begin, contents(tmp_path / "whole")
    assert len(expected) > 20
    for number in range(KILLS):
        out, seed = tmp_path / str(number), random.randrange(10**6)
        killed = start(corpus_folder, out)
        try:
            killed.wait(random.Random(seed).uniform(0, lasts))
        except subprocess.TimeoutExpired:
            os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        again = start(corpus_folder, out)
        output = again.communicate()[0]
        assert again.returncode == 0, f"seed {seed}: {output[-3000:]}"
        assert contents(out) == expected, f"seed {seed}"
        assert not [path for path in out.rglob("*") if path.suffix in (".tmp", ".partial")], f"seed {seed}"
