"""Tiny trained models, each trained once for the whole run, whichever worker asks first.

A test asks by name: ``def test_it(zoo): checkpoint = zoo("lstm_soft").last``. The models are for reading; a test that
writes into their folders spoils the others. A model with a file of its own joins :data:`MODELS`.
"""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Callable, Dict, Iterator, Sequence

import portalocker
from training import SIZES, Trained, train

from cli import TINY

_QUICK = "--batch-size 50 --lr 0.02 --log-format json".split()
_SAID = "--log-format json --validate-interval 5 --save-interval 5".split()


def _falling(updates: int) -> "list[object]":
    return [*"--batch-size 50 --lr 0.02 --lr-scheduler polynomial_decay --total-num-update".split(), updates]


_LATENT = "--arch lstm_latent_small --attention-hidden-dim 32 --seed 3 --criterion latent_alignment"
_AGREEMENT = "--arch lstm_agreement_small --attention-hidden-dim 32 --criterion agreement --label-smoothing 0.01"
# name: (updates, options). The small ones learn little; "reversal", "latent" and "agreement" learn the tiny corpus.
MODELS: Dict[str, "tuple[int, Sequence[object]]"] = {
    **{name: (40, [*TINY[name], *_QUICK]) for name in ("lstm", "lstm_soft", "lstm_adm", "transformer")},
    "reversal": (160, ["--arch", "lstm_soft", "--embed-init-range", "1", *SIZES, *_SAID, *_falling(160)]),
    "latent": (300, [*_LATENT.split(), "--objective", "elbo-enum", *SIZES, *_SAID]),
    "agreement": (120, [*_AGREEMENT.split(), *SIZES, *_SAID, *_falling(120)]),
}

Zoo = Callable[[str], Trained]


@contextlib.contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """Whether ``folder``, empty then, is still to be filled. Other workers wait; after a failure the next one tries."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(folder.name + ".done")
    with portalocker.Lock(str(folder) + ".lock", timeout=400):
        missing = not done.exists()
        if missing:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield missing
        if missing:
            done.touch()


def open_zoo(folder: Path, data: Callable[[], Path]) -> Zoo:
    """The models below ``folder``; ``data`` gives the corpus that they are trained on."""

    def model(name: str) -> Trained:
        updates, options = MODELS[name]
        with made_once(folder / name) as missing:
            if missing:
                trained = train(data(), folder / name, *options, updates=updates)
                (folder / (name + ".json")).write_text(json.dumps(trained.log))
        return Trained(folder / name, json.loads((folder / (name + ".json")).read_text()))

    return model
