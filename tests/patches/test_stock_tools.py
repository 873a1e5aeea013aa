"""Every stock tool reads the checkpoints that fairseq-train writes, with ``--user-dir`` and without other means."""

from pathlib import Path

import pytest
import torch
from in_process import run_tool
from training import generate, train
from zoo import Zoo

from cli import TINY, USER_DIR, run_cli


@pytest.mark.parametrize("arch", ["lstm", "lstm_soft"])
def test_generate_with_an_ensemble_and_alignments(arch: str, zoo: Zoo, tiny_data: Path) -> None:
    found = generate(tiny_data, f"{zoo(arch).best}:{zoo(arch).last}", "--beam", 2, "--print-alignment", "hard")
    assert len(found["H"]) == len(found["A"]) == 40


def test_meters_of_bleu_are_read(tiny_data: Path, tmp_path: Path) -> None:
    """The task's own BLEU keeps numpy arrays among the meters of a checkpoint; training goes on with them."""
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 10}', "--best-checkpoint-metric", "bleu"]
    for updates in (4, 6):
        log = train(tiny_data, tmp_path, *TINY["transformer"], *bleu, updates=updates).log
    assert "Loaded checkpoint" in log and f"num_updates {updates}" in log


def test_interactive_validate_and_finetune(zoo: Zoo, tiny_data: Path, tmp_path: Path) -> None:
    checkpoint = zoo("lstm_soft").last
    command = ["fairseq-interactive", tiny_data, "--user-dir", USER_DIR, "--path", checkpoint, "--beam", 2]
    answer = run_tool(*command, "--max-len-b", 10, stdin="ama bel\n\nesk\n").stdout
    sources = [line for line in answer.splitlines() if line.startswith("S-")]
    assert sources == ["S-0\tama bel", "S-1\t", "S-2\tesk"]  # an empty line loses nothing
    assert answer.count("\nH-") == 3

    command = ["fairseq-validate", tiny_data, "--user-dir", USER_DIR, "--task", "translation"]
    assert "| loss " in run_tool(*command, "--path", checkpoint, "--max-tokens", 500).stdout.splitlines()[-1]

    options = [*TINY["lstm_soft"], "--lr", 0.0, "--finetune-from-model", checkpoint]
    tuned = train(tiny_data, tmp_path, *options, updates=2)
    assert f"loading pretrained model from {checkpoint}" in tuned.log
    # at learning rate zero the parameters that were loaded are those that are saved
    first, second = (torch.load(path)["model"] for path in (checkpoint, tuned.last))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_plugin_is_what_makes_it_work(zoo: Zoo, tiny_data: Path) -> None:
    done = run_cli("fairseq-generate", tiny_data, "--path", zoo("lstm").last, check=False)
    assert done.returncode != 0 and "argparse.Namespace" in done.stderr, (
        "stock fairseq reads its own checkpoints: loading.allow_checkpoint_types may go"
    )
