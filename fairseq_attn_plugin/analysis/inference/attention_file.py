"""Writes extracted attention to a file, and resumes an interrupted extraction; that of a model folder is made once."""

from argparse import Namespace
from contextlib import closing
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

from fairseq import utils
from tqdm import tqdm

from fairseq_attn_plugin.analysis.inference.extraction import FORCED, Extraction, extract
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_models
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, text_options
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences, TextSentences, fingerprint
from fairseq_attn_plugin.analysis.records.files import Records, open_records
from fairseq_attn_plugin.analysis.records.record import Header, Record
from fairseq_attn_plugin.analysis.records.writer import RecordWriter
from fairseq_attn_plugin.checkpoints import architecture
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import ModelFolder
from fairseq_attn_plugin.text.subwords import pair_subwords
from fairseq_attn_plugin.writing import PathLike


def describe_extraction(
    loaded: LoadedModels,
    sentences: Any,
    extraction: Extraction = FORCED,
    name: Optional[str] = None,
    preparation: Optional[Mapping[str, Any]] = None,
    files: Sequence[str] = (),
) -> Header:
    """The header of a file. It has everything that changes the result, so that equal headers mean equal results.

    Args:
        loaded, sentences, extraction: as for :func:`extract`
        name: of the system (default: :func:`default_name`)
        preparation: options of the segmenters, for a corpus of text
        files: that the segmenters read
    """
    paths = [Path(path) for path in utils.split_paths(loaded.path)]
    config = loaded.config.model
    read = [*files, *(value for value in loaded.overrides.values() if isinstance(value, str) and Path(value).is_file())]
    about = {
        # training may have replaced the checkpoint by another model of the same path
        "checkpoint version": [f"{path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths if path.exists()],
        "generation": dict(extraction.generation),
        "overrides": {key: str(value) for key, value in loaded.overrides.items()},
        "files": [fingerprint(Path(file)) for file in read],
        **(preparation or {}),
        "corpus": [fingerprint(file) for file in sentences.files],
        "attention": getattr(config, "attention", None),
    }
    return Header(
        name=name or default_name(loaded.path),
        architecture=architecture(config) or "",
        checkpoint=loaded.path,
        source_lang=loaded.languages[0],
        target_lang=loaded.languages[1],
        split=sentences.name,
        target="reference" if extraction.beam is None else f"beam {extraction.beam}",
        subwords=pair_subwords(loaded.task),
        sentences=len(sentences),
        weights=extraction.names(loaded.models),
        options={key: value for key, value in about.items() if value not in (None, {}, [], "")},
    )


def default_name(path: str) -> str:
    """The name of a checkpoint: its folder, or the parent of a folder that is called ``checkpoints``."""
    folder = Path(utils.split_paths(path)[0]).resolve().parent
    if folder.name in ("checkpoints", "checkpoint") and folder.parent.name:
        folder = folder.parent
    return folder.name or Path(path).stem


class Extracted(NamedTuple):
    """The outcome of an extraction, in numbers of sentences; zero if the file was already complete."""

    written: int  # in the file
    left_out: int  # longer than the model allows
    resumed: int  # written by an interrupted run
    complete: bool  # the file already existed


def extract_file(
    loaded: LoadedModels,
    sentences: Any,
    out: PathLike,
    header: Header,
    extraction: Extraction = FORCED,
    existing: str = "keep",
) -> Extracted:
    """Writes the records of :func:`extract`, and resumes an interrupted extraction with the same header.

    Args:
        loaded, sentences, extraction: as for :func:`extract`
        out: file to write, ``.jsonl``
        header: of :func:`describe_extraction`
        existing: rule for an existing file: ``keep`` raises ``OptionError`` if its header differs; ``renew`` replaces
            it if its header differs; ``replace`` always replaces it

    Raises:
        OptionError: as :func:`extract`, or if the file cannot be written
    """
    path = Path(out)
    if path.exists() and existing != "replace":
        if header.same_run(open_records(path).header):
            return Extracted(0, 0, 0, True)
        if existing == "keep":
            raise OptionError(
                f"--out {out}: exists, and is of other options or another corpus; give --overwrite to replace it"
            )
    # the old file stays until the new one is complete
    writer = RecordWriter(path, header, replace=existing != "keep")
    resumed = written = writer.done
    bar = tqdm(total=len(sentences), initial=writer.next, desc=header.name, unit=" sentences", disable=None)
    with bar, closing(writer):
        for record in extract(loaded, sentences, extraction, writer.next):
            writer.write(record)
            written += 1
            bar.update(record.id + 1 - bar.n)
        writer.finish()
    return Extracted(written, len(sentences) - written, resumed, False)


def test_sentences(model: ModelFolder, loaded: LoadedModels) -> TextSentences:
    """The test set as text, which keeps the words that the model does not know; raises ``OptionError`` without one."""
    source, reference = (str(model.test_file(name)) for name in ("source", "reference"))
    return text_sentences(loaded, source, reference, Namespace(**model.text_options()))


def text_sentences(loaded: LoadedModels, source: str, target: Optional[str], args: Namespace) -> TextSentences:
    """The sentences of text files, which the options of :func:`.segmenter.add_text_options` prepare."""
    dictionaries, options = (loaded.task.source_dictionary, loaded.task.target_dictionary), text_options(args)
    segmenters = [Segmenter(one, language, **options) for one, language in zip(dictionaries, loaded.languages)]
    return TextSentences(loaded, source, target, *segmenters)


class ModelRecords(Records):
    """The records of a split whose references are forced: each loop computes them anew, and no file has them.

    Raises ``OptionError`` as :class:`.sentences.SplitSentences`, and in a loop as :func:`extract`.
    """

    def __init__(self, loaded: LoadedModels, split: str, max_tokens: int = 4000, matrices: Tuple[str, ...] = ()):
        self._loaded, self._sentences = loaded, SplitSentences(loaded, split)
        self._extraction = Extraction(max_tokens=max_tokens, matrices=matrices)
        super().__init__(loaded.path, describe_extraction(loaded, self._sentences, self._extraction))

    def __iter__(self) -> Iterator[Record]:
        return extract(self._loaded, self._sentences, self._extraction)


def records_of(model: ModelFolder, cpu: bool, beam: Optional[int] = None, matrices: Tuple[str, ...] = ()) -> str:
    """The file of attention to the test set, ``FOLDER/attention/test.reference.jsonl`` or ``test.beam5.jsonl``.

    A file that is newer than the model is used as it is.

    Args:
        model: the folder
        cpu: do not use a GPU
        beam, matrices: see :class:`.extraction.Extraction`; the name of the file has the matrices, too

    Raises:
        OptionError: the folder has no test set, or cannot be written
    """
    name = ".".join(["test", "reference" if beam is None else f"beam{beam}", *matrices, "jsonl"])
    out = model.path / "attention" / name
    if out.is_file() and out.stat().st_mtime >= Path(model.checkpoint).stat().st_mtime:
        return str(out)
    try:
        out.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise OptionError(f"{out.parent}: cannot be made: {error.strerror}; extract into another folder") from None
    loaded = load_models(model.data, model.checkpoint, cpu=cpu)
    sentences = test_sentences(model, loaded)
    extraction = Extraction(beam=beam, matrices=matrices)
    header = describe_extraction(loaded, sentences, extraction)
    extract_file(loaded, sentences, out, header, extraction, existing="renew")
    return str(out)
