"""``kill -9`` at random moments of a real training, checkpoints being written at every update.

Three kills, or as many as FAIRSEQ_ATTN_KILLS says: ``FAIRSEQ_ATTN_KILLS=20 pytest tests/patches/test_kills.py``.
"""

import itertools
import os
import random
import time

import torch
from resuming import command, differences

from cli import TINY, start_cli

KILLS = int(os.environ.get("FAIRSEQ_ATTN_KILLS") or 3)
A_TRAINING = 3  # kills
LAST = "checkpoint_last.pt"


def begun(words):
    """A process that has begun to train, or nothing: a kill after the last save leaves nothing to do."""
    process = start_cli(*words)
    log = []
    for line in process.stdout:
        log.append(line)
        if "Start iterating over samples" in line:
            return process
    assert process.wait() == 0 and "nothing to do" in "".join(log), "".join(log)[-4000:]
    return None


def killed_after(process, seconds):
    time.sleep(seconds)
    process.kill()
    output = process.communicate()[0]  # ends when the last process that writes there has ended
    assert process.returncode in (0, -9), output[-4000:]
    return process.returncode == -9


def ended(words):
    process = start_cli(*words)
    output = process.communicate()[0]
    assert process.returncode == 0, output[-4000:]


def test_kills_at_random_moments(tiny_data, tmp_path, capsys):
    seed, kills = random.randrange(1000), 0
    chosen = random.Random(seed)
    # more than are needed: a process may end before its kill
    for number, arch in enumerate(itertools.islice(itertools.cycle(["lstm_latent", *TINY]), KILLS + 5)):
        options = ["--save-interval-updates", 1, "--keep-interval-updates", 2, "--num-workers", 1]
        words = [command(tiny_data, arch, tmp_path / f"{number}-{part}", *options) for part in ("whole", "killed")]
        process, started = begun(words[0]), time.monotonic()
        process.communicate()
        lasts, folder = time.monotonic() - started, tmp_path / f"{number}-killed"
        for _ in range(A_TRAINING):
            process = begun(words[1])
            if process is None or not killed_after(process, chosen.uniform(0, lasts / A_TRAINING)):
                break
            kills += 1
            for path in folder.glob("*.pt"):
                torch.load(path)  # whole
        ended(words[1])
        assert differences(tmp_path / f"{number}-whole" / LAST, folder / LAST) == [], (arch, seed)
        assert not list(folder.glob("*.tmp")) and len(list(folder.glob("*.pt"))) == 7
        if kills >= KILLS:
            break
    assert kills, "every training ended before its kill"
    with capsys.disabled():
        print(f" {kills} kills in {number + 1} trainings ", end="")
