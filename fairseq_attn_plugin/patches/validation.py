"""What would end the first validation of a training, and lose its epoch, ends the training before its first update.

fairseq makes the batches of a validation set when it first validates, and keeps them. Here it makes them at the start:
a sentence that is longer than the options allow is found before anything is trained.
"""

from typing import Any, Dict, Optional

import torch
from fairseq.data import data_utils

from fairseq_attn_plugin.errors import OptionError

from .messages import explained
from .wrapping import Patch, after

# metrics of which more is better: fairseq's, and those of our criterions
GREATEST = (
    "accuracy acc_and_f1 bleu f1 mcc pearson pearson_and_spearman spearman "
    "agreement alignment_accuracy macro_f1 posterior_accuracy prior_accuracy"
).split()


@after
def _looking_ahead(_loaded: Any, cfg: Any, trainer: Any, **_options: Any) -> None:
    if trainer.cfg.dataset.disable_validation:
        return
    if cfg.best_checkpoint_metric == "bleu" and getattr(trainer.cfg.task, "eval_bleu", None) is False:
        raise OptionError("--best-checkpoint-metric bleu: needs --eval-bleu")
    if cfg.best_checkpoint_metric in GREATEST and not cfg.maximize_best_checkpoint_metric:
        raise OptionError(
            f"--best-checkpoint-metric {cfg.best_checkpoint_metric}: is best where it is greatest, and "
            "checkpoint_best.pt would be the worst; add --maximize-best-checkpoint-metric"
        )
    dummy = trainer._dummy_batch  # of the training data, which a process without a batch takes
    # the noise of the training data is drawn next, as it would be without a look ahead
    with data_utils.numpy_seed(trainer.cfg.common.seed), torch.random.fork_rng(devices=[]):
        for subset in trainer.cfg.dataset.valid_subset.split(","):
            trainer.get_valid_iterator(subset)
    trainer._dummy_batch = dummy


def _no_metric(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    metric = arguments["cfg"].checkpoint.best_checkpoint_metric
    is_missing = isinstance(error, KeyError) and error.args == (metric,)
    return f"--best-checkpoint-metric {metric}: must be a figure of the validation, as in loss" if is_missing else None


VALIDATION = Patch(
    name="validation",
    reason="a sentence that is too long, or a metric that is none, is found when an epoch is over, which is lost",
    wraps={
        "fairseq.checkpoint_utils:load_checkpoint": _looking_ahead,
        "fairseq_cli.train:validate": explained(_no_metric),
    },
)
