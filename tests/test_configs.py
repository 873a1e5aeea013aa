"""The YAML experiments: they parse, they compose, and they train the same parameters as the command line."""

import itertools
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from cli import REPO, USER_DIR, run_cli

CONFIGS = REPO / "configs"
EXPERIMENTS = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml"))
TINY = ["optimization.max_update=2", "dataset.num_workers=0", "common.cpu=true"]


@pytest.fixture
def hydra_dir():
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(CONFIGS), version_base="1.1"):
        yield
    GlobalHydra.instance().clear()


def composed(name, *overrides):
    return OmegaConf.to_container(compose(name, overrides=list(overrides)), resolve=False)


def train(config_name, tiny_data, cwd, *overrides, multirun=False):
    """fairseq-hydra-train on the tiny corpus; every checkpoint that it wrote, by its path below ``cwd``."""
    command = ["fairseq-hydra-train", "--config-dir", CONFIGS, "--config-name", config_name]
    data = ["task.data=%s" % tiny_data, "task.source_lang=xx", "task.target_lang=yy"]
    command += ["common.user_dir=" + USER_DIR, *data, *TINY, *overrides]
    run_cli(*command, *(["-m"] if multirun else []), cwd=cwd)
    return sorted(str(path.relative_to(cwd)) for path in cwd.rglob("checkpoint_*.pt"))


def parameters(path):
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    return load_checkpoint_to_cpu(str(path))["model"]


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_key_is_explained(path):
    """Every file starts with a comment that says what it is; every experiment says how it is run."""
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)
    assert text.startswith("#")
    if path.stem in EXPERIMENTS and path.parent == CONFIGS:
        assert "--config-name %s\n" % path.stem in text


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_composes_into_what_fairseq_knows(name, hydra_dir):
    """Every key of an experiment is a field of fairseq's configuration, of the task, the model and so on."""
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.models import MODEL_DATACLASS_REGISTRY
    from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY
    from fairseq.optim.lr_scheduler import LR_SCHEDULER_DATACLASS_REGISTRY
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    import fairseq_attn_plugin  # noqa: F401 (registers the models)

    config = composed(name)
    registries = {
        "model": MODEL_DATACLASS_REGISTRY,
        "task": TASK_DATACLASS_REGISTRY,
        "criterion": CRITERION_DATACLASS_REGISTRY,
        "optimizer": OPTIMIZER_DATACLASS_REGISTRY,
        "lr_scheduler": LR_SCHEDULER_DATACLASS_REGISTRY,
    }
    assert set(registries) < set(config)
    for group, keys in config.items():
        if group in registries:
            known = registries[group][keys["_name"]].__dataclass_fields__
        else:
            known = FairseqConfig.__dataclass_fields__[group].type.__dataclass_fields__
        assert set(keys) - {"_name"} <= set(known), (group, set(keys) - set(known))


@pytest.mark.parametrize("name", MODELS)
def test_model_files_hold_the_defaults_of_their_architectures(name, hydra_dir):
    """What a file spells out is what ``--arch`` does by default."""
    from fairseq.models import MODEL_DATACLASS_REGISTRY

    import fairseq_attn_plugin  # noqa: F401

    config = composed("grid", "model=%s" % name)["model"]
    assert config.pop("_name") == name
    fields = MODEL_DATACLASS_REGISTRY[name].__dataclass_fields__
    for key, value in config.items():
        default = fields[key].default
        if default is not None:  # None: the mechanism chooses, and the other test compares what comes out
            assert value == default, key


def recipe_command(recipe, **environment):
    """The arguments of the fairseq-train command that a recipe would run, data folder left out."""
    shown = subprocess.run(
        ["bash", str(REPO / "scripts" / "recipes" / recipe), "train", "--dry-run"],
        env={"PATH": "/usr/bin:/bin", "DEVICE": "cpu", **environment},
        text=True, capture_output=True, check=True,
    ).stdout  # fmt: skip
    (line,) = [line for line in shown.splitlines() if line.startswith("fairseq-train ")]
    return shlex.split(line)[2:]


