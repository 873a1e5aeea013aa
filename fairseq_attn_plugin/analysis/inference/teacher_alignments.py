"""Word alignments from a trained model, which serve as the teacher of another model's attention.

The model forces the reference translation of every sentence. Target subword t is linked to source subword
argmax_j a_tj, unless that is the end of the source; the end of the target has no link. Other matrices than the
attention a are those of :data:`~fairseq_attn_plugin.analysis.alignment.linking.METHODS`. :func:`joined_links` combines
models of both translation directions, :func:`write_links` and :func:`binarize` write the files that fairseq reads,
:func:`put_into_data` is ``fairseq-attn align --into-data``.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import utils
from torch import Tensor
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.linking import METHODS, Linking, check_opposite, record_links
from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.alignment.symmetrize import DEFAULT_SYMMETRIZATION, symmetrize
from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
from fairseq_attn_plugin.analysis.inference.forced import attention
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_from_options, load_models, load_split
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import whole_text

__all__ = [
    "AttendedBatch",
    "attention_links",
    "binarize",
    "data_prefix",
    "joined_links",
    "put_into_data",
    "teacher_attention",
    "teacher_links",
    "write_links",
]


class AttendedBatch(NamedTuple):
    """A batch of sentence pairs with the attention of their forced translations."""

    sentences: List[int]  # numbers in the split
    source: Tensor  # [B, N], padded on either side
    target: Tensor  # [B, T], padded on either side
    weights: Tensor  # [B, T, N] in float32, summed over the models


def attention_links(weights: Tensor, source: Tensor, target: Tensor, pad: int, eos: int) -> List[List[Link]]:
    """The links (argmax_j a_tj, t) of all target subwords t whose weight is not greatest on the end of the source.

    Args:
        weights: ``[B, T, N]``; the first of several source subwords that tie is linked
        source: ``[B, N]``, padded on either side
        target: ``[B, T]``, padded on either side
        pad: index of padding in both
        eos: index of the end of a sentence in both

    Returns:
        the links of each sentence, in the order of the target; indices do not count padding
    """
    masked = weights.masked_fill(source.eq(pad).unsqueeze(1), -1.0)
    best = masked.argmax(-1)
    speaks = target.ne(pad) & target.ne(eos) & source.gather(1, best).ne(eos)
    # number of padding tokens before the first word
    starts = [tokens.ne(pad).int().argmax(-1, keepdim=True) for tokens in (source, target)]
    columns = (best - starts[0]).tolist()
    rows = (torch.arange(target.size(1), device=target.device) - starts[1]).tolist()
    return [[(i, j) for i, j, linked in zip(*sentence) if linked] for sentence in zip(columns, rows, speaks.tolist())]


@torch.no_grad()
def teacher_attention(loaded: LoadedModels, split: str, max_tokens: int = 4000) -> Iterator[AttendedBatch]:
    """Yields the attention of the forced translations of a split, batch by batch, with a progress bar.

    Sentences that are longer than a model or the task allows are left out. A batch has about ``max_tokens`` subwords.
    Raises ``OptionError`` if a model returns no attention ``[B, T, N]``, or as :func:`~.loading.load_split` does.
    """
    models, task = loaded.models, loaded.task
    dataset = load_split(loaded, split)
    batches = task.get_batch_iterator(
        dataset,
        max_tokens=max(max_tokens, int(dataset.sizes.max())),
        max_positions=loaded.limits,
        ignore_invalid_inputs=True,
    ).next_epoch_itr(shuffle=False)
    with tqdm(total=len(dataset), desc="-".join(loaded.languages), unit=" sentences", disable=None) as bar:
        for sample in batches:
            if loaded.device.type == "cuda":
                sample = utils.move_to_cuda(sample)
            weights: Any = 0.0
            for model in models:
                output = model(**{name: value for name, value in sample["net_input"].items() if value is not None})
                weights = weights + attention(model, output, sample, f"--path {loaded.path}")
            numbers = sample["id"].tolist()
            yield AttendedBatch(numbers, sample["net_input"]["src_tokens"], sample["target"], weights)
            bar.update(len(numbers))


def teacher_links(
    loaded: LoadedModels, split: str, max_tokens: int = 4000, method: str = "attention"
) -> List[Optional[List[Link]]]:
    """Links between the subwords of every sentence of a split, in the order of the corpus.

    A sentence that is longer than a model or the task allows has None. Raises as :func:`teacher_attention` does, and
    ``OptionError`` if the model has no matrix for ``method``, one of ``METHODS``.
    """
    dictionary = loaded.task.target_dictionary
    found: Dict[int, List[Link]] = {}
    if method != "attention":
        matrix = METHODS[method]
        linking = Linking(end="null", weights=matrix, level="subwords", shift=method == "shift")
        extraction = Extraction(max_tokens=max_tokens, matrices=() if matrix is None else (matrix,))
        sentences = SplitSentences(loaded, split)
        records = extract(loaded, sentences, extraction)
        for record in tqdm(records, total=len(sentences), unit=" sentences", disable=None):
            found[record.id] = _sorted(record_links(record, linking))
        return [found.get(number) for number in range(len(sentences))]
    for batch in teacher_attention(loaded, split, max_tokens):
        links = attention_links(batch.weights, batch.source, batch.target, dictionary.pad(), dictionary.eos())
        found.update(zip(batch.sentences, links))
    return [found.get(number) for number in range(len(loaded.task.dataset(split)))]


def joined_links(
    forward: LoadedModels, backward: LoadedModels, split: str, max_tokens: int, how: str, method: str = "attention"
) -> List[Optional[List[Link]]]:
    """The links of models of both translation directions, joined by ``how``; see :func:`teacher_links`."""
    result: List[Optional[List[Link]]] = []
    pairs = zip(*(teacher_links(loaded, split, max_tokens, method) for loaded in (forward, backward)))
    for one, other in pairs:
        if one is None or other is None:
            result.append(None)
            continue
        result.append(_sorted(symmetrize(one, [(j, i) for i, j in other], how)))
    return result


def _sorted(links: Iterable[Link]) -> List[Link]:
    """In the order of the target."""
    return sorted(links, key=lambda link: (link[1], link[0]))


def put_into_data(args: argparse.Namespace) -> None:
    """Writes the links of a split into the data folder ``args.data``, and as text to ``args.out`` if it is given."""
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: give one data folder at a time, since each has its own alignments")
    split, max_tokens = args.gen_subset or "train", 4000 if args.max_tokens is None else args.max_tokens
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    teacher = load_from_options(args)
    prefix = data_prefix(args.data, split, teacher.languages)
    if not args.overwrite and os.path.exists(prefix + ".idx"):
        raise OptionError(f"--into-data: {prefix}.idx exists; give --overwrite to replace it")
    if args.reverse_path:
        backward = load_models(args.data, args.reverse_path, teacher.overrides, args.cpu, "--reverse-path")
        check_opposite(f"--reverse-path {args.reverse_path}", backward.languages, teacher.languages, "--path")
        how = args.symmetrize or DEFAULT_SYMMETRIZATION
        links = joined_links(teacher, backward, split, max_tokens, how, args.method)
    else:
        links = teacher_links(teacher, split, max_tokens, args.method)
    if not any(links):  # the file would have no bytes, which fairseq cannot read
        raise OptionError(
            f"--path {args.path}: links no word of the split {split}: its attention is greatest on the end of every "
            "source; train the teacher longer, or use another one"
        )
    out = args.out or prefix + ".txt"
    write_links(out, links)
    binarize(out, prefix)
    if not args.out:
        os.remove(out)
    left_out = sum(sentence is None for sentence in links)
    print(
        f"{prefix}: {counted(sum(len(one or ()) for one in links), 'link')} of {counted(len(links), 'sentence')}"
        + (f"; {counted(left_out, 'sentence')} longer than the teacher allows, without links" if left_out else "")
    )


def write_links(path: str, links: Sequence[Optional[List[Link]]]) -> None:
    """Writes one line ``i-j i-j ...`` for each sentence; the file appears when it is complete.

    Raises ``OptionError`` if it cannot be written.
    """
    with whole_text(path, f"--out {path}: cannot be written") as stream:
        for sentence in links:
            stream.write(" ".join(f"{i}-{j}" for i, j in sentence or ()) + "\n")


def data_prefix(data: str, split: str, languages: Tuple[str, str]) -> str:
    """The path, without ``.idx`` and ``.bin``, at which fairseq looks for the alignments of a split."""
    return os.path.join(data, f"{split}.align.{languages[0]}-{languages[1]}")


def binarize(path: str, prefix: str) -> None:
    """Converts a file of alignments into ``PREFIX.idx`` and ``PREFIX.bin``, which ``--load-alignments`` reads."""
    from fairseq.binarizer import AlignmentDatasetBinarizer, FileBinarizer

    for suffix in (".bin", ".idx"):
        Path(prefix + suffix).unlink(missing_ok=True)  # a symbolic link to another data folder must not be followed
    FileBinarizer.multiprocess_dataset(path, "mmap", AlignmentDatasetBinarizer(utils.parse_alignment), prefix)
