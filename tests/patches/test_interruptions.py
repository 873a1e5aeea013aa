"""A training that is interrupted ends as one that is not; what has ended is left alone, what is not there refused."""

import re
import shutil
import sys
from types import SimpleNamespace

import fairseq_cli.train
import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.data.iterators import EpochBatchIterator, StreamingEpochBatchIterator
from fairseq.trainer import Trainer
from in_process import run_tool
from resuming import command, differences, train_and_die

from fairseq_attn_plugin.patches import resuming
from fairseq_attn_plugin.patches.wrapping import resolve

from cli import TINY, USER_DIR, run_cli

# ---- the whole


SCHEDULES = ["--objective", "elbo-enum", "--soft-updates", 4, "--kl-warmup-updates", 4]


@pytest.mark.parametrize(("arch", "options"), [("transformer", []), ("lstm_latent", SCHEDULES), ("lstm_agreement", [])])
def test_ends_as_an_uninterrupted_training(arch, options, tiny_data, tmp_path):
    options = ["--max-epoch", 2, *options]
    whole, parts = (command(tiny_data, arch, tmp_path / name, *options) for name in ("whole", "parts"))
    run_tool(*whole)
    # before the first checkpoint; after one within an epoch, and after one at its end
    for update in (2, 5, 6):
        train_and_die(parts, update)
    run_tool(*parts)
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "checkpoint1.pt", "checkpoint_2_9.pt"):
        assert differences(tmp_path / "whole" / name, tmp_path / "parts" / name) == []


def test_averages_of_parameters(tiny_data, tmp_path):
    """Every second update is averaged. Averages begin with the parameters of a checkpoint that has none."""
    averaging = ["--max-epoch", 1, "--store-ema", "--ema-update-freq", 2]
    whole, parts = (command(tiny_data, "lstm_soft", tmp_path / name, *averaging) for name in ("whole", "parts"))
    run_tool(*whole)
    train_and_die(parts, 4)  # after the checkpoint of update 3
    run_tool(*parts)
    last = [tmp_path / name / "checkpoint_last.pt" for name in ("whole", "parts", "plain", "fine")]
    assert differences(*last[:2]) == []
    run_tool(*command(tiny_data, "lstm_soft", last[2].parent, "--max-update", 1))
    fine = ["--finetune-from-model", last[2], "--max-update", 1, "--store-ema", "--ema-decay", 1]
    run_tool(*command(tiny_data, "lstm_soft", last[3].parent, *fine))
    plain, tuned = (load_checkpoint_to_cpu(str(path)) for path in last[2:])
    assert all(torch.equal(plain["model"][name], mean) for name, mean in tuned["extra_state"]["ema"].items())
    assert not torch.equal(*(state["model"]["encoder.embed_tokens.weight"] for state in (plain, tuned)))


# ---- batch order


@pytest.fixture
def sentences(tiny_data, tmp_path, monkeypatch):
    """Trains, and returns the sentences of each update, without those that are done again after a kill."""

    def run(folder, *options, kills=()):
        seen = {}

        def train_step(self, samples, *args, **kwargs):
            before = self.get_num_updates()
            result = step(self, samples, *args, **kwargs)
            given = [sample["id"].tolist() for sample in samples]
            assert seen.setdefault(before, given) == given
            return result

        with monkeypatch.context() as patched:
            step = Trainer.train_step
            patched.setattr(Trainer, "train_step", train_step)
            words = command(tiny_data, "lstm_soft", tmp_path / folder, "--disable-validation", *options)
            for update in kills:
                train_and_die(words, update)
            run_tool(*words)
        return [seen[update] for update in range(len(seen))]

    return run


@pytest.mark.parametrize(
    "options",
    [("--curriculum", 2, "--update-freq", "2,1,3"), ("--update-epoch-batch-itr", True)],
    ids=lambda options: options[0][2:],
)
def test_an_interrupted_training_has_the_sentences_of_a_whole_one(sentences, options):
    whole = sentences("whole", *options)
    assert sentences("parts", *options, kills=(5, 8)) == whole
    assert len(whole) >= 8 and len(set(map(str, whole))) > 1


