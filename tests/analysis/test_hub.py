"""fairseq-attn push and pull: a model folder goes to a stand-in of the hub's client and comes back as it was."""

import hashlib
import inspect
import json
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from fairseq_attn_plugin.analysis import cli
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import Text, open_model_folder, write_model_folder

NAME = "anna/lstm-xx-yy"
SCORES = {"bleu": {"score": 93.25, "signature": "nrefs:1|tok:13a"}, "chrf": {"score": 95.5, "signature": "nc:6|nw:0"}}


def safetensors():
    return pytest.importorskip("safetensors.torch", reason="NO SAFETENSORS: pip install 'fairseq_attn_plugin[hub]'")


class Hub:
    """What ``huggingface_hub`` does for push and pull, in a folder: a commit is a copy of the repository."""

    def __init__(self, root):
        self.root, self.private = root, {}

    def module(self):
        hub, found = self, ModuleType("huggingface_hub")

        class HfApi:
            def create_repo(self, repo_id, *, private=None, exist_ok=False):
                folder = hub.root / repo_id
                if folder.exists() and not exist_ok:
                    raise RuntimeError("409 Client Error: Conflict")
                hub.private.setdefault(repo_id, private)
                folder.mkdir(parents=True, exist_ok=True)

            def upload_folder(self, *, repo_id, folder_path, commit_message=None):
                content = shutil.copytree(folder_path, hub.root / repo_id / "main", dirs_exist_ok=True)
                (hub.root / repo_id / "message").write_text(commit_message)
                return f"https://huggingface.co/{repo_id}/commit/{hashlib.sha1(str(content).encode()).hexdigest()[:7]}"

        def snapshot_download(repo_id, *, revision=None, local_dir=None, allow_patterns=None):
            source = hub.root / repo_id / (revision or "main")
            if not source.is_dir():
                raise RuntimeError(
                    f"404 Client Error. (Request ID: 1)\n\nRepository Not Found for {repo_id}. No token?"
                )
            for file in source.iterdir():
                if any(file.match(pattern) for pattern in allow_patterns):
                    shutil.copyfile(file, Path(local_dir) / file.name)
            return str(local_dir)

        found.HfApi, found.snapshot_download = HfApi, snapshot_download
        return found


@pytest.fixture
def hub(tmp_path, monkeypatch):
    hub = Hub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub.module())
    return hub