@pytest.mark.parametrize(
    ("config_name", "model"),
    [("multi30k_soft", "lstm_soft"), ("multi30k_adm", "lstm_adm"), ("multi30k_adm_aqt", "lstm_adm_aqt")],
)
def test_experiments_are_cells_of_the_grid(config_name, model, hydra_dir):
    assert composed(config_name) == composed("grid", "model=%s" % model)


@pytest.fixture(scope="module")
def trained_from_yaml(tiny_data, tmp_path_factory):
    """Two updates of every model from YAML: one command, hydra's basic launcher, one process."""
    folder = tmp_path_factory.mktemp("yaml")
    train("grid", tiny_data, folder, "common.seed=1", "model=" + ",".join(MODELS), multirun=True)
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_yaml_and_recipe_train_the_same_parameters(model, trained_from_yaml, tiny_data, tmp_path):
    """Two updates with the YAML and with the recipe's command leave the same bits in every tensor."""
    (folder,) = trained_from_yaml.rglob(model + ".seed1")
    (from_yaml,) = folder.rglob("checkpoint_last.pt")
    command = recipe_command("multi30k.sh", ARCH=model, OUT=str(tmp_path))
    Path(command[command.index("--save-dir") + 1]).mkdir(parents=True)
    overrides = ["--source-lang", "xx", "--target-lang", "yy", "--max-update", "2", "--num-workers", "0"]
    run_cli("fairseq-train", tiny_data, *command, *overrides)
    (from_recipe,) = tmp_path.rglob("checkpoint_last.pt")
    first, second = parameters(from_yaml), parameters(from_recipe)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def test_paper_experiment_trains(tiny_data, tmp_path):
    checkpoints = train("iwslt15_adm", tiny_data, tmp_path)
    assert [Path(path).name for path in checkpoints] == ["checkpoint_best.pt", "checkpoint_last.pt"]


def test_grid_of_two_seeds(tiny_data, tmp_path):
    """One command and one process: every training has a folder and a best checkpoint of its own.

    With the second learning rate a training ends with a worse score than the one before it in the same process.
    """
    sizes = ["model.%s=16" % key for key in ("encoder_embed_dim", "encoder_hidden_size", "decoder_hidden_size")]
    sweep = ["common.seed=1,2", "model=lstm_soft", "optimization.lr=[0.01],[1e-9]"]
    checkpoints = train("grid", tiny_data, tmp_path, *sweep, *sizes, multirun=True)
    assert {path.split("/")[3] for path in checkpoints} == {"lstm_soft.seed1", "lstm_soft.seed2"}
    assert [Path(path).name for path in checkpoints] == ["checkpoint_best.pt", "checkpoint_last.pt"] * 4
    trained = [parameters(tmp_path / path)["encoder.embed_tokens.weight"] for path in checkpoints if "last" in path]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(trained, 2))


def test_grid_names_its_sweep(hydra_dir):
    sweep = compose("grid", return_hydra_config=True).hydra.sweeper.params
    assert sorted(sweep["model"].split(",")) == MODELS
    assert sweep["common.seed"] == "1,2,3"


SLURM_KEYS = {
    # the launcher's documented options, for where the package is not installed
    "submitit_folder", "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes", "name",
    "stderr_to_stdout", "partition", "qos", "comment", "constraint", "exclude", "gres", "cpus_per_gpu",
    "gpus_per_task", "mem_per_gpu", "mem_per_cpu", "account", "signal_delay_s", "max_num_timeout",
    "additional_parameters", "array_parallelism", "setup",
}  # fmt: skip


def test_slurm_launcher_file():
    path = CONFIGS / "hydra" / "launcher" / "slurm.yaml"
    keys = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert keys.pop("defaults") == ["submitit_slurm"]
    assert set(keys) <= SLURM_KEYS
    assert keys["max_num_timeout"] > 0, "a job that runs out of time must be queued again"


def test_slurm_launcher_composes(hydra_dir):
    """With the launcher installed, hydra accepts every key and its type."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs hydra-submitit-launcher")
    launcher = compose(
        "grid", overrides=["hydra/launcher=slurm", "hydra.launcher.partition=gpu"], return_hydra_config=True
    ).hydra.launcher
    assert re.search(r"\.SlurmLauncher$", launcher["_target_"])
    assert launcher.partition == "gpu"
    assert launcher.gpus_per_node == 1
