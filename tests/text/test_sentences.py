import pytest

from fairseq_attn_plugin.text.reading import has_several_sentences

SEVERAL = [
    "Ein Mann schläft. Eine Frau liest.",
    "Ein Mann schläft . Eine Frau liest .",
    "Wer ist da? Niemand!",
    'Er sagte: "Ich komme morgen." Dann ging er.',
    "Il dort… Élise lit.",
    "Он спит. Она читает.",
    "他在睡觉。她在看书。",
]
ONE = [
    "",
    "Ein Mann schläft.",
    "Dr. Meyer wohnt in der Nr. 5 und liest.",
    "Es kostet 3.50 Euro.",
    "ein mann schläft . eine frau liest .",
    "See example.com for the whole story.",
    "他在睡觉。",
    "Um 5 p.m. geht er.",
]


@pytest.mark.parametrize("line", SEVERAL)
def test_several(line):
    assert has_several_sentences(line)


@pytest.mark.parametrize("line", ONE)
def test_one(line):
    assert not has_several_sentences(line)
