"""The YAML experiments: they parse, they compose, and they say what the recipes' command lines say."""

import itertools
import re
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
import yaml
from fairseq import options
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_DATACLASS_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from recorded_recipes import train_command

from fairseq_attn_plugin.attention import attention_class
from fairseq_attn_plugin.criterions.objectives import OBJECTIVES as REGISTERED
from fairseq_attn_plugin.own_data.settings import OBJECTIVE_OPTIONS

from cli import REPO, run_cli

CONFIGS = REPO / "configs"
EXPERIMENTS = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml"))
LATENT_MODELS = [name for name in MODELS if name.startswith("lstm_latent")]  # trained by an objective
PLAIN_MODELS = [name for name in MODELS if name not in LATENT_MODELS]  # trained by any setup's criterion
OBJECTIVES = sorted(path.stem for path in (CONFIGS / "objective").glob("*.yaml"))
LATENT = {"multi30k_latent": "multi30k", "iwslt14_latent": "iwslt14_de_en"}  # experiments and recipes
REGISTRIES = {
    "model": MODEL_DATACLASS_REGISTRY,
    "task": TASK_DATACLASS_REGISTRY,
    "criterion": CRITERION_DATACLASS_REGISTRY,
    "optimizer": OPTIMIZER_DATACLASS_REGISTRY,
    "lr_scheduler": LR_SCHEDULER_DATACLASS_REGISTRY,
}
SIZES = "encoder_embed_dim encoder_hidden_size decoder_embed_dim decoder_hidden_size decoder_out_embed_dim"
# folders and files; betas are text in one and a tuple in the other; what the user chooses
FREE = ("data", "save_dir", "adam_betas", "source_lang", "target_lang", "sentence_avg")


@pytest.fixture
def hydra_dir():
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(CONFIGS), version_base="1.1"):
        yield
    GlobalHydra.instance().clear()


def composed(name, *overrides):
    return OmegaConf.to_container(compose(name, overrides=list(overrides)), resolve=False)


def dataclass_of(group, keys):
    """The class of a section of a composed configuration."""
    return REGISTRIES[group][keys["_name"]] if group in REGISTRIES else FairseqConfig.__dataclass_fields__[group].type


def test_every_file_is_explained():
    """Every file starts with a comment that says what it is; every experiment says how it is run."""
    for path in CONFIGS.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert yaml.safe_load(text) and text.startswith("#"), path
        assert path.parent != CONFIGS or f"--config-name {path.stem}\n" in text, path


def assert_known(config):
    """Every key is a field of fairseq's configuration, of the task, the model and so on."""
    assert set(REGISTRIES) < set(config)
    for group, keys in config.items():
        unknown = set(keys) - {"_name"} - set(dataclass_of(group, keys).__dataclass_fields__)
        assert not unknown, (group, unknown)


@pytest.mark.parametrize("name", [*EXPERIMENTS, "grid setup=iwslt14_de_en model=lstm_soft"])
def test_composes_into_what_fairseq_knows(name, hydra_dir):
    assert_known(composed(*name.split()))


@pytest.mark.parametrize("name", MODELS)
def test_model_files_hold_the_defaults_of_their_architectures(name, hydra_dir):
    """What a file spells out is what ``--arch`` does by default; None: the mechanism chooses."""
    config = composed("grid", "model=%s" % name)["model"]
    assert config.pop("_name") == name
    defaults = {key: field.default for key, field in MODEL_DATACLASS_REGISTRY[name].__dataclass_fields__.items()}
    assert {key: value for key, value in config.items() if defaults[key] not in (None, value)} == {}


def objective_options(recipe, objective):
    """The options of fairseq-train behind the name of a recipe that choose an objective of latent alignments."""
    updates = {"multi30k": "517", "iwslt14_de_en": "26700"}[recipe]  # of an epoch, about
    chosen = ["--criterion", "latent_alignment", "--objective", objective]
    chosen += [re.sub(r"^\d{3,}$", updates, word) for word in OBJECTIVE_OPTIONS.get(objective, "").split()]
    chosen += ["--latent-posterior", "False"] if not REGISTERED[objective].posterior else []
    return [*chosen, *(["--label-smoothing", "0"] if recipe == "multi30k" else [])]


