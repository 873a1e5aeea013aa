"""Numbers and contradictions in the options of a training are refused before anything is built."""

import pytest
import torch
from fairseq import tasks
from fairseq.dataclass.configs import FairseqConfig
from fairseq.tasks.translation import TranslationConfig
from in_process import run_tool
from omegaconf import OmegaConf
from training import training_command

from fairseq_attn_plugin.analysis.inference.loading import load_models
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.configuration import AttnLSTMConfig
from fairseq_attn_plugin.models.unused_options import check_attention_options
from fairseq_attn_plugin.patches.numbers import check_together
from fairseq_attn_plugin.ranges import check_numbers, range_of

from cli import TINY

ADAPTIVE = "--criterion adaptive_loss --ddp-backend legacy_ddp "
LATENT = "--arch lstm_latent_small --criterion latent_alignment "


def train(tiny_data, folder, *options, fails=True):
    """The line of a training that has to fail."""
    given = [*TINY["lstm_soft"], "--no-save", "--disable-validation", *options]
    return run_tool(*training_command(tiny_data, folder, *given, updates=1), fails=fails).error


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--dropout nan", "--dropout nan: must be a finite number"),
        ("--dropout 1.5", "--dropout 1.5: must be at least 0 and less than 1"),
        (LATENT + "--label-smoothing 1", "--label-smoothing 1.0: must be at least 0 and less than 1"),
        ("--adam-betas 0.9,1.5", "--adam-betas 1.5: must be two numbers, each at least 0 and less than 1"),
        ("--adam-betas 0.9", "--adam-betas 0.9: must be two numbers, each at least 0 and less than 1, as in '(0.9, 0."),
        ("--eval-bleu --eval-bleu-args {beam:5}", "--eval-bleu-args {beam:5}: must be JSON, as in '{\"beam\": 5}' (Ex"),
        ("--max-tokens 1", "every sentence is longer than --max-tokens, --max-source-positions or"),
        ("--eval-bleu --eval-bleu-detok foo", "--eval-bleu-detok foo: there is none of this name"),
        ("--optimizer fused_adam --adam-eps 0", "--adam-eps 0.0: must be above 0"),
        ("--lr=", "--lr '': must be a number"),
        ("--batch-size-valid=", "--batch-size-valid '': must be a number"),
        ("--seed=-1", "--seed: must be 0 or more"),
        ("--encoder-layers 100000000", "--encoder-layers 100000000: must be at most 1000"),
        ("--attention-score additive --attention-hidden-dim 99999999999999999999", "--attention-hidden-dim 9"),
        ("--attention-score additive --attention-hidden-dim 999999999999", "memory is not enough for one tensor"),
        ("--attention-bias ,", "--attention-bias ,: names no bias; choose from fertility, markov, position"),
        ("--attention-bias-window 2", "--attention-bias-window 2: has no effect without --attention-bias fertility"),
        ("--gaussian-sigma 3", "--gaussian-sigma 3.0: --attention soft has no such option; leave it out, or choose"),
        ("--attention gaussian --attention-score dot", "--attention-score dot: has no effect with --attention gauss"),
        ("--decoder-attention False --attention mqt", "--attention mqt: there is no attention with --decoder-att"),
        ("--adaptive-softmax-cutoff 5", "--adaptive-softmax-cutoff 5: needs --criterion adaptive_loss, not cross_e"),
        ("--criterion latent_alignment", "--criterion latent_alignment: needs a latent alignment model"),
        (ADAPTIVE, "--criterion adaptive_loss: needs --adaptive-softmax-cutoff"),
        (ADAPTIVE + "--adaptive-softmax-cutoff=500", "--adaptive-softmax-cutoff 500: must be ascending, from 1 to the"),
        (ADAPTIVE + "--adaptive-softmax-cutoff=5,4", "--adaptive-softmax-cutoff 5,4: must be ascending, from 1 to the"),
    ],
)
def test_a_training_is_refused(options, line, tiny_data, tmp_path):
    assert train(tiny_data, tmp_path, *options.split()).startswith(line)
    assert not (tmp_path / "crash.pt").exists()


