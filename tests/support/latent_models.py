"""Small models with a latent alignment, a batch for them, and their criterion."""

import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, build_criterion
from models_for_tests import build, enlarged, fake_task, pad_batch
from omegaconf import OmegaConf

from fairseq_attn_plugin.criterions.objectives import OBJECTIVES

SOURCES, TARGETS = [3, 6, 2, 4], [5, 2, 4, 3]
PAD, EOS = 1, 2


def needed_by(objective):
    """The arguments of :func:`make` for a model that has what an objective is defined for, and no more."""
    chosen = OBJECTIVES[objective]
    if chosen.chain:
        return {"arch": "lstm_latent_first_order_small"}
    sparse = {"prior": {"attention_normalizer": "sparsemax"}, "posterior": {"posterior_normalizer": "sparsemax"}}
    options = {"latent_posterior": str(chosen.posterior), **sparse.get(chosen.support, {})}
    return {"arch": "lstm_latent_small", **options}


def make(dtype=torch.float64, task=None, arch="lstm_latent_small", **options):
    return enlarged(build(arch, task, seed=7, **options).to(dtype).eval(), 4)


def sample(side="left", width=None, steps=None):
    target = pad_batch(TARGETS, "right", steps, symbols=15, seed=1)
    previous = torch.cat([torch.full((len(TARGETS), 1), EOS), target[:, :-1]], 1)
    previous[target.eq(PAD)] = PAD
    source = pad_batch(SOURCES, side, width)
    net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1), "prev_output_tokens": previous}
    return {"net_input": net_input, "target": target, "ntokens": sum(TARGETS), "nsentences": len(TARGETS)}


def longest_first(batch):
    """The order that stock fairseq needs."""
    order = batch["net_input"]["src_lengths"].argsort(descending=True)
    net_input = {name: value[order] for name, value in batch["net_input"].items()}
    return {**batch, "net_input": net_input, "target": batch["target"][order]}


def criterion(task=None, **options):
    config = OmegaConf.structured(CRITERION_DATACLASS_REGISTRY["latent_alignment"]())
    config = OmegaConf.merge(config, {"sentence_avg": False, **options, "_name": "latent_alignment"})
    return build_criterion(config, task or fake_task())


def alignments(model, batch):
    """What the criterion gets of the model."""
    net_input = batch["net_input"]
    return model.alignments(net_input["src_tokens"], net_input["prev_output_tokens"], batch["target"])