@pytest.mark.parametrize(
    ("config_name", "model"),
    [("multi30k_soft", "lstm_soft"), ("multi30k_adm", "lstm_adm"), ("multi30k_adm_aqt", "lstm_adm_aqt")],
)
def test_experiments_are_cells_of_the_grid(config_name, model, hydra_dir):
    assert composed(config_name) == composed("grid", "model=%s" % model)


def test_what_papers_have_changes_the_model(hydra_dir):
    """These files come after the architecture, whose defaults would win otherwise."""
    for name, experiment in (("latent", "iwslt14_latent"), ("structured", "multi30k_structured")):
        wanted = yaml.safe_load((CONFIGS / "paper" / f"{name}.yaml").read_text(encoding="utf-8"))["model"]
        found = composed(experiment)["model"]
        assert wanted and {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize("model", ["lstm_structured", "lstm_sigmoid"])
def test_the_rivals_of_a_paper_have_no_option_without_effect(model, hydra_dir):
    config = composed("multi30k_structured", f"model={model}")
    every = {**asdict(MODEL_DATACLASS_REGISTRY[model]()), **config["model"]}
    MODEL_REGISTRY[model].check_training({**config, "model": every})


def assert_the_same(yaml_says, command, given=MappingProxyType({}), free=()):
    """What fairseq's parser makes of a recipe's options is what the YAML says, key by key, or else the default.

    Args:
        given: what the model or the criterion takes where the command line says nothing
        free: further keys that are not compared
    """
    assert_known(yaml_says)
    parsed = options.parse_args_and_arch(options.get_training_parser(), ["data", *command])
    recipe_says = OmegaConf.to_container(convert_namespace_to_omegaconf(parsed), resolve=True)
    for group in (*REGISTRIES, "optimization", "checkpoint", "dataset"):
        keys = {
            **OmegaConf.to_container(OmegaConf.structured(dataclass_of(group, yaml_says[group]))),
            **yaml_says[group],
        }
        for key, said in recipe_says[group].items():
            expected = keys.get(key, said)
            if key in (*FREE, *free) or str(expected).startswith("${"):  # the default is that of another section
                continue
            assert said == expected or (said is None and given.get(key) == expected), (group, key)


def test_every_objective_has_a_file():
    assert sorted(REGISTERED) == OBJECTIVES


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        *(("multi30k_latent", objective) for objective in OBJECTIVES),
        ("iwslt14_latent", "dirichlet"),
        ("iwslt14_latent", "marginal"),
    ],
)
def test_objectives_of_yaml_and_recipe_are_the_same(name, objective, hydra_dir):
    yaml_says = composed(name, "objective=" + objective)
    model = yaml_says["model"]["_name"]
    chain = objective == "first-order"  # the file says that the model must be another
    arch = model.replace("lstm_latent", "lstm_latent_first_order") if chain else model
    command = [*train_command(LATENT[name], ARCH=arch), *objective_options(LATENT[name], objective)]
    assert_the_same(yaml_says, command, {"num_samples": 1}, ["_name"] if chain else [])


def test_yaml_of_documents_trains_what_the_recipe_trains(hydra_dir):
    command = train_command("polarity_han", FOLDS="0", ARCH="han")
    assert_the_same(composed("polarity_han"), command, {"attention_score": "additive"})


@pytest.mark.parametrize("model", PLAIN_MODELS)
def test_yaml_and_recipe_train_the_same_model(model, hydra_dir):
    paper = ["--dropout", "0.3"] if model in ("lstm_structured", "lstm_sigmoid") else []
    yaml_says = composed("grid", f"model={model}")
    mechanism = attention_class(yaml_says["model"].get("attention", "soft"))
    given = {"attention_score": getattr(mechanism, "default_score", None)}
    assert_the_same(yaml_says, [*train_command("multi30k", ARCH=model), *paper], given)


