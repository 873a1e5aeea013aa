"""A checkpoint in the place of a data folder: its own folder has the dictionaries and the corpus."""

import pytest
import torch

from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError


def test_translates_as_with_its_data_folder(tiny_data, zoo, capsys):
    checkpoint, found = str(zoo("reversal").last), []
    for given in ([checkpoint], [str(tiny_data), "--path", checkpoint]):
        main(["translate", *given, "--beam", "2", "ama bel", "dora"])
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] and len(found[0].splitlines()) == 2


def test_lines_with_several_sentences_are_named(zoo, capsys):
    lines = ["ama bel", "Ama belle. Dora.", "ama", "Ama belle! Dora"]
    main(["translate", str(zoo("reversal").last), "--beam", "1", *lines])
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4
    assert "line 2 and 1 other: several sentences; a model that has learned single sentences may leave out" in err


def test_extracts_the_corpus_of_its_folder(tiny_data, zoo, tmp_path):
    checkpoint, files = str(zoo("reversal").last), [tmp_path / "alone.jsonl", tmp_path / "both.jsonl"]
    for given, file in zip(([checkpoint], [str(tiny_data), "--path", checkpoint]), files):
        main(["extract", *given, "--out", str(file)])
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("command", [["translate"], ["serve", "--port", "0"]], ids=lambda words: words[0])
def test_a_folder_that_is_not_there(command, zoo, tmp_path):
    state = torch.load(zoo("reversal").last, weights_only=False)
    state["cfg"]["task"]["data"] = "nowhere"
    torch.save(state, tmp_path / "moved.pt")
    said = "moved.pt: was trained on nowhere, which is not there; name its dictionaries' folder first, and .* --path"
    with pytest.raises(OptionError, match=said):
        main([*command, str(tmp_path / "moved.pt")])
