"""A metric that is none, or of which the worst would be kept, ends a training before its epoch is lost."""

from typing import Any, Dict, Optional

from fairseq_attn_plugin.errors import OptionError

from .messages import explained
from .wrapping import Patch, before

# metrics of which more is better: fairseq's, and those of our criterions
GREATEST = (
    "accuracy acc_and_f1 bleu f1 mcc pearson pearson_and_spearman spearman "
    "agreement alignment_accuracy macro_f1 posterior_accuracy prior_accuracy"
).split()


@before
def _checking(cfg: Any, trainer: Any, **_options: Any) -> None:
    if trainer.cfg.dataset.disable_validation:
        return
    if cfg.best_checkpoint_metric == "bleu" and getattr(trainer.cfg.task, "eval_bleu", None) is False:
        raise OptionError("--best-checkpoint-metric bleu: needs --eval-bleu")
    if cfg.best_checkpoint_metric in GREATEST and not cfg.maximize_best_checkpoint_metric:
        raise OptionError(
            f"--best-checkpoint-metric {cfg.best_checkpoint_metric}: is best where it is greatest, and "
            "checkpoint_best.pt would be the worst; add --maximize-best-checkpoint-metric"
        )


def _no_metric(error: Exception, arguments: Dict[str, Any]) -> Optional[str]:
    metric = arguments["cfg"].checkpoint.best_checkpoint_metric
    is_missing = isinstance(error, KeyError) and error.args == (metric,)
    return f"--best-checkpoint-metric {metric}: must be a figure of the validation, as in loss" if is_missing else None


VALIDATION = Patch(
    name="validation",
    reason="a metric that is none is found when an epoch is over, which is lost; of others the worst is kept",
    wraps={
        "fairseq.checkpoint_utils:load_checkpoint": _checking,
        "fairseq_cli.train:validate": explained(_no_metric),
    },
)