@pytest.fixture(scope="module")
def folder(zoo, tiny_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    folder.mkdir()
    codes = folder.parent / "codes"
    codes.write_text("#version: 0.2\na m\nam a</w>\n")
    content = {"languages": ["xx", "yy"], "data": "training/data", "log": None, "scores": SCORES, "stamp": "x"}
    content.update(architecture="lstm_adm", pairs={"train": 12345}, versions={"torch": "2"})
    content["command"] = ["fairseq-train", "/home/anna/secret/data", "--arch", "lstm_adm"]
    write_model_folder(folder, zoo("reversal").last, tiny_data, Text(False, "none", bpe_codes=str(codes)), content)
    (folder / "test.xx").write_text("licensed text\n")
    (folder / "training").mkdir()
    return folder


def translation(folder):
    from fairseq_attn_plugin.analysis.translator import Translator

    return [one.text for one in Translator.of_folder(str(folder))("a b c d e")], Translator.of_folder(str(folder))


def test_there_and_back(folder, hub, tmp_path, monkeypatch, capsys):
    import torch
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    safetensors()
    monkeypatch.chdir(tmp_path)
    cli.main(["push", str(folder), NAME, "--private", "--message", "first"])
    assert capsys.readouterr().out.startswith(f"https://huggingface.co/{NAME}/commit/")
    repository = hub.root / NAME / "main"
    assert sorted(path.name for path in repository.iterdir()) == [
        *("README.md", "bpe.codes", "config.json", "dict.xx.txt", "dict.yy.txt", "model.safetensors", "settings.json")
    ]
    assert hub.private == {NAME: True} and (hub.root / NAME / "message").read_text() == "first"
    for file in ("config.json", "settings.json", "README.md"):
        text = (repository / file).read_text(encoding="utf-8")
        assert "/home/anna" not in text and str(Path.home()) not in text and "/tmp/" not in text, file
        assert "licensed" not in text
    cli.main(["pull", NAME])
    assert capsys.readouterr().out == "lstm-xx-yy: xx-yy\n"
    mine, other = (load_checkpoint_to_cpu(str(where / "model.pt")) for where in (folder, tmp_path / "lstm-xx-yy"))
    assert sorted(mine["model"]) == sorted(other["model"])
    for name, value in mine["model"].items():
        assert torch.equal(value, other["model"][name]) and value.dtype == other["model"][name].dtype, name
    assert translation(folder)[0] == translation(tmp_path / "lstm-xx-yy")[0]
    # what was taken can be given again, and evaluated
    cli.main(["push", "lstm-xx-yy", NAME])
    cli.main(["pull", NAME, "again"])
    assert open_model_folder("again").settings["scores"] == SCORES
    (tmp_path / "text").write_text("a b\n")
    cli.main(["extract", "again", "--source-text", "text", "--beam", "1", "--cpu", "--out", "a.jsonl"])


def test_the_card(folder):
    from fairseq_attn_plugin.analysis.hub.card import model_card

    card = model_card(open_model_folder(folder), NAME)
    _, head, body = re.split(r"^---$", card, maxsplit=2, flags=re.M)
    about = yaml.safe_load(head)
    assert about["language"] == ["xx", "yy"] and about["pipeline_tag"] == "translation" and "lstm_adm" in about["tags"]
    (result,) = about["model-index"][0]["results"]
    assert [(one["type"], one["value"]) for one in result["metrics"]] == [("bleu", 93.25), ("chrf", 95.5)]
    assert "| BLEU | 93.25 | nrefs:1\\|tok:13a |" in body and "train: 12,345 pairs" in body
    assert f"fairseq-attn pull {NAME} lstm-xx-yy" in body and "fairseq-train" in body


def test_a_card_without_records_and_with_strange_ones(folder, tmp_path):
    from fairseq_attn_plugin.analysis.hub.card import model_card

    found = open_model_folder(folder)
    bare = {key: found.settings[key] for key in ("languages", "bpe", "tokenizer", "lowercase")}
    assert "No scores are recorded." in model_card(found._replace(settings=bare), NAME)
    strange = {**bare, "architecture": 'x"\n---\n<script>', "scores": {"a": "b", "c\n- d": 1.0}, "pairs": [1]}
    card = model_card(found._replace(settings=strange), NAME)
    head = yaml.safe_load(re.split(r"^---$", card, maxsplit=2, flags=re.M)[1])
    assert head["tags"][2] == strange["architecture"] and head["metrics"] == ["c\n- d"]


def test_shared_tensors_stay_shared(folder):
    import torch

    from fairseq_attn_plugin.analysis.hub.packing import _distinct

    one = torch.arange(6.0).reshape(2, 3)
    tensors, same = _distinct({"a": one, "b": one, "c": one.t(), "d": torch.zeros(0), "e": torch.zeros(0)})
    assert same == {"b": "a"} and list(tensors) == ["a", "c", "d", "e"] and tensors["c"].is_contiguous()


@pytest.mark.parametrize("name", ["model", "a/b/c", "a/", "/b", "../b", "a b/c", "a/..", "-a/b\n"])
def test_names(name, folder, hub):
    for words in (["push", str(folder), name], ["pull", name]):
        if not name.startswith("-"):
            with pytest.raises(OptionError, match="must be the name of a repository, USER/MODEL"):
                cli.main(words)
    assert not hub.root.exists()


def test_mistakes(folder, hub, tmp_path, monkeypatch):
    safetensors()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="none: is no model folder; push takes what fairseq-attn train writes"):
        cli.main(["push", "none", NAME])
    with pytest.raises(
        OptionError, match=r"pull anna/none: 404 Client Error. \(Request ID: 1\); hf auth login, or HF_T"
    ):
        cli.main(["pull", "anna/none"])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(OptionError, match="full: exists; name another folder: pull anna/none FOLDER"):
        cli.main(["pull", "anna/none", "full"])
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for words in (["push", str(folder), NAME], ["pull", NAME]):
        with pytest.raises(OptionError, match=r"pip install 'fairseq_attn_plugin\[hub\]'"):
            cli.main(words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full"]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", lambda text: "{", "has no config.json of fairseq-attn push"),
        ("config.json", lambda text: text.replace('"updates"', '"upgrades"'), "is not what fairseq-attn push writes"),
        ("settings.json", lambda text: text.replace('"xx"', '"../../xx"'), "is not what fairseq-attn push writes"),
        ("settings.json", lambda text: "[]", "is not what fairseq-attn push writes"),
        ("settings.json", lambda text: text.replace("plugin model 1", "plugin 9"), "is not of a model folder"),
        ("model.safetensors", lambda text: "no tensors", "is not what fairseq-attn push writes"),
        ("dict.xx.txt", None, "has no dict.xx.txt; it must be what fairseq-attn push writes"),
    ],
)
def test_repositories_of_others(file, change, message, folder, hub, tmp_path, monkeypatch):
    safetensors()
    monkeypatch.chdir(tmp_path)
    cli.main(["push", str(folder), NAME])
    path = hub.root / NAME / "main" / file
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text(errors="replace")))
    with pytest.raises(OptionError, match=message) as error:
        cli.main(["pull", NAME, "mine"])
    assert "/tmp" not in str(error.value).replace(str(tmp_path), "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hub"], "nothing is left"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("--out=/home/x/secret", "--out=secret"),
        ("bin1:/home/x/bin2:~/bin3", "bin1:bin2:bin3"),
        ("--path=/home/x/a.pt:/home/x/lr=0.1/b.pt", "--path=a.pt:b.pt"),
        ("/home/x/lr=0.1/out", "out"),
        ("bin/../../../x", "x"),
        ("a=..", "a="),
        ("//home/x", "x"),
        ("file:///home/x", "file:x"),
        ("https://example.org/a", "https://example.org/a"),
        ("data/bin", "data/bin"),
        ("nrefs:1|tok:13a", "nrefs:1|tok:13a"),
    ],
)
def test_paths_of_the_machine_are_left_out(value, expected):
    from fairseq_attn_plugin.analysis.hub.packing import portable

    assert portable({"a": [value]}) == {"a": [expected]}


