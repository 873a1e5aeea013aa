"""``Translator``: a trained model as a function from a sentence to its translations and their attention.

    from fairseq_attn_plugin.analysis.translator import Translator

    translate = Translator.of_folder("model")     # of fairseq-attn train
    translate = Translator("data", "checkpoint_best.pt", bpe_codes="codes", tokenizer="moses")
    best = translate("Ein Hund schläft.")[0]
    best.text, best.record.target_words, best.record.word_attention()

A text takes the steps of fairseq-interactive: tokeniser, subwords, dictionary, beam search, and back.
"""

from __future__ import annotations

import logging
import re
import threading
from argparse import Namespace
from dataclasses import asdict
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from fairseq import utils
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import load_models
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, text_options, vocabulary_subwords
from fairseq_attn_plugin.analysis.inference.sentences import indices_of
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import open_model_folder
from fairseq_attn_plugin.text.subwords import spell
from fairseq_attn_plugin.text.unknown_words import positions_of, replace_unknown

__all__ = ["MOST_CHARACTERS", "Translation", "Translator", "as_typed", "without_unknown"]


MOST_CHARACTERS = 5000  # of a text: tokenisers are slow on texts that are too long for any model
_ESCAPES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#124": "|", "#91": "[", "#93": "]"}  # of Moses
_ESCAPED = re.compile(f"&({'|'.join(_ESCAPES)});")


class Translation(NamedTuple):
    """One hypothesis of the beam."""

    text: str  # words, detokenised if there is a tokeniser
    score: float  # of the beam search: mean natural log probability, with penalties
    record: Record  # tokens, attention, log probabilities
    unknown: List[int]  # positions of the source tokens that the vocabulary lacks
    source_words: List[str]  # of the record, without the escapes of Moses: < instead of &lt;
    target_words: List[str]
    copied: str = ""  # the text with a source word for each unknown word, by attention