# ---- trainings


def train(config_name, tiny_data, folder, *overrides):
    """fairseq-hydra-train on the tiny corpus; every checkpoint that it wrote, by its path below the folder."""
    command = ["fairseq-hydra-train", "--config-dir", CONFIGS, "--config-name", config_name, f"task.data={tiny_data}"]
    command += ["task.source_lang=xx", "task.target_lang=yy", "optimization.max_update=2", "dataset.num_workers=0"]
    command += [f"++model.{size}=16" for size in SIZES.split()]
    run_cli(*command, "common.cpu=true", *overrides, cwd=folder)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("checkpoint_*.pt"))


@pytest.mark.parametrize("name", ["iwslt15_adm", "multi30k_structured"])
def test_paper_experiment_trains(name, tiny_data, tmp_path, hydra_dir):
    checkpoints = train(name, tiny_data, tmp_path)
    assert [Path(path).name for path in checkpoints] == ["checkpoint_best.pt", "checkpoint_last.pt"]
    wanted = {key: value for key, value in composed(name)["model"].items() if key not in SIZES.split()}
    trained = load_checkpoint_to_cpu(str(tmp_path / checkpoints[-1]))["cfg"]["model"]
    assert {key: trained[key] for key in wanted} == wanted


def test_objectives_are_swept(tiny_data, tmp_path):
    """One command for several objectives: each has a folder, and a posterior or none."""
    checkpoints = train("multi30k_latent", tiny_data, tmp_path, "objective=elbo-enum,marginal", "-m")
    assert len(checkpoints) == 4
    for path in checkpoints:
        names = load_checkpoint_to_cpu(str(tmp_path / path))["model"]
        assert any(name.startswith("posterior.") for name in names) == ("objective=elbo-enum" in path)


def test_grid_of_two_seeds(tiny_data, tmp_path):
    """One command and one process: every training has a folder and a best checkpoint of its own.

    With the second learning rate a training ends with a worse score than the one before it in the same process.
    """
    sweep = ["common.seed=1,2", "model=lstm_soft", "optimization.lr=[0.01],[1e-9]", "-m"]
    checkpoints = train("grid", tiny_data, tmp_path, *sweep)
    assert {path.split("/")[3] for path in checkpoints} == {"lstm_soft.seed1", "lstm_soft.seed2"}
    assert [Path(path).name for path in checkpoints] == ["checkpoint_best.pt", "checkpoint_last.pt"] * 4
    last = [load_checkpoint_to_cpu(str(tmp_path / path))["model"] for path in checkpoints if "last" in path]
    words = [model["encoder.embed_tokens.weight"] for model in last]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(words, 2))


def test_grid_names_its_sweep(hydra_dir):
    sweep = compose("grid", return_hydra_config=True).hydra.sweeper.params
    assert sorted(sweep["model"].split(",")) == PLAIN_MODELS
    assert sweep["common.seed"] == "1,2,3"


def test_slurm_launcher(hydra_dir):
    """With the launcher installed, hydra accepts every key and its type."""
    keys = yaml.safe_load((CONFIGS / "hydra" / "launcher" / "slurm.yaml").read_text(encoding="utf-8"))
    assert keys["defaults"] == ["submitit_slurm"]
    assert keys["max_num_timeout"] > 0, "a job that runs out of time must be queued again"
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs hydra-submitit-launcher")
    overrides = ["hydra/launcher=slurm", "hydra.launcher.partition=gpu"]
    launcher = compose("grid", overrides=overrides, return_hydra_config=True).hydra.launcher
    assert re.search(r"\.SlurmLauncher$", launcher["_target_"])
    assert launcher.partition == "gpu" and launcher.gpus_per_node == 1
