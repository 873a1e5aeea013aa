"""``Translator``: a trained model as a function from a sentence to its translations and their attention.

    from fairseq_attn_plugin.analysis.translator import Translator

    translate = Translator.of_folder("model")     # of fairseq-attn train
    translate = Translator("data", "checkpoint_best.pt", bpe_codes="codes", tokenizer="moses")
    best = translate("Ein Hund schläft.")[0]
    best.text, best.record.target_words, best.record.word_attention()

A text takes the steps of fairseq-interactive: tokeniser, subwords, dictionary, beam search, and back.
"""

from __future__ import annotations

import functools
import logging
import threading
from argparse import Namespace
from dataclasses import asdict
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from fairseq import utils
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import load_models
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, text_options
from fairseq_attn_plugin.analysis.inference.sentences import indices_of
from fairseq_attn_plugin.analysis.inference.translation import Translation, check_length, check_request, translation_of
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.decoding.export.runtime import one_line
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import open_model_folder
from fairseq_attn_plugin.options import parse_overrides
from fairseq_attn_plugin.text.subwords import vocabulary_subwords


class _Batch(NamedTuple):
    """Sentences that are searched together; fairseq sorts them by length."""

    sample: Dict[str, Any]  # of fairseq
    places: List[int]  # for each row the place of its sentence
    filled: Tensor  # [B, N], False on padding

    def source(self, row: int) -> List[int]:
        """The indices of the tokens of a row, without the end; the task may have added tokens of its own."""
        found: List[int] = self.sample["net_input"]["src_tokens"][row][self.filled[row]].tolist()
        return found[:-1]


