"""Document classification: a training step of ``han`` against straightforward implementations of the same function.

    padded   every document padded to the batch's most sentences and every sentence to its longest one, [D, S, L]
    packed   the real sentences alone, padded to the longest, [S, L], and the LSTMs on torch's packed sequences

Both have the parameters of ``han``. The time of padding the words is not counted: only the step is timed. Lengths have
a log-normal distribution like those of film reviews (the polarity corpus), with 32 sentences per document and 23 words
per sentence on average.
"""

from __future__ import annotations

import copy
from typing import Any, Mapping

import torch
import torch.nn.functional as F
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmark.measure import Clock, Sample
from benchmark.sections import Tick, compare

OURS, PADDED, PACKED = "han", "padded", "packed"
BASELINES = (PADDED, PACKED)
CLASSES = 2
# mean and standard deviation of the logarithms in the polarity corpus, and the largest value
SENTENCES, WORDS = (3.35, 0.5, 112), (2.95, 0.62, 180)


class _Task:
    def __init__(self, vocab: int):
        self.source_dictionary = Dictionary()
        for number in range(vocab - len(self.source_dictionary)):
            self.source_dictionary.add_symbol(f"w{number}")


def document_lengths(documents: int, generator: torch.Generator, scale: float = 1.0) -> list[list[int]]:
    """Numbers of words of each sentence of each document; ``scale`` shortens documents and sentences for tests."""

    def draw(count: int, mean: float, deviation: float, greatest: int) -> list[int]:
        values = torch.exp(mean + deviation * torch.randn(count, generator=generator)) * scale
        return values.round().clamp(1, greatest).int().tolist()

    return [draw(count, *WORDS) for count in draw(documents, *SENTENCES)]


def make_documents(lengths: list[list[int]], dictionary: Any, generator: torch.Generator) -> Tensor:
    """``src_tokens`` ``[D, N]``: random words, every sentence with its end, padded on the right."""
    width = max(sum(sentences) + len(sentences) for sentences in lengths)
    tokens = torch.full((len(lengths), width), dictionary.pad())
    for row, sentences in enumerate(lengths):
        start = 0
        for count in sentences:
            tokens[row, start : start + count] = torch.randint(4, len(dictionary), (count,), generator=generator)
            tokens[row, start + count] = dictionary.eos()
            start += count + 1
    return tokens


def padded_words(tokens: Tensor, lengths: list[list[int]], pad: int) -> Tensor:
    """``[D, S, L]``"""
    shape = (len(lengths), max(map(len, lengths)), max(max(sentences) for sentences in lengths))
    words = torch.full(shape, pad)
    for row, sentences in enumerate(lengths):
        start = 0
        for number, count in enumerate(sentences):
            words[row, number, :count] = tokens[row, start : start + count]
            start += count + 1
    return words


class PaddedHAN(nn.Module):
    """The function of a ``HANModel`` on ``[D, S, L]``, with its parameters."""

    def __init__(self, model: Any, packed: bool):
        super().__init__()
        self.model, self.packed = model, packed
        if packed:
            self.networks = nn.ModuleList(_joined(encoder.rnn) for encoder in (model.words, model.sentences))
            for encoder in (model.words, model.sentences):
                encoder.rnn = None  # its parameters are in the networks

    def forward(self, words: Tensor) -> Tensor:
        documents, sentences, size = words.shape
        padding = words.eq(self.model.dictionary.pad())
        flat, flat_padding = words.view(-1, size), padding.view(-1, size)
        if self.packed:
            real = (~flat_padding[:, 0]).nonzero().squeeze(1)
            flat, flat_padding = flat[real], flat_padding[real]
        vectors = self._encode(
            0, self.model.words, self.model.dropout_module(self.model.embed_words(flat)), flat_padding
        )
        if self.packed:
            vectors = vectors.new_zeros(documents * sentences, vectors.size(-1)).index_copy(0, real, vectors)
        vectors = self.model.dropout_module(vectors).view(documents, sentences, -1)
        document = self._encode(1, self.model.sentences, vectors, padding.all(-1))
        return self.model.classification_heads["head"](self.model.dropout_module(document))

    def _encode(self, level: int, encoder: Any, values: Tensor, padding: Tensor) -> Tensor:
        lengths = (~padding).sum(1)
        if self.packed:
            packed = pack_padded_sequence(values, lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.networks[level](packed)[0], True, total_length=values.size(1))
        else:
            steps = torch.arange(values.size(1), device=values.device)
            states = encoder.rnn(values, torch.where(padding, steps, lengths.unsqueeze(1) - 1 - steps))
        return encoder.pooling(states, padding)[0]


