"""The YAML experiments: they parse, they compose, and they train the same parameters as the command line."""

import itertools
import os
import re
from pathlib import Path

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from in_process import run_tool
from omegaconf import OmegaConf
from recorded_recipes import train_command

from fairseq_attn_plugin.criterions.objectives import OBJECTIVES as REGISTERED
from fairseq_attn_plugin.options import flag
from fairseq_attn_plugin.own_data.settings import OBJECTIVE_OPTIONS

from cli import REPO, run_cli

CONFIGS = REPO / "configs"
EXPERIMENTS = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml"))
LATENT_MODELS = [name for name in MODELS if name.startswith("lstm_latent")]  # trained by an objective
PLAIN_MODELS = [name for name in MODELS if name not in LATENT_MODELS]  # trained by any setup's criterion
OBJECTIVES = sorted(path.stem for path in (CONFIGS / "objective").glob("*.yaml"))
LATENT = {"multi30k_latent": "multi30k", "iwslt14_latent": "iwslt14_de_en"}  # experiments and recipes
TINY = ["optimization.max_update=2", "dataset.num_workers=0", "common.cpu=true"]
# of the models that are trained, in YAML and on the command line; other tests compare the sizes that files name
SIZES = "encoder_embed_dim encoder_hidden_size decoder_embed_dim decoder_hidden_size decoder_out_embed_dim".split()
SMALL = ["++model.%s=16" % key for key in SIZES]  # a latent model has no layer before the vocabulary
SMALL_OPTIONS = [word for key in SIZES for word in (flag(key), "16")]


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
    command += [*data, *TINY, *SMALL, *overrides]
    cwd.mkdir(exist_ok=True)
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


@pytest.mark.parametrize(
    ("name", "overrides"),
    [(name, []) for name in EXPERIMENTS]
    + [(name, ["objective=" + objective]) for name in LATENT for objective in OBJECTIVES]
    + [("grid", ["setup=iwslt14_de_en", "model=lstm_soft"])],
)
def test_composes_into_what_fairseq_knows(name, overrides, hydra_dir):
    """Every key of an experiment is a field of fairseq's configuration, of the task, the model and so on."""
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.models import MODEL_DATACLASS_REGISTRY
    from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY
    from fairseq.optim.lr_scheduler import LR_SCHEDULER_DATACLASS_REGISTRY
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    import fairseq_attn_plugin  # noqa: F401 (registers the models)

    config = composed(name, *overrides)
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


def objective_options(recipe, objective):
    """The options of fairseq-train behind the name of a recipe that choose an objective of latent alignments."""
    updates = {"multi30k": "517", "iwslt14_de_en": "26700"}[recipe]  # of an epoch, about
    options = [
        "--criterion",
        "latent_alignment",
        "--objective",
        objective,
        *OBJECTIVE_OPTIONS.get(objective, "").split(),
    ]
    options = [re.sub(r"^\d{3,}$", updates, word) for word in options]
    options += ["--latent-posterior", "False"] if not REGISTERED[objective].posterior else []
    return [*options, *(["--label-smoothing", "0"] if recipe == "multi30k" else [])]


@pytest.mark.parametrize(
    ("config_name", "model"),
    [("multi30k_soft", "lstm_soft"), ("multi30k_adm", "lstm_adm"), ("multi30k_adm_aqt", "lstm_adm_aqt")],
)
def test_experiments_are_cells_of_the_grid(config_name, model, hydra_dir):
    assert composed(config_name) == composed("grid", "model=%s" % model)


def test_what_papers_have_changes_the_model(hydra_dir):
    """These files come after the architecture, whose defaults would win otherwise."""
    for name, experiment in (
        ("latent", "iwslt14_latent"),
        ("structured", "multi30k_structured"),
    ):
        wanted = yaml.safe_load((CONFIGS / "paper" / f"{name}.yaml").read_text(encoding="utf-8"))["model"]
        found = composed(experiment)["model"]
        assert wanted and {key: found[key] for key in wanted} == wanted


