"""Penalties of attention mechanisms in the loss of any criterion.

A mechanism may have terms of the training loss of its own: the likelihood of fertilities (the fertility bias), the
size of the transitions (structured attention). They are added to the loss of every criterion in training, stock
criterions included. At validation they are only logged, so that losses stay comparable. They are logged by name and
unweighted: penalties that depend on the weights in nats per target word, penalties of parameters as they are. A term
whose weight is 0 is a statistic: it is logged and has no part in the loss. The first validation after a thousand
updates says in one line if the attention has not begun to move.
"""

import logging
from functools import partial
from typing import Any, Dict, Iterator

from .wrapping import Patch, after, around, before, wrap

PATCH_NAME = "penalties"
KEY = "penalties"
SUFFIXES = ("_penalty", "_statistic")
# Updates after which attention has begun to move, and the least information of attention that does. Trainings that got
# stuck have .24 to .29, others .55 and more.
SETTLED, MOVING = 1000, 0.4

logger = logging.getLogger(__name__)


@before
def _watching(cfg: Any, trainer: Any, stats: Any, *_rest: Any) -> None:
    if trainer.get_num_updates() >= SETTLED and not getattr(trainer, "attention_watched", False):
        trainer.attention_watched = True
        information = float(stats.get("attention_information_statistic", 1.0))
        if information < MOVING:
            larger = getattr(cfg.model, "embed_init_range", 1.0) < 1
            remedy = "--embed-init-range 1" if larger else "another --lr, such as 3e-3 with --clip-norm 5,"
            logger.warning(
                f"the attention hardly moves from step to step: attention_information_statistic {information:.2f} "
                f"after {trainer.get_num_updates()} updates, where it is {MOVING} or more in trainings that align; "
                f"{remedy} in a new training lets it move sooner"
            )


def add_penalties(criterion: Any, *_args: Any, **_kwargs: Any) -> None:
    """Make ``criterion.forward`` add the penalties of the model it is given; a second call changes nothing."""
    wrap(criterion, "forward", around(partial(_with_penalties, criterion)), PATCH_NAME)


def _with_penalties(criterion: Any, forward: Any, model: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
    # not before the patches are installed, which explain the mistakes of mechanisms that register themselves
    from fairseq_attn_plugin.attention import Attention, Penalty

    found: Dict[str, Penalty] = {}

    def look(module: Any, inputs: Any, output: Any) -> None:
        for penalties in _penalties_of(output):
            for name, (value, weight) in penalties.items():
                if name not in found:
                    found[name] = Penalty(value, weight)
                elif weight:  # of both directions; a statistic is that of the first one, whose words are counted
                    found[name] = Penalty(found[name].value + value, weight)

    with model.register_forward_hook(look):
        loss, sample_size, logged = forward(model, sample, *args, **kwargs)
    words = logged.get("ntokens", sample_size)
    for module in model.modules():
        if isinstance(module, Attention):
            for name, (value, weight) in module.parameter_penalties().items():
                # per word or sentence: fairseq divides the sum of all losses by that of all sample sizes
                loss = loss + weight * sample_size * value if criterion.training else loss
                logged[name] = logged.get(name, 0) + value.detach() * words
    for name, (value, weight) in found.items():
        loss = loss + weight * value if weight and criterion.training else loss
        logged[name] = value.detach()
    return loss, sample_size, logged


def _penalties_of(output: Any) -> Iterator[Dict[str, Any]]:
    """The penalties in the output of a model, at any depth of tuples and dictionaries."""
    if isinstance(output, dict):
        own, parts = output.get(KEY), [part for name, part in output.items() if name != KEY]
    elif isinstance(output, (tuple, list)):
        own = getattr(output, KEY, None)
        parts = [part for part in output if part is not own]
    else:
        return
    if own:
        yield own
    for part in parts:
        yield from _penalties_of(part)


@after
def _logging(_none: None, task: Any, logging_outputs: Any, criterion: Any) -> None:
    from fairseq import utils
    from fairseq.logging import metrics

    words = sum(utils.item(log.get("ntokens", 0)) for log in logging_outputs)
    for name in sorted({name for log in logging_outputs for name in log if name.endswith(SUFFIXES)}):
        if words:
            total = sum(utils.item(log.get(name, 0)) for log in logging_outputs)
            metrics.log_scalar(name, total / words, words, round=4)


PENALTIES = Patch(
    name=PATCH_NAME,
    reason="criterions of fairseq do not know the losses of attention mechanisms",
    wraps={
        "fairseq.tasks.fairseq_task:FairseqTask.build_criterion": after(add_penalties),
        "fairseq.tasks.fairseq_task:FairseqTask.reduce_metrics": _logging,
        "fairseq_cli.train:get_valid_stats": _watching,
    },
)
