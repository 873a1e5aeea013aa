"""A user's mistake is answered with one line and exit status 1; every other exception keeps its trace."""

import io
import os
import pickle
import shutil
import sys

import pytest
import torch
from fairseq import checkpoint_utils, registry
from fairseq.data import Dictionary
from fairseq.models.lstm import LSTMEncoder
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq_cli import interactive
from in_process import run_tool
from models_for_tests import dictionary
from omegaconf import OmegaConf
from resuming import command as training
from test_safe_files import Crafted

from fairseq_attn_plugin import errors
from fairseq_attn_plugin.errors import OptionError, install_hook, one_line
from fairseq_attn_plugin.patches.messages import ERRORS, explain, explained

from cli import TINY, USER_DIR, run_cli


def raised(function, *args):
    with pytest.raises(BaseException) as caught:
        function(*args)
    return caught.value


# --- without the command-line tools


def test_option_error_is_a_value_error_and_survives_pickling():
    error = OptionError("--attention foo: unknown; choose from soft")
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is OptionError and str(again) == str(error)


@pytest.mark.parametrize(
    "error",
    [ValueError("--no fairseq in the trace"), KeyError(None), RuntimeError("Torch not compiled with CUDA enabled")],
    ids=repr,
)
def test_other_exceptions_are_left_alone(error):
    def fail():
        raise error

    assert one_line(raised(fail)) is None


def test_an_error_of_what_is_built_is_left_alone(monkeypatch):
    """A KeyError of fairseq's registry is a name that it does not have; one of what it builds is a fault in that."""
    monkeypatch.setattr(registry, "REGISTRIES", {})
    build, register, _, _ = registry.setup_registry("--part")

    @register("broken")
    class Broken:
        def __init__(self, args):
            raise KeyError("weights")

    assert one_line(raised(build, "broken", None)) is None
    assert one_line(raised(build, "brocken", None)) == "_name brocken: there is none of this name"


def test_error_of_a_spawned_process_arrives():
    """torch.multiprocessing passes on only the text of the trace."""
    inner = 'Traceback (most recent call last):\n  File "x.py", line 1\n'
    line = explain(Exception("-- Process 0 failed:\n" + inner + "fairseq_attn_plugin.errors.OptionError: --a b: no\n"))
    assert line == "--a b: no"
    assert explain(Exception("-- Process 0 failed:\n" + inner + "RuntimeError: --a b: no\n")) is None


@pytest.mark.parametrize(
    "error, variable, expected",
    [
        (OptionError("--a 1: one\n line"), "", "tool: error: --a 1: one line\n"),
        (OptionError("--a 1"), "1", "the hook before: --a 1\n"),
        (OptionError("--a 1"), "0", "tool: error: --a 1\n"),
        (ValueError("another"), "", "the hook before: another\n"),
        (
            KeyboardInterrupt(),
            "",
            "tool: error: interrupted; the same command continues a training from its last checkpoint\n",
        ),
    ],
)
def test_hook(error, variable, expected, monkeypatch, capsys):
    """Calls the hook that was there before, once; FAIRSEQ_ATTN_TRACEBACK leaves everything to it."""
    monkeypatch.setattr(sys, "excepthook", lambda *about: sys.stderr.write("the hook before: %s\n" % about[1]))
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/tool", "--a", "1"])
    monkeypatch.setenv("FAIRSEQ_ATTN_TRACEBACK", variable)
    install_hook()
    install_hook()
    sys.excepthook(type(error), error, None)
    assert capsys.readouterr().err == expected


LOADING = """
import atexit, sys, time
from fairseq.data.iterators import BackgroundConsumer
from fairseq_attn_plugin.errors import OptionError, install_hook

def run(thread):
    time.sleep(5)
    print("the interpreter waited")

install_hook()
atexit.register(lambda: print("files are closed"))
BackgroundConsumer.run = run
BackgroundConsumer(None, [], 1, None).start()
sys.stdout.write("half a line, ")
raise OptionError("--a 1: must be 2")
"""


def test_a_thread_that_loads_does_not_spoil_the_end(tmp_path):
    """The interpreter would end it wherever it is, which inside torch aborts the process now and then."""
    script = tmp_path / "tool"
    script.write_text(LOADING)
    done = run_cli(script, check=False)
    assert done.returncode == 1 and done.stderr.endswith("tool: error: --a 1: must be 2\n")
    assert done.stdout == "half a line, files are closed\n"


