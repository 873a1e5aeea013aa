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

The option is a field of fairseq's ``GenerationConfig`` (:mod:`.decoding`).
"""

import math
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import Tensor

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import option

from .decoding import add_options
from .wrapping import Patch, wrap, wrapped_by

__all__ = ["FLOOR", "COVERAGE", "rank", "rank_by_coverage"]

PATCH_NAME = "coverage"
FLOOR = 1e-6
NAME, FLAG = "coverage_penalty", "--coverage-penalty"
HELP = "weight of the source words without attention in the scores of hypotheses (Wu et al. 2016; default: 0)"


def _prepare() -> None:
    """Add the option to fairseq, and heed it in the tasks that build their generators themselves."""
    from fairseq.tasks import FairseqTask

    add_options({NAME: (float, option(0.0, HELP))})
    for task in _with_subclasses(FairseqTask):
        if "build_generator" in vars(task):
            wrap(task, "build_generator", _heeding, PATCH_NAME)


def _with_subclasses(base: Any) -> Iterator[Any]:
    yield base
    for subclass in base.__subclasses__():
        yield from _with_subclasses(subclass)


def _heeding(build: Callable[..., Any]) -> Callable[..., Any]:
    def build_generator(self: Any, models: Any, args: Any, *others: Any, **options: Any) -> Any:
        beta = _value(args)
        generator = build(self, models, args, *others, **options)
        if beta:
            rank_by_coverage(generator, models, beta)
        return generator

    return build_generator


def _value(config: Any) -> float:
    given = getattr(config, NAME, 0.0)
    try:
        beta = float(given)
    except (TypeError, ValueError):
        beta = math.nan
    if not 0 <= beta < math.inf:
        raise OptionError(f"{FLAG} {given}: must be a number that is at least 0, such as 0.2")
    return beta


def rank_by_coverage(generator: Any, models: Any, beta: float) -> None:
    """Make ``generator.generate`` rank with the penalty ``beta`` (> 0); calling it again changes nothing.

    Args:
        generator: a ``SequenceGenerator`` for ``models``, or of a subclass
        models: these are made to return their attention
        beta: the penalty's weight

    Raises:
        OptionError: the generator does not search by a beam, or a model says that it has no attention. Other models
            without attention, or with attention to something else than the words of the source, are found in the first
            batch.
    """
    from fairseq.sequence_generator import SequenceGenerator
    from fairseq.sequence_scorer import SequenceScorer

    if isinstance(generator, SequenceScorer):
        raise OptionError(f"{FLAG} {beta:g}: without effect on --score-reference, which ranks nothing; leave one out")
    if not isinstance(generator, SequenceGenerator):
        raise OptionError(f"{FLAG} {beta:g}: this task does not search by a beam; leave it out")
    if PATCH_NAME in wrapped_by(generator, "generate"):  # by the build_generator of the task's base class
        return
    if any(getattr(getattr(model, "decoder", None), "attention", model) is None for model in models):
        raise _no_attention(beta)
    for module in (module for model in models for module in model.modules() if hasattr(module, "need_attn")):
        module.need_attn = True  # without --print-alignment it is off while translating
    moved = _moves_sources(models, beta)
    pad, eos = generator.pad, generator.tgt_dict.eos()

    def ranking(search: Callable[..., Any]) -> Callable[..., Any]:
        def generate(models: Any, sample: Any, **options: Any) -> Any:
            finalized = search(models, sample, **options)
            return rank(finalized, _words(sample["net_input"].get("src_tokens"), pad, eos, moved), beta)

        return generate

    wrap(generator, "generate", ranking, PATCH_NAME)


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
        raise _no_attention(beta)
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


def _words(source: Optional[Tensor], pad: int, eos: int, moved: bool) -> Optional[Tensor]:
    """True on the words of ``source`` ``[B, N]``, in the columns where the attention has them."""
    from fairseq import utils

    if source is None or source.dim() != 2 or source.is_floating_point():
        return None
    if moved:
        source = utils.convert_padding_direction(source, pad, left_to_right=True)
    return source.ne(pad) & source.ne(eos)


def _moves_sources(models: Any, beta: float) -> bool:
    """Whether the columns of the attention are those of sources moved to the left, as stock ``lstm`` returns them."""
    from fairseq.models.lstm import LSTMEncoder

    encoders = [getattr(model, "encoder", None) for model in models]
    moved = {isinstance(encoder, LSTMEncoder) and bool(encoder.left_pad) for encoder in encoders}
    if len(moved) > 1:
        raise OptionError(
            f"{FLAG} {beta:g}: stock lstm returns its attention in another order of positions than the other models "
            "of --path, which therefore have no mean; leave stock lstm or the others out"
        )
    return moved == {True}


def _no_attention(beta: float) -> OptionError:
    return OptionError(
        f"{FLAG} {beta:g}: the model returns no attention, from which coverage is computed (--decoder-attention False "
        "trains such models); leave it out"
    )


COVERAGE = Patch(
    name=PATCH_NAME,
    reason="beam search of fairseq has no coverage penalty",
    wraps={"fairseq.tasks.fairseq_task:FairseqTask.build_generator": _heeding},
    extra=_prepare,
)