def test_an_uninterrupted_training_has_the_order_of_stock_fairseq(sentences, monkeypatch):
    ours = sentences("ours")
    for target in resuming.BATCH_ORDER.wraps:
        owner, name = resolve(target)
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__)
    assert sentences("stock") == ours


def test_curriculum_ends(sentences):
    """Sorted batches in the first epoch, shuffled ones in the others."""
    updates = sentences("run", "--curriculum", 1)
    first, second, third = (updates[start : start + 5] for start in (0, 5, 10))
    assert sorted(map(str, first)) == sorted(map(str, second)) == sorted(map(str, third))
    assert len({str(epoch) for epoch in (first, second, third)}) == 3


def restored(get_train_iterator, **attributes):
    """A trainer that has the iterator of its fourth epoch, and the iterator."""
    trainer = SimpleNamespace(**attributes)
    trainer.cfg = SimpleNamespace(distributed_training=SimpleNamespace(fix_batches_to_gpus=False))
    wrapped = resuming.BATCH_ORDER.wraps["fairseq.trainer:Trainer.get_train_iterator"](get_train_iterator)
    return trainer, wrapped(trainer, 4)


def test_streams_have_no_batches():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1, 2])

    stream = StreamingEpochBatchIterator(Stream())
    assert restored(lambda *_, **__: stream)[1] is stream and stream.epoch == 4


def test_batches_that_are_made_for_each_epoch():
    """A task with ``rebuild_batches`` gives a function of the epoch in the place of batches."""

    class Data(torch.utils.data.Dataset):
        epoch = 1

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __getitem__(self, index):
            return index

    def get_train_iterator(self, epoch, load_dataset=True):
        self.loaded.append((epoch, load_dataset))
        return iterator

    iterator = EpochBatchIterator(Data(), list, lambda data, epoch: [[epoch], [data.epoch]])
    assert iterator.first_batch == [1]
    trainer, found = restored(get_train_iterator, loaded=[])
    assert found is iterator and trainer.loaded == [(1, True), (4, False)] and iterator.frozen_batches == ([4], [4])


# ---- lr schedule


# the loss falls, which is worse and worse where it is to be maximised
FALLS = "--maximize-best-checkpoint-metric --lr-shrink 0.5"


@pytest.fixture
def short(tiny_data, tmp_path):
    """Trains to an epoch; returns what it printed."""

    def run(epochs, *options):
        command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd"]
        command += ["--batch-size", 100, "--max-epoch", epochs, "--no-epoch-checkpoints", "--patience", 3]
        return run_tool(*command, "--save-dir", tmp_path / "run", *options).stdout

    return run


def test_a_training_that_goes_on_with_other_options_of_the_model_says_so(short):
    assert "other options" not in short(1) + short(2)
    changed = "other options of the model: --dropout 0.5 (was 0.2), --attention-normalizer sparsemax (was softmax)"
    assert changed in short(3, "--dropout", 0.5, "--attention-normalizer", "sparsemax")


def test_a_schedule_that_starts_again_does_not_have_the_metric(short):
    def rate(epochs, *options):
        schedule = ["--lr-scheduler", "reduce_lr_on_plateau", *FALLS.split(), "--patience", 0]
        (found,) = re.findall(r"\| train \|.*\| lr ([\d.e-]+)", short(epochs, *schedule, *options))
        return float(found)

    rate(1, "--lr", 0.5)
    assert rate(2, "--lr", 0.5, "--optimizer-overrides", "{'lr': 0.4}") == 0.4
    assert rate(3, "--lr", 0.3, "--reset-optimizer") == 0.3


def test_a_schedule_whose_epochs_are_counted_anew(tiny_data, tmp_path):
    """The first epoch has the rate of the first epoch, and not that of the one in which the checkpoint was written."""
    words = [*command(tiny_data, "lstm_soft", tmp_path), "--lr", 0.5, "--force-anneal", 1, "--lr-shrink", 0.1]
    train_and_die(words, 10)  # after the checkpoint of update 9, within the second epoch
    log = run_tool(*words, "--reset-dataloader", "--max-epoch", 1).stdout
    assert re.findall(r"\| train \|.*\| lr ([\d.e-]+)", log) == ["0.05"]


