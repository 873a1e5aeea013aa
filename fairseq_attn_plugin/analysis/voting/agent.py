"""An agent that learns by Q-learning which source words belong to a target word: the table of ``--attention election``.

    attn-analysis q-agent DATA --out words.json [--embeddings FILE] [--plot rewards.png]

After Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning", section 3.2. A state is
a word, given by its embedding. The agent starts at the word that the decoder put out. Its actions are to stop and to
hop: to the source word of highest cosine to the present one that it has not visited, among those whose cosine is at
least ``--threshold`` (0.79). The reward of a hop is the cosine of the two words' embeddings,

    Q(S, A) <- Q(S, A) + alpha [ cos(S', S) + max_a Q(S', a) - Q(S, A) ]

and Q is a network with hidden layers of 128, 256 and 128 units (ReLU). The words that the trained agent visits from
each word of the target vocabulary are kept in a table, so that translation looks them up and runs no network.

What the document leaves open, and what is done here:

* The reward is said to be the cosine "between the next decoder output and the predicted output". The formula has the
  cosine of two successive states, which is taken. "Cosine distance" is read as similarity: near words are hopped to.
* Stopping has reward 0 and ends the episode; so does a word without an unvisited source word above the threshold, and
  the horizon of ``--horizon`` hops. At the end of an episode there is no Q(S', a).
* What is best depends on how many hops are left, so the network also sees their share of the horizon. It does not see
  which words were visited: two paths that come to one word with as many hops left, and go on to different words, look
  the same to it.
* A source word spelt like the word that the agent starts at is a word as any other (names, numbers).
* Episodes begin at target words drawn by their frequency in the training split, 64 side by side. Words without a
  source word above the threshold are left out: they leave no choice.
* The agent explores with probability epsilon, linear from 1 to 0.05 over the first half of the updates. One update
  is one action in each of the 64 episodes and one step of Adam (learning rate, alpha, 0.001, linear to zero) on the
  squared error of 256 transitions drawn from the last 50,000. The Q on the right-hand side is that of a copy of the
  network that is renewed every 100 updates. Rewards are not discounted.
* The embeddings are those of MUSE in the document (``--embeddings-source``, ``--embeddings-target``). Without any file
  they are made from the training pairs (see :mod:`.embeddings`), which the document does not do.

One thing must be said plainly: with a threshold above 0 every hop has a positive reward, so that hopping is always
worth more than stopping, and what the document's agent can learn at best is to hop until no word is left or the
horizon is reached. ``--hop-cost C`` (beyond the document; 0 by default) is subtracted from the reward of every hop;
between the threshold and 1 it gives the agent a choice to learn: it stops before words that are not worth
their cost, unless better ones come after them. In either case a start word has one path, on which the best values are
also found exactly, by dynamic programming; the reward that the agent's choices earn is printed beside the best one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import torch
from torch import Tensor

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.analysis.drawing.canvas import canvas, check_drawing, save
from fairseq_attn_plugin.analysis.inference.loading import load_models
from fairseq_attn_plugin.analysis.voting.embeddings import (
    TrainingPairs,
    ordinary_words,
    read_training_pairs,
    read_vectors,
    teacher_vectors,
    vectors_of_pairs,
)
from fairseq_attn_plugin.analysis.voting.hops import Paths, best_values, nearest, paths
from fairseq_attn_plugin.analysis.voting.q_learning import Agent, History, States
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_text

__all__ = ["FORMAT", "plot_rewards", "table"]


FORMAT = "fairseq_attn_plugin words 1"
_BLUE, _ORANGE, _GREY = "#1c7ed6", "#d9480f", "#495057"


class Corpus(NamedTuple):
    """A binarised corpus: fairseq's task, the training split, and where --path is given the model."""

    task: Any
    pairs: TrainingPairs
    model: Any

    @property
    def languages(self) -> Tuple[str, str]:
        return self.task.cfg.source_lang, self.task.cfg.target_lang