def _joined(rnn: Any) -> nn.LSTM:
    """A ``BlockRNN`` as torch's bidirectional LSTM."""
    joined = nn.LSTM(rnn.ahead.input_size, rnn.ahead.hidden_size, batch_first=True, bidirectional=True)
    for name, parameter in rnn.ahead.named_parameters():
        getattr(joined, name).data.copy_(parameter.data)
        getattr(joined, name + "_reverse").data.copy_(getattr(rnn.back, name).data)
    return joined


class DocumentSystem:
    """One implementation with its optimizer, and the format of its input."""

    def __init__(self, name: str, model: Any, optimizer: str):
        self.name = name
        # each system has a copy, so that its updates do not change the parameters of the others
        model = copy.deepcopy(model)
        self.model = model if name == OURS else PaddedHAN(model, packed=name == PACKED)
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters) if optimizer == "adam" else None

    def logits(self, batch: dict[str, Any]) -> Tensor:
        if self.name == OURS:
            return self.model(batch["net_input"]["src_tokens"], classification_head_name="head")[0]
        return self.model(batch["words"])

    def step(self, batch: dict[str, Any], device: torch.device) -> Sample:
        clock = Clock(device)
        F.cross_entropy(self.logits(batch), batch["target"]).backward()
        if self.optimizer is not None:
            nn.utils.clip_grad_norm_(self.parameters, 5.0)
            self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None
        return clock.lap()


def document_systems(settings: Mapping[str, Any], device: torch.device) -> tuple[dict[str, DocumentSystem], dict]:
    """The systems, with equal parameters, and a batch."""
    torch.manual_seed(settings["seed"])
    task = _Task(settings["sizes"]["vocab"])
    sizes = {"word_embed_dim": settings["document_embed"], "word_hidden_size": settings["document_hidden"]}
    sizes.update(sentence_hidden_size=settings["document_hidden"], dropout=settings["sizes"]["dropout"])
    config = OmegaConf.merge(OmegaConf.structured(MODEL_DATACLASS_REGISTRY["han"]), {"_name": "han", **sizes})
    model = models.build_model(config, task)
    model.register_classification_head("head", CLASSES)
    model.to(device).train()
    generator = torch.Generator().manual_seed(settings["seed"])
    lengths = document_lengths(settings["document_batch"], generator, settings["document_scale"])
    tokens = make_documents(lengths, task.source_dictionary, generator)
    batch = {
        "net_input": {"src_tokens": tokens.to(device)},
        "words": padded_words(tokens, lengths, task.source_dictionary.pad()).to(device),
        "target": torch.randint(CLASSES, (len(lengths),), generator=generator).to(device),
        "ntokens": sum(map(sum, lengths)),
    }
    return {name: DocumentSystem(name, model, settings["optimizer"]) for name in (OURS, *BASELINES)}, batch


def documents_section(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    systems, batch = document_systems(settings, device)
    measured = compare(
        systems,
        lambda system, batch: system.step(batch, device),
        batch,
        batch["ntokens"],
        {**settings, "baselines": BASELINES},
        device,
        lambda name: tick(f"documents {name}"),
    )
    return {"ragged": {**measured, "padded_words": batch["words"].numel()}}
