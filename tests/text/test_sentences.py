"""Lines that seem to have several sentences, for notes to users."""

import pytest

from fairseq_attn_plugin.text.reading import has_several_sentences


@pytest.mark.parametrize(
    ("line", "several"),
    [
        ("Ein Mann schläft. Eine Frau liest.", True),
        ("Ein Mann schläft . Eine Frau liest .", True),
        ("Wer ist da? Niemand!", True),
        ('Er sagte: "Ich komme morgen." Dann ging er.', True),
        ("Il dort… Élise lit.", True),
        ("Он спит. Она читает.", True),
        ("他在睡觉。她在看书。", True),
        ("", False),
        ("Ein Mann schläft.", False),
        ("Dr. Meyer wohnt in der Nr. 5 und liest.", False),
        ("Es kostet 3.50 Euro.", False),
        ("ein mann schläft . eine frau liest .", False),
        ("See example.com for the whole story.", False),
        ("他在睡觉。", False),
        ("Um 5 p.m. geht er.", False),
    ],
)
def test_several_sentences(line, several):
    assert has_several_sentences(line) is several