def test_the_numbers_of_a_task_without_a_dataclass(tiny_data, tmp_path):
    task = ["--task", "translation_multi_simple_epoch", "--lang-pairs", "xx-yy", "--langs", "xx,yy"]
    assert train(tiny_data, tmp_path, *task, "--dropout", "1.5").startswith("--dropout 1.5: must be at least 0")
    assert train(tiny_data, tmp_path, *task, "--adm-pairs", "keys").startswith("--adm-pairs keys: --attention soft has")


def test_defaults_of_an_architecture_are_not_the_users(tiny_data, tmp_path):
    """The small architectures choose a score and its width, which a Gaussian does not have."""
    train(tiny_data, tmp_path, "--arch", "attn_lstm_small", "--attention", "gaussian", fails=False)


def test_what_undoes_an_architecture_is_not_refused():
    with pytest.raises(OptionError, match="has no effect"):
        check_attention_options({"attention": "gaussian", "attention_score": "dot"}, AttnLSTMConfig())
    check_attention_options(
        {"attention": "gaussian", "attention_score": None}, AttnLSTMConfig(attention_score="additive")
    )


def test_a_checkpoint_is_read_with_whatever_it_was_trained_with(zoo, tiny_data, tmp_path):
    state = torch.load(zoo("lstm_soft").last)
    state["cfg"]["model"].update(gaussian_sigma=3.0, dropout=-1.0)
    torch.save(state, tmp_path / "old.pt")
    assert load_models(str(tiny_data), str(tmp_path / "old.pt"), cpu=True).models


def test_the_defaults_of_fairseq_are_in_the_ranges():
    check_numbers(OmegaConf.to_container(OmegaConf.structured(FairseqConfig), resolve=True, enum_to_str=True))


def test_parts_limits_and_numbers_beyond_floats():
    for section, name, value in (
        *(("optimization", name, float("inf")) for name in ("clip_norm", "stop_time_hours")),
        *(("optimization", "lr", [0.1, 0.2]), ("optimization", "update_freq", [1, 2])),
        ("optimizer", "adam_betas", " (0.9, 0.98)"),
        ("generation", "retain_dropout_modules", "LSTMDecoder"),
    ):
        check_numbers({section: {name: value}})
    for name, value, line in (
        ("max_update", 10**400, "must be less than 2\\^63$"),
        ("clip_norm", float("nan"), "^--clip-norm nan"),
        ("update_freq", [2, 0], "^--update-freq 0: must be at least 1$"),
        ("anything", float("nan"), "^--anything nan: must be a finite number$"),
        ("adam_betas", "{[]: 1}", "^--adam-betas .*: must be two numbers"),
        ("adam_betas", "(1," * 300, "^--adam-betas .*: must be two numbers"),
    ):
        with pytest.raises(OptionError, match=line):
            check_numbers({"optimization": {name: value}})
    assert range_of("anything") is None


def test_what_refers_to_something_that_is_not_there_yet_is_left_alone(tiny_data):
    cfg = OmegaConf.create({"checkpoint": {"save_dir": "${hydra:run.dir}"}, "model": {"dropout": 0.1}})
    cfg.task = TranslationConfig(data=str(tiny_data), source_lang="xx", target_lang="yy")
    cfg.task._name = "translation"
    assert tasks.setup_task(cfg.task).source_dictionary
    cfg.model.dropout = float("nan")
    with pytest.raises(OptionError, match="^--dropout nan"):
        tasks.setup_task(cfg.task)


def test_mixed_precision_needs_a_gpu(caplog):
    check_together({"common": {"amp": False, "cpu": True}})
    assert not caplog.records
    check_together({"common": {"amp": True, "cpu": True}})
    assert caplog.messages[0].startswith("--amp: has no effect without a GPU")
