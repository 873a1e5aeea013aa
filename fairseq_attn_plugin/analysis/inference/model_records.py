"""Attention of the test set of a model folder, extracted when a command first needs it."""

from __future__ import annotations

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any, Optional, Tuple

from fairseq_attn_plugin.analysis.inference.attention_file import describe_extraction, extract_file
from fairseq_attn_plugin.analysis.inference.extraction import Extraction
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_models
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, text_options
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences, TextSentences
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import ModelFolder

__all__ = ["extract_split", "records_of", "test_sentences"]


def test_sentences(model: ModelFolder, loaded: LoadedModels) -> TextSentences:
    """The test set as text, which keeps the words that the model does not know.

    Raises:
        OptionError: the folder has no test set
    """
    source, reference = (str(model.test_file(name)) for name in ("source", "reference"))
    dictionaries = loaded.task.source_dictionary, loaded.task.target_dictionary
    options = text_options(Namespace(**model.text_options()))
    segmenters = [Segmenter(one, language, **options) for one, language in zip(dictionaries, model.languages)]
    return TextSentences(loaded, source, reference, *segmenters)


def extract_split(
    data: str,
    path: str,
    split: str,
    out: str,
    matrices: Tuple[str, ...] = (),
    max_tokens: int = 4000,
    **options: Any,
) -> None:
    """Writes the records of a split whose references are forced; a file of the same extraction stays.

    Args:
        data: folder of fairseq-preprocess
        path: checkpoint
        split: of the data
        out: file to write
        matrices: see :class:`.extraction.Extraction`
        max_tokens: subwords in a batch
        options: of :func:`.loading.load_models`

    Raises:
        OptionError: as :func:`.attention_file.extract_file`
    """
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    loaded = load_models(data, path, **options)
    sentences = SplitSentences(loaded, split)
    extraction = Extraction(max_tokens=max_tokens, matrices=matrices)
    extract_file(
        loaded, sentences, out, describe_extraction(loaded, sentences, extraction), extraction, existing="renew"
    )


def records_of(model: ModelFolder, beam: Optional[int] = None, matrices: Tuple[str, ...] = ()) -> str:
    """The file of attention to the test set, ``FOLDER/attention/test.reference.jsonl`` or ``test.beam5.jsonl``.

    A file that is newer than the model is used as it is.

    Args:
        model: the folder
        beam: width of the search (default: the references are forced)
        matrices: to add to the attention; the name of the file has them, too

    Raises:
        OptionError: the folder has no test set, or cannot be written
    """
    name = ".".join(["test", "reference" if beam is None else f"beam{beam}", *matrices, "jsonl"])
    out = model.path / "attention" / name
    if out.is_file() and out.stat().st_mtime >= Path(model.checkpoint).stat().st_mtime:
        return str(out)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        out.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise OptionError(f"{out.parent}: cannot be made: {error.strerror}; extract into another folder") from None
    loaded = load_models(model.data, model.checkpoint)
    sentences = test_sentences(model, loaded)
    extraction = Extraction(beam=beam, matrices=matrices)
    header = describe_extraction(loaded, sentences, extraction)
    extract_file(loaded, sentences, out, header, extraction, existing="renew")
    return str(out)
