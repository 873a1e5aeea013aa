"""``--help`` shows the options of the architecture, and a slip is one line."""

from typing import Any

import pytest
from fairseq import options

import fairseq_attn_plugin  # noqa: F401
from fairseq_attn_plugin import attention as attentions
from fairseq_attn_plugin.patches.command_lines import explain_slip

from cli import USER_DIR, run_cli

# ---- help pages


def page(capsys, *words: str, parser: Any = None) -> str:
    with pytest.raises(SystemExit) as end:
        options.parse_args_and_arch(parser or options.get_training_parser(), [*words, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "``" not in shown and ":`" not in shown  # marks of reStructuredText
    return shown


def group(text: str, title: str) -> str:
    return text.split(f"\n{title}:\n")[1].split("\n\n")[0]


def test_options_are_in_groups_with_the_values_of_the_architecture(capsys):
    text = page(capsys, "--arch", "lstm_adm")
    own = " ".join(group(text, "options of --arch lstm_adm").split())
    assert (
        "attention mechanism; one of aqt, " in own
        and "structured (default: mqt)" in own
        and "encoder embedding dimension (default: 256)" in own
        and "per direction (default: 256)" in own  # --encoder-embed-dim in other architectures
        and "as in 1 (default: 1.0)" in own
    )
    assert "--adm-pairs" in group(text, "options of --attention aqt, mqt") and "--adm-pairs" not in own
    assert "Model-specific configuration" not in text


def test_every_option_of_every_mechanism_stands_once_below_its_mechanisms(capsys):
    text = page(capsys, "data", "--arch", "attn_lstm").split("\noptions of --arch attn_lstm:\n")[1]
    for name in attentions.names():
        for option in attentions.options_of(attentions.attention_class(name).Config):
            flag = "\n  --" + option.replace("_", "-")
            assert len([part for part in text.split("\n\n") if flag + " " in part or flag + "\n" in part]) == 1, flag
            title = next(line for line in text.split(flag)[0].splitlines()[::-1] if line.startswith("options of"))
            assert name in title.rstrip(":").split("--attention ")[1].split(", ")


def test_options_of_others_and_pages_of_others(capsys):
    text = page(capsys, "--arch", "lstm_latent", "--criterion", "latent_alignment", "--task", "translation")
    assert "--objective" in text and "--source-lang" in text
    assert "--attention-hidden-dim" in group(text, "options of --attention-score additive")
    assert "--attention-bias-window" in group(text, "options of --attention-bias fertility, markov")
    assert "one of entmax15, fusedmax, softmax, sparsemax" in " ".join(text.split())
    text = page(capsys, "--arch", "lstm")
    assert "embedding dimension (default: 512)" in group(text, "options of --arch lstm")
    assert "--arch" in page(capsys)
    assert "--path" in page(capsys, parser=options.get_validation_parser())  # which has no default task
    generating = options.get_generation_parser()
    generating.add_argument("--arch", default="wav2vec2")  # as fairseq_cli.generate does
    text = page(capsys, parser=generating)
    assert "--latent-topk" in text and "--source-lang" in text and "--dropout" not in text
    own = group(page(capsys, "--arch", "han"), "options of --arch han")
    assert "mechanism; one of aqt, mqt, sigmoid, soft, structured (default: soft)" in " ".join(own.split())


# ---- typing errors


OPTIONS = ["--attention", "--attention-score", "--arch", "-a", "--dropout", "--lr"]
CHOICES = "argument --arch/-a: invalid choice: '{}' (choose from 'lstm', 'lstm_soft', 'lstm_adm')"
YAML = "a YAML file is for fairseq-hydra-train --config-dir FOLDER --config-name NAME"
NONE = "there is no such option with these settings"


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (CHOICES.format("lstm_sfot"), "--arch lstm_sfot: is unknown; did you mean lstm_soft?"),
        (CHOICES.format("bert"), "--arch bert: is unknown; choose from lstm, lstm_soft, lstm_adm"),
        (CHOICES.format("lstm_soft.yaml"), "--arch lstm_soft.yaml: is unknown; did you mean lstm_soft?"),
        (CHOICES.format("m/my.yaml"), f"--arch m/my.yaml: is unknown; {YAML}"),
        ("unrecognized arguments: --dropot=0.3 --lrr 3", f"--dropot: {NONE}; did you mean --dropout?"),
        ("unrecognized arguments: --zzz", f"--zzz: {NONE}; the --help of the command lists the options"),
        ("unrecognized arguments: --objective x", f"--objective: {NONE}; it belongs to --criterion latent_alignment"),
        (
            "unrecognized arguments: --label-smoothing 0.1",
            f"--label-smoothing: {NONE}; it belongs to --criterion agreement, guided_alignment, "
            "label_smoothed_cross_entropy or others",
        ),
        ("unrecognized arguments: more data", "more data: belongs to no option; options begin with --"),
        ("argument --lr: expected one argument", "argument --lr: expected one argument"),
    ],
)
def test_slips(message, line):
    assert explain_slip(message, OPTIONS) == line


def test_the_command_says_it_in_one_line(tmp_path):
    command = ["fairseq-train", tmp_path, "--user-dir", USER_DIR, "--arch", "lstm_soft", "--atention", "mqt"]
    done = run_cli(*command, check=False)
    start = f"fairseq-train: error: --atention: {NONE}; did you mean --attention"
    assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(start) and "usage:" not in done.stderr