class Translator:
    """A callable; see :meth:`translate`. Several threads may call it; it translates one sentence at a time.

    Args:
        data: folder of fairseq-preprocess; its dictionaries are read
        path: checkpoint, or several separated by colons
        beam: width of the beam search
        lenpen, coverage_penalty: as in fairseq-interactive
        bpe_codes: codes of subword-nmt
        sentencepiece_model: model of SentencePiece, instead of ``bpe_codes``
        tokenizer: one of ``TOKENIZERS``, applied before the subword splitting
        moses_options: ``no_dash_splits`` and ``no_escape``, as in fairseq-interactive
        case: ``lower``; ``keep``; ``auto`` lower-cases if no word of the source dictionary has a capital letter
        overrides: options of the models to change, as in fairseq-generate
        cpu: do not use a GPU
        decoding: how it translates
        normalizer: of punctuation and Unicode; one of ``NORMALIZERS``

    Raises:
        OptionError: a file is missing or damaged, or the model returns no attention
    """

    def __init__(
        self,
        data: str,
        path: str,
        beam: int = 5,
        lenpen: float = 1.0,
        coverage_penalty: float = 0.0,
        bpe_codes: Optional[str] = None,
        sentencepiece_model: Optional[str] = None,
        tokenizer: Optional[str] = None,
        moses_options: Optional[Dict[str, bool]] = None,
        case: str = "auto",
        overrides: Optional[Dict[str, Any]] = None,
        cpu: bool = False,
        decoding: Optional[DecodingOptions] = None,
        normalizer: Optional[str] = None,
    ):
        logging.getLogger("fairseq").setLevel(logging.WARNING)
        loaded = load_models(data, path, overrides, cpu)
        self._loaded, self.path, self.beam = loaded, path, beam
        self.models, self.task = loaded.models, loaded.task
        self.languages: Tuple[str, str] = loaded.languages
        settings = Namespace(beam=beam, lenpen=lenpen, coverage_penalty=coverage_penalty, print_alignment=None)
        vars(settings).update(asdict(decoding or DecodingOptions()))
        for model in self.models:
            # fairseq computes attention only if alignments are to be printed
            model.prepare_for_inference_(Namespace(generation=Namespace(beam=beam, print_alignment="soft")))
        self._generator = self.task.build_generator(self.models, settings)
        self._segmenter = Segmenter(
            self.task.source_dictionary,
            *self.languages,
            bpe_codes=bpe_codes,
            sentencepiece_model=sentencepiece_model,
            tokenizer=tokenizer,
            moses_options=moses_options,
            case=case,
            normalizer=normalizer,
        )
        self._escapes = tokenizer == "moses" and not (moses_options or {}).get("no_escape")
        self.lowercase, self.segments = self._segmenter.lowercase, self._segmenter.segments
        self.subwords = vocabulary_subwords(self.task.source_dictionary)
        self._lock = threading.Lock()
        # a model without attention is refused now, not at the first sentence
        self._search([torch.tensor([self.task.source_dictionary.nspecial, self.task.source_dictionary.eos()])])

    @classmethod
    def of_folder(cls, folder: str, **options: Any) -> Translator:
        """The translator of a model folder, which knows how its text is prepared.

        Args:
            folder: that ``fairseq-attn train`` wrote
            options: the other arguments of this class

        Raises:
            OptionError: it is no model folder, or damaged
        """
        found = open_model_folder(folder)
        if found is None:
            raise OptionError(f"{folder}: is no model folder of fairseq-attn train")
        return cls(found.data, found.checkpoint, **text_options(Namespace(**found.text_options())), **options)

    def __call__(self, text: str, nbest: int = 1) -> List[Translation]:
        return self.translate(text, nbest)

    def translate(self, text: str, nbest: int = 1) -> List[Translation]:
        """The ``nbest`` best translations of a sentence, best first, or fewer if the beam search returns fewer.

        Raises ``OptionError`` if ``text`` has no word, has more than ``MOST_CHARACTERS`` characters or is too long for
        the model, or if ``nbest`` is less than 1 or greater than the width of the beam.
        """
        if not 1 <= nbest <= self.beam:
            raise OptionError(f"--nbest {nbest}: must be from 1 to {self.beam}, the width of the beam")
        if len(text) > MOST_CHARACTERS:
            raise OptionError(f"the sentence is too long: {len(text)} characters, at most {MOST_CHARACTERS} are read")
        tokens, ids = self.encode(text)
        if not tokens:
            raise OptionError("there is no word to translate")
        longest = self._loaded.limits[0]
        if len(ids) > longest:
            raise OptionError(
                f"the sentence is too long: {len(ids) - 1} subwords, the model takes at most {longest - 1:.0f}"
            )
        with self._lock:
            source, hypotheses = self._search([ids])
        unknown_index = self.task.source_dictionary.unk()
        if len(source) != len(tokens) + 1:  # the task adds tokens of its own
            tokens = [self.task.source_dictionary[index] for index in source[:-1]]
        unknown = [place for place, index in enumerate(source[:-1]) if index == unknown_index]
        return [self._translation(tokens, unknown, one) for one in hypotheses[:nbest]]

    def encode(self, text: str) -> Tuple[List[str], Tensor]:
        """The tokens of a text, and their indices with the end of the sentence.

        A word that is spelt as a special symbol, such as ``<pad>``, is a word that the vocabulary lacks.
        """
        # line ends and other control characters become blanks
        line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        tokens = self._segmenter(line)
        return tokens, indices_of(tokens, self.task.source_dictionary)

    @torch.no_grad()
    def _search(self, ids: List[Tensor]) -> Tuple[List[int], List[Dict[str, Any]]]:
        """The token indices that the model reads, and its hypotheses, best first."""
        dataset = self.task.build_dataset_for_inference(ids, [len(one) for one in ids])
        sample = dataset.collater([dataset[0]])
        if self._loaded.device.type == "cuda":
            sample = utils.move_to_cuda(sample)
        (hypotheses,) = self.task.inference_step(self._generator, self.models, sample)
        source = sample["net_input"]["src_tokens"][0].tolist()
        for one in hypotheses:
            shape = (len(source), len(one["tokens"]))
            if one["attention"] is None or tuple(one["attention"].shape) != shape:
                raise OptionError(
                    f"--path {self.path}: a {type(self.models[0]).__name__} returns no attention of source words for "
                    "target words; take a model with attention, such as lstm_soft"
                )
        return source, hypotheses

    def _translation(self, source: List[str], unknown: List[int], hypothesis: Dict[str, Any]) -> Translation:
        target = [self.task.target_dictionary[index] for index in hypothesis["tokens"].tolist()[:-1]]
        weights = hypothesis["attention"].t().float().cpu().numpy().astype(np.float64)
        scores = hypothesis["positional_scores"].tolist()
        record = Record(0, source, target, {"attention": weights}, scores, self.subwords)
        text = self._segmenter.decode(" ".join(spell(target, self.subwords)))
        words = as_typed(record.source_words, self._escapes), as_typed(record.target_words, self._escapes)
        copied = self._segmenter.decode(without_unknown(record))
        return Translation(text, float(hypothesis["score"]), record, unknown, *words, copied)


def without_unknown(record: Record) -> str:
    """The words of the target, with a copy of the source word for each unknown word; blanks separate them."""
    positions = positions_of(record.attention.tolist())
    tokens = replace_unknown(record.target, record.source, positions, {}).tokens
    return " ".join(spell(tokens, record.subwords))


def as_typed(words: List[str], escaped: bool) -> List[str]:
    """Words without the escapes of Moses, such as ``&lt;`` for ``<``, if they are ``escaped``."""
    return [_ESCAPED.sub(lambda found: _ESCAPES[found[1]], word) for word in words] if escaped else words
