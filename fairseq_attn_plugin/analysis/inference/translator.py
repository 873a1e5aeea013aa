"""A trained model as a function from a sentence to its translations, with the attention of each.

    from fairseq_attn_plugin.analysis.translator import Translator

    translate = Translator("data", "checkpoint_best.pt", bpe_codes="codes", tokenizer="moses")
    best = translate("Ein Hund schläft.")[0]
    best.text, best.record.target_words, best.record.word_attention()

A text goes the way that it goes in fairseq-interactive: tokeniser, subwords, dictionary, beam search, and back.
"""

from __future__ import annotations

import logging
import re
import threading
from argparse import Namespace
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from fairseq import utils
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import load_teacher
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, subwords_of
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import spell

__all__ = ["MOST_CHARACTERS", "Translation", "Translator"]


MOST_CHARACTERS = 5000  # of a text: tokenisers take very long for what no model reads
_ESCAPES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#124": "|", "#91": "[", "#93": "]"}  # of Moses
_ESCAPED = re.compile(f"&({'|'.join(_ESCAPES)});")


class Translation(NamedTuple):
    """One hypothesis of the beam."""

    text: str  # as one would write it: words, detokenised if there is a tokeniser
    score: float  # the beam's: mean natural log probability, times penalties
    record: Record  # tokens, attention, log probabilities
    unknown: List[int]  # places of the source tokens that are not in the vocabulary
    source_words: List[str]  # those of the record as one would write them: < where Moses has &lt;
    target_words: List[str]


class Translator:
    """Callable: see :meth:`translate`. One sentence is translated at a time, whatever threads ask.

    Args:
        data: folder of fairseq-preprocess; its dictionaries are read
        path: checkpoint, or several with colons between them
        beam: width of the search
        lenpen, coverage_penalty: as in fairseq-interactive
        bpe_codes: file of subword-nmt, by which words are split
        sentencepiece_model: or a model of SentencePiece
        tokenizer: one of ``TOKENIZERS``, before that
        moses_options: ``no_dash_splits`` and ``no_escape``, as in fairseq-interactive
        case: ``lower``: what is typed is lower-cased; ``keep``; ``auto``: lower-cased if no word of the source's
            dictionary has a capital letter
        overrides: options of the models, as in fairseq-generate
        cpu: do not use a GPU

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
    ):
        if beam < 1:
            raise OptionError(f"--beam {beam}: must be at least 1")
        logging.getLogger("fairseq").setLevel(logging.WARNING)
        teacher = load_teacher(data, path, overrides, cpu)
        self.models, self.task, self.path, self.beam = teacher.models, teacher.task, path, beam
        self.languages: Tuple[str, str] = teacher.languages
        settings = Namespace(beam=beam, lenpen=lenpen, coverage_penalty=coverage_penalty, print_alignment=None)
        for model in self.models:
            # attention is wanted whether or not alignments are printed
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
        )
        self._escapes = tokenizer == "moses" and not (moses_options or {}).get("no_escape")
        self.lowercase, self.segments = self._segmenter.lowercase, self._segmenter.segments
        self.subwords = subwords_of(self.task.source_dictionary)
        limits = utils.resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )
        self._longest = limits[0] if isinstance(limits, tuple) else limits
        self._lock = threading.Lock()
        # a model that returns no attention is better known now than at the first sentence
        self._search([torch.tensor([self.task.source_dictionary.nspecial, self.task.source_dictionary.eos()])])

    def __call__(self, text: str, nbest: int = 1) -> List[Translation]:
        return self.translate(text, nbest)

    def translate(self, text: str, nbest: int = 1) -> List[Translation]:
        """The ``nbest`` best translations of a sentence, best first; fewer if the beam has no more.

        Raises ``OptionError`` if there is no word in ``text``, if it has more than ``MOST_CHARACTERS`` characters or is
        too long for the model, or if ``nbest`` is less than 1 or more than the beam is wide.
        """
        if not 1 <= nbest <= self.beam:
            raise OptionError(f"--nbest {nbest}: must be from 1 to {self.beam}, the width of the beam")
        if len(text) > MOST_CHARACTERS:
            raise OptionError(f"the sentence is too long: {len(text)} characters, at most {MOST_CHARACTERS} are read")
        tokens, ids = self.encode(text)
        if not tokens:
            raise OptionError("there is no word to translate")
        if self._longest is not None and len(ids) > self._longest:
            raise OptionError(
                f"the sentence is too long: {len(ids) - 1} subwords, the model takes at most {self._longest - 1}"
            )
        with self._lock:
            source, hypotheses = self._search([ids])
        unknown_index = self.task.source_dictionary.unk()
        if len(source) != len(tokens) + 1:  # the task has added tokens of its own
            tokens = [self.task.source_dictionary[index] for index in source[:-1]]
        unknown = [place for place, index in enumerate(source[:-1]) if index == unknown_index]
        return [self._translation(tokens, unknown, one) for one in hypotheses[:nbest]]

    def encode(self, text: str) -> Tuple[List[str], Tensor]:
        """The tokens of a text as it is given to the model, and their numbers, with the end of the sentence."""
        # a line end is no more than a blank, and no other character of control is a word
        line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
        ids, _ = self.task.get_interactive_tokens_and_lengths([line], self._segmenter.encode)
        return self._segmenter(line), ids[0]

    @torch.no_grad()
    def _search(self, ids: List[Tensor]) -> Tuple[List[int], List[Dict[str, Any]]]:
        """The tokens that the model read and its hypotheses, best first."""
        dataset = self.task.build_dataset_for_inference(ids, [len(one) for one in ids])
        sample = dataset.collater([dataset[0]])
        if next(self.models[0].parameters()).is_cuda:
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
        words = self._as_typed(record.source_words), self._as_typed(record.target_words)
        return Translation(text, float(hypothesis["score"]), record, unknown, *words)

    def _as_typed(self, words: List[str]) -> List[str]:
        """Words without the escapes of Moses, which has written ``&lt;`` for ``<``."""
        return [_ESCAPED.sub(lambda found: _ESCAPES[found[1]], word) for word in words] if self._escapes else words
