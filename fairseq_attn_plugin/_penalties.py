"""Penalties of attention mechanisms in the loss, whatever the criterion.

A mechanism may come with terms of the training loss of its own: the fertility bias with the likelihood of fertilities,
structured attention with the size of its transitions. They are added to the loss of every criterion, stock ones
included, in training (at validation they are logged only, so that losses stay comparable), and logged by name,
unweighted: those that depend on the weights in nats per target word, those of parameters as they are.
"""

import functools
from typing import Any, Dict, Iterator

from fairseq_attn_plugin.attention import Attention, Penalty

KEY = "penalties"
SUFFIX = "_penalty"


def install() -> None:
    """Wrap the criterions that fairseq's tasks build; calling it again changes nothing."""
    from fairseq.tasks import FairseqTask

    build, reduce = FairseqTask.build_criterion, FairseqTask.reduce_metrics
    if getattr(build, "adds_penalties", False):
        return

    @functools.wraps(build)
    def build_criterion(self: Any, *args: Any, **kwargs: Any) -> Any:
        criterion = build(self, *args, **kwargs)
        criterion.forward = _with_penalties(criterion, criterion.forward)
        return criterion

    @functools.wraps(reduce)
    def reduce_metrics(self: Any, logging_outputs: Any, criterion: Any) -> None:
        reduce(self, logging_outputs, criterion)
        _log(logging_outputs)

    build_criterion.adds_penalties = True  # type: ignore[attr-defined]
    FairseqTask.build_criterion, FairseqTask.reduce_metrics = build_criterion, reduce_metrics


def _with_penalties(criterion: Any, original: Any) -> Any:
    @functools.wraps(original)
    def forward(model: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
        found: Dict[str, Penalty] = {}

        def look(module: Any, inputs: Any, output: Any) -> None:
            for penalties in _penalties_of(output):
                for name, (value, weight) in penalties.items():
                    value = found[name].value + value if name in found else value
                    found[name] = Penalty(value, weight)

        handle = model.register_forward_hook(look)
        try:
            loss, sample_size, logged = original(model, sample, *args, **kwargs)
        finally:
            handle.remove()
        words = logged.get("ntokens", sample_size)
        for module in model.modules():
            if isinstance(module, Attention):
                for name, (value, weight) in module.parameter_penalties().items():
                    # per word, and fairseq divides the sum of all losses by that of all sample sizes
                    loss = loss + weight * sample_size * value if criterion.training else loss
                    logged[name] = logged.get(name, 0) + value.detach() * words
        for name, (value, weight) in found.items():
            loss = loss + weight * value if criterion.training else loss
            logged[name] = value.detach()
        return loss, sample_size, logged

    return forward


def _penalties_of(output: Any) -> Iterator[Dict[str, Penalty]]:
    """The penalties in what a model returned, however deep in tuples and dictionaries."""
    if isinstance(output, dict):
        if output.get(KEY):
            yield output[KEY]
        parts: Any = [part for name, part in output.items() if name != KEY]
    elif isinstance(output, (tuple, list)):
        if getattr(output, KEY, None):
            yield output.penalties  # type: ignore[union-attr]
        parts = [part for part in output if part is not getattr(output, KEY, None)]
    else:
        return
    for part in parts:
        yield from _penalties_of(part)


def _log(logging_outputs: Any) -> None:
    from fairseq import utils
    from fairseq.logging import metrics

    words = sum(utils.item(log.get("ntokens", 0)) for log in logging_outputs)
    for name in sorted({name for log in logging_outputs for name in log if name.endswith(SUFFIX)}):
        if words:
            total = sum(utils.item(log.get(name, 0)) for log in logging_outputs)
            metrics.log_scalar(name, total / words, words, round=4)
