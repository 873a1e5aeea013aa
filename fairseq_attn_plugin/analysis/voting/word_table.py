"""The table of ``--attention election``, by an agent that learns which source words belong to a target word.

    fairseq-attn election DATA --agent words.json [--embeddings FILE]

After Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning", section 3.2. A state is
a word, given by its embedding. The agent starts at the decoder's output word. Its actions are to stop and to hop. A hop
leads to the unvisited source word with the highest cosine to the present word, if that cosine is at least the threshold
(0.79). The reward of a hop is the cosine of the embeddings of the two words; :mod:`.q_learning` learns Q. The words
that the trained agent visits from each word of the target vocabulary form a table, which translation looks up without
running the network.

The paper leaves some details open. The choices here are:

* The paper describes the reward as the cosine "between the next decoder output and the predicted output". Its formula
  has the cosine of two successive states, which is used here. "Cosine distance" is read as similarity: hops lead to
  near words.
* Stopping has reward 0 and ends the episode. An episode also ends at a word without an unvisited source word above the
  threshold, and after ``horizon`` hops. There is no Q(S', a) at the end of an episode.
* The best action depends on the number of hops left, so the network also sees their share of the horizon. It does not
  see the visited words: two paths that reach the same word with the same number of hops left look the same to it.
* A source word with the same spelling as the start word is a word like any other (names, numbers).
* Episodes begin at target words drawn by their frequency in the training split or, as in the paper, the validation
  split (``--start-split``). Words without a source word above the threshold are skipped: they leave no choice.
* The agent explores with probability epsilon, which falls linearly from 1 to 0.05 over the first half of the updates.
  One update is one action in each of 64 episodes, and one step of Adam (learning rate from 0.001 linearly to zero) on
  the squared error of 256 transitions drawn from the last 50,000. A copy of the network, renewed every 100 updates,
  computes Q on the right-hand side. Rewards are not discounted.
* The paper uses embeddings of MUSE. Without a file, embeddings are made from the training pairs (:mod:`.embeddings`).

With a threshold above 0 every hop has a positive reward, so hopping is always better than stopping. The hop cost C (an
extension; 0 by default) is subtracted from the reward of every hop. Between the threshold and 1 it gives the agent a
choice: it stops before words that are not worth their cost, unless better ones follow.
"""

import argparse
import math
from typing import Any, Tuple

import numpy as np
import torch
from torch import Tensor

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.analysis.voting.embeddings import (
    Vectors,
    coverage,
    find_vectors,
    read_target_words,
    read_training_pairs,
    translation_task,
)
from fairseq_attn_plugin.analysis.voting.q_learning import (
    Hops,
    Settings,
    States,
    greedy_hops,
    learn,
    nearest,
    paths,
)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least, check_unread, need
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary
from fairseq_attn_plugin.text.word_vectors import ordinary_words
from fairseq_attn_plugin.writing import write_json

FORMAT = "fairseq_attn_plugin words 1"


def world(
    vectors: Vectors,
    source_words: Any,
    target_words: Any,
    frequencies: Tensor,
    threshold: float,
    horizon: int,
    hop_cost: float,
) -> Tuple[Hops, States]:
    """Where the hops lead, and what the network sees; raises ``OptionError`` if no hop is possible or worth its cost.

    ``frequencies`` ``[Vt]`` are those of the target words in the split where episodes begin.
    """
    source, target = torch.from_numpy(vectors.source), torch.from_numpy(vectors.target)
    start = nearest(target, source, 1)
    path = paths(start, nearest(source, source, horizon), threshold, horizon)
    begins = frequencies.gt(0)
    if not (path.words[:, 0].ge(0) & begins).any():
        row = int(start.cosines[:, 0].masked_fill(~begins, -2.0).argmax())
        pair = f"{target_words[row]} - {source_words[int(start.words[row, 0])]}"
        highest = float(start.cosines[row, 0])
        raise OptionError(
            f"--threshold {threshold:g}: no target word of the split where episodes begin has a source word of that "
            f"cosine; the highest cosine is {math.floor(highest * 1e4) / 1e4:g} ({pair}); give a threshold below it, "
            "or embeddings that share a space"
        )
    highest, gains = float(path.cosines.max()), path.cosines - hop_cost
    if not (gains.masked_fill(path.words.lt(0), -math.inf).cumsum(1) > 0).any():
        raise OptionError(
            f"--hop-cost {hop_cost:g}: no hop is worth it; the highest cosine is {highest:.4g}, so give less"
        )
    return path, States.of(path, target, source)