class Translator:
    """A callable; see :meth:`translate`. Several threads may call it; it translates one sentence at a time.

    Args:
        data: folder of fairseq-preprocess; its dictionaries are read
        path: checkpoint, or several separated by colons
        beam: width of the beam search
        lenpen: length penalty
        overrides: options of the models to change, as in fairseq-generate
        cpu: do not use a GPU
        decoding: how it translates
        text: how text is prepared: arguments of :class:`.segmenter.Segmenter`, such as ``bpe_codes`` and ``tokenizer``

    Raises:
        OptionError: a file is missing or damaged, or the model returns no attention
    """

    def __init__(
        self,
        data: str,
        path: str,
        beam: int = 5,
        lenpen: float = 1.0,
        overrides: Optional[Dict[str, Any]] = None,
        cpu: bool = False,
        decoding: Optional[DecodingOptions] = None,
        **text: Any,
    ):
        logging.getLogger("fairseq").setLevel(logging.WARNING)
        loaded = load_models(data, path, overrides, cpu)
        self._loaded, self.path, self.beam = loaded, path, beam
        self.models, self.task = loaded.models, loaded.task
        self.languages: Tuple[str, str] = loaded.languages
        settings = Namespace(beam=beam, lenpen=lenpen, print_alignment=None)
        vars(settings).update(asdict(decoding or DecodingOptions()))
        for model in self.models:
            # fairseq computes attention only if alignments are to be printed
            model.prepare_for_inference_(Namespace(generation=Namespace(beam=beam, print_alignment="soft")))
        self._generator = self.task.build_generator(self.models, settings)
        self._text, self.tokenizer = text, text.get("tokenizer")
        self._segmenter = Segmenter(self.task.source_dictionary, *self.languages, **text)
        self._escapes = self.tokenizer == "moses" and not (text.get("moses_options") or {}).get("no_escape")
        self.lowercase, self.segments = self._segmenter.lowercase, self._segmenter.segments
        self.subwords = vocabulary_subwords(self.task.source_dictionary)
        self._lock = threading.Lock()
        # a model without attention is refused now, not at the first sentence
        first = torch.tensor([self.task.source_dictionary.nspecial, self.task.source_dictionary.eos()])
        self._search(self._batch([first]))

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

    @classmethod
    def of_options(cls, args: Namespace) -> Translator:
        """The translator that the options of ``fairseq-attn translate`` and ``serve`` name."""
        overrides, decoding = parse_overrides(args.model_overrides), DecodingOptions.of(args)
        given = args.data, args.path, args.beam, args.lenpen, overrides, args.cpu, decoding
        return cls(*given, **text_options(args))

    def __call__(self, text: str, nbest: int = 1, prefix: str = "") -> List[Translation]:
        return self.translate(text, nbest, prefix)

    def translate(self, text: str, nbest: int = 1, prefix: str = "") -> List[Translation]:
        """The ``nbest`` best translations of a sentence, best first, or fewer if the beam search returns fewer.

        Args:
            text: a sentence
            nbest: how many translations
            prefix: words with which every translation begins, in the target language

        Raises:
            OptionError: ``text`` has no word, has more than ``MOST_CHARACTERS`` characters or is too long for the
                model; ``prefix`` is longer than a translation may be; ``nbest`` is less than 1 or greater than the
                width of the beam
        """
        tokens, ids = self._checked(text, nbest)
        begun = self._begun(prefix, len(ids))
        with self._lock:
            batch = self._batch([ids])
            tokens, unknown = self._source(tokens, batch.source(0))
            (hypotheses,) = self._search(batch, begun)
        given = 0 if begun is None else begun.size(1)
        return [self._translation(tokens, unknown, one)._replace(given=given) for one in hypotheses[:nbest]]

    def translate_all(
        self, texts: Sequence[str], nbest: int = 1, batch_size: int = 64
    ) -> List[Union[List[Translation], OptionError]]:
        """The translations of each sentence, in the order of the sentences, as those of :meth:`translate`.

        Sentences of similar length are searched together. A sentence that cannot be translated has its error in the
        place of its translations.

        Args:
            texts: sentences
            nbest: how many translations of each
            batch_size: sentences that are searched together, at most
        """
        found: List[Union[List[Translation], OptionError]] = []
        checked: Dict[int, Tuple[List[str], Tensor]] = {}
        for place, text in enumerate(texts):
            try:
                checked[place] = self._checked(text, nbest)
                found.append([])
            except OptionError as error:
                found.append(error)
        places = sorted(checked, key=lambda place: len(checked[place][1]))
        for start in range(0, len(places), batch_size):
            some = places[start : start + batch_size]
            with self._lock:
                batch = self._batch([checked[place][1] for place in some])
                rows = self._search(batch)
            for row, (number, hypotheses) in enumerate(zip(batch.places, rows)):
                tokens, unknown = self._source(checked[some[number]][0], batch.source(row))
                found[some[number]] = [self._translation(tokens, unknown, one) for one in hypotheses[:nbest]]
        return found

    def _batch(self, ids: List[Tensor]) -> _Batch:
        """A batch of sentences, each the indices of its tokens with the end."""
        dataset = self.task.build_dataset_for_inference(ids, [len(one) for one in ids])
        sample: Dict[str, Any] = dataset.collater([dataset[place] for place in range(len(ids))])
        places = sample["id"].tolist()
        if self._loaded.device.type == "cuda":
            sample = utils.move_to_cuda(sample)
        return _Batch(sample, places, sample["net_input"]["src_tokens"] != self.task.source_dictionary.pad())

    @torch.no_grad()
    def _search(self, batch: _Batch, prefix: Optional[Tensor] = None) -> List[List[Dict[str, Any]]]:
        """The hypotheses of each row, best first, with attention ``[N, T]`` to the N tokens of the row.

        Raises:
            OptionError: the model returns no attention
        """
        found: List[List[Dict[str, Any]]]
        found = self.task.inference_step(self._generator, self.models, batch.sample, prefix_tokens=prefix)
        for filled, hypotheses in zip(batch.filled, found):
            for one in hypotheses:
                if one["attention"] is None or tuple(one["attention"].shape) != (len(filled), len(one["tokens"])):
                    raise OptionError(
                        f"--path {self.path}: a {type(self.models[0]).__name__} returns no attention of source words "
                        "for target words; take a model with attention, such as lstm_soft"
                    )
                one["attention"] = one["attention"][filled.to(one["attention"].device)]
        return found

    def _checked(self, text: str, nbest: int) -> Tuple[List[str], Tensor]:
        """The tokens of a text and their indices.

        Raises:
            OptionError: as :meth:`translate`
        """
        check_request(text, nbest, self.beam)
        tokens, ids = self.encode(text)
        if not tokens:
            raise OptionError("there is no word to translate")
        longest = self._loaded.limits[0]
        if len(ids) > longest:
            raise OptionError(
                f"the sentence is too long: {len(ids) - 1} subwords, the model takes at most {longest - 1:.0f}"
            )
        return tokens, ids

    def _source(self, tokens: List[str], source: List[int]) -> Tuple[List[str], List[int]]:
        """The tokens that the model reads, and the places of those that the vocabulary lacks."""
        dictionary = self.task.source_dictionary
        if len(source) != len(tokens):  # the task adds tokens of its own
            tokens = [dictionary[index] for index in source]
        return tokens, [place for place, index in enumerate(source) if index == dictionary.unk()]

    def _begun(self, prefix: str, length: int) -> Optional[Tensor]:
        """The indices ``[1, P]`` of the tokens of a prefix, for a source of ``length`` tokens; None if it has none."""
        check_length("the prefix", prefix)
        tokens = self._target_segmenter(one_line(prefix))
        if not tokens:
            return None
        rules = self._generator
        longest = min(int(rules.max_len_a * length + rules.max_len_b), rules.max_len - 1)
        if len(tokens) >= longest:
            raise OptionError(f"the prefix is too long: {len(tokens)} subwords, a translation has at most {longest}")
        return indices_of(tokens, self.task.target_dictionary)[None, :-1].to(self._loaded.device)

    @functools.cached_property
    def _target_segmenter(self) -> Segmenter:
        return Segmenter(self.task.target_dictionary, self.languages[1], **self._text)

    @property
    def separates(self) -> bool:
        """Whether punctuation must be typed apart from words, since nothing separates it for the model."""
        dictionary = self.task.source_dictionary
        joined = self.tokenizer is not None or self.subwords == "sentencepiece"
        return not joined and any(mark in dictionary for mark in ".,?!")

    def encode(self, text: str) -> Tuple[List[str], Tensor]:
        """The tokens of a text, and their indices with the end of the sentence.

        A word that is spelt as a special symbol, such as ``<pad>``, is a word that the vocabulary lacks.
        """
        tokens = self._segmenter(one_line(text))
        return tokens, indices_of(tokens, self.task.source_dictionary)

    def _translation(self, source: List[str], unknown: List[int], hypothesis: Dict[str, Any]) -> Translation:
        target = [self.task.target_dictionary[index] for index in hypothesis["tokens"].tolist()[:-1]]
        weights = hypothesis["attention"].t().float().cpu().numpy().astype(np.float64)
        scores = hypothesis["positional_scores"].tolist()
        record = Record(0, source, target, {"attention": weights}, scores, self.subwords)
        return translation_of(record, float(hypothesis["score"]), unknown, self._escapes, self._segmenter.decode)
