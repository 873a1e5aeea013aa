"""The systems of the leaderboard, and the runs that are made of them."""

import shlex

import pytest
from recipe_corpora import PAIRS, complaint, value

from fairseq_attn_plugin.corpora.locks import locked
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.recipes.cli import open_recipe
from fairseq_attn_plugin.recipes.leaderboard.systems import read_systems


def jobs(tmp_path, extra=(), **environment):
    environment.setdefault("OUT", str(tmp_path / "out"))
    environment.setdefault("RESULTS", str(tmp_path / "results"))
    return open_recipe("leaderboard", environment, extra).jobs


def test_runs_are_directions_by_seeds_by_systems(tmp_path):
    found = jobs(tmp_path, PAIRS="de-en en-de", SEEDS="1 2", SYSTEMS="lstm lstm_adm lstm")
    names = ["lstm de-en seed 1", "lstm_adm de-en seed 1", "lstm de-en seed 2", "lstm_adm de-en seed 2"]
    assert [job.name for job in found] == [*names, *(name.replace("de-en", "en-de") for name in names)]
    assert len({job.folder for job in found}) == len({job.result for job in found}) == 8
    assert found[0].folder == tmp_path / "out" / "multi30k" / "de-en.subword-nmt8000" / "lstm.seed1"
    assert found[0].result == tmp_path / "results" / "multi30k" / "de-en.subword-nmt8000" / "lstm.seed1.json"


def test_every_system_of_the_package_is_a_training(tmp_path):
    names = list(read_systems())
    found = jobs(tmp_path, SEEDS="1", SYSTEMS=" ".join(names))
    assert [job.system for job in found] == names
    assert len({job.folder for job in found}) == len(names)
    options = [tuple(job.training.training.options) for job in found]
    assert len(set(options)) == len(names), "no two systems are the same"
    for words in options:
        assert value(words, "--max-tokens") == "1000" and value(words, "--max-epoch") == "25"
        assert value(words, "--patience") == "3" and value(words, "--clip-norm") == "5"


@pytest.mark.parametrize("dataset", PAIRS)
def test_default_systems_are_trainings_on_every_corpus(dataset, tmp_path):
    found = jobs(tmp_path, DATASET=dataset, SEEDS="1")
    assert "lstm_soft_additive" in [job.system for job in found] and len(found) == 6
    for job in found:
        words = job.training.training.options
        assert "--objective" not in words and words.count("--criterion") == 1
        if "--attention-score" in words:
            assert not {"--attention-score-gain", "--attention-score-no-bias"} & set(words), "flags of other scores"


def test_the_command_of_a_run_makes_the_same_training(tmp_path):
    settings = {"SEEDS": "2", "PAIRS": "en-de", "SYSTEMS": "lstm_soft_additive small-marginal", "MAX_TOKENS": "500"}
    for job in jobs(tmp_path, ["--matmul-precision", "bfloat16"], **settings, GENERATE_OPTIONS="--beam 5 --lenpen 1"):
        words = shlex.split(job.command)
        command = words.index("fairseq-attn")
        environment = dict(word.split("=", 1) for word in words[:command])
        assert words[command + 1 : command + 4] == ["recipe", "multi30k", "--"]
        run = open_recipe("multi30k", {**environment, "OUT": str(tmp_path)}, words[command + 4 :])
        assert run.training.options == job.training.training.options
        assert run.experiment.settings.generate_options == job.training.experiment.settings.generate_options
        assert run.training.options[-2:] == ["--matmul-precision", "bfloat16"], "the options of the user win"


def test_defaults_that_are_given_change_nothing(tmp_path):
    """A process of the queue gets all settings, and looks for the same result."""
    (first,) = jobs(tmp_path, SYSTEMS="lstm", SEEDS="1")
    (second,) = jobs(tmp_path, SYSTEMS="lstm", SEEDS="1", PAIRS="de-en", SPLIT="test", DEVICE="cpu", BPE_SIZE="8000")
    assert first.command == second.command and first.result == second.result


def test_runs_of_this_process_hold_their_lock(recipe, tmp_path):
    """Whatever a variable of a general name holds."""
    settings = {"SYSTEMS": "lstm", "SEEDS": "1", "OUT": tmp_path / "out", "RESULTS": tmp_path / "results"}
    (job,) = jobs(tmp_path, SYSTEMS="lstm", SEEDS="1")
    with locked(job.lock):
        for lock in ("", "5", "a file"):
            result = recipe("leaderboard", "run", check=False, PROCESSES=0, LOCK=lock, **settings)
            assert "lstm de-en seed 1: another process runs it" in complaint(result)


def test_a_user_adds_systems_and_replaces_some(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("wide: ARCH=lstm_soft BPE_SIZE=500 --encoder-hidden-size 512\nlstm: ARCH=lstm --dropout 0.5\n")
    wide, lstm = jobs(tmp_path, SYSTEMS="wide lstm", SEEDS="1", SYSTEMS_FILE=str(file))
    assert value(wide.training.training.options, "--encoder-hidden-size") == "512"
    assert wide.result.parent.name == "de-en.subword-nmt500"
    assert value(lstm.training.training.options, "--dropout") == "0.5"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("- lstm", ["has no systems"]),
        ("a: {", ["is not YAML"]),
        ("a: 5", ["'a: 5' is no system"]),
        ("a/b: ARCH=lstm", ["'a/b: ARCH=lstm'"]),
        ("a: --dropout 0.5", ["a: has no architecture"]),
        ("a: ARCH=lstm SEED=5", ["cannot set SEED", "ARCH, "]),
        ("a: ARCH=lstm 'x", ["a: No closing quotation"]),
    ],
)
def test_mistakes_in_a_file_of_systems(text, parts, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(OptionError) as error:
        read_systems(file)
    assert str(file) in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_mistakes_of_a_system_name_it_on_one_line(recipe, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("a: ARCH=lstm_soft TOPK=5\n")
    assert "TOPK=5" in complaint(recipe("leaderboard", check=False, SYSTEMS="a", SYSTEMS_FILE=file, OUT=tmp_path))


def test_a_file_that_is_nested_too_deep_is_no_yaml(tmp_path):
    (tmp_path / "systems.yaml").write_text("{" * 3000)
    with pytest.raises(OptionError, match=r"^SYSTEMS_FILE=.*systems.yaml is not YAML: "):
        read_systems(tmp_path / "systems.yaml")
