"""The last step of scripts/demo.sh: BLEU, alignment error rate, and attention heatmaps.

python scripts/demo_report.py DEMO_FOLDER

reads DEMO_FOLDER/{translated,forced,text/,bpe/} and writes translation.dm, attention.align, heatmaps/, report.txt.
"""

import sys
from pathlib import Path
from typing import List

from generated import Generated, read_generated
from sacrebleu.metrics import BLEU

from fairseq_attn_plugin.analysis.alignment.error_rate import alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.linking import hard_alignment
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, read_alignments, write_alignments
from fairseq_attn_plugin.analysis.drawing.heatmaps import heatmap
from fairseq_attn_plugin.analysis.records.record import merge_attention
from fairseq_attn_plugin.errors import OptionError, install_hook
from fairseq_attn_plugin.text.subwords import spell
from fairseq_attn_plugin.toy_corpus.generation import SOURCE, TARGET

PICTURES = 6
PICTURE_WORDS = range(6, 13)  # numbers of source words that give a readable picture


def read_lines(path: Path) -> List[str]:
    return path.read_text(encoding="utf-8").splitlines()


def with_tokens(item: Generated, source: str, target: str, where: str) -> Generated:
    """``item`` with the tokens of the BPE files; fairseq prints <unk> for tokens that are not in its dictionary."""
    tokens = Generated(source.split(), target.split(), item.attention)
    for mine, printed in ((tokens.source, item.source), (tokens.target, item.target)):
        if len(mine) != len(printed) or any(a != b and "unk>" not in b for a, b in zip(mine, printed)):
            raise OptionError(f"{where}: {' '.join(printed)!r} must be {' '.join(mine)!r}; use --fresh")
    return tokens


def draw(folder: Path, translated: List[Generated], references: List[str], gold: List[GoldAlignment]) -> int:
    """Draws the first sentences of suitable length, with gold boxes if the translation equals the reference."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    fitting = [n for n, item in enumerate(translated) if len(spell(item.source)) in PICTURE_WORDS]
    chosen = (fitting or list(range(len(translated))))[:PICTURES]
    for number in chosen:
        item = translated[number]
        source, target = spell(item.source), spell(item.target)
        same = " ".join(target) == references[number]
        if target:
            heatmap(
                merge_attention(item.attention, item.source, item.target),
                source,
                target,
                folder / f"test-{number:03d}.png",
                title=f"test sentence {number}" + ("" if same else " (not the reference)"),
                gold=gold[number].sure if same else (),
            )
    return len(list(folder.glob("*.png")))


def main(folder: Path) -> None:
    references, gold = read_lines(folder / "text" / f"test.{TARGET}"), read_alignments(folder / "text" / "test.align")
    translated, forced = read_generated(folder / "translated"), read_generated(folder / "forced")
    if not len(translated) == len(forced) == len(references) == len(gold):
        raise OptionError(f"{folder}: {len(references)} test sentences, {len(translated)} translations; use --fresh")
    bpe_source, bpe_target = (read_lines(folder / "bpe" / f"test.{language}") for language in (SOURCE, TARGET))
    translated = [
        with_tokens(item, source, " ".join(item.target), f"{folder}/translated")
        for item, source in zip(translated, bpe_source)
    ]
    forced = [
        with_tokens(item, source, target, f"{folder}/forced")
        for item, source, target in zip(forced, bpe_source, bpe_target)
    ]

    hypotheses = [" ".join(spell(item.target)) for item in translated]
    (folder / f"translation.{TARGET}").write_text("".join(line + "\n" for line in hypotheses), encoding="utf-8")
    # The corpus is tokenised on purpose: force suppresses sacreBLEU's warning.
    bleu = BLEU(force=True)
    score = bleu.corpus_score(hypotheses, [references])
    exact = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references))

    links = [hard_alignment(merge_attention(item.attention, item.source, item.target)) for item in forced]
    write_alignments(folder / "attention.align", [GoldAlignment(frozenset(item), frozenset(item)) for item in links])
    quality = alignment_error_rate(links, gold)
    pictures = draw(folder / "heatmaps", translated, references, gold)
    (folder / "report.txt").write_text(
        f"   BLEU       {score.score:.1f}   {bleu.get_signature()}\n"
        f"   identical  {exact} of {len(references)} translations\n"
        f"   AER        {quality.aer:.3f}   (precision {quality.precision:.3f}, recall {quality.recall:.3f}: "
        f"attention to the reference against gold)\n"
        f"   heatmaps   {pictures}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    install_hook()
    main(Path(sys.argv[1]))
