"""The command ``fairseq-attn``: its help, unknown words, mistakes in one line, ``--user-dir``, other folders."""

import re
import sys
from pathlib import Path

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from records_for_tests import write_records

from fairseq_attn_plugin import __version__, cli
from fairseq_attn_plugin.analysis.inference import attention_file
from fairseq_attn_plugin.analysis.inference.model_options import import_user_dir
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import FORMAT, NEEDED
from fairseq_attn_plugin.writing import write_json

from cli import REPO, USER_DIR, run_cli

TRAIN = "train p.tsv --from a --to b".split()


def ended(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return end.value.code, capsys.readouterr()


def test_version(capsys):
    assert ended(capsys, "--version") == (0, (f"fairseq_attn_plugin {__version__}\n", ""))


@pytest.mark.parametrize("path, name", [("/bin/attn-analysis", "attn-analysis"), ("pytest", "fairseq-attn")])
def test_help_shows_the_name_by_which_the_command_was_called(capsys, monkeypatch, path, name):
    monkeypatch.setattr("sys.argv", [path])
    shown = ended(capsys, "--help")[1].out
    assert shown.startswith(f"usage: {name} ") and "\n    recipe " in shown


@pytest.mark.parametrize(
    "words, said",
    [
        (["explor"], "explor: there is no such subcommand; did you mean explore or export?"),
        (["xyzzy"], "xyzzy: there is no such subcommand; fairseq-attn --help lists the subcommands"),
        ([*TRAIN, "--lr", "1e-3"], "unrecognized argument: --lr; options of fairseq-train follow --, as in -- --lr"),
        ([*TRAIN, "--tokeniser", "none"], "unrecognized argument: --tokeniser; did you mean --tokenizer? options of"),
        (["export", "a", "--to", "b", "--bpe", "c"], "unrecognized argument: --bpe; did you mean --beam?"),
        (["align", "a", "--symmetrize", "unoin"], "--symmetrize unoin: is unknown; did you mean union?"),
        (
            ["serve", "data", "--path", "a.pt", "--path=b.pt"],
            "--path: is given several times; give it once, with colons",
        ),
        (["aer", "--gold", "a", "b", "--wieghts=1"], "unrecognized argument: --wieghts=1; did you mean --weights?"),
        (["aer", "--gold", "a", "b", "--xyzzy", "c"], "unrecognized arguments: --xyzzy c; fairseq-attn aer --help"),
    ],
)
def test_unknown_words(capsys, words, said):
    code, (_, error) = ended(capsys, *words)
    assert code == 2 and f"error: {said}" in error.splitlines()[-1]


LOADING_A_MODEL = [
    *"aer align classify confidence election explore export extract faithfulness frequency".split(),
    *"lagging lexicon plot report serve train translate".split(),
]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help(name, capsys):
    code, (shown, _) = ended(capsys, name, "--help")
    assert code == 0 and shown.startswith(f"usage: fairseq-attn {name}") and "show this help message" in shown
    assert ("--user-dir FOLDER" in shown) == (name in LOADING_A_MODEL)
    assert ("--cpu" in shown) == (name in LOADING_A_MODEL and name != "export")
    assert "``" not in shown and ":`" not in shown  # marks of reStructuredText


def test_a_mistake_is_one_line():
    done = run_cli("fairseq-attn", "plot", "no.jsonl", "--out", "x.png", check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "fairseq-attn: error: no.jsonl: cannot be read: No such file or directory\n"


@pytest.fixture
def complete(tmp_path, monkeypatch):
    """Completes a command line: RECORDS, TEXT, MODEL stand for files."""
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "records.jsonl")
    (tmp_path / "text").write_text("a\nb\nc\n")
    (tmp_path / "y.pt").touch()
    files = {"RECORDS": ["records.jsonl"], "TEXT": ["text"], "MODEL": ["data", "--path", "x.pt"]}
    return lambda line: [part for word in line.split() for part in files.get(word, [word])]


@pytest.mark.parametrize(
    "line",
    [
        "aer RECORDS --gold TEXT --json none/x",
        "align RECORDS --out none/x",
        "average a.pt b.pt --out none/x",
        "classify MODEL --gen-subset test --out none/x",
        "compare TEXT --reference TEXT --out none/x.html",
        "confidence RECORDS --json none/x",
        "election MODEL --out none/x",
        "election data --agent none/x",
        "explore RECORDS --out none/x.html",
        "extract MODEL --out none/x.jsonl",
        "faithfulness MODEL --out none/x",
        "frequency TEXT --train TEXT --reference TEXT --json none/x",
        "lexicon RECORDS --out none/x",
    ],
)
def test_a_folder_that_is_not_there_is_named_before_the_work(line, complete):
    option = next(word for word in line.split() if word in ("--agent", "--json", "--out"))
    with pytest.raises(OptionError, match=f"^{option} none/x.*: cannot be written: there is no folder none$"):
        cli.main(complete(line))


@pytest.mark.parametrize(
    "line",
    [
        "align MODEL --out x --max-tokens 0",
        "classify MODEL --gen-subset test --batch-size 0",
        "compare TEXT --reference TEXT --first -1",
        "confidence RECORDS --samples 1",
        "election MODEL --max-tokens 0",
        "election data --agent x --updates 0",
        "election data --agent x --min-count 0",
        "extract MODEL --out x.jsonl --max-tokens 0",
        "faithfulness MODEL --sentences 0",
        "faithfulness MODEL --seed -1",
        "faithfulness MODEL --top 0",
        "lexicon RECORDS --out x --top 0",
        "lexicon RECORDS --out x --min-count -1",
        "plot RECORDS --out x --first -1",
    ],
)
def test_a_number_that_is_too_small_is_named(line, complete):
    option, value = line.split()[-2:]
    with pytest.raises(OptionError, match=rf"^{option} {value}(\.0)?: must be (at least \d|0 or more)$"):
        cli.main(complete(line))


@pytest.mark.parametrize(
    "line, said",
    [
        ("plot RECORDS --out x --one-based", "--one-based: needs --gold FILE, whose words it counts"),
        ("report . --data data --out x --one-based", "--one-based: needs --gold FILE, whose words it counts"),
        ("classify MODEL --gen-subset test --documents 3 5-7", "--documents 3 5-7: needs --plot FILE.html, which"),
        ("export y.pt --to x --force", "--force: overwrites --out FILE; --to FOLDER must not exist, or be empty"),
        ("export y.pt --direction a-b --out x --data data", "--data data: is of a folder, --to FOLDER; leave it out"),
        ("export y.pt --direction a-b --out x --case keep", "--case keep: is of a folder, --to FOLDER; leave it out"),
        ("extract MODEL --out x.jsonl --bpe-codes c", "--bpe-codes c: needs --source-text FILE, which it prepares"),
        ("compare TEXT --reference TEXT --metric ter", "--metric ter: needs --sort, which goes by it"),
        ("align RECORDS --out x --model-overrides {'a':1}", "--model-overrides {'a':1}: needs --path, the checkpoint"),
        ("aer y.pt --gold TEXT", "y.pt: is a checkpoint; give the file that fairseq-attn extract writes of it"),
        ("report none --out x", "none: is not a folder"),
        (f"translate {'Hund.' * 99}", f"{'Hund.' * 99}: is no model folder, checkpoint or exported model; give"),
        (f"compare {'Hund.' * 99} --reference TEXT", f"{'Hund.' * 99}: cannot be read: File name too long"),
        ("compare a=y.pt --reference TEXT", "y.pt: is a checkpoint; give the file that fairseq-attn extract writes"),
    ],
)
def test_what_would_not_be_read_is_refused(line, said, complete):
    with pytest.raises(OptionError, match=f"^{re.escape(said)}"):
        cli.main(complete(line))


@pytest.mark.parametrize(
    "line",
    [
        "aer FOLDER --gold TEXT",
        "align FOLDER --out x",
        "confidence FOLDER",
        "explore FOLDER --out x.html",
        "frequency FOLDER --train TEXT --reference TEXT",
        "lagging FOLDER",
        "lexicon FOLDER --out x",
        "plot FOLDER --out x",
    ],
)
def test_the_model_of_a_folder_may_stay_on_the_cpu(line, complete, monkeypatch):
    settings = {"format": FORMAT, **dict.fromkeys(NEEDED), "languages": ["a", "b"], "subwords": "none"}
    Path("model").mkdir()
    write_json("--out", "model/settings.json", settings)
    for name in ("model.pt", "dict.a.txt", "dict.b.txt", "test.a", "test.b"):
        Path("model", name).touch()

    def load(*_, cpu):
        raise OptionError(f"cpu: {cpu}")

    monkeypatch.setattr(attention_file, "load_models", load)
    for options, cpu in ([], False), (["--cpu"], True):
        with pytest.raises(OptionError, match=f"^cpu: {cpu}$"):
            cli.main([*complete(line.replace("FOLDER", "model")), *options])


def test_a_number_that_no_machine_counts_to_is_named(complete):
    with pytest.raises(OptionError, match=f"^--first {10**24}: must be less than 2.63$"):
        cli.main(complete(f"explore RECORDS --out x.html --first {10**24}"))


def test_ctrl_c_is_one_line(monkeypatch, capsys):
    def interrupted(paths):
        raise KeyboardInterrupt

    from fairseq_attn_plugin.commands.analysis import align

    monkeypatch.setattr(align, "open_systems", interrupted)
    code, (_, said) = ended(capsys, "align", "a.jsonl", "--out", "links")
    assert code == 130 and said == "fairseq-attn: interrupted\n"


@pytest.fixture
def user_dir(tmp_path, monkeypatch):
    """Makes a folder with this code; what its import adds to the interpreter is removed after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name, code):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
        return tmp_path / name

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
    folder = user_dir("attn_user_dir", ARCHITECTURE)
    other = user_dir("attn_user_dir_two", "raise ValueError('imported')")
    command = ["classify", "data", "--path", "x.pt", "--input", str(tmp_path / "none")]
    with pytest.raises(OptionError, match="--input .*none: there is no such file"):
        cli.main([*command, "--user-dir", str(folder)])
    assert "lstm_of_a_user" in ARCH_MODEL_REGISTRY
    import_user_dir(str(folder))  # a second import changes nothing
    with pytest.raises(OptionError, match=f"^--user-dir {other}: cannot be imported: .*ValueError: imported"):
        cli.main([*command, "--user-dir", str(folder), "--user-dir", str(other)])


def test_an_installed_package_is_a_user_dir_by_its_name_and_so_is_this_package(tmp_path, user_dir, monkeypatch):
    import_user_dir(USER_DIR)
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


def test_where_the_package_is(tmp_path, capsys):
    assert run_cli("fairseq-attn", "where", cwd=tmp_path).stdout == USER_DIR + "\n"
    for option, folder in (("--configs", REPO / "configs"), ("--recipes", REPO / "scripts" / "recipes")):
        main(["where", option])
        assert capsys.readouterr().out == f"{folder}\n"


def test_a_recipe_that_is_not_there(tmp_path, monkeypatch):
    done = run_cli("fairseq-attn", "recipe", "no-such-corpus", cwd=tmp_path, check=False)
    assert done.returncode == 1 and "there is no such recipe; choose from imdb_han, iwslt14" in done.stderr
    monkeypatch.setenv("OUT", "out/12:30")
    with pytest.raises(OptionError, match="^OUT=out/12:30: has a colon"):
        main(["recipe", "multi30k"])
