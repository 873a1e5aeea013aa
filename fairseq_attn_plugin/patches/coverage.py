"""``--coverage-penalty BETA``: ranks the hypotheses of a beam search also by how much of the source they attend to.

Wu et al. 2016 ("Google's Neural Machine Translation System", section 7), with a_tj the attention of target word t to
source word j:

    s(Y, X) = log p(Y | X) / lp(Y) + cp(X; Y),   cp(X; Y) = BETA * sum_j log(min(sum_t a_tj, 1))

lp is fairseq's own: |Y|^lenpen, or 1 with ``--unnormalized``. The paper leaves these points open:

- j runs over the words of the source. Padding and the end of the sentence do not count, since nothing has to translate
  them. t includes the end of the target, as |Y| does.
- sum_t a_tj is at least ``FLOOR``: a sparse normaliser gives exact zeros, whose logarithm would make all hypotheses
  that leave out a word equally bad. A word left out costs at most -log(FLOOR) = 13.8 times BETA.
- In an ensemble, a is the mean of the models' attention.

fairseq ends the search of a sentence when as many hypotheses as the beam is wide are finished, whatever their scores.
The search is therefore the same for every BETA, and the penalty decides among the finished hypotheses. If the prefix
of ``--prefix-size`` holds the end of the sentence, fairseq fills the beam with one translation without copying its
attention, and the scores of these copies differ.
"""

import math
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import option

FLOOR = 1e-6
NAME, FLAG = "coverage_penalty", "--coverage-penalty"
COVERAGE = option(
    0.0, "weight of the source words without attention in the scores of hypotheses (Wu et al. 2016; default: 0)"
)


def coverage_weight(config: Any) -> float:
    """BETA of the options of a generator; raises OptionError unless it is a number that is at least 0."""
    given = getattr(config, NAME, 0.0)
    if not isinstance(given, (int, float)) or not 0 <= given < math.inf:
        raise OptionError(f"{FLAG} {given}: must be a number that is at least 0, such as 0.2")
    return given


def rank_by_coverage(generator: Any, models: Any, beta: float) -> None:
    """Make ``generator.generate`` rank with the penalty ``beta`` (> 0).

    Args:
        generator: a ``SequenceGenerator`` for ``models``, or of a subclass
        models: these are made to return their attention
        beta: the penalty's weight

    Raises:
        OptionError: the generator does not search by a beam, or a model is stock fairseq's ``lstm``. Models without
            attention, or with attention to something else than the words of the source, are found in the first batch.
    """
    from fairseq.models.lstm import LSTMEncoder
    from fairseq.sequence_generator import SequenceGenerator

    if not isinstance(generator, SequenceGenerator):
        raise OptionError(f"{FLAG} {beta:g}: needs a beam search, which --score-reference is not; leave it out")
    for model in models:
        if isinstance(getattr(model, "encoder", None), LSTMEncoder):
            raise OptionError(f"{FLAG} {beta:g}: stock lstm returns its attention in another order; leave it out")
        for module in model.modules():
            if hasattr(module, "need_attn"):
                module.need_attn = True  # without --print-alignment it is off while translating
    search, pad, eos = generator.generate, generator.pad, generator.tgt_dict.eos()

    def generate(models: Any, sample: Any, **options: Any) -> Any:
        source = sample["net_input"].get("src_tokens")
        words = None if source is None or source.dim() != 2 else source.ne(pad) & source.ne(eos)
        return rank(search(models, sample, **options), words, beta)

    generator.generate = generate


def rank(finalized: List[List[Dict[str, Any]]], words: Optional[Tensor], beta: float) -> List[List[Dict[str, Any]]]:
    """Add cp(X; Y) to the scores of the hypotheses, and sort them by the sum.

    Args:
        finalized: for each of B sentences its hypotheses, with ``score`` and ``attention`` ``[N, T]``
        words: ``[B, N]``, True on what is to be covered; None if the sources are not words
        beta: the penalty's weight

    Raises:
        OptionError: there is no attention, or it has other positions than ``words``
    """
    sentences = [row for row, hypotheses in enumerate(finalized) for _ in hypotheses]
    attention = [hypothesis["attention"] for hypotheses in finalized for hypothesis in hypotheses]
    if not attention:
        return finalized
    if attention[0] is None or attention[0].numel() == 0:
        raise OptionError(
            f"{FLAG} {beta:g}: the model returns no attention, from which coverage is computed; leave it out"
        )
    if words is None or words.size(1) != len(attention[0]):
        raise OptionError(f"{FLAG} {beta:g}: the model does not attend to the words of the source; leave it out")
    coverage = torch.stack([weights.sum(dim=1) for weights in attention]).float()
    logs = coverage.clamp(FLOOR, 1).log().masked_fill(~words[sentences], 0)
    penalties = iter((beta * logs.sum(dim=1)).unbind())
    return [
        sorted(
            ({**hypothesis, "score": hypothesis["score"] + next(penalties)} for hypothesis in hypotheses),
            key=lambda hypothesis: float(hypothesis["score"]),
            reverse=True,
        )
        for hypotheses in finalized
    ]
