"""Sentences in the form of a model's input, and the targets to force: references, or what the models translate."""

from argparse import Namespace
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple, TypeVar

import torch
from fairseq import utils

from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.errors import OptionError

_Item = TypeVar("_Item")


def _length(one: Any) -> int:
    """Of the longer side of a sentence."""
    return max(len(one.source), 0 if one.target is None else len(one.target))


def batches_of(
    block: Iterable[_Item], max_tokens: int, beam: int = 1, length: Callable[[_Item], int] = _length
) -> Iterator[List[_Item]]:
    """Batches of items of similar length, with at most ``max_tokens`` subwords or one item.

    Padding counts, and every hypothesis of the beam.
    """
    batch: List[_Item] = []
    for one in sorted(block, key=length):
        if batch and (len(batch) + 1) * length(one) * beam > max_tokens:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def collated(loaded: LoadedModels, batch: Sequence[SourceSentence], targets: bool = True) -> Dict[str, Any]:
    """A batch of fairseq on the models' device; its ``id`` is the place of each row in ``batch``."""
    from fairseq.data.language_pair_dataset import collate

    items = [
        {"id": number, "source": one.source, "target": one.target if targets else None}
        for number, one in enumerate(batch)
    ]
    dictionary = loaded.task.source_dictionary
    left_pad = _pads_left(loaded)
    sample = collate(items, dictionary.pad(), dictionary.eos(), left_pad_source=left_pad, left_pad_target=False)
    return utils.move_to_cuda(sample) if next(loaded.models[0].parameters()).is_cuda else sample


def columns_of(loaded: LoadedModels, sample: Dict[str, Any], length: int) -> slice:
    """The columns of a batch in which a source of ``length`` subwords stands."""
    width = sample["net_input"]["src_tokens"].size(1)
    return slice(width - length, None) if _pads_left(loaded) else slice(length)


def _pads_left(loaded: LoadedModels) -> bool:
    return str(getattr(loaded.task.cfg, "left_pad_source", True)) not in ("False", "0")


def targeted_blocks(
    loaded: LoadedModels, sentences: Any, extraction: Any, block: int, start: int = 0
) -> Iterator[List[SourceSentence]]:
    """Yields the sentences of a corpus with the targets to force, ``block`` sentences at a time, in their order.

    Those that are longer than a model or its task allows are left out, and so are such translations.

    Args:
        loaded: the models
        sentences: :class:`~.sentences.SplitSentences` or :class:`~.sentences.TextSentences`
        extraction: :class:`~.extraction.Extraction`; without ``beam`` the targets are the references
        block: sentences in memory
        start: number of the first sentence

    Raises:
        OptionError: a reference is missing
    """
    beam = extraction.beam
    generator = None if beam is None else generator_of(loaded, beam, extraction.generation)
    limits, reading = loaded.limits, sentences(start)
    while read := list(islice(reading, block)):
        ready = [one for one in read if _fits(one, limits, beam is None)]
        if generator is not None:
            found: List[SourceSentence] = []
            for batch in batches_of(ready, extraction.max_tokens, beam or 1):
                found += _best_of(loaded, generator, batch)
            ready = sorted((one for one in found if _fits(one, limits, True)), key=lambda one: one.id)
        elif any(one.target is None for one in ready):
            raise OptionError("--target-text is missing: give the translations, or --beam for the model's own")
        yield ready


def _fits(sentence: SourceSentence, limits: Tuple[float, float], forced: bool) -> bool:
    target = len(sentence.target) if forced and sentence.target is not None else 0
    return len(sentence.source) <= limits[0] and target <= limits[1]


def generator_of(loaded: LoadedModels, beam: int, options: Mapping[str, Any]) -> Any:
    """The task's generator for these models, which are prepared for it; ``options`` are further ones of fairseq's."""
    from fairseq.dataclass.configs import GenerationConfig
    from omegaconf import OmegaConf

    config = OmegaConf.merge(OmegaConf.structured(GenerationConfig), dict(options, beam=beam))
    for model in loaded.models:
        # with the attention, which fairseq computes only if alignments are to be printed
        model.prepare_for_inference_(Namespace(generation=Namespace(beam=beam, print_alignment="soft")))
    return loaded.task.build_generator(loaded.models, config)


@torch.no_grad()
def _best_of(loaded: LoadedModels, generator: Any, batch: List[SourceSentence]) -> List[SourceSentence]:
    """The sentences with their best translations, including the end, as targets."""
    sample = collated(loaded, batch, targets=False)
    answers = loaded.task.inference_step(generator, loaded.models, sample)
    return [
        batch[number]._replace(target=hypotheses[0]["tokens"].cpu().long())
        for number, hypotheses in zip(sample["id"].tolist(), answers)
        if hypotheses
    ]
