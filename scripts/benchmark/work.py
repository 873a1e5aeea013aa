"""The work of a model: its matrix products, counted from its sizes and a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.systems import Sizes


@dataclass(frozen=True)
class Product:
    """``times`` products of ``[rows, inputs]`` and ``[inputs, outputs]``."""

    name: str
    rows: int
    inputs: int
    outputs: int
    times: int

    def operations(self) -> float:
        """Floating-point operations: a multiplication and an addition for each pair."""
        return 2.0 * self.rows * self.inputs * self.outputs * self.times

    def shape(self) -> tuple[int, int, int]:
        return self.rows, self.inputs, self.outputs


def encoder_products(sizes: Sizes, sentences: int, positions: int) -> list[Product]:
    """Bidirectional LSTM layers: what does not depend on the last state is one product over all positions."""
    units, found = sizes.hidden, []
    for layer in range(sizes.layers):
        width = sizes.embed if layer == 0 else 2 * units
        found.append(Product("encoder, inputs", sentences * positions, width, 4 * units, 2))
        found.append(Product("encoder, states", sentences, units, 4 * units, 2 * positions))
    # of the decoder: hidden and cell of each layer
    return [*found, Product("first state", sentences * sizes.layers, 2 * units, units, 2)]


def decoder_products(sizes: Sizes, rows: int, positions: int, steps: int) -> list[Product]:
    """LSTM layers with input feeding, one step after the other; every row attends to its sentence."""
    units, memory = sizes.hidden, 2 * sizes.hidden
    found = []
    for layer in range(sizes.layers):
        width = sizes.embed + 2 * units if layer == 0 else 2 * units
        found.append(Product("decoder, cells", rows, width, 4 * units, steps))
    found.append(Product("attention, query", rows, units, memory, steps))
    # Scores, and contexts. Each sentence has a matrix of its own, which takes at least the time of a common one.
    found.append(Product("attention, positions", rows, memory, positions, 2 * steps))
    found.append(Product("attention, output", rows, memory + units, units, steps))
    return found


def training_products(sizes: Sizes, sentences: int, positions: int, steps: int) -> list[Product]:
    """Of a forward pass. The vocabulary is projected to for all steps at once."""
    found = encoder_products(sizes, sentences, positions)
    found += decoder_products(sizes, sentences, positions, steps)
    words = sentences * steps
    if sizes.hidden != sizes.embed:
        found.append(Product("output embedding", words, sizes.hidden, sizes.embed, 1))
    return [*found, Product("vocabulary", words, sizes.embed, sizes.vocab, 1)]


def decoding_products(sizes: Sizes, sentences: int, beam: int, positions: int, steps: int) -> list[Product]:
    """Of a beam search of ``steps`` steps, in which no sentence ends early."""
    rows = sentences * beam
    found = encoder_products(sizes, sentences, positions)
    found += decoder_products(sizes, rows, positions, steps)
    if sizes.hidden != sizes.embed:
        found.append(Product("output embedding", rows, sizes.hidden, sizes.embed, steps))
    return [*found, Product("vocabulary", rows, sizes.embed, sizes.vocab, steps)]


def operations(products: Sequence[Product]) -> float:
    return sum(product.operations() for product in products)
