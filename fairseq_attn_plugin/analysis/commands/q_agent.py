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
import logging
import math
import os

import numpy as np
import torch

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.analysis.drawing.canvas import SUFFIXES, check_drawing
from fairseq_attn_plugin.analysis.inference.user_dir import add_user_dir_option
from fairseq_attn_plugin.analysis.voting.agent import (
    FORMAT,
    _corpus,
    _coverage,
    _report,
    _vectors,
    _world,
    plot_rewards,
    table,
    write_table,
)
from fairseq_attn_plugin.analysis.voting.embeddings import (
    ordinary_words,
)
from fairseq_attn_plugin.analysis.voting.q_learning import Settings, greedy_hops, learn
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary


def _check(args: argparse.Namespace) -> None:
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: one data folder, please")
    for one, other in (("source", "target"), ("target", "source")):
        if getattr(args, f"embeddings_{one}") and not getattr(args, f"embeddings_{other}"):
            raise OptionError(f"--embeddings-{one}: needs --embeddings-{other}; --embeddings FILE serves both")
    origins = {"--embeddings": args.embeddings, "--embeddings-source": args.embeddings_source, "--path": args.path}
    given = [option for option, path in origins.items() if path]
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)}: the embeddings come from one of them")
    if not -1 < args.threshold <= 1:
        raise OptionError(f"--threshold {args.threshold:g}: must be a cosine above -1 and at most 1, as 0.79")
    if not 0 <= args.hop_cost < math.inf:
        raise OptionError(f"--hop-cost {args.hop_cost:g}: must be 0 or more")
    if not 0 < args.lr < math.inf:
        raise OptionError(f"--lr {args.lr:g}: must be above 0")
    if not 0 <= args.seed < 2**32:
        raise OptionError(f"--seed {args.seed}: must be from 0 to {2**32 - 1}")
    for name in ("horizon", "updates", "embedding_dim", "min_count"):
        if getattr(args, name) < 1:
            raise OptionError(f"--{name.replace('_', '-')} {getattr(args, name)}: must be at least 1")
    for option in ("out", "plot"):
        path = getattr(args, option)
        if path and not os.path.isdir(os.path.dirname(path) or "."):
            raise OptionError(f"--{option} {path}: there is no folder {os.path.dirname(path)}")
    if args.plot:
        check_drawing(args.plot)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="folder that fairseq-preprocess wrote, with a training split")
    parser.add_argument("--out", required=True, metavar="FILE", help="the table, JSON, for --election-table")
    parser.add_argument("--source-lang", metavar="LANG", help="source language (default: from the names of the files)")
    parser.add_argument("--target-lang", metavar="LANG", help="target language (default: from the names of the files)")
    vectors = parser.add_argument_group(
        "embeddings", "of both languages in one space; made from the training pairs if none are given"
    )
    vectors.add_argument("--embeddings", metavar="FILE", help="word2vec or fastText text file that has both languages")
    vectors.add_argument("--embeddings-source", metavar="FILE", help="such a file of the source language, as of MUSE")
    vectors.add_argument("--embeddings-target", metavar="FILE", help="such a file of the target language, same space")
    vectors.add_argument(
        "--path",
        metavar="FILE",
        help="checkpoint: the teacher's own embeddings of encoder and decoder, of equal width; they share a space only "
        "if it was trained with --share-all-embeddings, and cosines between them mean nothing if not",
    )
    vectors.add_argument(
        "--embedding-dim", type=int, default=100, metavar="N", help="width of those made from the pairs (default: 100)"
    )
    vectors.add_argument(
        "--min-count", type=int, default=5, metavar="N", help="... which words seen less often lack (default: 5)"
    )
    add_user_dir_option(vectors)
    agent = parser.add_argument_group("agent")
    agent.add_argument(
        "--threshold", type=float, default=0.79, metavar="C", help="a hop needs this cosine at least (default: 0.79)"
    )
    agent.add_argument("--horizon", type=int, default=5, metavar="N", help="hops at most (default: 5)")
    agent.add_argument(
        "--hop-cost",
        type=float,
        default=0.0,
        metavar="C",
        help="subtracted from the reward of each hop (default: 0, as in the paper: then hopping is always worth more "
        "than stopping; between the threshold and 1 there is something to learn)",
    )
    defaults = Settings()
    agent.add_argument(
        "--updates", type=int, default=defaults.updates, metavar="N", help=f"of Q (default: {defaults.updates})"
    )
    agent.add_argument(
        "--lr", type=float, default=defaults.lr, metavar="RATE", help=f"alpha, at the start (default: {defaults.lr:g})"
    )
    agent.add_argument("--seed", type=int, default=defaults.seed, metavar="N", help=f"(default: {defaults.seed})")
    agent.add_argument("--plot", metavar="FILE", help=f"picture of the rewards: {', '.join(SUFFIXES)}")


def run(args: argparse.Namespace) -> None:
    _check(args)
    logging.getLogger("fairseq").setLevel(logging.WARNING)

    corpus = _corpus(args)
    task, pairs = corpus.task, corpus.pairs
    source_words, target_words = task.source_dictionary, task.target_dictionary
    vectors = _vectors(args, corpus)
    print(f"embeddings: {vectors.origin}, {vectors.source.shape[1]} wide")
    print("  " + _coverage(vectors.source, source_words, pairs.source_words, corpus.languages[0]))
    print("  " + _coverage(vectors.target, target_words, pairs.target_words, corpus.languages[1]))

    frequencies = torch.from_numpy(np.bincount(pairs.target_words, minlength=len(target_words)))
    path, states = _world(args, vectors, source_words, target_words)
    if not (path.words[:, 0].ge(0) & frequencies.gt(0)).any():
        raise OptionError(
            f"--threshold {args.threshold:g}: no target word of the training split has a source word of that cosine; "
            "give a lower threshold, or other embeddings"
        )
    settings = Settings(hop_cost=args.hop_cost, updates=args.updates, lr=args.lr, seed=args.seed)
    agent = learn(path, states, frequencies, settings)
    hops = greedy_hops(agent.network, path, states)

    words = table(path, hops, source_words, target_words)
    content = {
        "format": FORMAT,
        "source_vocabulary": describe_vocabulary(source_words),
        "target_vocabulary": describe_vocabulary(target_words),
        "languages": list(corpus.languages),
        "embeddings": vectors.origin,
        "threshold": args.threshold,
        "horizon": args.horizon,
        "hop_cost": args.hop_cost,
        "words": words,
    }
    write_table(args.out, content)
    best = _report(args, path, hops, frequencies, words, agent, int(ordinary_words(target_words).sum()))
    if args.plot:
        plot_rewards(agent.history, best, args.plot)