def _corpus(args: argparse.Namespace) -> Corpus:
    if not os.path.isdir(args.data):
        raise OptionError(f"{args.data}: is no folder; give one that fairseq-preprocess wrote")
    if args.path:
        teacher = load_models(args.data, args.path, cpu=True)
        if len(teacher.models) > 1:
            raise OptionError(f"--path {args.path}: one checkpoint, please; several have no embeddings in common")
        for option, given, own in zip(("source", "target"), (args.source_lang, args.target_lang), teacher.languages):
            if given and given != own:
                raise OptionError(f"--{option}-lang {given}: the teacher {args.path} has {own}")
        return Corpus(teacher.task, read_training_pairs(teacher.task, args.data), teacher.models[0])
    from fairseq.data.data_utils import infer_language_pair
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    source, target = args.source_lang, args.target_lang
    if not source and not target:
        source, target = infer_language_pair(args.data)
    if not source or not target:
        raise OptionError(f"{args.data}: name both languages, --source-lang and --target-lang")
    # what hydra would fill in
    config = TranslationConfig(data=args.data, source_lang=source, target_lang=target, dataset_impl=None)
    config.train_subset, config.required_seq_len_multiple = "train", 1
    try:
        task = TranslationTask.setup_task(config)
    except FileNotFoundError as error:
        raise OptionError(f"{args.data}: has no {os.path.basename(str(error.filename or error))}") from None
    return Corpus(task, read_training_pairs(task, args.data), None)


class Vectors(NamedTuple):
    """Word vectors of both vocabularies, and where they are from."""

    source: np.ndarray
    target: np.ndarray
    origin: str


def _vectors(args: argparse.Namespace, corpus: Corpus) -> Vectors:
    dictionaries = (corpus.task.source_dictionary, corpus.task.target_dictionary)
    if args.path:
        own = teacher_vectors(corpus.model, args.path, corpus.pairs)
        return Vectors(own[0], own[1], f"--path {args.path}")
    if args.embeddings:
        source, target = read_vectors(args.embeddings, dictionaries, "--embeddings")
        options = [f"--embeddings {args.embeddings}"]
    elif args.embeddings_source:
        (source,) = read_vectors(args.embeddings_source, dictionaries[:1], "--embeddings-source")
        (target,) = read_vectors(args.embeddings_target, dictionaries[1:], "--embeddings-target")
        options = [f"--embeddings-source {args.embeddings_source}", f"--embeddings-target {args.embeddings_target}"]
        if source.shape[1] != target.shape[1]:
            raise OptionError(
                f"{options[1]}: has vectors of width {target.shape[1]}, {options[0]} of width {source.shape[1]}; "
                "both must be of one space"
            )
    else:
        sizes = (len(dictionaries[0]), len(dictionaries[1]))
        made = vectors_of_pairs(corpus.pairs, sizes, args.embedding_dim, args.min_count, args.seed)
        return Vectors(made[0], made[1], "training pairs")
    for option, side, vectors, language in (
        (options[0], "source", source, corpus.languages[0]),
        (options[-1], "target", target, corpus.languages[1]),
    ):
        if not vectors.any():
            raise OptionError(f"{option}: has no vector for any word of the {side} vocabulary ({language})")
    return Vectors(source, target, " ".join(options))


def _coverage(vectors: np.ndarray, dictionary: Any, words: np.ndarray, language: str) -> str:
    """How many words of the vocabulary and of the running text of the training split have a vector."""
    has = np.any(vectors, axis=1)
    ordinary = ordinary_words(dictionary)
    share = np.mean(has[words])
    return f"{language}: {int(has.sum())} of {int(ordinary.sum())} words have a vector, {share:.1%} of the running text"


def table(path: Paths, hops: Tensor, source: Any, target: Any) -> Dict[str, List[str]]:
    """{target word: the source words that the agent visits from it, in the order of the hops}, of words that have any.

    Args:
        path: of every word of the target vocabulary
        hops: ``[Vt]``, how many of them are made
        source: fairseq dictionary
        target: fairseq dictionary
    """
    result = {}
    for start, count in enumerate(hops.tolist()):
        if count:
            result[target[start]] = [source[word] for word in path.words[start, :count].tolist()]
    return result


def write_table(path: str, content: Dict[str, Any]) -> None:
    """Writes the JSON file, which appears when it is complete. Raises ``OptionError`` if it cannot be written."""
    with whole_text(path, f"--out {path}: cannot be written") as stream:
        json.dump(content, stream, ensure_ascii=False, indent=1)
        stream.write("\n")


