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

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import utils
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.alignment_methods import matrices
from fairseq_attn_plugin.analysis.inference.forced import force, weight_names
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.segmenter import vocabulary_subwords
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence, symbols_of
from fairseq_attn_plugin.analysis.outputs.reading import unknown_in_reference
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import spell

__all__ = ["FORCED", "Extraction", "batches_of", "collated", "extract", "fits", "generator_of", "hypotheses_of"]


BLOCK = 400  # sentences in memory at a time, which are sorted by length together


class Extraction(NamedTuple):
    """Options of an extraction, apart from the models and the corpus.

    beam: None forces the references; a number translates with a beam of this width and forces the best hypothesis
    layer: of a transformer's decoder, from 1 (default: the last)
    head: of this layer, from 1 (default: their mean)
    subwords: how words were split, one of ``SUBWORDS`` (default: decided by the target vocabulary)
    generation: further options of fairseq's generator, used with ``beam``: ``lenpen``, ``max_len_a``, ...
    max_tokens: greatest number of subwords in a batch, padding included
    nbest: with ``beam``, the number of hypotheses that are forced, best first
    matrices: names in :data:`~.alignment_methods.MATRICES`, which are added to what the models give
    """

    beam: Optional[int] = None
    layer: Optional[int] = None
    subwords: Optional[str] = None
    generation: Mapping[str, Any] = {}
    max_tokens: int = 4000
    nbest: int = 1
    head: Optional[int] = None
    matrices: Tuple[str, ...] = ()

    def names(self, models: Sequence[Any]) -> Tuple[str, ...]:
        """Names of the matrices that these models give."""
        given = self.given(models)
        return (*given, *(name for name in self.matrices if name not in given))

    def given(self, models: Sequence[Any]) -> Tuple[str, ...]:
        """Those that come with the attention."""
        return weight_names(models) if self.layer is None and self.head is None else ("attention",)


FORCED = Extraction()


def extract(loaded: LoadedModels, sentences: Any, extraction: Extraction = FORCED, start: int = 0) -> Iterator[Record]:
    """Yields a record for each sentence, in the order of the corpus; with ``nbest`` one for each hypothesis.

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
    given = extraction.given(loaded.models)
    others = [name for name in extraction.names(loaded.models) if name not in given]
    subwords = extraction.subwords or vocabulary_subwords(loaded.task.target_dictionary)
    generator = None if beam is None else generator_of(loaded, beam, extraction.generation)
    limits = loaded.limits
    reading = sentences(start)
    while True:
        block = list(islice(reading, BLOCK))
        if not block:
            return
        found: Dict[int, List[Record]] = {}
        fitting = [one for one in block if fits(one, limits, beam is None)]
        for batch in batches_of(fitting, extraction.max_tokens, beam or 1):
            parts = [batch]
            if generator is not None:
                # hypotheses may be much longer than their sources, so they are forced in batches of their own
                hypotheses = hypotheses_of(loaded, generator, batch, extraction.nbest)
                parts = list(batches_of(hypotheses, extraction.max_tokens, 1))
            elif any(one.target is None for one in batch):
                raise OptionError("--target-text is missing: give the translations, or --beam for the model's own")
            for part in parts:
                sample = collated(loaded, part, [one.target for one in part])
                forced = force(loaded.models, sample, given, where, extraction.layer, extraction.head)
                forced.weights.update(matrices(loaded, part, sample, others))
                for record in _records(loaded, part, sample, forced, beam is not None, subwords):
                    found.setdefault(record.id, []).append(record)
        for one in block:
            yield from sorted(found.get(one.id, ()), key=lambda record: record.rank)


def fits(sentence: SourceSentence, limits: Tuple[float, float], forced: bool) -> bool:
    """Whether a sentence, and with ``forced`` its target, is within the limits of source and target."""
    target = len(sentence.target) if forced and sentence.target is not None else 0
    return len(sentence.source) <= limits[0] and target <= limits[1]


def batches_of(block: List[SourceSentence], max_tokens: int, beam: int) -> Iterator[List[SourceSentence]]:
    """Batches of sentences of similar length, with at most ``max_tokens`` subwords or one sentence.

    Padding counts, and every hypothesis of the beam.
    """

    def length(one: SourceSentence) -> int:
        return max(len(one.source), 0 if one.target is None else len(one.target))

    batch: List[SourceSentence] = []
    for one in sorted(block, key=length):
        if batch and (len(batch) + 1) * length(one) * beam > max_tokens:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def collated(loaded: LoadedModels, batch: List[SourceSentence], targets: Sequence[Optional[Tensor]]) -> Dict[str, Any]:
    """A batch of fairseq on the models' device; its ``id`` is the place of each row in ``batch``."""
    from fairseq.data.language_pair_dataset import collate

    items = [
        {"id": number, "source": one.source, "target": target}
        for number, (one, target) in enumerate(zip(batch, targets))
    ]
    dictionary = loaded.task.source_dictionary
    left_pad = _pads_left(loaded)
    sample = collate(items, dictionary.pad(), dictionary.eos(), left_pad_source=left_pad, left_pad_target=False)
    return utils.move_to_cuda(sample) if loaded.device.type == "cuda" else sample