@pytest.mark.parametrize(
    "options",
    [
        "polynomial_decay --warmup-updates 4 --force-anneal 2 --lr 0.01,0.005 --total-num-update 12",
        "reduce_lr_on_plateau --lr-patience 2 --warmup-updates 2 " + FALLS,
        "decay_after_rise " + FALLS,
    ],
    ids=lambda options: options.split()[0],
)
def test_every_update_has_the_rate_of_an_uninterrupted_training(options, tiny_data, tmp_path, monkeypatch):
    """Within an epoch and at its end, with warm-up and with epochs that count; each rate is taken before its update."""
    rates, step = {}, Trainer.train_step

    def train_step(self, *args, **kwargs):
        rates.setdefault(self.get_num_updates(), []).append(self.get_lr())
        return step(self, *args, **kwargs)

    monkeypatch.setattr(Trainer, "train_step", train_step)
    words = [*command(tiny_data, "lstm_soft", tmp_path / "whole"), "--max-epoch", 3, "--max-update", 14]
    words += ["--lr-scheduler", *options.split()]
    run_tool(*words)
    words += ["--save-dir", tmp_path / "parts"]
    for update in (8, 11):
        train_and_die(words, update)
    run_tool(*words)
    assert all(len(set(of_an_update)) == 1 < len(of_an_update) for of_an_update in rates.values()), rates
    assert len(rates) == 14 and len({of_an_update[0] for of_an_update in rates.values()}) > 1
    assert differences(*(tmp_path / folder / "checkpoint_last.pt" for folder in ("whole", "parts"))) == []


# ---- patience


@pytest.fixture
def epochs(short):
    """Trains to an epoch, with a learning rate at which nothing improves; returns the epochs that ended."""

    def run(last, *options):
        return [int(epoch) for epoch in re.findall(r"end of epoch (\d+) ", short(last, "--lr", 0.0, *options))]

    return run


def test_counts_on_after_each_interruption(epochs, tmp_path):
    assert epochs(2) == [1, 2]
    assert epochs(3) == [3]
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    assert epochs(9) == [4], "the best epoch and three without an improvement"
    fine_tuned = ["--finetune-from-model", tmp_path / "other" / "checkpoint_last.pt", "--save-dir", tmp_path / "new"]
    assert epochs(9, *fine_tuned) == [1, 2, 3, 4], "a fine-tuning counts from zero"


def test_the_best_of_all_validations_is_kept(epochs, tmp_path):
    """Here the first one, after which nothing is saved: the loss falls, and the highest one is wanted."""
    options = ["--validate-interval-updates", 1, "--maximize-best-checkpoint-metric", "--batch-size", 20]
    options += ["--patience", 99, "--lr", 1.0]
    epochs(1, *options)
    stop = fairseq_cli.train.should_stop_early
    best, count = stop.best, stop.num_runs
    saved = load_checkpoint_to_cpu(str(tmp_path / "run" / "checkpoint_last.pt"))["extra_state"]
    assert best > saved["best"] and count > 0
    assert epochs(1, *options) == [], "nothing is left to do"
    assert (stop.best, stop.num_runs) == (best, count)


# ---- several trainings in one process


def test_a_worse_training_writes_its_best_checkpoint(short, tmp_path):
    """The second training, which learns nothing, does not beat the first."""
    for folder, rate in (("good", 1.0), ("bad", 1e-9)):
        short(1, "--lr", rate, "--save-dir", tmp_path / folder)
        assert (tmp_path / folder / "checkpoint_best.pt").exists(), folder