def plot_rewards(history: History, best: float, path: str) -> None:
    """Mean reward of an episode and epsilon over the updates, with the best mean reward there is as a line.

    Raises ``OptionError`` for another suffix than those of PNG, SVG and PDF, a path that cannot be written, or without
    matplotlib.
    """
    file = check_drawing(path)
    with canvas("rewards", (6.2, 3.4)) as figure:
        axes = figure.add_axes((0.1, 0.15, 0.78, 0.72))
        (reward,) = axes.plot(history.updates, history.rewards, color=_BLUE, linewidth=1.6)
        line = axes.axhline(best, color=_GREY, linewidth=1, linestyle="--")
        right = axes.twinx()
        (epsilon,) = right.plot(history.updates, history.epsilons, color=_ORANGE, linewidth=1.2)
        right.set_ylim(0, 1.05)
        axes.set_xlabel("updates", fontsize=9)
        axes.set_ylabel("mean reward of an episode", fontsize=9, color=_BLUE)
        right.set_ylabel("epsilon (share of random actions)", fontsize=9, color=_ORANGE)
        axes.grid(color="#e3e8ee", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in (axes, right):
            side.tick_params(labelsize=8, length=2.5, color="#b8c2cc")
            side.spines[:].set_color("#b8c2cc")
        axes.legend(
            [reward, line, epsilon],
            ["the agent, exploring", "best there is", "epsilon"],
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=3,
            frameon=False,
            fontsize=8,
        )
        save(figure, file)


def _world(args: argparse.Namespace, vectors: Vectors, source_words: Any, target_words: Any) -> Tuple[Paths, States]:
    """Where the hops lead, and what the network sees. Raises ``OptionError`` where no hop leads anywhere."""
    source, target = torch.from_numpy(vectors.source), torch.from_numpy(vectors.target)
    start = nearest(target, source, 1, "neighbours of target words")
    path = paths(
        start, nearest(source, source, args.horizon, "neighbours of source words"), args.threshold, args.horizon
    )
    if not path.words.ge(0).any():
        row = int(start.cosines[:, 0].argmax())
        pair = f"{target_words[row]} - {source_words[int(start.words[row, 0])]}"
        highest = float(start.cosines[row, 0])
        raise OptionError(
            f"--threshold {args.threshold:g}: no target word has a source word of that cosine; the highest there is is "
            f"{math.floor(highest * 1e4) / 1e4:g} ({pair}); give a threshold below it, or embeddings that share a space"
        )
    if not best_values(path, args.hop_cost)[:, 0].gt(0).any():
        highest = float(path.cosines.max())
        raise OptionError(
            f"--hop-cost {args.hop_cost:g}: no hop is worth it; the highest cosine is {highest:.4g}, so give less"
        )
    return path, States.of(path, target, source)


def _report(
    args: argparse.Namespace,
    path: Paths,
    hops: Tensor,
    frequencies: Tensor,
    words: Dict[str, List[str]],
    agent: Agent,
    vocabulary: int,
) -> float:
    """Prints what came out; returns the best mean reward of an episode."""
    horizon = path.words.size(1)
    possible = path.words[:, 0].ge(0)
    weights = frequencies.double() * possible
    weights /= weights.sum()
    made = torch.arange(horizon) < hops.unsqueeze(1)
    earned = ((path.cosines - args.hop_cost) * made).sum(1)
    values = best_values(path, args.hop_cost)
    best = float((weights * values[:, 0].clamp(min=0)).sum())
    # where the best policy stops: before the first hop that is not worth it
    ideal = values.gt(0).int().cumprod(1).sum(1)
    agree = hops.eq(ideal)[possible]
    print(
        f"agent: mean reward of an episode {float((weights * earned).sum()):.4f}, the best there is {best:.4f}; "
        f"it stops where the best policy does for {int(agree.sum())} of {len(agree)} words"
    )
    counts = torch.bincount(hops[hops > 0], minlength=2)
    named = "  ".join(f"{n}: {int(count)}" for n, count in enumerate(counts) if count)
    different = len({word for row in words.values() for word in row})
    total = sum(map(len, words.values()))
    share = float((frequencies * hops.gt(0)).sum() / frequencies.sum())
    print(
        f"{args.out}: {len(words)} of {vocabulary} target words ({share:.1%} of the running text) name {total} source "
        f"words, {different} different ones"
    )
    if words:
        print(f"  source words of a target word, number of target words: {named}")
    items = list(words.items())
    # from the frequent to the rare ones
    for row in sorted({int(len(items) ** (k / 11)) - 1 for k in range(12)} if items else set()):
        print(f"  {items[row][0]}: {' '.join(items[row][1])}")
    return best
