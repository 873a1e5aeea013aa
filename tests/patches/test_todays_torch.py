"""Stock tools with today's torch and numpy: checkpoints, two processes, buckets of lengths, ``--bf16``."""

import json
from unittest import mock

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import LanguagePairDataset, data_utils
from fairseq.data.bucket_pad_length_dataset import get_buckets
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.trainer import Trainer
from in_process import run_tool
from models_for_tests import data_parallel, dictionary
from resuming import differences
from training import train

from cli import TINY, USER_DIR, start_cli

# ---- checkpoints


def test_meters_of_bleu_are_read(tiny_data, tmp_path):
    """The task's own BLEU keeps numpy arrays among the meters of a checkpoint; training goes on with them."""
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}', "--best-checkpoint-metric", "bleu"]
    bleu += ["--maximize-best-checkpoint-metric"]
    for updates in (1, 2):
        log = train(tiny_data, tmp_path, *TINY["transformer"], *bleu, updates=updates).log
    assert "Loaded checkpoint" in log and f"num_updates {updates}" in log


# ---- data-parallel training: two processes on the CPU do what one does with the same batches

ARCHITECTURES = ["lstm_adm", "lstm_agreement"]
# The first training makes the process group, the others find it.
RANK = """
import json, sys
from fairseq_cli.train import cli_main
for command in json.load(open(sys.argv[1])):
    sys.argv = [*command, "--distributed-rank", sys.argv[-1]]
    cli_main()
"""


def command(data, arch, save_dir, *others):
    """Plain SGD without dropout or clipping: the update is linear in the gradient, so that sums can be compared."""
    base = ["fairseq-train", data, "--user-dir", USER_DIR, *TINY[arch], "--dropout", 0, "--optimizer", "sgd"]
    base += ["--lr", 0.5, "--max-tokens", 100000, "--max-update", 4, "--save-dir", save_dir, "--batch-size", 40]
    base += ["--no-progress-bar", "--cpu", "--num-workers", 0, "--disable-validation", "--save-interval-updates", 2]
    return [str(item) for item in [*base, *others]]


@pytest.fixture(scope="module")
def trained_on_two(tiny_data, tmp_path_factory):
    """The folder with the checkpoints of each architecture and of resumed trainings, and the logs of the two ranks."""
    folder = tmp_path_factory.mktemp("two")
    given = ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--distributed-world-size", 2]
    # fairseq's own spawning asks for GPUs
    given += ["--distributed-init-method", (folder / "rendezvous").as_uri(), "--distributed-no-spawn"]
    commands = [command(tiny_data, arch, folder / arch, *given) for arch in ARCHITECTURES]
    given += ["--dropout", 0.2, "--optimizer", "adam", "--lr", 0.01, "--max-update", 9]  # five in an epoch
    for arch in ARCHITECTURES:
        middle = ["--restore-file", folder / "whole" / arch / "checkpoint_2_6.pt"]
        commands.append(command(tiny_data, arch, folder / "whole" / arch, *given))
        commands.append(command(tiny_data, arch, folder / "resumed" / arch, *given, *middle))
    (folder / "rank.py").write_text(RANK)
    (folder / "commands.json").write_text(json.dumps(commands))
    ranks = [start_cli(folder / "rank.py", folder / "commands.json", rank) for rank in range(2)]
    try:
        logs = [rank.communicate(timeout=400)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, log in zip(ranks, logs):
        assert rank.returncode == 0, log[-4000:]
    return folder, logs


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_two_processes_train_as_one(arch, trained_on_two, tiny_data, tmp_path):
    """Up to float32 rounding, against one process with the same 2 x 40 sentences by --update-freq 2.

    fairseq deals the batches of an epoch out in turn, to the ranks there, to the parts of an update here.
    """
    run_tool(*command(tiny_data, arch, tmp_path, "--update-freq", 2))
    paths = [tmp_path / "checkpoint_1_4.pt", *(trained_on_two[0] / arch / f"checkpoint_1_{n}.pt" for n in (4, 2))]
    one, two, before = (torch.load(path)["model"] for path in paths)
    torch.testing.assert_close(one, two, rtol=0, atol=2e-6)
    moved = max(float((one[name].float() - before[name].float()).abs().max()) for name in one)
    assert moved > 1e-3, "training moved nothing: the comparison says nothing"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_resuming_on_two_processes(arch, trained_on_two):
    """Rank 0 reads the checkpoint and sends it to rank 1, which stock fairseq on today's torch cannot receive.

    The resumed training ends as the uninterrupted one, bit by bit, although it begins within the second epoch.
    """
    folder, logs = trained_on_two
    assert any(f"Loaded checkpoint {folder / 'whole' / arch / 'checkpoint_2_6.pt'}" in log for log in logs)
    assert differences(*(folder / kind / arch / "checkpoint_last.pt" for kind in ("whole", "resumed"))) == []


LAUNCHED = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "RANK": "3"}