def test_fault_in_an_explanation_does_not_hide_the_error(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: seen.append(error))
    monkeypatch.setattr(errors, "_RULES", [lambda error: 1 / 0])
    install_hook()
    error = RuntimeError("boom")
    sys.excepthook(RuntimeError, error, None)
    assert seen == [error]


def test_an_explanation_sees_the_arguments_and_changes_nothing():
    def fail(name, times=2):
        raise KeyError(name)

    def explanation(error, arguments):
        return "--name %(name)s" % arguments if "times" not in arguments else 1 / 0

    wrapper = explained(explanation)(fail)
    error = raised(wrapper, "x")
    assert type(error) is KeyError and error.args == ("x",) and one_line(error) == "--name x"
    # the innermost function knows most
    assert one_line(raised(explained(lambda error, arguments: "another")(wrapper), "x")) == "--name x"
    faulty = raised(wrapper, "x", 3)
    assert type(faulty) is KeyError and one_line(faulty) is None


# --- with fairseq's functions, in this process


def line_of_loading(path):
    return one_line(raised(checkpoint_utils.load_checkpoint_to_cpu, str(path)))


def test_unreadable_checkpoints(tmp_path):
    torch.save({"model": {"weight": torch.zeros(1000)}, "args": None}, tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    damaged = {"half.pt": whole[: len(whole) // 2], "empty.pt": b"", "text.pt": b"no checkpoint\n", "zip.pt": whole[:2]}
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        assert f"{tmp_path / name} ({len(content)} bytes) cannot be read" in line_of_loading(tmp_path / name)
    assert "is a folder: name a file" in line_of_loading(tmp_path)
    torch.save({"model": {}, "extra": Crafted(os.system, (f"touch {tmp_path / 'executed'}",))}, tmp_path / "evil.pt")
    line = line_of_loading(tmp_path / "evil.pt")
    assert line.startswith(f"refused to read checkpoint {tmp_path / 'evil.pt'}") and ".system" in line
    assert not (tmp_path / "executed").exists()


def test_padding_of_stock_lstm():
    encoder = LSTMEncoder(dictionary(), embed_dim=4, hidden_size=4)
    words, lengths = torch.tensor([[1, 4, 5, 2]]), torch.tensor([3])
    assert one_line(raised(encoder, words, lengths)).startswith("--num-batch-buckets: stock --arch lstm takes no batch")


def test_data_folder(tiny_data, tmp_path):
    def load_split(folder, split="test", **options):
        # these three are interpolated from the sections of a whole configuration
        whole = {"train_subset": "train", "dataset_impl": None, "required_seq_len_multiple": 1}
        cfg = OmegaConf.structured(TranslationConfig(data=str(folder), **whole, **options))
        return one_line(raised(lambda: TranslationTask.setup_task(cfg).load_dataset(split)))

    assert f"{tmp_path / 'no'}: No such file or directory" in load_split(tmp_path / "no")
    assert "languages" in load_split(tmp_path)
    line = load_split(tiny_data, source_lang="xx", target_lang="zz")
    assert line.endswith("has no dictionary of 'zz' (--source-lang, --target-lang): it has those of xx and yy")
    line = load_split(tiny_data, "tset")
    assert "no split 'tset'" in line and "--gen-subset" in line


def test_a_relative_path_from_the_folder_of_a_run(tiny_data, tmp_path, monkeypatch):
    """hydra changes into that folder, and is back when the line is shown."""
    monkeypatch.chdir(tmp_path)
    error = raised(Dictionary.load, f"{tiny_data.name}/dict.xx.txt")
    assert "has no dictionary of 'xx'" in one_line(error)
    monkeypatch.chdir(tiny_data.parent)
    assert one_line(error) == f"{tiny_data.name}/dict.xx.txt: needs an absolute path, since hydra changes into " + (
        "the folder of the run"
    )


def test_standard_input_that_is_not_utf8(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ama\n\xe9\n"), "utf-8", "surrogateescape"))
    ERRORS.install()
    with pytest.raises(UnicodeDecodeError) as caught:
        list(interactive.buffered_read("-", 1))
    assert one_line(caught.value).startswith("--input (default: stdin) is not UTF-8 (")


# --- the real tools


def line_of(*args):
    """Run a tool that has to fail: status 1, no trace, its error in the last line of stderr and nowhere else."""
    done = run_cli(*args, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert "error: " in line and done.stderr.count(": error: ") == 1, line
    return line


def mistake(tool, *args):
    """The line of a tool that has to fail, run in this process."""
    return run_tool(tool, args[0], "--user-dir", USER_DIR, *args[1:], fails=True).error


def test_traceback_on_demand(tiny_data, tmp_path):
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", tmp_path / "nowhere.pt"]
    assert f"--path {tmp_path / 'nowhere.pt'}: no such file" in line_of(*command)
    done = run_cli(*command, check=False, env={"FAIRSEQ_ATTN_TRACEBACK": "1"})
    assert [word in done.stderr for word in ("Traceback", ": error: ", "Warning")] == [True, False, False]


def test_what_a_checkpoint_does_not_fit(zoo, tiny_data, tmp_path):
    """Sentences, dictionaries, a task, an architecture, sizes, options."""
    path = zoo("lstm").last
    line = mistake("fairseq-generate", tiny_data, "--path", path, "--max-source-positions", 5)
    assert "since max_positions=(5, " in line and "--skip-invalid-size-inputs-valid-test" in line
    command = ["fairseq-generate", tiny_data, "--path"]
    line = mistake(*command, path, "--score-reference", "--print-alignment", "soft")
    assert line.startswith("--print-alignment soft: must be hard with --score-reference")
    for tool, options, expected in (
        ("validate", "", "--task is missing: give the task"),
        ("validate", "--task translation", "Must specify batch size either with --max-tokens or --batch-size"),
        ("generate", "--sampling", "--sampling requires --nbest to be equal to --beam"),
        ("generate", "--lm-path none.pt", "--lm-path none.pt: no such file"),
        ("generate", f"--lm-path {path}", f"--lm-path {path}: is no language model; give one"),
        ("generate", "--remove-bpe foo", "--remove-bpe (--post-process) foo: is unknown; choose from subword_nmt"),
        ("generate", "-s yy -t xx", f"--source-lang yy --target-lang xx: checkpoint {path} translates from xx to yy"),
    ):
        assert mistake(f"fairseq-{tool}", tiny_data, "--path", path, *options.split()).startswith(expected)
    line = mistake(*command, zoo("lstm_soft").last, "--model-overrides", "{'dropuot': 1}")
    assert line == "--model-overrides dropuot: is no option of the model of --path; did you mean dropout?"
    line = mistake(*command, path, "--model-overrides", "{'decoder_hidden_size': 9}")
    assert "of parameters by the options {'decoder_hidden_size': 9}" in line and ".;" not in line
    state = torch.load(path)
    words = state["model"]["decoder.embed_tokens.weight"]
    state["model"]["decoder.embed_tokens.weight"] = torch.cat([words, words[:1]])
    torch.save(state, tmp_path / "other.pt")
    line = mistake(*command, f"{path}:{tmp_path}/other.pt")
    assert line.startswith(f"checkpoint {tmp_path}/other.pt does not fit: ")
    assert "size mismatch for decoder.embed_tokens.weight: copying a param with shape" in line
    command = ["fairseq-train", tiny_data, "--optimizer", "sgd", "--max-tokens", 500]
    command += ["--save-dir", tmp_path, "--restore-file", path]
    line = mistake(*command, *TINY["lstm_soft"])
    assert f"checkpoint {path} is of architecture lstm" in line and "--arch asks for lstm_soft" in line
    line = mistake(*command, *TINY["lstm"], "--encoder-hidden-size", 20)
    assert "does not fit the model: " in line and "size mismatch for encoder.lstm.weight_ih_l0" in line
    trained = f"checkpoint {path} was trained with FairseqAdam, and --optimizer asks for SGD: give the one"
    assert mistake(*command, *TINY["lstm"]).startswith(trained)
    line = mistake(*command, *TINY["lstm"], "--lr-scheduler", "polynomial_decay")
    assert line == "--total-num-update is missing: the chosen --lr-scheduler needs it"


def test_what_a_training_lacks(tiny_data, tmp_path):
    """An architecture, one that the task can build, a folder to save to, a package, and links.

    Another criterion than guided_alignment ignores links.
    """
    assert mistake("fairseq-train", tiny_data, "--optimizer", "sgd").startswith("--arch is missing; give one")
    (tmp_path / "file").touch()
    line = run_tool(*training(tiny_data, "lstm_soft", tmp_path / "file"), fails=True).error
    assert line == f"--save-dir {tmp_path}/file: Not a directory"
    line = run_tool(*training(tiny_data, "lstm_soft", tmp_path, "--load-alignments"), fails=True).error
    assert line.startswith(f"--load-alignments: {tiny_data} has no alignments for the split train (train.align.")
    multilingual = ["--task", "multilingual_translation", "--lang-pairs", "xx-yy"]
    line = run_tool(*training(tiny_data, "lstm_soft", tmp_path, *multilingual), fails=True).error
    assert line.startswith("--task multilingual_translation: needs an --arch with a model for each direction")
    line = run_tool(
        *training(tiny_data, "lstm_soft", tmp_path, "--task", "translation_from_pretrained_bart", "--langs", "xx,yy"),
        fails=True,
    ).error
    assert line.startswith("--task translation_from_pretrained_bart: cannot train in this fairseq")
    shutil.copy(tiny_data / "dict.xx.txt", tmp_path / "dict.txt")
    shutil.copy(tiny_data / "train.xx-yy.xx.bin", tmp_path / "train.bin")
    shutil.copy(tiny_data / "train.xx-yy.xx.idx", tmp_path / "train.idx")
    language = ["--task", "language_modeling", "--disable-validation"]
    line = run_tool(*training(tmp_path, "lstm_soft", tmp_path / "lm", *language), fails=True).error
    assert line.startswith("--arch: is no language model, which this --task needs")
    folder = shutil.copytree(tiny_data, tmp_path / "valid1")
    for path in folder.glob("valid.*"):
        shutil.copy(path, folder / path.name.replace("valid.", "valid1."))
    line = run_tool(*training(folder, "lstm_soft", tmp_path, "-s", "xx", "-t", "yy"), fails=True).error
    assert line.endswith("--ignore-unused-valid-subsets validates on those of --valid-subset alone")
    line = run_tool(*training(tiny_data, "lstm_soft", tmp_path, "--ddp-backend", "fully_sharded"), fails=True).error
    assert "fairscale" in line


def test_processes_that_do_not_meet(tiny_data, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    command = training(tiny_data, "lstm", tmp_path)
    line = run_tool(*command, "--distributed-world-size", 2, fails=True).error
    assert line.startswith("--distributed-world-size 2: there is no GPU; on processors torchrun --nproc-per-node 2 -m")
    line = run_tool(*command, "--distributed-init-method", "nowhere:1", fails=True).error
    assert line.startswith("--distributed-backend gloo, --distributed-init-method nowhere:1, --distributed-world-size ")
    assert line.endswith(": the processes form no group (No rendezvous handler for nowhere://)")


def test_a_training_that_diverges(tiny_data, tmp_path):
    line = run_tool(*training(tiny_data, "lstm_soft", tmp_path, "--lr", 1e38, "--optimizer", "sgd"), fails=True).error
    assert line.startswith("the training has diverged: ") and "--lr" in line and "--clip-norm" in line


def test_hydra_train(tiny_data, tmp_path):
    """hydra's own report of an exception has a trace unless the plugin sees to it."""
    command = ["fairseq-hydra-train", "task=translation", "task.data=%s" % tiny_data, "task.source_lang=xx"]
    command += ["task.target_lang=yy", "criterion=cross_entropy", "optimizer=adam", "lr_scheduler=fixed"]
    command += ["dataset.max_tokens=500", "common.user_dir=%s" % USER_DIR, "hydra.run.dir=%s" % tmp_path]
    command += ["checkpoint.save_dir=%s" % tmp_path, "+model._name=lstm_soft"]
    for given, expected in (
        ("+model.attention_score=nonsense", "--attention-score nonsense"),
        ("+model.atention=mqt", "atention: Key 'atention' not in "),
    ):
        assert line_of(*command, given).startswith(f"fairseq-hydra-train: error: {expected}")


def test_preprocessing(tmp_path):
    """No dictionary, and dictionaries that are there already."""
    for side in ("xx", "yy"):
        (tmp_path / f"text.{side}").write_text("a b c\nd e f\n")
    command = ["fairseq-preprocess", "--user-dir", USER_DIR, "--source-lang", "xx", "--target-lang", "yy"]
    command += ["--trainpref", tmp_path / "text", "--destdir", tmp_path / "bin"]
    line = run_tool(*command, "--srcdict", "none.txt", fails=True).error
    assert line == "--srcdict none.txt: No such file or directory"
    run_tool(*command)
    line = run_tool(*command, fails=True).error
    assert line == f"{tmp_path}/bin/dict.xx.txt: exists; remove it, or name another folder"
