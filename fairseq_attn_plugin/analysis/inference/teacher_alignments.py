"""Word alignments from a trained model, which serve as the teacher of another model's attention.

The model forces the reference translation of every sentence. Target subword t is linked to source subword
argmax_j a_tj, unless that is the end of the source; the end of the target has no link. Other matrices than the
attention a are those of :data:`~fairseq_attn_plugin.analysis.alignment.linking.METHODS`.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Iterable, List, Optional

from fairseq import utils
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.linking import METHODS, Linking, check_opposite, record_links
from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.alignment.symmetrize import DEFAULT_SYMMETRIZATION, symmetrize
from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_from_options, load_models
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import whole_text

__all__ = ["binarize", "put_into_data", "teacher_links"]


def teacher_links(
    loaded: LoadedModels, split: str, max_tokens: int = 4000, method: str = "attention"
) -> List[Optional[List[Link]]]:
    """Links between the subwords of every sentence of a split, in the order of the corpus and of the target.

    A sentence that is longer than a model or the task allows has None. Raises ``OptionError`` if the model has no
    matrix for ``method``, one of ``METHODS``, and as :class:`.sentences.SplitSentences` does.
    """
    matrix, sentences = METHODS[method], SplitSentences(loaded, split)
    linking = Linking(end="null", weights=matrix, level="subwords", shift=method == "shift")
    extraction = Extraction(max_tokens=max_tokens, matrices=() if matrix is None else (matrix,))
    found: List[Optional[List[Link]]] = [None] * len(sentences)
    records = extract(loaded, sentences, extraction)
    bar = tqdm(records, "-".join(loaded.languages), len(sentences), unit=" sentences", disable=None)
    for record in bar:
        found[record.id] = _sorted(record_links(record, linking))
    return found


def _sorted(links: Iterable[Link]) -> List[Link]:
    return sorted(links, key=lambda link: (link[1], link[0]))


def put_into_data(args: argparse.Namespace) -> None:
    """``fairseq-attn align --into-data``: writes the links of a split into the data folder ``args.data``.

    They are also written as text to ``args.out`` if it is given. With ``args.reverse_path`` they are joined to those of
    a model of the opposite direction.
    """
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: give one data folder at a time, since each has its own alignments")
    split, max_tokens = args.gen_subset or "train", 4000 if args.max_tokens is None else args.max_tokens
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    teacher = load_from_options(args)
    # where fairseq looks for them
    prefix = os.path.join(args.data, f"{split}.align.{'-'.join(teacher.languages)}")
    if not args.overwrite and os.path.exists(prefix + ".idx"):
        raise OptionError(f"--into-data: {prefix}.idx exists; give --overwrite to replace it")
    backward: Optional[LoadedModels] = None
    if args.reverse_path:
        backward = load_models(args.data, args.reverse_path, teacher.overrides, args.cpu, "--reverse-path")
        check_opposite(f"--reverse-path {args.reverse_path}", backward.languages, teacher.languages, "--path")
    links = teacher_links(teacher, split, max_tokens, args.method)
    if backward is not None:
        how, others = args.symmetrize or DEFAULT_SYMMETRIZATION, teacher_links(backward, split, max_tokens, args.method)
        links = [
            None if one is None or other is None else _sorted(symmetrize(one, [(j, i) for i, j in other], how))
            for one, other in zip(links, others)
        ]
    if not any(links):  # the file would have no bytes, which fairseq cannot read
        raise OptionError(
            f"--path {args.path}: links no word of the split {split}: its attention is greatest on the end of every "
            "source; train the teacher longer, or use another one"
        )
    out = args.out or prefix + ".txt"
    with whole_text(out, f"--out {out}: cannot be written") as stream:
        for sentence in links:
            stream.write(" ".join(f"{i}-{j}" for i, j in sentence or ()) + "\n")
    binarize(out, prefix)
    if not args.out:
        os.remove(out)
    left_out = sum(sentence is None for sentence in links)
    print(
        f"{prefix}: {counted(sum(len(one or ()) for one in links), 'link')} of {counted(len(links), 'sentence')}"
        + (f"; {counted(left_out, 'sentence')} longer than the teacher allows, without links" if left_out else "")
    )


def binarize(path: str, prefix: str) -> None:
    """Converts a file of alignments into ``PREFIX.idx`` and ``PREFIX.bin``, which ``--load-alignments`` reads."""
    from fairseq.binarizer import AlignmentDatasetBinarizer, FileBinarizer

    for suffix in (".bin", ".idx"):
        Path(prefix + suffix).unlink(missing_ok=True)  # a symbolic link to another data folder must not be followed
    FileBinarizer.multiprocess_dataset(path, "mmap", AlignmentDatasetBinarizer(utils.parse_alignment), prefix)