@pytest.mark.parametrize(
    ("gpus", "environment", "words", "expected"),
    [
        (0, LAUNCHED, ["--distributed-world-size", "2"], ("env://", 4, 3, True, "gloo", "legacy_ddp")),
        (0, LAUNCHED, ["--distributed-world-size", "1"], None),  # as in stock fairseq
        (0, {}, ["--distributed-init-method", "tcp://a:1"], ("tcp://a:1", 1, 0, True, "gloo", "legacy_ddp")),
        (2, LAUNCHED, ["--distributed-world-size", "2"], ("env://", 4, 3, True, "nccl", "pytorch_ddp")),
    ],
)
def test_how_processes_are_started(gpus, environment, words, expected, monkeypatch):
    """Without a GPU each process is a rank of its own; stock divides by zero, or ends at once and trains nothing."""
    found = []

    def joined(device, main, cfg, options):
        given = cfg.distributed_training
        found.append((given.distributed_init_method, given.distributed_world_size, given.distributed_rank))
        found[0] += (given.distributed_no_spawn, given.distributed_backend, given.ddp_backend)

    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _device: None)
    monkeypatch.setattr(distributed_utils, "distributed_main", joined)
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    words = ["data", "--arch", "lstm", "--optimizer", "adam", *words]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
    distributed_utils.call_main(cfg, lambda _cfg: found.append(None))
    assert found == [expected]


def test_a_process_without_a_batch_left_validates():
    task = TranslationTask(TranslationConfig(eval_bleu=True), dictionary(), dictionary())
    assert task.valid_step([], torch.nn.Linear(1, 1), None) == (0, 0, {})


@pytest.mark.parametrize(
    ("samples", "words", "ignored"), [([7, 0], 7, False), ([0, 7], 7, False), ([7, 8], 15, False), ([0, 0], 0, True)]
)
def test_empty_batches_of_an_update_do_not_count(samples, words, ignored):
    """As those of a process that has fewer batches than others; words are those of the dummy batch, 5, otherwise."""
    seen, counted = {}, []

    def train_step(sample, ignore_grad=False, **_):
        counted.append(0 if ignore_grad else sample["words"])
        return torch.tensor(1.0), sample["words"], {}

    def aggregate(logs, size, *_, ignore):
        seen.update(words=float(size), ignored=ignore)
        raise InterruptedError

    trainer = mock.MagicMock(data_parallel_world_size=2, is_fsdp=False, tpu=False, cuda=False)
    trainer._prepare_sample = lambda sample: (sample or {"words": 5}, not sample)
    trainer.task.train_step, trainer._aggregate_logging_outputs = train_step, aggregate
    with pytest.raises(InterruptedError):
        Trainer.train_step(trainer, [{"words": one} if one else [] for one in samples])
    assert seen == {"words": words, "ignored": ignored} and sum(counted) == words


def test_data_of_the_processes_are_gathered_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with data_parallel(torch.nn.Linear(1, 1), tmp_path):
        assert distributed_utils.all_gather_list({"loss": 1.5}, torch.distributed.group.WORLD) == [{"loss": 1.5}]


# ---- buckets

LENGTHS = [2, 9, 4, 4, 7, 3, 12, 5, 5, 6, 8, 2]


@pytest.mark.parametrize("left", [False, True])
def test_a_data_set_with_buckets_has_every_sentence_in_few_shapes(left):
    """Buckets are lower percentiles."""
    sizes = np.array(LENGTHS)
    assert get_buckets(sizes, 3).tolist() == [4, 6, 12] and get_buckets(sizes, 1).tolist() == [12]
    words = dictionary()
    sentences = [torch.cat([torch.arange(4, 3 + length), torch.tensor([2])]) for length in LENGTHS]
    data = LanguagePairDataset(sentences, sizes, words, sentences, sizes, words, num_buckets=3, left_pad_target=left)
    with data_utils.numpy_seed(1):
        batches = data.batch_by_size(data.ordered_indices(), max_tokens=24)
    assert sorted(index for batch in batches for index in batch) == list(range(len(LENGTHS)))
    for batch in batches:
        found = data.collater([data[index] for index in batch])
        assert found["net_input"]["src_tokens"].size(1) in (4, 6, 12)
        assert found["net_input"]["src_lengths"].tolist() == sorted((LENGTHS[i] for i in found["id"]), reverse=True)
        steps, real = found["net_input"]["prev_output_tokens"], found["target"].ne(words.pad())
        assert steps.ne(words.pad()).equal(real) and real[:, -1 if left else 0].all()
        assert steps.gather(1, real.int().argmax(1, keepdim=True)).eq(words.eos()).all()


# ---- bfloat16


def tpu(*words):
    words = ["data", "--arch", "lstm", "--optimizer", "adam", *words]
    return options.parse_args_and_arch(options.get_training_parser(), words).tpu


@pytest.mark.parametrize("option", ["--bf16", "--memory-efficient-bf16"])
def test_with_a_gpu(option, monkeypatch):
    assert tpu(option)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not tpu(option) and not tpu()
    assert tpu(option, "--tpu") and tpu(option, "--cpu")


def test_defaults_that_are_suppressed_have_no_precision():
    words = ["data", "--path", "x", "--task", "translation"]
    parsed = options.parse_args_and_arch(options.get_validation_parser(), words, suppress_defaults=True)
    assert not hasattr(parsed, "bf16")