def add_agent_options(parser: Any) -> None:
    """Adds the options that :func:`write_table` reads beside ``--agent``."""
    add = parser.add_argument
    add(
        "--embeddings",
        nargs="+",
        metavar="FILE",
        help="word2vec or fastText text file with the words of both languages, or one for each, in one space, such as "
        "those of MUSE (default: vectors made from the training pairs)",
    )
    _add_min_count(parser)
    add("--threshold", type=float, default=0.79, metavar="C", help="least cosine of a hop (default: 0.79)")
    add(
        "--start-split",
        choices=("train", "valid"),
        default="train",
        help="episodes begin at the target words of this split, by their frequency; valid as in the paper (default: "
        "train)",
    )
    add("--horizon", type=int, default=5, metavar="N", help="most hops from a word (default: 5)")
    add(
        "--hop-cost",
        type=float,
        default=0.0,
        metavar="C",
        help="subtracted from the reward of each hop (default: 0 as in the paper: hopping is then always better than "
        "stopping; between the threshold and 1 the agent has a choice)",
    )
    defaults = Settings()
    add(
        "--updates", type=int, default=defaults.updates, metavar="N", help=f"updates of Q (default: {defaults.updates})"
    )
    add("--seed", type=int, default=defaults.seed, metavar="N", help=f"random seed (default: {defaults.seed})")


def _add_min_count(parser: Any) -> None:
    text = "least count of a word with a vector made from the pairs (default: 5)"
    parser.add_argument("--min-count", type=int, default=5, metavar="N", help=text)


def write_table(args: argparse.Namespace) -> None:
    """Writes the table to ``args.agent``."""
    at_least(args, horizon=1, updates=1, min_count=1, hop_cost=0, seed=0)
    need(args.seed < 2**32, args, "seed", "less than 2^32")
    if args.embeddings:
        check_unread(args, "is of vectors made from the pairs, not of --embeddings; leave it out", _add_min_count)
    task = translation_task(args.data)
    source_words, target_words = task.source_dictionary, task.target_dictionary
    pairs = read_training_pairs(task, args.data)
    vectors = find_vectors(args, task, pairs)
    print(f"embeddings: {vectors.origin}, {vectors.source.shape[1]} wide")
    print(f"  {task.cfg.source_lang}: {coverage(vectors.source, source_words, pairs.source_words)}")
    print(f"  {task.cfg.target_lang}: {coverage(vectors.target, target_words, pairs.target_words)}")

    start_words = pairs.target_words
    if args.start_split != "train":
        start_words = read_target_words(task, args.data, args.start_split)
    frequencies = torch.from_numpy(np.bincount(start_words, minlength=len(target_words)))
    rules = args.threshold, args.horizon, args.hop_cost
    path, states = world(vectors, source_words, target_words, frequencies, *rules)
    settings = Settings(args.hop_cost, updates=args.updates, seed=args.seed)
    hops = greedy_hops(learn(path, states, frequencies, settings), path, states)

    words = {
        target_words[start]: [source_words[word] for word in path.words[start, :count].tolist()]
        for start, count in enumerate(hops.tolist())
        if count
    }
    content = {
        "format": FORMAT,
        "source_vocabulary": describe_vocabulary(source_words),
        "target_vocabulary": describe_vocabulary(target_words),
        "languages": [task.cfg.source_lang, task.cfg.target_lang],
        "embeddings": vectors.origin,
        "threshold": args.threshold,
        "horizon": args.horizon,
        "hop_cost": args.hop_cost,
        "start_split": args.start_split,
        "words": words,
    }
    write_json("--agent", args.agent, content)
    share = float((frequencies * hops.gt(0)).sum() / frequencies.sum())
    print(
        f"{args.agent}: {len(words)} of {int(ordinary_words(target_words).sum())} target words ({share:.1%} of the "
        f"running text) name {sum(map(len, words.values()))} source words, "
        f"{len({word for row in words.values() for word in row})} different ones"
    )
