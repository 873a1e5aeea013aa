"""Word alignments of a corpus from trained models: what a teacher attends to, for supervised attention.

    python -m fairseq_attn_plugin.analysis.teacher_alignments DATA --path CHECKPOINT --gen-subset train --out FILE

The reference translation is forced. Each target subword is linked to the source subword of greatest weight; where that
is the end of the source, it has no link, and neither has the end of the target. A line of FILE is a sentence of the
corpus that fairseq-preprocess read, in its order and in the indices of its subwords, as ``--align-suffix`` wants it.
With ``--into-data`` the alignments are put into DATA itself, for ``fairseq-train --load-alignments``.

With ``--reverse-path``, a teacher of the other direction of translation, both alignments are joined by
``--symmetrize``.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils, utils
from torch import Tensor
from tqdm import tqdm

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin._writing import whole_text
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.overrides import parse_overrides

from ._forced import attention
from .alignment import Link
from .symmetrize import SYMMETRIZATIONS, symmetrize

__all__ = [
    "Attended",
    "Teacher",
    "add_teacher_options",
    "attention_links",
    "load_split",
    "load_teacher",
    "teacher_attention",
    "teacher_links",
]


class Teacher(NamedTuple):
    """Trained models, of which the mean attention counts, and the task that they were trained for."""

    models: List[Any]
    task: Any
    path: str
    config: Any = None  # fairseq's, with which the first of them was trained

    @property
    def languages(self) -> Tuple[str, str]:
        return self.task.cfg.source_lang, self.task.cfg.target_lang


class Attended(NamedTuple):
    """A batch of sentences and what the teacher attends to when their translations are forced."""

    sentences: List[int]  # their numbers in the split
    source: Tensor  # [B, N], padded on either side
    target: Tensor  # [B, T], padded on either side
    weights: Tensor  # [B, T, N] in float32, summed over the models


def load_teacher(
    data: str, path: str, overrides: Optional[Dict[str, Any]] = None, cpu: bool = False, option: str = "--path"
) -> Teacher:
    """Loads the checkpoints ``path`` (several with colons between them, as in fairseq-generate) for the data folder.

    Raises ``OptionError``, which names ``option``, if the task has no pairs of languages.
    """
    # What is aligned is the corpus as it is: neither cut nor with the alignments that a teacher was itself taught by.
    settings = {"load_alignments": False, "truncate_source": False, **(overrides or {}), "data": data}
    try:
        models, saved, task = checkpoint_utils.load_model_ensemble_and_task(
            utils.split_paths(path), arg_overrides=settings
        )
    except FileNotFoundError as error:
        name = Path(error.filename or "")
        if name.parent != Path(data) or not Path(data).is_dir():
            raise
        raise OptionError(
            f"{option} {path}: its task wants {name.name}, which {data} does not have; it must be a translation model, "
            "and the folder that of its data"
        ) from None
    if not getattr(task.cfg, "source_lang", None) or not getattr(task.cfg, "target_lang", None):
        raise OptionError(f"{option} {path}: is no translation model; its task has no source and target language")
    for model in models:
        model.eval()
        if torch.cuda.is_available() and not cpu:
            model.cuda()
    return Teacher(models, task, path, saved)


def add_teacher_options(parser: argparse.ArgumentParser) -> None:
    """``--path``, ``--model-overrides`` and ``--cpu``: what :func:`load_teacher` wants to know."""
    parser.add_argument("--path", required=True, metavar="FILE", help="checkpoint; several, with colons: their mean")
    parser.add_argument(
        "--model-overrides", default="{}", metavar="DICT", help="options of the models, as in fairseq-generate"
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")


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


def load_split(teacher: Teacher, split: str, translations: bool = True) -> Any:
    """The dataset of a split, which has at least one sentence and, unless ``translations`` is False, a target side.

    Raises ``OptionError`` else.
    """
    source, target = teacher.languages
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        binary = Path(teacher.task.cfg.data, f"{split}.{pair}.{source}.bin")
        # fairseq cannot open it, and says nothing of which file or why
        if binary.is_file() and binary.stat().st_size == 0:
            raise _empty(split)
    teacher.task.load_dataset(split)
    dataset = teacher.task.dataset(split)
    if translations and getattr(dataset, "tgt", None) is None:
        raise OptionError(f"--gen-subset {split}: has no target side; what the teacher attends to needs translations")
    if len(dataset) == 0:
        raise _empty(split)
    return dataset


def _empty(split: str) -> OptionError:
    what = "validation set empty" if split.startswith("valid") else "empty"
    return OptionError(f"--gen-subset {split}: {what}; it has no sentence that a teacher could read")


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


def _check(args: argparse.Namespace) -> None:
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: one data folder at a time, please; each has alignments of its own")
    if not args.out and not args.into_data:
        raise OptionError("--out is missing: name the file to write, or give --into-data")
    if args.max_tokens < 1:
        raise OptionError(f"--max-tokens {args.max_tokens}: must be at least 1")
    if args.symmetrize and not args.reverse_path:
        raise OptionError(f"--symmetrize {args.symmetrize}: needs --reverse-path, a teacher of the other direction")


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_attn_plugin.analysis.teacher_alignments",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("data", help="folder that fairseq-preprocess wrote")
    add_teacher_options(parser)
    parser.add_argument("--gen-subset", default="train", metavar="SPLIT", help="what to align (default: train)")
    parser.add_argument("--out", metavar="FILE", help="alignments as text, a line i-j i-j ... for each sentence")
    parser.add_argument("--into-data", action="store_true", help="put them into the data folder for --load-alignments")
    parser.add_argument("--overwrite", action="store_true", help="with --into-data: replace what is there")
    parser.add_argument(
        "--reverse-path",
        metavar="FILE",
        help="checkpoint of the other direction of translation (of an agreement model: its export_direction.py)",
    )
    parser.add_argument(
        "--symmetrize", choices=SYMMETRIZATIONS, help="how both directions are joined (default: grow-diag-final-and)"
    )
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="subwords in a batch (default: 4000)")
    args = parser.parse_args(argv)
    _check(args)
    overrides = parse_overrides(args.model_overrides)
    logging.getLogger("fairseq").setLevel(logging.WARNING)

    teacher = load_teacher(args.data, args.path, overrides, args.cpu)
    prefix = data_prefix(args.data, args.gen_subset, teacher.languages)
    if args.into_data and not args.overwrite and os.path.exists(prefix + ".idx"):
        raise OptionError(f"--into-data: {prefix}.idx is there already; give --overwrite to replace it")
    if args.reverse_path:
        backward = load_teacher(args.data, args.reverse_path, overrides, args.cpu, "--reverse-path")
        if backward.languages != teacher.languages[::-1]:
            raise OptionError(
                f"--reverse-path {args.reverse_path}: translates {'-'.join(backward.languages)}, must translate "
                f"{'-'.join(teacher.languages[::-1])}, against the direction of --path"
            )
        method = args.symmetrize or "grow-diag-final-and"
        links = joined(teacher, backward, args.gen_subset, args.max_tokens, method)
    else:
        links = teacher_links(teacher, args.gen_subset, args.max_tokens)

    if args.into_data and not any(links):
        raise OptionError(
            f"--path {args.path}: links no word of the split {args.gen_subset}: its attention is greatest on the end "
            "of every source; train the teacher longer, or take another"
        )
    out = args.out or prefix + ".txt"
    write_links(out, links)
    if args.into_data:
        binarize(out, prefix)
        if not args.out:
            os.remove(out)
    left_out = sum(sentence is None for sentence in links)
    print(
        f"{args.out or prefix}: {sum(len(sentence or ()) for sentence in links)} links of {len(links)} sentences"
        + (f", {left_out} of them longer than the teacher takes and left without links" if left_out else "")
    )


if __name__ == "__main__":
    main()
