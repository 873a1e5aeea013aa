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

import argparse
import logging
import math
import os
import zlib
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import utils
from torch import Tensor
from tqdm import tqdm

from fairseq_attn_plugin._writing import check_not_lost
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.overrides import parse_overrides

from ._forced import force, weight_names
from ._segment import Segmenter, add_text_options, subwords_of, text_options
from .outputs import unknown_in_reference
from .records import Header, PathLike, Record, RecordWriter, open_records
from .subword_links import SUBWORDS, spell
from .teacher_alignments import Teacher, add_teacher_options, load_split, load_teacher

__all__ = [
    "Extracted",
    "Sentence",
    "SplitSentences",
    "TextSentences",
    "describe",
    "extract",
    "extract_file",
    "subwords_of",
    "symbols_of",
]

MANY = 0.1  # more unknown words than this share are no accident
BLOCK = 400  # sentences that are sorted by length together, and in memory at a time


class Sentence(NamedTuple):
    """A sentence to extract from; tensors end with the end of the sentence."""

    id: int
    source: Tensor
    target: Optional[Tensor]
    source_tokens: List[str]  # without the end; words that the model does not know as they are, where that is known
    target_tokens: Optional[List[str]]


class SplitSentences:
    """The sentences of a binarised split."""

    def __init__(self, teacher: Teacher, split: str, references: bool = True):
        """Raises ``OptionError`` if the split is empty, or has no target side where ``references`` are needed."""
        self.teacher, self.name = teacher, split
        self.dataset = load_split(teacher, split, references)
        self.files = _split_files(teacher, split)

    def __len__(self) -> int:
        return len(self.dataset)

    def __call__(self, start: int) -> Iterator[Sentence]:
        """From sentence number ``start`` on."""
        sides = (self.teacher.task.source_dictionary, self.teacher.task.target_dictionary)
        for number in range(start, len(self)):
            item = self.dataset[number]
            source, target = (
                None if side is None else side.masked_fill(side.eq(dictionary.pad()), dictionary.unk())
                for side, dictionary in zip((item["source"], item.get("target")), sides)
            )
            assert source is not None
            tokens = [
                None if side is None else symbols_of(side, dictionary)
                for side, dictionary in zip((source, target), sides)
            ]
            yield Sentence(number, source, target, tokens[0] or [], tokens[1])


class TextSentences:
    """The lines of a text, and of its translation where there is one."""

    def __init__(
        self,
        teacher: Teacher,
        source: str,
        target: Optional[str] = None,
        segment_source: Callable[[str], List[str]] = str.split,
        segment_target: Callable[[str], List[str]] = str.split,
    ):
        """Lines become tokens by ``segment_source`` and ``segment_target``, such as a :class:`.Segmenter`.

        Raises ``OptionError`` if a file cannot be read or the two have different numbers of lines."""
        self.teacher, self.paths, self.name = teacher, (source, target), Path(source).name
        self.segmenters = (segment_source, segment_target)
        self.files = [Path(path) for path in self.paths if path is not None]
        self.tokens = self.unknown = 0  # of the source, as far as it was read
        self.length = _lines(source, "--source-text")
        if target is not None:
            other = _lines(target, "--target-text")
            if other != self.length:
                raise OptionError(f"--target-text {target}: has {other} lines, {source} has {self.length}")
        if not self.length:
            raise OptionError(f"--source-text {source}: has no sentence")

    def __len__(self) -> int:
        return self.length

    def __call__(self, start: int) -> Iterator[Sentence]:
        """From line ``start``, counted from 0, on."""
        source, target = self.paths
        with open(source, encoding="utf-8-sig") as one, open(target or os.devnull, encoding="utf-8-sig") as other:
            for number, line in islice(enumerate(one), start, None):
                if number == start:
                    next(islice(other, start, start), None)
                words = self.segmenters[0](line)
                ids = _encode(self.teacher.task.source_dictionary, words)
                self.tokens += len(words)
                self.unknown += int(ids.eq(self.teacher.task.source_dictionary.unk()).sum())
                if target is None:
                    yield Sentence(number, ids, None, words, None)
                else:
                    theirs = self.segmenters[1](other.readline())
                    yield Sentence(number, ids, _encode(self.teacher.task.target_dictionary, theirs), words, theirs)


