"""The card of a model folder: YAML that a Hugging Face Hub reads, and Markdown."""

import re

import yaml

from fairseq_attn_plugin.own_data.card import model_card

CONTENT = {
    "languages": ["xx", "yy"],
    "architecture": "lstm_adm",
    "pairs": {"train": 12345, "test": 100},
    "scores": {"bleu": {"score": 93.25, "signature": "nrefs:1|tok:13a"}, "chrf": {"score": 95.5, "signature": "nc:6"}},
    "command": ["fairseq-train", "/home/anna/secret/data", "--arch", "lstm_adm"],
    "versions": {"torch": "2"},
}


def test_what_the_training_recorded():
    card = model_card("lstm-xx-yy", CONTENT, "subword-nmt", "moses", False)
    _, head, body = re.split(r"^---$", card, maxsplit=2, flags=re.M)
    about = yaml.safe_load(head)
    assert card.startswith("---\n") and about["language"] == ["xx", "yy"] and "lstm_adm" in about["tags"]
    (result,) = about["model-index"][0]["results"]
    assert [(one["type"], one["value"]) for one in result["metrics"]] == [("bleu", 93.25), ("chrf", 95.5)]
    assert "| BLEU | 93.25 | nrefs:1\\|tok:13a |" in body and "| data | train: 12,345 pairs, test: 100 pairs |" in body
    assert "| subwords | subword-nmt |" in body and "--local-dir lstm-xx-yy" in body
    assert "fairseq-train data --arch lstm_adm" in body and "Versions: torch 2." in body


def test_of_paths_the_names_stay():
    words = ["--data=/a/b:/c/d", "/data/out/", "bin1:/home/x/bin2:~/bin3", "https://host/x", "data/bin", "0.5"]
    card = model_card("my model", {**CONTENT, "command": ["fairseq-train", *words]}, "none", "none", True)
    assert "\nfairseq-train --data=b:d out/ bin1:bin2:bin3 https://host/x data/bin 0.5\n" in card
    assert "--local-dir 'my model'\nfairseq-attn translate 'my model'\n" in card  # commands that run
