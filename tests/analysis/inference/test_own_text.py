"""What a translator does to a typed line before it tokenises it."""

from fairseq_attn_plugin.decoding.export.runtime import one_line


def test_joiners_and_soft_hyphens_stay():
    assert one_line("می\u200cخواهم  Schiff\u00adfahrt\tda\u2028\x00hier\n") == "می\u200cخواهم Schiff\u00adfahrt da hier"
