"""``fairseq-attn election --agent``: the table of ``--attention election``, by an agent that learns by Q-learning.

    fairseq-attn election DATA --agent words.json [--embeddings FILE] [--plot rewards.png]

The table lists source words for each word of the target vocabulary. :mod:`fairseq_attn_plugin.analysis.voting.agent`
defines the agent. Embeddings come from ``--embeddings``, from ``--embeddings-source`` and ``--embeddings-target`` (such
as those of MUSE), from the checkpoint ``--path``, or from the training pairs. With a threshold above 0 and no
``--hop-cost`` the best policy is to hop as long as possible; a hop cost between the threshold and 1 gives the agent a
choice. :func:`write_table` prints the agent's mean reward and the best possible one.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
from typing import Any

import numpy as np
import torch

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.analysis.voting.agent import FORMAT, HopRules, hop_table, report, rewards, world
from fairseq_attn_plugin.analysis.voting.corpus import read_corpus, read_target_words
from fairseq_attn_plugin.analysis.voting.embeddings import Embeddings, coverage, find_vectors
from fairseq_attn_plugin.analysis.voting.q_learning import Settings, greedy_hops, learn
from fairseq_attn_plugin.analysis.voting.reward_curve import plot_rewards
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary
from fairseq_attn_plugin.text.word_vectors import ordinary_words
from fairseq_attn_plugin.writing import whole_text

__all__ = ["add_agent_options", "write_table"]


def add_agent_options(parser: Any) -> None:
    """Adds the options that :func:`write_table` reads beside ``--agent``, ``--path`` and ``--plot``."""
    parser.add_argument("--source-lang", metavar="LANG", help="source language (default: from the names of the files)")
    parser.add_argument("--target-lang", metavar="LANG", help="target language (default: from the names of the files)")
    parser.add_argument(
        "--embeddings",
        metavar="FILE",
        help="word2vec or fastText text file with the words of both languages (default: vectors made from the training "
        "pairs)",
    )
    parser.add_argument(
        "--embeddings-source", metavar="FILE", help="vectors of the source language, for example from MUSE"
    )
    parser.add_argument("--embeddings-target", metavar="FILE", help="vectors of the target language, in the same space")
    parser.add_argument(
        "--embedding-dim",
        type=int,
        default=100,
        metavar="N",
        help="width of embeddings made from the pairs (default: 100)",
    )
    parser.add_argument(
        "--min-count",
        type=int,
        default=5,
        metavar="N",
        help="least count of a word with a vector made from the pairs (default: 5)",
    )
    parser.add_argument(
        "--threshold", type=float, default=0.79, metavar="C", help="least cosine of a hop (default: 0.79)"
    )
    parser.add_argument(
        "--start-split",
        choices=("train", "valid"),
        default="train",
        help="episodes begin at the target words of this split, by their frequency; valid as in the paper (default: "
        "train)",
    )
    parser.add_argument("--horizon", type=int, default=5, metavar="N", help="most hops from a word (default: 5)")
    parser.add_argument(
        "--hop-cost",
        type=float,
        default=0.0,
        metavar="C",
        help="subtracted from the reward of each hop (default: 0 as in the paper: hopping is then always better than "
        "stopping; between the threshold and 1 the agent has a choice)",
    )
    defaults = Settings()
    parser.add_argument(
        "--updates", type=int, default=defaults.updates, metavar="N", help=f"updates of Q (default: {defaults.updates})"
    )
    parser.add_argument(
        "--lr",
        type=float,
        default=defaults.lr,
        metavar="RATE",
        help=f"initial learning rate alpha (default: {defaults.lr:g})",
    )
    parser.add_argument(
        "--seed", type=int, default=defaults.seed, metavar="N", help=f"random seed (default: {defaults.seed})"
    )


def write_table(args: argparse.Namespace) -> None:
    """Writes the table to ``args.agent``, and draws the agent's rewards to ``args.plot`` if it is given."""
    _check(args)
    logging.getLogger("fairseq").setLevel(logging.WARNING)

    corpus = read_corpus(args.data, args.path, args.source_lang, args.target_lang)
    pairs, source_words, target_words = corpus.pairs, corpus.task.source_dictionary, corpus.task.target_dictionary
    vectors = find_vectors(
        Embeddings(
            args.embeddings,
            args.embeddings_source,
            args.embeddings_target,
            args.path,
            args.embedding_dim,
            args.min_count,
            args.seed,
        ),
        corpus,
    )
    print(f"embeddings: {vectors.origin}, {vectors.source.shape[1]} wide")
    print(f"  {corpus.languages[0]}: {coverage(vectors.source, source_words, pairs.source_words)}")
    print(f"  {corpus.languages[1]}: {coverage(vectors.target, target_words, pairs.target_words)}")

    start_words = pairs.target_words
    if args.start_split != "train":
        start_words = read_target_words(corpus.task, args.data, args.start_split)
    frequencies = torch.from_numpy(np.bincount(start_words, minlength=len(target_words)))
    rules = HopRules(args.threshold, args.horizon, args.hop_cost)
    path, states = world(rules, vectors, source_words, target_words, frequencies)
    agent = learn(path, states, frequencies, Settings(args.hop_cost, updates=args.updates, lr=args.lr, seed=args.seed))
    hops = greedy_hops(agent.network, path, states)

    words = hop_table(path, hops, source_words, target_words)
    content = {
        "format": FORMAT,
        "source_vocabulary": describe_vocabulary(source_words),
        "target_vocabulary": describe_vocabulary(target_words),
        "languages": list(corpus.languages),
        "embeddings": vectors.origin,
        "threshold": args.threshold,
        "horizon": args.horizon,
        "hop_cost": args.hop_cost,
        "start_split": args.start_split,
        "words": words,
    }
    with whole_text(args.agent, f"--agent {args.agent}: cannot be written") as stream:
        json.dump(content, stream, ensure_ascii=False, indent=1)
        stream.write("\n")
    found = rewards(path, hops, frequencies, args.hop_cost)
    print(
        f"agent: mean reward of an episode {found.earned:.4f}, the best possible {found.best:.4f}; it stops where the "
        f"best policy does for {found.agreeing} of {found.possible} words"
    )
    print(report(words, hops, frequencies, int(ordinary_words(target_words).sum()), args.agent))
    if args.plot:
        plot_rewards(agent.history, found.best, args.plot)


def _check(args: argparse.Namespace) -> None:
    for one, other in (("source", "target"), ("target", "source")):
        if getattr(args, f"embeddings_{one}") and not getattr(args, f"embeddings_{other}"):
            raise OptionError(f"--embeddings-{one}: needs --embeddings-{other}; --embeddings FILE serves both")
    origins = {"--embeddings": args.embeddings, "--embeddings-source": args.embeddings_source, "--path": args.path}
    given = [option for option, path in origins.items() if path]
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)}: give only one of them")
    if not -1 < args.threshold <= 1:
        raise OptionError(f"--threshold {args.threshold:g}: must be a cosine above -1 and at most 1, such as 0.79")
    if not 0 <= args.hop_cost < math.inf:
        raise OptionError(f"--hop-cost {args.hop_cost:g}: must be 0 or more")
    if not 0 < args.lr < math.inf:
        raise OptionError(f"--lr {args.lr:g}: must be above 0")
    if not 0 <= args.seed < 2**32:
        raise OptionError(f"--seed {args.seed}: must be from 0 to {2**32 - 1}")
    for name in ("horizon", "updates", "embedding_dim", "min_count"):
        if getattr(args, name) < 1:
            raise OptionError(f"--{name.replace('_', '-')} {getattr(args, name)}: must be at least 1")
