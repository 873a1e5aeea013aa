"""What fairseq-attn train remembers of a training, and translations in order."""

import pytest

from fairseq_attn_plugin.corpora.files import CorpusError
from fairseq_attn_plugin.own_data.steps import lasting_options, read_hypotheses


def test_lasting_options_are_without_those_that_only_say_how_long():
    options = "--arch lstm --max-epoch 3 --adam-betas 0.9 0.98 --cpu --patience=4 --lr=1 --sentence-avg --lr 3e-3"
    kept = {"--arch": "lstm", "--adam-betas": "0.9 0.98", "--lr": "3e-3", "--sentence-avg": ""}
    assert lasting_options(options.split()) == kept, "of an option given twice the last one counts"


def test_hypotheses_are_put_in_order_and_none_may_be_missing(tmp_path):
    path = tmp_path / "generate-test.txt"
    path.write_text("S-2\tx\nD-2\t-0.1\tthird\nD-0\t-0.2\tfirst\nD-0\t-0.9\tof --nbest\nD-1\t-0.3\tsecond\n")
    assert read_hypotheses(path, 3) == ["first", "second", "third"]
    for count, said in ((2, "3 translations for 2 sentences: remove it"), (4, r"4 sentences \(number 3 is missing\)")):
        with pytest.raises(CorpusError, match=said):
            read_hypotheses(path, count)
