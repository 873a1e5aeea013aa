"""Whether a mechanism learns a small task: updates in this process until it is learnt, then fairseq's own search.

The real commands train every model of the zoo (:mod:`zoo`); here only the mechanism is in question.
"""

from typing import Dict, List, NamedTuple, Tuple

import quick_hydra  # noqa: F401 (makes hydra quicker)
import torch
from fairseq import options, tasks
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from training import SIZES

import fairseq_attn_plugin  # noqa: F401 (registers the models)

# the mean loss of a word in an epoch, in nats, below which a task counts as learnt
LEARNT = 0.03
RATE = 0.03


class Translations(NamedTuple):
    """Of every sentence of the test set: the words, the links (source, target), and the reference."""

    words: Dict[int, List[int]]
    links: Dict[int, List[Tuple[int, int]]]
    references: Dict[int, List[int]]

    @property
    def right(self) -> List[int]:
        return [number for number, words in self.words.items() if words == self.references[number]]


class Learner:
    """A model of the architecture and its task; ``learn`` trains it, ``translate`` searches with beam 5."""

    def __init__(self, data: object, arch: str, *more: object):
        command = [data, "--arch", arch, *SIZES, "--dropout", "0", *more, "--cpu"]
        args = options.parse_args_and_arch(options.get_training_parser(), list(map(str, command)))
        config = convert_namespace_to_omegaconf(args)
        torch.manual_seed(1)
        self.task = tasks.setup_task(config.task)
        for split in ("train", "test"):
            self.task.load_dataset(split)
        self.model = self.task.build_model(config.model)
        self.criterion = self.task.build_criterion(config.criterion)

    def batches(self, split: str, size: int, epoch: int = 1) -> list:
        iterator = self.task.get_batch_iterator(self.task.dataset(split), max_sentences=size, seed=1)
        return list(iterator.next_epoch_itr(shuffle=split == "train", fix_batches_to_gpus=False))

    def learn(self, updates: int, rate: float = RATE) -> int:
        """At most so many updates of Adam, at a rate that falls to 0; returns how many it took."""
        optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 - number / updates)
        batches, losses = self.batches("train", 50), []
        self.model.train()
        for number in range(updates):
            if number % len(batches) == 0 and losses and sum(losses) / len(losses) < LEARNT:
                return number
            if number % len(batches) == 0:
                losses = []
            if hasattr(self.criterion, "updates"):
                self.criterion.updates.number = number
            loss, size, _ = self.criterion(self.model, batches[number % len(batches)])
            optimizer.zero_grad()
            (loss / size).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            plan.step()
            losses.append(float(loss.detach()) / size)
        return updates

    def translate(self, size: int) -> Translations:
        self.model.eval()
        search = OmegaConf.merge(OmegaConf.structured(GenerationConfig), {"beam": 5, "print_alignment": "hard"})
        generator = self.task.build_generator([self.model], search)
        found = Translations({}, {}, {})
        pad = self.task.target_dictionary.pad()
        for batch in self.batches("test", size):
            for row, (number, hypotheses) in enumerate(
                zip(batch["id"].tolist(), self.task.inference_step(generator, [self.model], batch))
            ):
                found.words[number] = hypotheses[0]["tokens"].tolist()
                found.links[number] = [tuple(map(int, link)) for link in hypotheses[0]["alignment"]]
                found.references[number] = [word for word in batch["target"][row].tolist() if word != pad]
        return found


def learns(learner: Learner, updates: int = 800, rate: float = RATE, ordered: bool = False) -> Translations:
    """What a search finds in batches of one sentence, after a comparison with larger ones. Most words are linked to
    the right ones: the source reversed, or in its own order if ``ordered``."""
    learner.learn(updates, rate)
    one, many = learner.translate(1), learner.translate(32)
    assert len(one.right) >= 0.9 * len(one.words), f"{len(one.right)} of {len(one.words)} lines right"
    assert many == one
    right = total = 0
    for number, links in one.links.items():
        words = len(one.words[number]) - 1  # without the end
        right += sum(source == (target if ordered else words - 1 - target) for source, target in links[:words])
        total += words
    assert right >= 0.7 * total, f"{right} of {total} links right"
    return one