def _lines(path: str, option: str) -> int:
    if Path(path).exists() and not Path(path).is_file():
        raise OptionError(f"{option} {path}: must be a file; it is read twice, which a pipe or a folder cannot be")
    try:
        with open(path, encoding="utf-8") as stream:
            return sum(1 for _ in stream)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{option} {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _split_files(teacher: Teacher, split: str) -> List[Path]:
    """The files of a split, in whatever form it was binarised."""
    source, target = teacher.languages
    names = [
        f"{split}.{pair}.{side}*" for pair in (f"{source}-{target}", f"{target}-{source}") for side in (source, target)
    ]
    return sorted({path for name in names for path in Path(teacher.task.cfg.data).glob(name)})


def _fingerprint(path: Path) -> str:
    """Size, and a check sum of files that are not the words themselves of a binarised split, which may be large."""
    if not path.is_file():
        return ""
    check = 0
    if path.suffix != ".bin":
        with open(path, "rb") as stream:
            while True:
                part = stream.read(1 << 20)
                if not part:
                    break
                check = zlib.crc32(part, check)
    return f"{path.name} {path.stat().st_size} {check:08x}"


def _encode(dictionary: Any, tokens: List[str]) -> Tensor:
    """Numbers of tokens and the end; what looks like a special symbol of the dictionary is a word it does not have."""
    special = (dictionary.bos(), dictionary.pad(), dictionary.eos())
    numbers = [dictionary.index(token) for token in tokens]
    return torch.tensor([dictionary.unk() if index in special else index for index in numbers] + [dictionary.eos()])


def symbols_of(ids: Tensor, dictionary: Any) -> List[str]:
    """Without the end of the sentence."""
    numbers = ids.tolist()
    if numbers and numbers[-1] == dictionary.eos():
        numbers.pop()
    return [dictionary[index] for index in numbers]


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


def describe(
    teacher: Teacher,
    sentences: Any,
    name: Optional[str] = None,
    beam: Optional[int] = None,
    subwords: Optional[str] = None,
    layer: Optional[int] = None,
    **options: Any,
) -> Header:
    """The header of a file; ``options`` are those that change what is extracted."""
    paths = [Path(path) for path in utils.split_paths(teacher.path)]
    config = teacher.config.model
    architecture = getattr(config, "_name", None) or getattr(config, "arch", None) or ""
    # a checkpoint that training has replaced in the meantime is another model
    versions = [f"{path.stat().st_size} {path.stat().st_mtime_ns}" if path.exists() else "" for path in paths]
    about = {"checkpoint version": versions, "layer": layer, **options}
    about["corpus"] = list(map(_fingerprint, sentences.files))
    if hasattr(config, "attention"):
        about["attention"] = config.attention
    return Header(
        name=name or default_name(teacher.path),
        architecture=str(architecture),
        checkpoint=teacher.path,
        source_lang=teacher.languages[0],
        target_lang=teacher.languages[1],
        split=sentences.name,
        target="reference" if beam is None else f"beam {beam}",
        subwords=subwords or subwords_of(teacher.task.target_dictionary),
        sentences=len(sentences),
        weights=weight_names(teacher.models) if layer is None else ("attention",),
        options={key: value for key, value in about.items() if value not in (None, {}, [], "")},
    )


def default_name(path: str) -> str:
    """What a checkpoint is called: its folder, or the folder above one that is called ``checkpoints``."""
    folder = Path(utils.split_paths(path)[0]).resolve().parent
    if folder.name in ("checkpoints", "checkpoint") and folder.parent.name:
        folder = folder.parent
    return folder.name or Path(path).stem


class Extracted(NamedTuple):
    """What became of an extraction."""

    written: int  # sentences in the file
    left_out: int  # those that are longer than the model takes
    resumed: int  # how many of them an interrupted run had written
    complete: bool  # the file was there already


def extract_file(
    teacher: Teacher,
    sentences: Any,
    out: PathLike,
    header: Header,
    beam: Optional[int] = None,
    max_tokens: int = 4000,
    generation: Optional[Dict[str, Any]] = None,
    layer: Optional[int] = None,
    existing: str = "keep",
) -> Extracted:
    """Writes what :func:`extract` yields, and goes on where an interrupted run stopped.

    Args:
        out: file to write, ``.jsonl`` or ``.npz``
        header: of :func:`describe`
        existing: what happens to a file that is there: ``keep``, and an ``OptionError`` where it is of other options;
            ``renew``, which replaces it in that case; ``replace``

    Raises:
        OptionError: as :func:`extract`, or the file cannot be written
    """
    path = Path(out)
    there = path.exists() and existing != "replace"
    if there and not header.same_run(open_records(path).header):
        if existing == "keep":
            raise OptionError(
                f"--out {out}: is there already, of other options or another corpus; give --overwrite to replace it"
            )
        there = False
    if there:
        written = open_records(path).count()
        return Extracted(written, len(sentences) - written, 0, True)
    # what is there stays until all of the new is
    writer = RecordWriter(path, header, replace=existing != "keep")
    resumed = written = writer.done
    with tqdm(total=len(sentences), initial=writer.next, desc=header.name, unit=" sentences", disable=None) as bar:
        try:
            for record in extract(
                teacher, sentences, beam, max_tokens, generation, layer, header.subwords, writer.next
            ):
                writer.write(record)
                written += 1
                bar.update(record.id + 1 - bar.n)
        finally:
            writer.close()
    writer.finish()
    return Extracted(written, len(sentences) - written, resumed, False)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="folder that fairseq-preprocess wrote")
    add_teacher_options(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="what to write, .jsonl or .npz")
    parser.add_argument("--name", help="of the system, for legends and tables (default: the checkpoint's folder)")
    parser.add_argument("--gen-subset", metavar="SPLIT", help="split of the data (default: test)")
    parser.add_argument("--source-text", metavar="FILE", help="a text instead of a split, one sentence a line")
    parser.add_argument("--target-text", metavar="FILE", help="its translation")
    parser.add_argument("--beam", type=int, metavar="N", help="translate by beam search (default: force the reference)")
    parser.add_argument("--lenpen", type=float, default=1.0, help="with --beam: length penalty, as in fairseq-generate")
    parser.add_argument(
        "--max-len-a", type=float, default=0.0, metavar="A", help="with --beam: hypotheses have at most"
    )
    parser.add_argument("--max-len-b", type=int, default=200, metavar="B", help="A N + B subwords (default: 0, 200)")
    parser.add_argument("--layer", type=int, metavar="L", help="of a transformer's decoder, from 1 (default: the last)")
    parser.add_argument("--subwords", choices=SUBWORDS, help="how words were split (default: seen from the vocabulary)")
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="subwords in a batch (default: 4000)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE, and what another run left of it")
    text = add_text_options(parser)
    text.add_argument("--target-bpe-codes", metavar="FILE", help="of --target-text (default: --bpe-codes)")
    text.add_argument("--target-sentencepiece-model", metavar="FILE", help="(default: --sentencepiece-model)")


