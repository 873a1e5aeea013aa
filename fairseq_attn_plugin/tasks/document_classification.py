"""Document classification: fairseq's ``sentence_prediction`` with checks and defaults for documents.

The data have the format of ``sentence_prediction``: a folder with ``input0/`` and ``label/``, each binarised by
fairseq-preprocess. Differences:

- The number of classes is the number of labels, unless ``--num-classes`` is given.
- Documents may have up to 10,000 symbols. Longer documents are cut; ``--shorten-method none`` refuses them.
- Unknown labels, sides of different length and empty files raise ``OptionError``.
"""

import logging
import os
from dataclasses import dataclass
from glob import glob
from typing import Any

import numpy as np
from fairseq.data import data_utils
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SHORTEN_METHOD_CHOICES, SentencePredictionConfig, SentencePredictionTask

from fairseq_attn_plugin.text.documents import END, class_names

from ..errors import OptionError
from ..options import at_least, option

logger = logging.getLogger(__name__)


@dataclass
class DocumentClassificationConfig(SentencePredictionConfig):
    num_classes: int = option(-1, "number of classes (default: the number of labels in label/dict.txt)")
    shorten_method: SHORTEN_METHOD_CHOICES = option(
        "truncate",
        "treatment of documents with more than --max-positions symbols: truncate, random_crop, or none, which refuses "
        "them (default: truncate)",
    )
    max_positions: int = option(10000, "longest document, in words and ends of sentences (default: 10000)")


@register_task("document_classification", dataclass=DocumentClassificationConfig)
class DocumentClassificationTask(SentencePredictionTask):
    """The task ``document_classification``; see the module's docstring."""

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "DocumentClassificationTask":
        """Loads the dictionaries and sets the number of classes.

        Raises:
            OptionError: a dictionary is missing, or an option has a wrong value
        """
        for side in ("input0", "label"):
            if not os.path.isfile(os.path.join(cfg.data, side, "dict.txt")):
                raise OptionError(
                    f"data folder {cfg.data}: it has no {side}/dict.txt; give the folder whose subfolders input0 and "
                    "label were written by fairseq-preprocess --only-source --destdir (see fairseq-attn documents)"
                )
        if cfg.regression_target:
            raise OptionError("--regression-target: this task predicts classes; use --task sentence_prediction")
        at_least(cfg, max_positions=1)
        known = len(class_names(cls.load_dictionary(os.path.join(cfg.data, "label", "dict.txt"))))
        if not known:
            raise OptionError(f"{cfg.data}/label/dict.txt: has no label; prepare the labels anew by fairseq-preprocess")
        if cfg.num_classes < 0:
            cfg.num_classes = known
        if cfg.num_classes < known:
            raise OptionError(
                f"--num-classes {cfg.num_classes}: {cfg.data}/label has {known} labels; leave the option out"
            )
        return super().setup_task(cfg, **kwargs)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> Any:
        """Loads a split.

        Raises:
            OptionError: the split is missing or empty, the numbers of documents and labels differ, a label is not in
                the dictionary, or, with ``--shorten-method none``, a document is too long
        """
        documents, labels = self._open("input0", split), self._open("label", split)
        if len(documents) != len(labels):
            raise OptionError(
                f"the split '{split}' of {self.cfg.data} has {len(documents)} documents and {len(labels)} labels: "
                "input0 and label must come from files with the same number of lines"
            )
        self._check_labels(split, labels)
        self._check_documents(split, documents)
        return super().load_dataset(split, combine, **kwargs)

    def _prefix(self, side: str, split: str) -> str:
        return os.path.join(self.cfg.data, side, split)

    def _open(self, side: str, split: str) -> Any:
        dictionary = self.source_dictionary if side == "input0" else self.label_dictionary
        found = data_utils.load_indexed_dataset(self._prefix(side, split), dictionary)
        if found is None:
            present = sorted(os.path.basename(path)[:-4] for path in glob(self._prefix(side, "*.idx")))
            raise OptionError(
                f"the data folder {self.cfg.data} has no split '{split}' in {side} (--train-subset, --valid-subset, "
                f"--gen-subset choose the split): it has {', '.join(present) or 'none'}"
            )
        return found

    def _check_labels(self, split: str, labels: Any) -> None:
        known = class_names(self.label_dictionary)
        first = self.label_dictionary.nspecial
        wrong = []
        for number in range(len(labels)):
            label = labels[number].tolist()
            if len(label) != 2 or not first <= label[0] < first + len(known):
                what = "missing" if len(label) < 2 else "of several words" if len(label) > 2 else "unknown"
                wrong.append((number + 1, what))
        if wrong:
            line, what = wrong[0]
            raise OptionError(
                f"{self._prefix('label', split)}: {len(wrong)} of {len(labels)} labels cannot be used: the label in "
                f"line {line} is {what}; the labels of training are {', '.join(known[:20])}"
            )

    def _check_documents(self, split: str, documents: Any) -> None:
        end, limit = self.source_dictionary.eos(), self.cfg.max_positions
        if not any((np.asarray(documents[number]) == end).sum() > 1 for number in range(len(documents))):
            logger.warning(
                f"no document of the split '{split}' has more than one sentence: sentences end with the symbol {END} "
                "in the text that fairseq-preprocess reads; fairseq-attn documents writes such text"
            )
        sizes = documents.sizes + (self.cfg.init_token is not None)
        if (sizes > limit).any():
            count, longest = int((sizes > limit).sum()), int(sizes.max())
            what = f"{count} of {len(documents)} documents of the split '{split}' have more than {limit} symbols"
            if str(self.cfg.shorten_method) == "none":
                raise OptionError(
                    f"--max-positions {limit}: {what}, the longest {longest}; raise it, or cut them with "
                    "--shorten-method truncate"
                )
            logger.warning(f"{what}, the longest {longest}, and are cut (--max-positions, --shorten-method)")
