"""fairseq's generators with this package's search inside.

:class:`Generator` is a ``SequenceGenerator`` of fairseq: it has its attributes, and ``generate`` takes and returns what
fairseq's does. Beam search and sampling are those of
:mod:`fairseq_attn_plugin.decoding.search`. Every other search is fairseq's own, which one logged line says.
"""

import logging
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Optional, Tuple, Type

from fairseq.search import BeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator
from fairseq.utils import extract_hard_alignment, extract_soft_alignment
from torch import Tensor

from ..errors import OptionError
from ..models.attn_lstm import AttnLSTMModel
from .options import DecodingOptions
from .replay import Graphs, ReplayedSearch, can_replay
from .search import Search
from .stepper import steppers

logger = logging.getLogger(__name__)

ROWS = 640  # hypotheses that are searched at once on a processor


def check_alignment(models: List[Any], print_alignment: Any, each: bool = False) -> None:
    """Raises OptionError for alignments of models of this package without attention; ``each`` model must have one."""
    without = [isinstance(model, AttnLSTMModel) and model.decoder.attention is None for model in models]
    if print_alignment and without and (any(without) if each else all(without)):
        which = "a model of the ensemble" if not all(without) else "the model"
        raise OptionError(f"--print-alignment {print_alignment}: {which} has no attention; leave it out")


def generator_class(models: List[Any], options: DecodingOptions, print_alignment: Any) -> Optional[Type[Any]]:
    """The generator for an ensemble, or None: fairseq's.

    Raises:
        OptionError: options that fairseq's search does not have
    """
    ours = bool(models) and all(isinstance(model, AttnLSTMModel) for model in models)
    if options.decoding_engine == "stock" or not ours:
        options.check_unused(
            "--decoding-engine stock, or a model of another package, is decoded by fairseq's own search"
        )
        return None
    return AligningGenerator if print_alignment else Generator


