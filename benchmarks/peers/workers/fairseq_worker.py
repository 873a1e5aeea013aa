"""fairseq with or without the plugin: its task, model, trainer (fairseq-train) and generator (fairseq-generate)."""

from argparse import Namespace

import fairseq
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer


class System:
    def __init__(self, settings):
        is_test = bool(settings["checkpoint"])
        words = [*settings["options"], *(["--path", settings["checkpoint"]] if is_test else [])]
        # before the parser is made, as the console scripts do: the plugin adds options to it
        utils.import_user_module(Namespace(user_dir=words[words.index("--user-dir") + 1]))
        parser = options.get_generation_parser() if is_test else options.get_training_parser()
        self.cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, words))
        self.task = tasks.setup_task(self.cfg.task)
        self.data = self.task.load_dataset("test" if is_test else "train") or self.task.dataset(
            "test" if is_test else "train"
        )
        if is_test:
            self.models, _ = checkpoint_utils.load_model_ensemble([settings["checkpoint"]], task=self.task)
            for model in self.models:
                model.eval()
                model.prepare_for_inference_(self.cfg)
            self.generator = self.task.build_generator(self.models, self.cfg.generation)
            self.model = self.models[0]
        else:
            self.model = self.task.build_model(self.cfg.model)
            self.trainer = Trainer(self.cfg, self.task, self.model, self.task.build_criterion(self.cfg.criterion))
            self.trainer.lr_step_begin_epoch(1)

    def batch(self, numbers):
        return self.data.collater([self.data[number] for number in numbers])

    def train(self, numbers):
        return self.trainer.train_step([self.batch(numbers)])["loss"]

    def translate(self, numbers):
        batch = self.batch(numbers)
        hypotheses = self.task.inference_step(self.generator, self.models, batch)
        lines = {
            number: self.task.target_dictionary.string(best[0]["tokens"])
            for number, best in zip(batch["id"].tolist(), hypotheses)
        }
        return [lines[number] for number in numbers]

    def save(self, path):
        self.trainer.consolidate_optimizer()
        self.trainer.save_checkpoint(path, {"train_iterator": {"epoch": 1}})

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())

    def versions(self):
        return {"fairseq": fairseq.__version__}