def test_paths_in_a_repository_do_not_lead_out_of_the_folder(folder, hub, tmp_path, monkeypatch):
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    safetensors()
    monkeypatch.chdir(tmp_path)
    cli.main(["push", str(folder), NAME])
    repository = hub.root / NAME / "main"
    settings = json.loads((repository / "settings.json").read_text())
    settings.update(data=str(tmp_path), log="../../secret.log", command=["fairseq-train", "--x=/etc/passwd"])
    (repository / "settings.json").write_text(json.dumps(settings))
    content = json.loads((repository / "config.json").read_text())
    content["cfg"]["task"]["data"] = f"bin:{tmp_path}/secret"
    (repository / "config.json").write_text(json.dumps(content))
    cli.main(["pull", NAME, "mine"])
    mine = open_model_folder("mine")
    assert (mine.data, mine.log) == ("mine", Path("mine/train.log"))
    assert mine.settings["command"] == ["fairseq-train", "--x=passwd"]
    assert load_checkpoint_to_cpu("mine/model.pt")["cfg"]["task"]["data"] == "bin:secret"


def test_folders_of_the_user_stay(folder, hub, tmp_path, monkeypatch, capsys):
    safetensors()
    cli.main(["push", str(folder), NAME])
    here = tmp_path / "here"
    for place in (here, tmp_path / "here.partial", tmp_path / "mine.partial"):
        place.mkdir()
    (tmp_path / "mine.partial" / "thesis").touch()
    monkeypatch.chdir(here)
    cli.main(["pull", NAME, "."])
    assert capsys.readouterr().out.endswith(".: xx-yy\n")
    assert Path("model.pt").is_file(), "the shell is still in the folder"
    cli.main(["pull", NAME, "../mine"])
    assert (tmp_path / "mine.partial" / "thesis").is_file()
    assert (tmp_path / "mine").stat().st_mode == (tmp_path / "here").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "here.partial", "hub", "mine", "mine.partial"]


def test_the_stand_in_is_called_as_the_client_is():
    """Every argument that push and pull give exists in the real client."""
    client = pytest.importorskip("huggingface_hub", reason="NO HUGGINGFACE_HUB: pip install 'fairseq_attn_plugin[hub]'")
    stand_in = Hub(Path()).module()
    for name in ("create_repo", "upload_folder"):
        ours = inspect.signature(getattr(stand_in.HfApi, name)).parameters
        assert set(ours) <= set(inspect.signature(getattr(client.HfApi, name)).parameters), name
    ours = inspect.signature(stand_in.snapshot_download).parameters
    assert set(ours) <= set(inspect.signature(client.snapshot_download).parameters)