def _pads_left(loaded: LoadedModels) -> bool:
    return str(getattr(loaded.task.cfg, "left_pad_source", True)) not in ("False", "0")


def generator_of(loaded: LoadedModels, beam: int, options: Mapping[str, Any]) -> Any:
    """The task's generator for these models, which are prepared for it; ``options`` are further ones of fairseq's."""
    from fairseq.dataclass.configs import GenerationConfig
    from omegaconf import OmegaConf

    config = OmegaConf.merge(OmegaConf.structured(GenerationConfig), dict(options, beam=beam))
    for model in loaded.models:
        # with the attention, which is read when the hypotheses are forced
        model.prepare_for_inference_(Namespace(generation=Namespace(beam=beam, print_alignment="soft")))
    return loaded.task.build_generator(loaded.models, config)


@torch.no_grad()
def hypotheses_of(
    loaded: LoadedModels, generator: Any, batch: List[SourceSentence], nbest: int
) -> List[SourceSentence]:
    """The sentences with their best translations, including the end, as targets."""
    sample = collated(loaded, batch, [None] * len(batch))
    answers = loaded.task.inference_step(generator, loaded.models, sample)
    return [
        batch[number]._replace(target=one["tokens"].cpu().long(), rank=rank)
        for number, hypotheses in zip(sample["id"].tolist(), answers)
        for rank, one in enumerate(hypotheses[:nbest], 1)
    ]


def _records(
    loaded: LoadedModels, batch: List[SourceSentence], sample: Dict[str, Any], forced: Any, beam: bool, subwords: str
) -> Iterator[Record]:
    width, left_pad = sample["net_input"]["src_tokens"].size(1), _pads_left(loaded)
    matrices = {name: matrix.cpu() for name, matrix in forced.weights.items()}
    scores = forced.scores.cpu()
    for row, number in enumerate(sample["id"].tolist()):
        one = batch[number]
        assert one.target is not None
        rows = slice(len(one.target))
        columns = slice(width - len(one.source), None) if left_pad else slice(len(one.source))
        reference = None
        if beam:
            target = symbols_of(one.target, loaded.task.target_dictionary)
            if one.target_tokens is not None:
                reference = unknown_in_reference(" ".join(spell(one.target_tokens, subwords)))
        else:
            target = one.target_tokens or []
        weights = {name: matrix[row, rows, columns].numpy() for name, matrix in matrices.items()}
        logs = scores[row][rows].tolist()
        yield Record(one.id, one.source_tokens, target, weights, logs, subwords, reference, one.rank)
