"""The comparison with other toolkits: its batches, configurations and table, and the driver with what is installed."""

import itertools
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from cli import REPO, run_cli

sys.path.insert(0, str(REPO / "benchmarks"))

from peers import run
from peers.report import markdown, ratio, speed
from peers.systems import SYSTEMS, settings
from peers.workers.fairseq_worker import System

PEERS = REPO / "benchmarks" / "peers"
FAKE = """
class System:
    def __init__(self, settings):
        print("a tool that prints")
        self.seen = []

    def train(self, batch):
        self.seen.append(batch)
        return len(batch)

    def translate(self, batch):
        return [str(number) for number in batch]

    def save(self, path):
        open(path, "w").write(str(self.seen))

    def parameters(self):
        return 7

    def versions(self):
        return {"fake": "1"}
"""


@pytest.fixture
def recipe_data(tiny_data: Path, tmp_path: Path) -> Path:
    """The tiny corpus in the folders and languages of a prepared recipe."""
    data = tmp_path / "data"
    for folder, source in (("bin", tiny_data), ("text", tiny_data.parent / "text")):
        (data / folder).mkdir(parents=True)
        for file in source.iterdir():
            shutil.copy(file, data / folder / file.name.replace("xx", "de").replace("yy", "en"))
    shutil.copytree(data / "text", data / "segmented")
    return data


def test_an_epoch_of_batches_has_every_sentence_once_within_the_words():
    lengths = [(n % 7 + 1, n % 5 + 2) for n in range(200)]
    batches = list(itertools.islice(run.training_batches(lengths, 50, seed=1), 60))
    epoch, seen = [], set()
    for batch in batches:
        if seen & set(batch):
            break
        epoch.append(batch)
        seen |= set(batch)
    assert seen == set(range(200))
    assert all(len(batch) * max(max(lengths[n]) for n in batch) <= 50 for batch in epoch)
    assert batches[: len(epoch)] != batches[len(epoch) : 2 * len(epoch)]  # another order in the next epoch
    assert batches == list(itertools.islice(run.training_batches(lengths, 50, seed=1), 60))


def test_configurations_name_the_same_sizes_and_words(recipe_data, tmp_path):
    def content(name, checkpoint=""):
        return settings(name, recipe_data, tmp_path, 3, checkpoint, "--lenpen 1")

    joey = yaml.safe_load(Path(content("joeynmt")["config"]).read_text())
    opennmt = yaml.safe_load(Path(content("OpenNMT-py")["config"]).read_text())
    assert joey["model"]["decoder"]["hidden_size"] == opennmt["hidden_size"] == 256
    assert joey["random_seed"] == opennmt["seed"] == 3
    assert joey["training"]["batch_size"] == opennmt["batch_size"] == 2000
    assert joey["data"]["src"]["voc_file"] == opennmt["src_vocab"]
    words = Path(opennmt["src_vocab"]).read_text().split("\n")[:-1]
    assert set(words) == set((recipe_data / "text" / "train.de").read_text().split())
    assert "lstm_soft" in content("lstm_soft")["options"] and "--lenpen" not in content("lstm_soft")["options"]
    assert content("lstm_soft", "a.pt")["options"][-2:] == ["--lenpen", "1"]


def test_ratios_pair_the_rounds():
    fast = [{"cpu": 1.0, "wall": 2.0, "words": 10}, {"cpu": 2.0, "wall": 4.0, "words": 20}]
    slow = [{"cpu": 3.0, "wall": 3.0, "words": 10}, {"cpu": 4.0, "wall": 4.0, "words": 20}]
    assert ratio(fast, slow) == (2.5, 2.0, 3.0)
    assert speed(fast) == 10 and speed(fast, "wall") == 5
    common = {"parameters": 1234, "versions": {"torch": "2"}}
    facts = {"command": "run.py", "machine": "a processor", "baselines": ["slow", "absent"]}
    facts["settings"] = {"tokens": "50", "updates": "2"}
    trained = {"slow": {**common, "rounds": slow}, "fast": {**common, "rounds": fast}}
    translated = {"slow": {**common, "rounds": slow, "bleu": 12.345, "words_out": 9}}
    text = markdown({"train": {**facts, "systems": trained}, "translate": {**facts, "systems": translated}})
    assert "| `fast` | 1,234 | 10 | 5 | 2.50 (2.00-3.00) |" in text
    assert "| 12.35 | 9 |" in text and "absent" not in text