def _check(args: argparse.Namespace) -> None:
    if args.max_tokens < 1:
        raise OptionError(f"--max-tokens {args.max_tokens}: must be at least 1")
    if args.beam is not None and args.beam < 1:
        raise OptionError(f"--beam {args.beam}: must be at least 1")
    if args.max_len_a < 0 or args.max_len_b < 1:
        raise OptionError(f"--max-len-a {args.max_len_a} --max-len-b {args.max_len_b}: must be at least 0 and 1")
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: one data folder at a time, please; each numbers its own sentences")
    if args.target_text and not args.source_text:
        raise OptionError(f"--target-text {args.target_text}: is the translation of a --source-text, which is missing")
    if args.source_text and args.gen_subset:
        raise OptionError(f"--gen-subset {args.gen_subset} and --source-text {args.source_text}: choose one of the two")
    if args.source_text and not args.target_text and args.beam is None:
        raise OptionError(
            f"--source-text {args.source_text}: without a translation (--target-text) give --beam, as --beam 5"
        )
    if not math.isfinite(args.lenpen):
        raise OptionError(f"--lenpen {args.lenpen}: must be a number")
    if Path(args.out).is_dir():
        raise OptionError(f"--out {args.out}: is a folder")
    check_not_lost("--out", args.out, [args.source_text, args.target_text])
    folder = Path(args.out).parent
    if not folder.is_dir():
        raise OptionError(f"--out {args.out}: there is no folder {folder}")


