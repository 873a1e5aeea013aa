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
import threading
from argparse import Namespace
from dataclasses import asdict
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.batches import collated, columns_of, generator_of
from fairseq_attn_plugin.analysis.inference.forcing import unmoved
from fairseq_attn_plugin.analysis.inference.loading import load_models
from fairseq_attn_plugin.analysis.inference.segmenter import Segmenter, text_options
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence, indices_of
from fairseq_attn_plugin.analysis.inference.translation import Translation, check_nbest, check_text, translation_of
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.decoding.export.runtime import one_line
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import open_model_folder
from fairseq_attn_plugin.options import parse_overrides
from fairseq_attn_plugin.text.subwords import pair_subwords, vocabulary_subwords


class Translator:
    """A callable. Several threads may call it; it translates one sentence at a time.

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
        OptionError: an option is wrong, a file is damaged, or the model returns no attention
        OSError: a checkpoint or dictionary is missing
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
        self._generator = generator_of(loaded, beam, {"lenpen": lenpen, **asdict(decoding or DecodingOptions())})
        self.tokenizer = text.get("tokenizer")
        self._segmenter = Segmenter(self.task.source_dictionary, *self.languages, **text)
        self._escapes = self.tokenizer == "moses" and not (text.get("moses_options") or {}).get("no_escape")
        self.lowercase, self.segments = self._segmenter.lowercase, self._segmenter.segments
        self.subwords = pair_subwords(self.task)
        self._lock = threading.Lock()
        # a model without attention is refused now, not at the first sentence
        self._search([torch.tensor([self.task.source_dictionary.nspecial, self.task.source_dictionary.eos()])])

    @classmethod
    def of_folder(cls, folder: str, **options: Any) -> Translator:
        """The translator of a folder that ``fairseq-attn train`` wrote, which knows how its text is prepared.

        ``options`` are the other arguments of this class. Raises ``OptionError`` for another or a damaged folder.
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

    def __call__(self, text: str, nbest: int = 1) -> List[Translation]:
        """The ``nbest`` best translations of a sentence, best first, or fewer if the beam search returns fewer.

        Raises:
            OptionError: ``text`` has no word, has more than ``MOST_CHARACTERS`` characters or is too long for the
                model; ``nbest`` is less than 1 or greater than the width of the beam
        """
        check_nbest(nbest, self.beam)
        tokens, ids = self._checked(text)
        (hypotheses,) = self._search([ids])
        return [self._translation(tokens, ids, one) for one in hypotheses[:nbest]]

    def translate_all(
        self, texts: Sequence[str], nbest: int = 1, batch_size: int = 64
    ) -> List[Union[List[Translation], OptionError]]:
        """The translations of each sentence, in the order of the sentences, as those of a call.

        At most ``batch_size`` sentences of similar length are searched together. A sentence that cannot be translated
        has its error in the place of its translations.

        Raises:
            OptionError: ``texts`` is one sentence, or ``nbest`` is less than 1 or greater than the width of the beam
        """
        check_nbest(nbest, self.beam)
        if isinstance(texts, str):  # its letters would be translated
            raise OptionError(f"{texts!r}: must be a list of sentences; a call of the translator takes one")
        found: List[Union[List[Translation], OptionError]] = []
        checked: Dict[int, Tuple[List[str], Tensor]] = {}
        for place, text in enumerate(texts):
            try:
                checked[place] = self._checked(text)
                found.append([])
            except OptionError as error:
                found.append(error)
        places = sorted(checked, key=lambda place: len(checked[place][1]))
        for start in range(0, len(places), batch_size):
            some = places[start : start + batch_size]
            for place, hypotheses in zip(some, self._search([checked[place][1] for place in some])):
                found[place] = [self._translation(*checked[place], one) for one in hypotheses[:nbest]]
        return found

    @torch.no_grad()
    def _search(self, ids: List[Tensor]) -> List[List[Dict[str, Any]]]:
        """The hypotheses of sentences, best first, with attention ``[T, N]``; ``ids`` are N tokens with the end.

        Raises ``OptionError`` if the model returns no attention.
        """
        found: List[List[Dict[str, Any]]] = [[] for _ in ids]
        with self._lock:
            batch = [SourceSentence(place, one, None, [], None) for place, one in enumerate(ids)]
            sample = collated(self._loaded, batch, targets=False)
            rows = self.task.inference_step(self._generator, self.models, sample)
        sources = sample["net_input"]["src_tokens"].cpu()
        for source, place, hypotheses in zip(sources, sample["id"].tolist(), rows):
            for one in hypotheses:
                if one["attention"] is None or tuple(one["attention"].shape) != (len(source), len(one["tokens"])):
                    raise OptionError(
                        f"--path {self.path}: a {type(self.models[0]).__name__} returns no attention of source words "
                        "for target words; take a model with attention, such as lstm_soft"
                    )
                weights = unmoved(self.models[0], one["attention"].t().float().cpu()[None], source[None])[0]
                one["attention"] = weights[:, columns_of(self._loaded, sample, len(ids[place]))]
            found[place] = hypotheses
        return found

    def _checked(self, text: str) -> Tuple[List[str], Tensor]:
        """The tokens of a text and their indices; raises ``OptionError`` as a call does."""
        check_text(text)
        tokens, ids = self.encode(text)
        if not tokens:
            raise OptionError("there is no word to translate")
        longest = self._loaded.limits[0]
        if len(ids) > longest:
            raise OptionError(
                f"the sentence is too long: {len(ids) - 1} subwords, the model takes at most {longest - 1:.0f}"
            )
        return tokens, ids

    @property
    def separates(self) -> bool:
        """Whether punctuation must be typed apart from words, since nothing separates it for the model."""
        dictionary = self.task.source_dictionary
        joined = self.tokenizer is not None or vocabulary_subwords(dictionary) == "sentencepiece"
        return not joined and any(mark in dictionary for mark in ".,?!")

    def encode(self, text: str) -> Tuple[List[str], Tensor]:
        """The tokens of a text, and their indices with the end of the sentence.

        A word that is spelt as a special symbol, such as ``<pad>``, is a word that the vocabulary lacks.
        """
        tokens = self._segmenter(one_line(text))
        return tokens, indices_of(tokens, self.task.source_dictionary)

    def _translation(self, source: List[str], ids: Tensor, hypothesis: Dict[str, Any]) -> Translation:
        unknown = ids.eq(self.task.source_dictionary.unk()).nonzero().flatten().tolist()
        target = [self.task.target_dictionary[index] for index in hypothesis["tokens"].tolist()[:-1]]
        weights = hypothesis["attention"].numpy().astype(np.float64)
        scores = hypothesis["positional_scores"].tolist()
        record = Record(0, source, target, {"attention": weights}, scores, self.subwords)
        return translation_of(record, float(hypothesis["score"]), unknown, self._escapes, self._segmenter.decode)
