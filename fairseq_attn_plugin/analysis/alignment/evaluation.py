"""Alignment error rate, precision, recall and F1 of word alignments (Och and Ney 2003).

A system is a Pharaoh file or a file of records, which :mod:`.linking` turns into links. All systems and the gold
alignments must describe the same sentences::

    systems, lengths = load_alignments(["soft.jsonl", "fast_align=forward.align"], Linking())
    print(error_table(evaluate(systems, read_gold("test.align"))))
"""

from pathlib import Path
from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from tabulate import tabulate

from fairseq_attn_plugin.analysis.alignment.linking import Linking, linked_sentences
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, Lengths, Link, read_gold
from fairseq_attn_plugin.analysis.pages.document import printable
from fairseq_attn_plugin.analysis.records.files import Records, check_labels, is_records, label_and_path, open_records
from fairseq_attn_plugin.errors import OptionError


class ErrorRate(NamedTuple):
    """Alignment quality over a corpus; every value is between 0 and 1."""

    aer: float
    precision: float  # on possible links
    recall: float  # on sure links

    @property
    def f1(self) -> float:
        """2 / (1 / precision + 1 / recall), or 0 if either is 0.

        The balanced F-measure of precision on possible and recall on sure links (Fraser and Marcu, "Measuring Word
        Alignment Quality for Statistical Machine Translation", 2007, with alpha = 1/2). If all gold links are sure, it
        equals 1 - AER.
        """
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def alignment_error_rate(predicted: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]) -> ErrorRate:
    """AER = 1 - (|A n S| + |A n P|) / (|A| + |S|), precision |A n P| / |A|, recall |A n S| / |S|.

    A is the set of predicted links, S that of sure links, P that of possible links, which includes S. The counts are
    summed over the corpus (Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models", 2003).
    Precision is 1 without predicted links, recall is 1 without sure links, and AER is 0 without either.

    Raises:
        ValueError: the two have different numbers of sentences
    """
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} predicted alignments, but {len(gold)} gold ones")
    links = sure = hit_sure = hit_possible = 0
    for sentence, reference in zip(predicted, gold):
        answer = set(sentence)
        links += len(answer)
        sure += len(reference.sure)
        hit_sure += len(answer & reference.sure)
        hit_possible += len(answer & reference.possible)
    aer = 1 - (hit_sure + hit_possible) / (links + sure) if links + sure else 0.0
    return ErrorRate(aer, hit_possible / links if links else 1.0, hit_sure / sure if sure else 1.0)


class AlignedSystem(NamedTuple):
    """The links of one system, sentence by sentence."""

    label: str
    path: str
    links: List[Optional[FrozenSet[Link]]]  # None: the records lack the sentence
    lengths: Optional[List[Optional[Tuple[int, int]]]] = None  # of source and target; records only
    weights: Optional[str] = None  # name of the matrices; records only


class Evaluation(NamedTuple):
    """The quality of one system."""

    label: str
    score: ErrorRate
    links: int
    left_out: int  # sentences that the records lack; they count as sentences without links


def _from_records(records: Records, linking: Linking, corpus: Optional[AlignedSystem]) -> AlignedSystem:
    """The links of records, checked against the lengths of ``corpus``, the first records."""
    count, path = records.header.sentences, records.path
    if records.header.target != "reference":
        raise OptionError(
            f"{path}: has the model's own translations ({records.header.target}); gold alignments link the "
            "references, so extract without --beam"
        )
    if corpus is not None and len(corpus.links) != count:
        raise OptionError(f"{path}: has {count} sentences, {corpus.path} has {len(corpus.links)}")
    if linking.weights not in records.header.weights:
        linking = linking._replace(weights=records.weights_name())
    links: List[Optional[FrozenSet[Link]]] = [None] * count
    lengths: List[Optional[Tuple[int, int]]] = [None] * count
    for number, linked in linked_sentences(records, linking):
        length = (len(linked.source), len(linked.target))
        known = corpus.lengths[number] if corpus and corpus.lengths else None
        if corpus and known not in (None, length):
            raise OptionError(
                f"{path}: sentence {number} has {length[0]} source and {length[1]} target {linking.level}, in "
                f"{corpus.path} it has {known[0]} and {known[1]}"
            )
        lengths[number], links[number] = length, linked.links
    return AlignedSystem(records.label, str(path), links, lengths, records.weights_name(linking.weights))


def load_alignments(texts: Sequence[str], linking: Linking) -> Tuple[List[AlignedSystem], Optional[Lengths]]:
    """Several systems in the order given, and the sentence lengths that their records have.

    Raises ``OptionError`` if a file cannot be read, belongs to another corpus, or holds records of the model's own
    translations, since gold alignments link the references; if two systems have the same label; or if no file has the
    matrices that ``linking`` names.
    """
    systems: Dict[str, AlignedSystem] = {}
    corpus: Optional[AlignedSystem] = None
    # records come first: they have the sentence lengths that links are checked against
    for text in sorted(texts, key=lambda text: not is_records(text)):
        label, path = label_and_path(text)
        if is_records(path):
            systems[text] = _from_records(open_records(path, label), linking, corpus)
            corpus = corpus or systems[text]
        else:  # --one-based is for gold links
            links = read_gold(path, lengths=corpus.lengths if corpus else None, remedy="")
            systems[text] = AlignedSystem(label or Path(path).stem, path, [one.possible for one in links])
    check_labels([systems[text].label for text in texts])
    wanted, found = linking.weights, {system.weights for system in systems.values() if system.weights is not None}
    if wanted is not None and found and wanted not in found:
        raise OptionError(
            f"matrix {wanted} (--weights, --method): none of the files has it; they have {', '.join(sorted(found))}"
        )
    return [systems[text] for text in texts], None if corpus is None else corpus.lengths


def evaluate(systems: Sequence[AlignedSystem], gold: Sequence[GoldAlignment]) -> List[Evaluation]:
    """The quality of every system; raises ``OptionError`` if one has another number of sentences than ``gold``."""
    results = []
    for system in systems:
        if len(system.links) != len(gold):
            raise OptionError(f"{system.path}: has {len(system.links)} sentences, the gold alignments have {len(gold)}")
        links = [sentence or frozenset() for sentence in system.links]
        left_out = sum(sentence is None for sentence in system.links)
        results.append(Evaluation(system.label, alignment_error_rate(links, gold), sum(map(len, links)), left_out))
    return results


def error_table(results: Sequence[Evaluation]) -> str:
    """A plain-text table with one line for each system."""
    rows = [[printable(label), *score, score.f1, links] for label, score, links, _ in results]
    headers = ["system", "AER", "precision", "recall", "F1", "links"]
    return tabulate(rows, headers, floatfmt=".4f", disable_numparse=[0], colalign=["left"] + ["right"] * 5)