def _segmenters(args: argparse.Namespace, teacher: Teacher) -> List[Segmenter]:
    options, (source, target) = text_options(args), teacher.languages
    segmenters = [Segmenter(teacher.task.source_dictionary, source, **options)]
    theirs = {"bpe_codes": args.target_bpe_codes, "sentencepiece_model": args.target_sentencepiece_model}
    if any(theirs.values()):
        options.update(theirs, prefix="target-")
    return [*segmenters, Segmenter(teacher.task.target_dictionary, target, **options)]


def run(args: argparse.Namespace) -> None:
    _check(args)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    teacher = load_teacher(args.data, args.path, parse_overrides(args.model_overrides), args.cpu)
    sentences: Any
    if args.source_text:
        sentences = TextSentences(teacher, args.source_text, args.target_text, *_segmenters(args, teacher))
    else:
        sentences = SplitSentences(teacher, args.gen_subset or "test", references=args.beam is None)
    generation = {}
    if args.beam is not None:
        generation = {"lenpen": args.lenpen, "max_len_a": args.max_len_a, "max_len_b": args.max_len_b}
    texts = text_options(args) if args.source_text else {}
    overrides = parse_overrides(args.model_overrides)
    header = describe(
        teacher,
        sentences,
        args.name,
        args.beam,
        args.subwords,
        args.layer,
        generation=generation,
        overrides={key: str(value) for key, value in overrides.items()},
        files=[
            _fingerprint(Path(file))
            for file in (
                args.bpe_codes,
                args.target_bpe_codes,
                args.sentencepiece_model,
                args.target_sentencepiece_model,
                *(value for value in overrides.values() if isinstance(value, str) and Path(value).is_file()),
            )
            if file
        ],
        **{key: value for key, value in texts.items() if value},
    )
    done = extract_file(
        teacher,
        sentences,
        args.out,
        header,
        args.beam,
        args.max_tokens,
        generation,
        args.layer,
        "replace" if args.overwrite else "keep",
    )
    if done.complete:
        print(f"{args.out}: is complete already; --overwrite extracts it anew")
        return
    print(
        f"{args.out}: attention of {header.name} ({', '.join(header.weights)}) for {done.written} sentences"
        + (f", {done.resumed} of them of an interrupted run" if done.resumed else "")
        + (f"; {done.left_out} are longer than the model takes and were left out" if done.left_out else "")
    )
    if args.source_text and sentences.unknown > MANY * sentences.tokens:
        print(
            f"{sentences.unknown} of {sentences.tokens} source tokens are not in the vocabulary: was the text of the "
            "training prepared in another way (--tokenizer, --bpe-codes, --sentencepiece-model, --case)?"
        )
