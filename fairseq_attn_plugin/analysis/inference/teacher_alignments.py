"""Word alignments of a corpus from trained models: what a teacher attends to, for supervised attention.

    attn-analysis teacher-alignments DATA --path CHECKPOINT --gen-subset train --out FILE

The reference translation is forced. Each target subword is linked to the source subword of greatest weight; where that
is the end of the source, it has no link, and neither has the end of the target. A line of FILE is a sentence of the
corpus that fairseq-preprocess read, in its order and in the indices of its subwords, as ``--align-suffix`` wants it.
With ``--into-data`` the alignments are put into DATA itself, for ``fairseq-train --load-alignments``.

With ``--reverse-path``, a teacher of the other direction of translation, both alignments are joined by
``--symmetrize``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import utils
from torch import Tensor
from tqdm import tqdm

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.alignment.symmetrize import symmetrize
from fairseq_attn_plugin.analysis.inference.forced import attention
from fairseq_attn_plugin.analysis.inference.loading import Teacher, load_split
from fairseq_attn_plugin.writing import whole_text

__all__ = ["Attended", "attention_links", "teacher_attention", "teacher_links"]


class Attended(NamedTuple):
    """A batch of sentences and what the teacher attends to when their translations are forced."""

    sentences: List[int]  # their numbers in the split
    source: Tensor  # [B, N], padded on either side
    target: Tensor  # [B, T], padded on either side
    weights: Tensor  # [B, T, N] in float32, summed over the models


def attention_links(weights: Tensor, source: Tensor, target: Tensor, pad: int, eos: int) -> List[List[Link]]:
    """The link (argmax_j a_tj, t) of every target subword t, if that is not the end of the source.

    Args:
        weights: ``[B, T, N]``; the first source subword counts if several tie
        source: ``[B, N]``, padded on either side
        target: ``[B, T]``, padded on either side
        pad: index of padding in both
        eos: index of the end of a sentence in both

    Returns:
        for each sentence its links, in the order of the target, without padding in the indices
    """
    masked = weights.masked_fill(source.eq(pad).unsqueeze(1), -1.0)
    best = masked.argmax(-1)
    speaks = target.ne(pad) & target.ne(eos) & source.gather(1, best).ne(eos)
    # padding on the left comes before the first word
    starts = [tokens.ne(pad).int().argmax(-1, keepdim=True) for tokens in (source, target)]
    columns = (best - starts[0]).tolist()
    rows = (torch.arange(target.size(1), device=target.device) - starts[1]).tolist()
    return [[(i, j) for i, j, linked in zip(*sentence) if linked] for sentence in zip(columns, rows, speaks.tolist())]


@torch.no_grad()
def teacher_attention(teacher: Teacher, split: str, max_tokens: int = 4000) -> Iterator[Attended]:
    """Forces the translations of a split, batch by batch, and shows how far it is.

    Sentences that are longer than the models or their task allow are left out. Batches hold ``max_tokens`` subwords.
    Raises ``OptionError`` if a model returns no attention ``[B, T, N]``, or as :func:`load_split`.
    """
    models, task = teacher.models, teacher.task
    dataset = load_split(teacher, split)
    limits = utils.resolve_max_positions(task.max_positions(), *(model.max_positions() for model in models))
    batches = task.get_batch_iterator(
        dataset,
        max_tokens=max(max_tokens, int(dataset.sizes.max())),
        max_positions=limits,
        ignore_invalid_inputs=True,
    ).next_epoch_itr(shuffle=False)
    device = next(models[0].parameters()).device
    with tqdm(total=len(dataset), desc="-".join(teacher.languages), unit=" sentences", disable=None) as bar:
        for sample in batches:
            if device.type == "cuda":
                sample = utils.move_to_cuda(sample)
            weights: Any = 0.0
            for model in models:
                output = model(**{name: value for name, value in sample["net_input"].items() if value is not None})
                weights = weights + attention(model, output, sample, f"--path {teacher.path}")
            numbers = sample["id"].tolist()
            yield Attended(numbers, sample["net_input"]["src_tokens"], sample["target"], weights)
            bar.update(len(numbers))


def teacher_links(teacher: Teacher, split: str, max_tokens: int = 4000) -> List[Optional[List[Link]]]:
    """Links between the subwords of every sentence of a split, in the order of the corpus.

    None for a sentence that is longer than the models or their task allow. Raises as :func:`teacher_attention`.
    """
    dictionary = teacher.task.target_dictionary
    found: Dict[int, List[Link]] = {}
    for batch in teacher_attention(teacher, split, max_tokens):
        links = attention_links(batch.weights, batch.source, batch.target, dictionary.pad(), dictionary.eos())
        found.update(zip(batch.sentences, links))
    return [found.get(number) for number in range(len(teacher.task.dataset(split)))]


def joined(forward: Teacher, backward: Teacher, split: str, max_tokens: int, method: str) -> List[Optional[List[Link]]]:
    """As :func:`teacher_links`, from teachers of both directions."""
    result: List[Optional[List[Link]]] = []
    pairs = zip(teacher_links(forward, split, max_tokens), teacher_links(backward, split, max_tokens))
    for one, other in pairs:
        if one is None or other is None:
            result.append(None)
            continue
        links: FrozenSet[Link] = symmetrize(one, [(j, i) for i, j in other], method)
        result.append(sorted(links, key=lambda link: (link[1], link[0])))
    return result


def write_links(path: str, links: Sequence[Optional[List[Link]]]) -> None:
    """One line ``i-j i-j ...`` for each sentence; the file appears when it is complete.

    Raises ``OptionError`` if it cannot be written.
    """
    with whole_text(path, f"--out {path}: cannot be written") as stream:
        for sentence in links:
            stream.write(" ".join(f"{i}-{j}" for i, j in sentence or ()) + "\n")


def data_prefix(data: str, split: str, languages: Tuple[str, str]) -> str:
    """Where fairseq looks for a split's alignments: this path with ``.idx`` and ``.bin``."""
    return os.path.join(data, f"{split}.align.{languages[0]}-{languages[1]}")


def binarize(path: str, prefix: str) -> None:
    """Turns the file ``path`` of alignments into what ``--load-alignments`` reads, as fairseq-preprocess would."""
    from fairseq.binarizer import AlignmentDatasetBinarizer, FileBinarizer

    for suffix in (".bin", ".idx"):
        Path(prefix + suffix).unlink(missing_ok=True)  # a link to a file of other data must not be written through
    FileBinarizer.multiprocess_dataset(path, "mmap", AlignmentDatasetBinarizer(utils.parse_alignment), prefix)
