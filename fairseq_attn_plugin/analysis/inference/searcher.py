"""Batches of sentences for :class:`.translator.Translator`, and the search over them."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import torch
from fairseq import utils
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import LoadedModels
from fairseq_attn_plugin.errors import OptionError

__all__ = ["Batch", "Searcher"]


class Batch(NamedTuple):
    """Sentences that are searched together; fairseq sorts them by length."""

    sample: Dict[str, Any]  # of fairseq
    places: List[int]  # for each row the place of its sentence
    filled: Tensor  # [B, N], False on padding

    def source(self, row: int) -> List[int]:
        """The indices of the tokens of a row, without the end; the task may have added tokens of its own."""
        found: List[int] = self.sample["net_input"]["src_tokens"][row][self.filled[row]].tolist()
        return found[:-1]


class Searcher:
    """The beam search of an ensemble.

    Args:
        loaded: the models
        generator: of their task
    """

    def __init__(self, loaded: LoadedModels, generator: Any):
        self._loaded, self._generator = loaded, generator

    def batch(self, ids: List[Tensor]) -> Batch:
        """A batch of sentences, each the indices of its tokens with the end."""
        task = self._loaded.task
        dataset = task.build_dataset_for_inference(ids, [len(one) for one in ids])
        sample: Dict[str, Any] = dataset.collater([dataset[place] for place in range(len(ids))])
        places = sample["id"].tolist()
        if self._loaded.device.type == "cuda":
            sample = utils.move_to_cuda(sample)
        return Batch(sample, places, sample["net_input"]["src_tokens"] != task.source_dictionary.pad())

    @torch.no_grad()
    def search(self, batch: Batch, prefix: Optional[Tensor] = None) -> List[List[Dict[str, Any]]]:
        """The hypotheses of each row, best first, with attention ``[N, T]`` to the N tokens of the row.

        Raises:
            OptionError: the model returns no attention
        """
        found: List[List[Dict[str, Any]]]
        found = self._loaded.task.inference_step(
            self._generator, self._loaded.models, batch.sample, prefix_tokens=prefix
        )
        for filled, hypotheses in zip(batch.filled, found):
            for one in hypotheses:
                if one["attention"] is None or tuple(one["attention"].shape) != (len(filled), len(one["tokens"])):
                    raise OptionError(
                        f"--path {self._loaded.path}: a {type(self._loaded.models[0]).__name__} returns no attention "
                        "of source words for target words; take a model with attention, such as lstm_soft"
                    )
                one["attention"] = one["attention"][filled.to(one["attention"].device)]
        return found