def test_a_worker_answers_and_its_failure_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "fake_worker.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(run, "python_of", lambda tool: sys.executable)
    workers, systems = run.open_workers({"one": ("fake", {"seed": 1}), "two": ("fake", {})}, tmp_path)
    assert "left out: two stopped: KeyError: 'seed'" in capsys.readouterr().err and list(systems) == ["one"]
    assert systems["one"]["parameters"] == 7 and systems["one"]["versions"]["fake"] == "1"
    answers = run.rounds(workers, [{"do": "train", "batches": [[1, 2], [3]], "words": 3}])
    assert answers["one"][0]["loss"] == 1.5 and answers["one"][0]["cpu"] >= 0
    assert workers[0].ask(do="translate", batches=[[4], [5]])["lines"] == [["4"], ["5"]]
    workers[0].ask(do="save", path=str(tmp_path / "saved"))
    assert (tmp_path / "saved").read_text() == "[[1, 2], [3]]"
    with pytest.raises(run.PeerError, match="one stopped: .*'path'"):
        workers[0].ask(do="save")


@pytest.mark.parametrize("unset", ["environments", "data"])
def test_what_is_missing_is_one_line(unset, recipe_data, tmp_path):
    data = recipe_data if unset == "environments" else tmp_path / "nowhere"
    command = (sys.executable, PEERS / "run.py", "--data", data, "--work", tmp_path, "--systems", "joeynmt")
    done = run_cli(*command, env={"PEERS_ENVS": str(tmp_path / "envs")}, check=False)
    wanted = "setup.sh" if unset == "environments" else "multi30k prepare"
    assert done.returncode == 1 and wanted in done.stderr and done.stderr.count("\n") == 1


def test_the_worker_of_fairseq_trains_and_translates(recipe_data, tmp_path):
    def system(checkpoint=""):
        return System(settings("lstm_soft", recipe_data, tmp_path, 3, checkpoint, ""))

    trained, checkpoint = system(), str(tmp_path / "checkpoint.pt")
    assert trained.train([0, 1, 2]) > 0 and trained.parameters() > 1000
    trained.save(checkpoint)
    assert len(system(checkpoint).translate([1, 0])) == 2


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["joeynmt", "OpenNMT-py"])
def test_systems_train_and_translate_in_turns(peer, recipe_data, tmp_path):
    names = [peer, "lstm_soft"]
    try:
        run.python_of(SYSTEMS[peer].tool)
    except run.PeerError as error:
        pytest.skip(str(error))
    out = tmp_path / "result"
    command = [sys.executable, PEERS / "run.py", "--data", recipe_data, "--work", tmp_path, "--out", out]
    command += "--updates 3 --per-round 1 --translations 1 --sentences 5 --tokens 200 --systems".split()
    done = run_cli(*command, *names, env={"PEERS_ENVS": os.environ.get("PEERS_ENVS", "")})
    report = json.loads(out.with_suffix(".json").read_text())
    assert list(report["train"]["systems"]) == names and set(names) <= set(report["translate"]["systems"])
    for system in report["train"]["systems"].values():
        assert len(system["rounds"]) == 2 and system["parameters"] > 1000
    assert all(len((tmp_path / f"{name}.hyp").read_text().splitlines()) == 5 for name in names)
    assert out.with_suffix(".md").read_text() in done.stdout
