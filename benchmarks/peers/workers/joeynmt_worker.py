"""joeynmt: its data set, batches, model, optimiser and search; an update is the body of its training loop."""

import importlib.metadata
from pathlib import Path

import torch
from joeynmt.config import load_config, parse_global_args
from joeynmt.data import load_data
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.training import TrainManager


class System:
    def __init__(self, settings):
        self.cfg = parse_global_args(load_config(settings["config"]), mode="train")
        vocabularies, data = (loaded := load_data(self.cfg.data, datasets=["train", "test"]))[:2], loaded[2:]
        self.train_data, _, self.test_data = data
        self.model = build_model(self.cfg.model, *vocabularies)
        if settings["checkpoint"]:
            self.model.load_state_dict(torch.load(settings["checkpoint"]))
            self.model.eval()
            return
        folder = Path(self.cfg.model_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.manager = TrainManager(
            rank=0,
            model=self.model,
            model_dir=folder,
            device=self.cfg.device,
            autocast=self.cfg.autocast,
            seed=settings["seed"],
            train_args=self.cfg.train,
            dev_args=self.cfg.test,
        )
        self.model.loss_function = (self.cfg.train.loss, self.cfg.train.label_smoothing)
        self.model.zero_grad()

    def batch(self, data, numbers):
        rows = [data[number] for number in numbers]
        return data.collate_fn(rows, pad_index=self.model.pad_index, eos_index=self.model.eos_index)

    def train(self, numbers):
        loss, _ = self.manager._train_step(self.batch(self.train_data, numbers))
        self.manager.clip_grad_fun(parameters=self.model.parameters())
        self.manager.optimizer.step()
        self.model.zero_grad()
        return loss

    def translate(self, numbers):
        batch, options = self.batch(self.test_data, numbers), self.cfg.test
        order = batch.sort_by_src_length()
        output, _, _ = search(
            model=self.model,
            batch=batch,
            max_output_length=options.max_output_length,
            beam_size=options.beam_size,
            beam_alpha=options.beam_alpha,
            n_best=1,
        )
        sentences = self.model.trg_vocab.arrays_to_sentences(output[order], cut_at_eos=True)
        return [" ".join(word for word in words if word != "</s>") for words in sentences]

    def save(self, path):
        torch.save(self.model.state_dict(), path)

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())

    def versions(self):
        return {"joeynmt": importlib.metadata.version("joeynmt")}
