"""Yields the attention of a model for every sentence of a corpus.

    from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
    from fairseq_attn_plugin.analysis.inference.loading import load_models
    from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences

    loaded = load_models(DATA, CHECKPOINT)
    for record in extract(loaded, SplitSentences(loaded, "test"), Extraction(beam=5)):
        ...

The attention of a translation is always that of one forward pass in which the translation is forced. It is the same
function of source and translation for every model, however the translation was found.
"""

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from torch import Tensor

from fairseq_attn_plugin.analysis.inference.attributions import MATRICES
from fairseq_attn_plugin.analysis.inference.batches import batches_of, collated, columns_of, targeted_blocks
from fairseq_attn_plugin.analysis.inference.forcing import force, weight_names
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence, symbols_of
from fairseq_attn_plugin.analysis.outputs.reading import unknown_in_reference
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.text.subwords import pair_subwords, spell

BLOCK = 400  # sentences in memory at a time, which are sorted by length together


class Extraction(NamedTuple):
    """Options of an extraction, apart from the models and the corpus.

    beam: None forces the references; a number translates with a beam of this width and forces the best hypothesis
    generation: further options of fairseq's generator, used with ``beam``: ``lenpen``, ``max_len_a``, ...
    max_tokens: greatest number of subwords in a batch, padding included
    matrices: names in :data:`~.attributions.MATRICES`, which are added to what the models give
    """

    beam: Optional[int] = None
    generation: Mapping[str, Any] = {}
    max_tokens: int = 4000
    matrices: Tuple[str, ...] = ()

    def names(self, models: Sequence[Any]) -> Tuple[str, ...]:
        """Names of the matrices that these models give."""
        given = weight_names(models)
        return (*given, *(name for name in self.matrices if name not in given))


FORCED = Extraction()


def extract(loaded: LoadedModels, sentences: Any, extraction: Extraction = FORCED, start: int = 0) -> Iterator[Record]:
    """Yields a record for each sentence, in the order of the corpus.

    Sentences that are longer than a model or its task allows are left out. ``BLOCK`` sentences are in memory at a time.

    Args:
        loaded: the models
        sentences: :class:`~.sentences.SplitSentences` or :class:`~.sentences.TextSentences`
        extraction: the options
        start: number of the first sentence

    Raises:
        OptionError: a model returns no attention, or references are to be forced and the corpus has none
    """
    where, beam = f"--path {loaded.path}", extraction.beam
    given = weight_names(loaded.models)
    others = [name for name in extraction.names(loaded.models) if name not in given]
    for block in targeted_blocks(loaded, sentences, extraction, BLOCK, start):
        found: List[Record] = []
        for batch in batches_of(block, extraction.max_tokens):
            sample = collated(loaded, batch)
            scores, matrices = force(loaded.models, sample, given, where)
            matrices.update((name, MATRICES[name](loaded, batch, sample, extraction.max_tokens)) for name in others)
            found += _records(loaded, batch, sample, scores, matrices, beam is not None)
        yield from sorted(found, key=lambda record: record.id)


def _records(
    loaded: LoadedModels,
    batch: List[SourceSentence],
    sample: Dict[str, Any],
    scores: Tensor,
    matrices: Dict[str, Tensor],
    beam: bool,
) -> Iterator[Record]:
    subwords = pair_subwords(loaded.task)
    matrices = {name: matrix.cpu() for name, matrix in matrices.items()}
    for row, number in enumerate(sample["id"].tolist()):
        one = batch[number]
        assert one.target is not None
        rows, columns = slice(len(one.target)), columns_of(loaded, sample, len(one.source))
        reference = None
        if beam:
            target = symbols_of(one.target, loaded.task.target_dictionary)
            if one.target_tokens is not None:
                reference = unknown_in_reference(" ".join(spell(one.target_tokens, subwords)))
        else:
            target = one.target_tokens or []
        weights = {name: matrix[row, rows, columns].numpy() for name, matrix in matrices.items()}
        logs = scores[row][rows].tolist()
        yield Record(one.id, one.source_tokens, target, weights, logs, subwords, reference)