class Generator(SequenceGenerator):  # type: ignore[misc]
    """A generator for an ensemble of models of this package; ``options`` are those of fairseq's ``SequenceGenerator``.

    Attributes:
        no_repeat: n-grams of this length occur once in a hypothesis; 0: no limit
        sampling: fairseq's search by sampling, or None
        wu_penalty: where it is not 0, hypotheses are ranked by log p / ((5 + |Y|) / 6)^wu_penalty (Wu et al. 2016,
            "Google's Neural Machine Translation System"); |Y| counts the words, the start and the end
        eos_norm: gamma; gamma |X| / |Y| is subtracted from log p of the end, |X| the words of the source, |Y| words,
            start and end (as OpenNMT's ``-eos_norm``); 0: nothing
    """

    def __init__(self, models: Any, tgt_dict: Any, *, decoding: DecodingOptions, **options: Any):
        super().__init__(models, tgt_dict, **options)
        other = self._other_search()
        self.searches = other is None
        if other is not None:
            decoding.check_unused(f"{other} has fairseq's own search, without this option")
            logger.warning(f"{other}: fairseq's own search is used, because that of this package does not have it")
        drawn = getattr(self.search, "sampling_topk", -1)
        if drawn > self.vocab_size:
            raise OptionError(
                f"--sampling-topk {drawn}: must be at most {self.vocab_size}, the words of the vocabulary"
            )
        needed = max(self.beam_size, drawn)
        if decoding.shortlist is not None and decoding.shortlist_frequent < needed:
            decoding = replace(decoding, shortlist_frequent=needed)
        self.graphs = Graphs()
        self.steppers = steppers(list(self.model.models), self.temperature, decoding)
        # beside fairseq's options, for the search
        blocker = self.repeat_ngram_blocker
        self.no_repeat = 0 if blocker is None else blocker.no_repeat_ngram_size
        self.sampling = self.search if isinstance(self.search, Sampling) else None
        self.wu_penalty, self.eos_norm = decoding.wu_penalty, decoding.eos_norm

    def _other_search(self) -> Optional[str]:
        """What asks for a search of fairseq, if anything does: an option, or the name of the search."""
        if self.lm_model is not None:
            return "--lm-path"
        if self.token_indices_to_suppress is not None:
            return "tokens_to_suppress"
        return None if type(self.search) in (BeamSearch, Sampling) else type(self.search).__name__

    def _generate(
        self,
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Dict[str, Any]]]:
        """For each sentence its hypotheses, the best first.

        Raises:
            OptionError: ``--min-len`` is greater than the greatest length, or a sentence has no translation because
                probabilities are not finite
        """
        net_input = sample["net_input"]
        if not self.searches or "src_tokens" not in net_input:
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        if constraints is not None:
            raise NotImplementedError("target-side constraints need --constraints")
        longest = min(int(self.max_len_a * net_input["src_tokens"].size(1) + self.max_len_b), self.max_len - 1)
        if self.min_len > longest:
            raise OptionError(
                f"--min-len {self.min_len}: greater than the greatest length of a translation, {longest} "
                "(--max-len-a, --max-len-b)"
            )
        first = self.eos if bos_token is None else bos_token
        found: List[List[Dict[str, Any]]] = []
        for part, prefix in self._parts(net_input, prefix_tokens):
            found += self._searched(part, longest, first, prefix)
        for number, hypotheses in enumerate(found):
            if not hypotheses:
                name = int(sample["id"][number]) if "id" in sample else number
                raise OptionError(
                    f"sentence {name} (from 0): no translation has a finite probability; the model's parameters are "
                    "damaged, or its training has diverged"
                )
        return found

    def _searched(
        self, net_input: Dict[str, Any], longest: int, first: int, prefix: Optional[Tensor]
    ) -> List[List[Dict[str, Any]]]:
        if not self.graphs.off and can_replay(self.steppers, self, net_input, prefix):
            try:
                replayed = ReplayedSearch(self.graphs, self.steppers, net_input, self, longest, first)
                replayed.run()
                return replayed.hypotheses()
            except RuntimeError as problem:
                self.graphs.failed(problem)
        search = Search(self.steppers, net_input, self, longest, first, prefix)
        search.run()
        return search.hypotheses()

    def _parts(
        self, net_input: Dict[str, Any], prefix: Optional[Tensor]
    ) -> Iterator[Tuple[Dict[str, Any], Optional[Tensor]]]:
        """The batch and the prefix, or parts of them that stay in a processor's cache."""
        source = net_input["src_tokens"]
        at_once = max(1, ROWS // self.beam_size)
        # samples depend on the order in which numbers are drawn
        if source.device.type != "cpu" or len(source) <= at_once or self.sampling is not None:
            yield net_input, prefix
            return
        for start in range(0, len(source), at_once):
            rows = slice(start, start + at_once)
            part = {name: x[rows] if isinstance(x, Tensor) else x for name, x in net_input.items()}
            yield part, None if prefix is None else prefix[rows]


class AligningGenerator(Generator):
    """A generator that also reads alignments off the attention, as ``--print-alignment`` wants them: ``hard`` or
    ``soft``. fairseq's own stops at a sentence with fewer hypotheses than the beam is wide."""

    def __init__(self, models: Any, tgt_dict: Any, *, print_alignment: str, **options: Any):
        super().__init__(models, tgt_dict, **options)
        self.alignment_of = extract_soft_alignment if print_alignment == "soft" else extract_hard_alignment

    def generate(self, models: Any, sample: Dict[str, Any], **options: Any) -> List[List[Dict[str, Any]]]:
        found = super().generate(models, sample, **options)
        for source, hypotheses in zip(sample["net_input"]["src_tokens"].cpu(), found):
            for one in hypotheses:
                weights, words = one["attention"].t().cpu(), one["tokens"].cpu()
                one["alignment"] = self.alignment_of(weights, source, words, self.pad, self.eos)
        return found
