"""The command ``fairseq-attn`` itself: version, name, and words that are not known."""

import os

import pytest

from fairseq_attn_plugin import __version__
from fairseq_attn_plugin.cli import main

TRAIN = "train p.tsv --from a --to b".split()


def ended(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return end.value.code, capsys.readouterr()


def test_version(capsys):
    assert ended(capsys, "--version") == (0, (f"fairseq_attn_plugin {__version__}\n", ""))


def test_trainings_that_it_starts_have_the_cache_of_fairseq_train(capsys, monkeypatch):
    """A small cache of kernels that suits a command would make its trainings compile some in every update."""
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    assert ended(capsys, "recipe", "--help")[0] == 0
    assert os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256") == "256"


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
        (["aer", "--gold", "a", "b", "--treshold=1"], "unrecognized argument: --treshold=1; did you mean --threshold?"),
        (
            ["aer", "--gold", "a", "b", "--xyzzy", "c"],
            "unrecognized arguments: --xyzzy c; fairseq-attn aer --help",
        ),
    ],
)
def test_unknown_words(capsys, words, said):
    code, (_, error) = ended(capsys, *words)
    assert code == 2 and f"error: {said}" in error.splitlines()[-1]