def test_every_objective_has_a_file():
    from fairseq_attn_plugin.criterions.objectives import OBJECTIVES as known

    assert sorted(known) == OBJECTIVES


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", LATENT)
def test_objectives_of_yaml_and_recipe_are_the_same(name, objective, hydra_dir):
    """What the recipe's options say, fairseq's parser asked, is what the YAML says, key by key."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    import fairseq_attn_plugin  # noqa: F401

    yaml_says = composed(name, "objective=" + objective)
    model = yaml_says["model"]["_name"]
    chain = objective == "first-order"  # the file says that the model must be another
    arch = model.replace("lstm_latent", "lstm_latent_first_order") if chain else model
    command = [*train_command(LATENT[name], ARCH=arch), *objective_options(LATENT[name], objective)]
    parsed = options.parse_args_and_arch(options.get_training_parser(), ["data", *command])
    recipe_says = OmegaConf.to_container(convert_namespace_to_omegaconf(parsed), resolve=True)
    for group in ("criterion", "model", "optimizer", "lr_scheduler", "optimization", "checkpoint", "dataset"):
        for key, value in yaml_says[group].items():
            if chain and key == "_name":
                continue
            said = recipe_says[group][key]
            if key == "num_samples" and said is None:
                said = 1  # the criterion's own choice
            if key not in (
                "save_dir",
                "adam_betas",
            ):  # the folder differs; betas are text in one and a tuple in the other
                assert said == value, (group, key)
    # and the recipe sets no option of the criterion that the YAML does not
    defaults = {key: field.default for key, field in _fields("latent_alignment").items()}
    for key, value in recipe_says["criterion"].items():
        if key in defaults and key not in yaml_says["criterion"] and key != "sentence_avg":
            assert value == defaults[key], key


def test_yaml_of_documents_trains_what_the_recipe_trains(hydra_dir):
    """What fairseq's parser makes of the recipe's options is what the YAML says, key by key."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    import fairseq_attn_plugin  # noqa: F401

    yaml_says = composed("polarity_han")
    command = train_command("polarity_han", FOLDS="0", ARCH="han")
    parsed = options.parse_args_and_arch(options.get_training_parser(), ["data", *command])
    recipe_says = OmegaConf.to_container(convert_namespace_to_omegaconf(parsed), resolve=True)
    for group in ("task", "criterion", "model", "optimizer", "lr_scheduler", "optimization", "checkpoint", "dataset"):
        for key, value in yaml_says[group].items():
            said = recipe_says[group][key]
            if key == "attention_score" and said is None:
                said = "additive"  # the model's own choice
            if key not in ("data", "save_dir", "adam_betas"):
                assert said == value, (group, key)


def _fields(criterion):
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY

    return CRITERION_DATACLASS_REGISTRY[criterion].__dataclass_fields__


@pytest.fixture(scope="module")
def trained_from_yaml(tiny_data, once):
    """Two updates of every model from YAML: one command, hydra's basic launcher, one process."""

    def make(folder):
        train("grid", tiny_data, folder, "common.seed=1", "model=" + ",".join(PLAIN_MODELS), multirun=True)

    return once("yaml", make)


@pytest.mark.parametrize("model", PLAIN_MODELS)
def test_yaml_and_recipe_train_the_same_parameters(model, trained_from_yaml, tiny_data, tmp_path):
    """Two updates with the YAML and with the recipe's command leave the same bits in every tensor."""
    (folder,) = trained_from_yaml.rglob(model + ".seed1")
    (from_yaml,) = folder.rglob("checkpoint_last.pt")
    paper = ["--dropout", "0.3"] if model in ("lstm_structured", "lstm_sigmoid") else []
    same_parameters(from_yaml, tiny_data, tmp_path, model, paper)


def same_parameters(from_yaml, tiny_data, tmp_path, arch, options):
    command = train_command("multi30k", ARCH=arch, DEVICE="cpu")
    overrides = ["--source-lang", "xx", "--target-lang", "yy", "--max-update", 2, "--save-dir", tmp_path]
    run_tool("fairseq-train", tiny_data, *command, "--log-file", os.devnull, *options, *SMALL_OPTIONS, *overrides)
    first, second = parameters(from_yaml), parameters(tmp_path / "checkpoint_last.pt")
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def test_objectives_are_swept_and_train_what_the_recipe_trains(tiny_data, tmp_path):
    """One command for several objectives: each has a folder and the recipe's parameters, posterior or none."""
    objectives = ["elbo-enum", "marginal"]
    sweep = "objective=" + ",".join(objectives)
    checkpoints = train("multi30k_latent", tiny_data, tmp_path / "yaml", sweep, multirun=True)
    assert len(checkpoints) == 2 * len(objectives)
    for objective in objectives:
        named = re.compile("objective=%s[,/].*checkpoint_last.pt" % objective)
        (from_yaml,) = (tmp_path / "yaml" / path for path in checkpoints if named.search(path))
        assert any(name.startswith("posterior.") for name in parameters(from_yaml)) == (objective == "elbo-enum")
        options = objective_options("multi30k", objective)
        same_parameters(from_yaml, tiny_data, tmp_path / objective, "lstm_latent_small", options)


@pytest.mark.parametrize("name", ["iwslt15_adm", "iwslt14_latent", "multi30k_structured"])
def test_paper_experiment_trains(name, tiny_data, tmp_path):
    checkpoints = train(name, tiny_data, tmp_path)
    assert [Path(path).name for path in checkpoints] == ["checkpoint_best.pt", "checkpoint_last.pt"]


def test_grid_of_two_seeds(tiny_data, tmp_path):
    """One command and one process: every training has a folder and a best checkpoint of its own.

    With the second learning rate a training ends with a worse score than the one before it in the same process.
    """
    sweep = ["common.seed=1,2", "model=lstm_soft", "optimization.lr=[0.01],[1e-9]"]
    checkpoints = train("grid", tiny_data, tmp_path, *sweep, multirun=True)
    assert {path.split("/")[3] for path in checkpoints} == {"lstm_soft.seed1", "lstm_soft.seed2"}
    assert [Path(path).name for path in checkpoints] == ["checkpoint_best.pt", "checkpoint_last.pt"] * 4
    trained = [parameters(tmp_path / path)["encoder.embed_tokens.weight"] for path in checkpoints if "last" in path]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(trained, 2))


def test_grid_names_its_sweep(hydra_dir):
    sweep = compose("grid", return_hydra_config=True).hydra.sweeper.params
    assert sorted(sweep["model"].split(",")) == PLAIN_MODELS
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
