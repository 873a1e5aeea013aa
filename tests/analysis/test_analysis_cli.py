"""fairseq-attn: every subcommand has a help, a mistake is one line, --user-dir imports a user's folder."""

import sys

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.model_options import import_user_dir
from fairseq_attn_plugin.errors import OptionError

from cli import USER_DIR, run_cli

LOADING_A_MODEL = [
    "align",
    "faithfulness",
    "extract",
    "serve",
    "export",
    "classify",
    "election",
    "report",
    "translate",
    "train",
]


def help_of(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help(name, capsys):
    shown = help_of(name, capsys)
    assert shown.startswith(f"usage: fairseq-attn {name}") and "show this help message" in shown
    assert ("--user-dir FOLDER" in shown) == (name in LOADING_A_MODEL)


def test_a_mistake_is_one_line():
    done = run_cli("fairseq-attn", "plot", "no.jsonl", "--out", "x.png", check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "fairseq-attn: error: no.jsonl: cannot be read: No such file or directory\n"


def test_ctrl_c_is_one_line(monkeypatch, capsys):
    def interrupted(paths):
        raise KeyboardInterrupt

    from fairseq_attn_plugin.commands.analysis import align

    monkeypatch.setattr(align, "open_systems", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["align", "a.jsonl", "--out", "links"])
    assert ended.value.code == 130 and capsys.readouterr().err == "fairseq-attn: interrupted\n"


@pytest.fixture
def user_dir(tmp_path, monkeypatch):
    """Makes a folder with this code; what its import adds to the interpreter is removed after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name, code):
        folder = tmp_path / name
        (folder / "models").mkdir(parents=True)
        (folder / "__init__.py").write_text(code)
        (folder / "models" / "__init__.py").write_text("")
        return folder

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] in ("attn_user_dir", "attn_broken_dir")]:
        del sys.modules[name]
    ARCH_MODEL_REGISTRY.pop("lstm_of_a_user", None)


ARCHITECTURE = """
from fairseq.models import register_model_architecture

@register_model_architecture("lstm", "lstm_of_a_user")
def lstm_of_a_user(args):
    args.encoder_layers = 1
"""


def test_a_user_dir_is_imported_before_the_command_runs(tmp_path, user_dir):
    folder, other = user_dir("attn_user_dir", ""), user_dir("attn_user_dir_two", "raise ValueError('imported')")
    (folder / "models" / "mine.py").write_text(ARCHITECTURE)
    command = ["classify", "data", "--path", "x.pt", "--input", str(tmp_path / "none")]
    with pytest.raises(OptionError, match="--input .*none: there is no such file"):
        cli.main([*command, "--user-dir", str(folder)])
    assert "lstm_of_a_user" in ARCH_MODEL_REGISTRY
    import_user_dir(str(folder))  # a second import changes nothing
    with pytest.raises(OptionError, match=f"^--user-dir {other}: cannot be imported: .*ValueError: imported"):
        cli.main([*command, "--user-dir", str(folder), "--user-dir", str(other)])


def test_the_package_itself_is_a_user_dir():
    import_user_dir(USER_DIR)


def test_an_installed_package_is_a_user_dir_by_its_name(tmp_path, user_dir, monkeypatch):
    user_dir("attn_user_dir_three", "imported = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir("/")
    import_user_dir("attn_user_dir_three")
    assert sys.modules.pop("attn_user_dir_three").imported


def test_a_user_dir_that_cannot_be_imported_is_one_line(tmp_path, user_dir):
    with pytest.raises(OptionError, match="^--user-dir nowhere: there is no such folder"):
        import_user_dir("nowhere")
    folder = user_dir("attn_broken_dir", "import os\nraise KeyError('a\\nb')\n")
    for _ in range(2):  # the failure is not forgotten
        with pytest.raises(OptionError) as caught:
            import_user_dir(str(folder))
        assert str(caught.value) == (
            f"--user-dir {folder}: cannot be imported: {folder / '__init__.py'}, line 2: KeyError: 'a\\nb'"
        )
    (tmp_path / "json").mkdir()
    with pytest.raises(OptionError, match="--user-dir .*json: cannot be imported: .* not globally unique"):
        import_user_dir(str(tmp_path / "json"))
