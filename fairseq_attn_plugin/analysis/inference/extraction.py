"""Attention of a model for every sentence of a corpus, in a file.

    attn-analysis extract DATA --path CHECKPOINT --gen-subset test --out soft.jsonl
    attn-analysis extract DATA --path CHECKPOINT --beam 5 --out soft.npz
    attn-analysis extract DATA --path CHECKPOINT --source-text new.de --bpe-codes codes --beam 5 --out new.jsonl

The first forces the reference, the others what the model says itself. The attention of a hypothesis is that of a
forward pass in which the hypothesis is forced, so that it is the same function of sentence and translation for every
model and however the translation was found. Sentences are read, and written in their order, some hundred at a time:
memory does not grow with the corpus, and an interrupted command goes on where it stopped. (NPZ files have a table of
their entries, which takes 2.5 kB of memory a sentence when they are written or read.) In Python::

    teacher = load_teacher(DATA, CHECKPOINT)
    for record in extract(teacher, SplitSentences(teacher, "test"), beam=5):
        ...
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from fairseq import utils
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.forced import force, weight_names
from fairseq_attn_plugin.analysis.inference.loading import Teacher
from fairseq_attn_plugin.analysis.inference.segmenter import subwords_of
from fairseq_attn_plugin.analysis.inference.sentences import Sentence, symbols_of
from fairseq_attn_plugin.analysis.outputs.reading import unknown_in_reference
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import spell

__all__ = ["extract"]


BLOCK = 400  # sentences that are sorted by length together, and in memory at a time


def extract(
    teacher: Teacher,
    sentences: Any,
    beam: Optional[int] = None,
    max_tokens: int = 4000,
    generation: Optional[Dict[str, Any]] = None,
    layer: Optional[int] = None,
    subwords: Optional[str] = None,
    start: int = 0,
) -> Iterator[Record]:
    """What the models attend to, one sentence after the other in the order of the corpus.

    Args:
        teacher: the models, of :func:`load_teacher`
        sentences: :class:`SplitSentences` or :class:`TextSentences`
        beam: None to force the references, else the width of the beam whose best hypothesis is forced
        max_tokens: subwords of a batch, padding included
        generation: further options of fairseq's generator: ``lenpen``, ``max_len_a``, ...
        layer: of a transformer's decoder, from 1 (default: the last)
        subwords: one of ``SUBWORDS`` (default: see :func:`subwords_of`)
        start: number of the first sentence

    Yields:
        a record for each sentence; those that are longer than the models or their task allow are left out

    Raises:
        OptionError: a model has no attention, or sentences have no references that could be forced
    """
    where = f"--path {teacher.path}"
    models, task = teacher.models, teacher.task
    names = weight_names(models) if layer is None else ("attention",)
    subwords = subwords or subwords_of(task.target_dictionary)
    generator = None if beam is None else _generator(teacher, beam, generation or {})
    limits = _limits(teacher)
    reading = sentences(start)
    while True:
        block = list(islice(reading, BLOCK))
        if not block:
            return
        found: Dict[int, Record] = {}
        for batch in _batches([one for one in block if _fits(one, limits, beam is None)], max_tokens, beam or 1):
            parts = [batch]
            if generator is not None:
                translated = _hypotheses(teacher, generator, batch)
                # hypotheses may be much longer than what they translate
                parts = list(_batches(translated, max_tokens, 1))
            elif any(one.target is None for one in batch):
                raise OptionError("--target-text is missing: give the translations, or --beam for the model's own")
            for part in parts:
                sample = _collate(teacher, part, [one.target for one in part])
                forced = force(models, sample, names, where, layer)
                for record in _records(teacher, part, sample, forced, beam is not None, subwords):
                    found[record.id] = record
        for one in block:
            if one.id in found:
                yield found[one.id]


def _limits(teacher: Teacher) -> Tuple[float, float]:
    limits = utils.resolve_max_positions(
        teacher.task.max_positions(), *(model.max_positions() for model in teacher.models)
    )
    pair = limits if isinstance(limits, (tuple, list)) else (limits, limits)
    return tuple(float("inf") if limit is None else float(limit) for limit in pair)  # type: ignore[return-value]


def _fits(sentence: Sentence, limits: Tuple[float, float], forced: bool) -> bool:
    target = len(sentence.target) if forced and sentence.target is not None else 0
    return len(sentence.source) <= limits[0] and target <= limits[1]


def _batches(block: List[Sentence], max_tokens: int, beam: int) -> Iterator[List[Sentence]]:
    """Sentences of similar lengths, at most ``max_tokens`` subwords with padding and hypotheses; one at the least."""

    def length(one: Sentence) -> int:
        return max(len(one.source), 0 if one.target is None else len(one.target))

    batch: List[Sentence] = []
    for one in sorted(block, key=length):
        if batch and (len(batch) + 1) * length(one) * beam > max_tokens:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _collate(teacher: Teacher, batch: List[Sentence], targets: Sequence[Optional[Tensor]]) -> Dict[str, Any]:
    from fairseq.data.language_pair_dataset import collate

    items = [
        {"id": number, "source": one.source, "target": target}
        for number, (one, target) in enumerate(zip(batch, targets))
    ]
    dictionary = teacher.task.source_dictionary
    left_pad = _pads_left(teacher)
    sample = collate(items, dictionary.pad(), dictionary.eos(), left_pad_source=left_pad, left_pad_target=False)
    device = next(teacher.models[0].parameters()).device
    return utils.move_to_cuda(sample) if device.type == "cuda" else sample


def _pads_left(teacher: Teacher) -> bool:
    return str(getattr(teacher.task.cfg, "left_pad_source", True)) not in ("False", "0")


def _generator(teacher: Teacher, beam: int, options: Dict[str, Any]) -> Any:
    from fairseq.dataclass.configs import GenerationConfig
    from omegaconf import OmegaConf

    config = OmegaConf.merge(OmegaConf.structured(GenerationConfig), dict(options, beam=beam))
    return teacher.task.build_generator(teacher.models, config)


@torch.no_grad()
def _hypotheses(teacher: Teacher, generator: Any, batch: List[Sentence]) -> List[Sentence]:
    """The sentences with their best translations, ends included, as targets."""
    sample = _collate(teacher, batch, [None] * len(batch))
    answers = teacher.task.inference_step(generator, teacher.models, sample)
    best = [hypotheses[0]["tokens"].cpu().long() for hypotheses in answers]
    return [batch[number]._replace(target=target) for number, target in zip(sample["id"].tolist(), best)]


def _records(
    teacher: Teacher, batch: List[Sentence], sample: Dict[str, Any], forced: Any, beam: bool, subwords: str
) -> Iterator[Record]:
    width, left_pad = sample["net_input"]["src_tokens"].size(1), _pads_left(teacher)
    matrices = {name: matrix.cpu() for name, matrix in forced.weights.items()}
    scores = forced.scores.cpu()
    for row, number in enumerate(sample["id"].tolist()):
        one = batch[number]
        assert one.target is not None
        rows = slice(len(one.target))
        columns = slice(width - len(one.source), None) if left_pad else slice(len(one.source))
        reference = None
        if beam:
            target = symbols_of(one.target, teacher.task.target_dictionary)
            if one.target_tokens is not None:
                reference = unknown_in_reference(" ".join(spell(one.target_tokens, subwords)))
        else:
            target = one.target_tokens or []
        weights = {name: matrix[row, rows, columns].numpy() for name, matrix in matrices.items()}
        yield Record(
            one.id, one.source_tokens, target, weights, scores[row][rows].tolist(), subwords, reference=reference
        )
