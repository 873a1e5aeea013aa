"""The rate keeps falling after the first rise of the validation metric."""

import pytest
import torch
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import LR_SCHEDULER_DATACLASS_REGISTRY, build_lr_scheduler
from omegaconf import OmegaConf

import fairseq_attn_plugin  # noqa: F401  (registers the scheduler)
from fairseq_attn_plugin.errors import OptionError


def make(**options):
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    optimizer = build_optimizer(
        OmegaConf.create({"_name": "nag", "momentum": 0.0, "weight_decay": 0.0, "lr": [1.0]}), parameters
    )
    config = OmegaConf.structured(LR_SCHEDULER_DATACLASS_REGISTRY["decay_after_rise"]())
    given = {"lr": [1.0], "maximize_best_checkpoint_metric": False, "_name": "decay_after_rise", **options}
    OmegaConf.set_struct(config, False)
    return build_lr_scheduler(OmegaConf.merge(config, given), optimizer)


def rates(scheduler, metrics, first=1):
    found = []
    for epoch, metric in enumerate(metrics, first):
        assert scheduler.step(epoch, metric) == scheduler.optimizer.get_lr()
        found.append(scheduler.optimizer.get_lr())
    return found


def test_every_epoch_after_the_first_rise():
    assert rates(make(), [5.0, 4.0, 4.0, 4.1, 3.0, 2.0]) == [1, 1, 1, 0.5, 0.25, 0.125]
    assert rates(make(lr=[2.0], lr_shrink=0.1), [5.0, 6.0, 7.0]) == pytest.approx([2, 0.2, 0.02])
    assert make().step_update(3) == 1.0


def test_a_fall_of_a_metric_that_is_maximised():
    assert rates(make(maximize_best_checkpoint_metric=True), [5.0, 6.0, 5.5, 7.0]) == [1, 1, 0.5, 0.25]


def test_a_continued_training_goes_on():
    metrics = [5.0, 4.0, 4.5, 4.2, 4.6]
    whole = rates(make(), metrics)
    for cut in range(1, len(metrics)):
        first, second = make(), make()
        rates(first, metrics[: cut - 1])
        second.load_state_dict(first.state_dict())  # fairseq saves it before the step of the epoch that has ended
        before = whole[cut - 2] if cut > 1 else 1
        assert second.step(cut + 1) == before, "fairseq calls it without a metric when it has loaded a checkpoint"
        assert second.step(cut, metrics[cut - 1]) == whole[cut - 1], "and patches/resuming.py with the metric"
        assert second.step(cut + 1) == whole[cut - 1]
        assert rates(second, metrics[cut:], cut + 1) == whole[cut:]


def test_a_training_that_began_with_another_scheduler_goes_on():
    for state, rate in (({"best": 4.0}, 1.0), ({"lr": 0.25}, 0.25)):
        scheduler = make()
        scheduler.load_state_dict(state)
        assert scheduler.step(2) == rate and rates(scheduler, [5.0, 6.0], 2) == [rate, rate / 2]


def test_wrong_options():
    with pytest.raises(OptionError, match="^--lr-shrink 2.0: must be above 0 and at most 1$"):
        make(lr_shrink=2.0)
    with pytest.raises(OptionError, match="^--lr 1.0,0.5: must be one rate for --lr-scheduler decay_after_rise$"):
        make(lr=[1.0, 0.5])
