"""OpenNMT-py: its vocabularies, batches, model, optimiser, trainer and translator."""

import importlib.metadata
from pathlib import Path

import onmt.opts
import torch
from onmt.inputters import build_vocab
from onmt.inputters.text_utils import numericalize, tensorify
from onmt.model_builder import build_model
from onmt.trainer import build_trainer
from onmt.translate import GNMTGlobalScorer, Translator
from onmt.utils import Statistics
from onmt.utils.optimizers import Optimizer
from onmt.utils.parse import ArgumentParser


def parsed(words, *groups):
    parser = ArgumentParser()
    for group in groups:
        group(parser)
    return parser.parse_args(words)


class System:
    def __init__(self, settings):
        opt = parsed(["-config", settings["config"]], onmt.opts.train_opts)
        ArgumentParser.validate_train_opts(opt)
        ArgumentParser.update_model_opts(opt)
        ArgumentParser.validate_model_opts(opt)
        ArgumentParser.validate_prepare_opts(opt)
        self.vocabs = build_vocab(opt, {"src": [], "tgt": []})
        self.model = build_model(opt, opt, self.vocabs, None, -1)
        sides = [Path(settings["test" if settings["checkpoint"] else "train"] + end) for end in (".de", ".en")]
        lines = zip(*(side.read_text(encoding="utf-8").splitlines() for side in sides))
        self.examples = [self.example(number, *pair, settings["checkpoint"]) for number, pair in enumerate(lines)]
        if settings["checkpoint"]:
            torch.nn.Module.load_state_dict(self.model, torch.load(settings["checkpoint"]))
            self.model.eval()
            words = ["-model", settings["checkpoint"], "-src", settings["test"], *settings["translation"]]
            options = parsed(words, onmt.opts.translate_opts)
            scorer = GNMTGlobalScorer.from_opt(options)
            self.translator = Translator.from_opt(
                self.model, self.vocabs, options, opt, global_scorer=scorer, report_score=False
            )
        else:
            self.trainer = build_trainer(opt, -1, self.model, self.vocabs, Optimizer.from_opt(self.model, opt))

    def example(self, number, source, target, is_test):
        """A sentence as the tool's reader leaves it; of the test set without its reference."""
        sides = {"src": {"src": source}, "tgt": None if is_test else {"tgt": target}}
        return numericalize(self.vocabs, {**sides, "cid": "corpus", "cid_line_number": number})

    def batch(self, numbers):
        """A batch with the longest source first, as the recurrent encoder wants it, and the order of its sentences."""
        numbers = sorted(numbers, key=lambda number: -len(self.examples[number]["src"]["src_ids"]))
        rows = [(self.examples[number], number) for number in numbers]
        return tensorify(self.vocabs, rows, torch.device("cpu")), numbers

    def train(self, numbers):
        batch, _ = self.batch(numbers)
        [(batches, normalization)] = self.trainer._accum_batches([(batch, 0)])
        total, report = Statistics(), Statistics()
        self.trainer._gradient_accumulation(batches, normalization, total, report)
        return total.xent()

    def translate(self, numbers):
        batch, order = self.batch(numbers)
        predictions = self.translator.translate_batch(batch, attn_debug=False)["predictions"]
        words = self.vocabs["tgt"].ids_to_tokens
        lines = {
            number: " ".join(words[word] for word in best[0].tolist() if words[word] != "</s>")
            for number, best in zip(order, predictions)
        }
        return [lines[number] for number in numbers]

    def save(self, path):
        torch.save(self.model.state_dict(), path)

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())

    def versions(self):
        return {"OpenNMT-py": importlib.metadata.version("OpenNMT-py")}