def test_each_training_has_its_own_curves(short, tmp_path, monkeypatch):
    """hydra changes into the folder of a job, where --tensorboard-logdir may be relative."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        short(1, "--lr", 1.0, "--save-dir", tmp_path / folder, "--tensorboard-logdir", "curves")
        assert len(list((tmp_path / folder / "curves").glob("train/events.*"))) == 1, folder


# ---- what has ended, and what is not there


@pytest.fixture
def words(tiny_data, tmp_path):
    def of(*options):
        return command(tiny_data, "lstm_soft", tmp_path / "run", "--max-epoch", 1, *options)

    return of


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_mistyped_file_to_go_on_from_is_refused(words, tmp_path):
    error = run_tool(*words("--restore-file", tmp_path / "run" / "chekpoint1.pt"), fails=True).error
    assert error.startswith(f"--restore-file {tmp_path}/run/chekpoint1.pt: no such file; leave it out")
    error = run_tool(*words("--continue-once", "chekpoint1.pt"), fails=True).error
    assert error == f"--continue-once chekpoint1.pt: no such file; leave it out to begin in --save-dir {tmp_path}/run"
    assert list((tmp_path / "run").iterdir()) == []


def test_a_training_that_has_ended_as_a_module(words, tmp_path):
    """The functions of fairseq_cli.train are those of the module __main__ then."""
    _, *options = words("--max-epoch", 9, "--validate-interval-updates", 1, "--patience", 2, "--lr", 1e-30)
    run_cli(sys.executable, "-m", "fairseq_cli.train", *options)
    saved = times(tmp_path / "run")
    done = run_cli(sys.executable, "-m", "fairseq_cli.train", *options)
    assert "nothing to do" in done.stdout + done.stderr and saved == times(tmp_path / "run")


ENDS = (
    ("--max-update", 3),
    ("--max-update", 3, "--no-save-optimizer-state"),
    ("--patience", 2, "--lr", 1e-30),
    ("--stop-time-hours", 1e-9),
)


@pytest.mark.parametrize("limit", ENDS)
def test_a_training_that_has_ended_trains_no_further(limit, words, tmp_path):
    options = ["--max-epoch", 9, "--validate-interval-updates", 1, *limit]
    updates = {"--max-update": 3, "--patience": 3, "--stop-time-hours": 1}[limit[0]]
    run_tool(*words(*options))
    before = times(tmp_path / "run")
    log = run_tool(*words(*options)).stdout
    lines = re.findall(r"nothing to do: the training in (\S+) has ended after (\d+) updates by (\S+) ", log)
    assert lines == [(str(tmp_path / "run"), str(updates), limit[0])]
    assert times(tmp_path / "run") == before


def test_updates_of_another_training_without_its_optimizers_state_do_not_count(words, tmp_path):
    options = ["--max-epoch", 9, "--max-update", 3, "--no-save-optimizer-state"]
    run_tool(*words(*options))
    other = ["--save-dir", tmp_path / "new", "--restore-file", tmp_path / "run" / "checkpoint_last.pt"]
    assert "nothing to do" not in run_tool(*words(*options, *other)).stdout
    assert (tmp_path / "new" / "checkpoint_last.pt").is_file()


@pytest.mark.parametrize("option", ["--restore-file", "--continue-once"])
def test_the_file_whose_training_has_ended_is_named(option, words, tmp_path):
    """The folder of the new training is empty."""
    run_tool(*words())
    log = run_tool(*words("--save-dir", tmp_path / "new", option, tmp_path / "run" / "checkpoint_last.pt")).stdout
    assert f"nothing to do: the training in {tmp_path}/run/checkpoint_last.pt has ended after " in log
    assert list((tmp_path / "new").iterdir()) == []


def test_the_time_of_a_training_is_not_that_of_the_one_it_begins_with(words, tmp_path):
    run_tool(*words())
    state = torch.load(tmp_path / "run" / "checkpoint_last.pt", weights_only=False)
    state["extra_state"]["previous_training_time"] = 7200.0
    torch.save(state, tmp_path / "long.pt")
    fine = ["--save-dir", tmp_path / "fine", "--finetune-from-model", tmp_path / "long.pt", "--stop-time-hours", 1]
    assert "nothing to do" not in run_tool(*words(*fine)).stdout
    assert (tmp_path / "fine" / "checkpoint_last.pt").is_file()
