"""The agent of :mod:`.word_table`: where its hops lead, and deep Q-learning.

    Q(S, A) <- Q(S, A) + alpha [ R + max_a Q(S', a) - Q(S, A) ]

Bal and Sinha, "Modelling Bahdanau Attention using Election methods aided by Q-Learning", section 3.2;
:mod:`.word_table` defines states, actions and rewards. The agent cannot choose where a hop leads: each start word has
one path, and episodes differ only in where they stop. Several episodes run side by side.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple

import torch
from torch import Tensor, nn
from tqdm import tqdm, trange

STOP, HOP = 0, 1
_ROUNDING = 1e-6  # of a cosine in float32: equal vectors must pass a threshold of 1
_CHUNK = 1 << 22  # cosines in memory at a time


class Hops(NamedTuple):
    """For each word V several source words, ``words`` [V, K], -1 for none, and the ``cosines`` of the hops to them."""

    words: Tensor
    cosines: Tensor


def nearest(queries: Tensor, source: Tensor, count: int) -> Hops:
    """The ``count`` source words of highest cosine for every query, in chunks: V x V cosines are never in memory.

    Args:
        queries: ``[V, d]``, rows of length one, or zero; zero rows have no neighbours
        source: ``[Vs, d]``, likewise; zero rows are never neighbours
        count: how many, at most
    """
    candidates = source.ne(0).any(1).nonzero().squeeze(1)
    asking = queries.ne(0).any(1).nonzero().squeeze(1)
    count = min(count, len(candidates))
    words = torch.full((len(queries), count), -1, dtype=torch.long)
    cosines = torch.full((len(queries), count), -1.0)
    if count:
        columns = source[candidates].t()
        size = max(1, _CHUNK // len(candidates))
        for rows in tqdm(asking.split(size), desc="neighbours", unit=" chunks", disable=None, leave=False):
            found = (queries[rows] @ columns).topk(count, dim=1)
            words[rows] = candidates[found.indices]
            cosines[rows] = found.values.clamp(-1, 1)
    return Hops(words, cosines)


def paths(start: Hops, source: Hops, threshold: float, horizon: int) -> Hops:
    """Where the hops from every start word lead: each to the nearest source word that the path has not visited.

    After the last hop the word is -1 and the cosine 0.

    Args:
        start: nearest source words of the words that the agent may start at
        source: those of the source words; ``horizon`` of them suffice, since a path visits at most that many words
            before a hop, the word itself included
        threshold: a hop goes to a word whose cosine is at least this (up to rounding)
        horizon: H, the most hops of an episode
    """
    rows = len(start.words)
    words = torch.full((rows, horizon), -1, dtype=torch.long)
    cosines = torch.zeros(rows, horizon)
    alive = torch.arange(rows)
    near = start
    for step in range(horizon):
        allowed = near.words.ge(0) & near.cosines.ge(threshold - _ROUNDING)
        for before in range(step):
            allowed &= near.words.ne(words[alive, before].unsqueeze(1))
        on = allowed.any(1)
        if not on.any():
            break
        alive = alive[on]
        first = allowed[on].int().argmax(1, keepdim=True)
        here = near.words[on].gather(1, first).squeeze(1)
        words[alive, step] = here
        cosines[alive, step] = near.cosines[on].gather(1, first).squeeze(1)
        near = Hops(source.words[here], source.cosines[here])
    return Hops(words, cosines)


class Settings(NamedTuple):
    """Settings of the training; :mod:`.word_table` gives the reasons for the defaults."""

    hop_cost: float = 0.0
    updates: int = 5000
    episodes: int = 64
    batch_size: int = 256
    buffer_size: int = 50000
    target_every: int = 100
    lr: float = 1e-3
    epsilon_end: float = 0.05
    seed: int = 1


class States(NamedTuple):
    """What the network sees of the states on all paths.

    Row ``numbers[s, i]`` of ``vectors`` is the word that the episode from start s reaches after i hops, 0 <= i <= H.
    """

    vectors: Tensor  # [number of words, d]
    numbers: Tensor  # [S, H + 1]

    @classmethod
    def of(cls, path: Hops, start: Tensor, source: Tensor) -> States:
        """``start`` [S, d] and ``source`` [Vs, d]: vectors of the start words and of the source words."""
        first = torch.arange(len(start)).unsqueeze(1)
        # beyond the end of a path the number does not matter: no decision is made there
        numbers = torch.cat([first, path.words.clamp(min=0) + len(start)], 1)
        # entries of about unit size for any width
        return cls(torch.cat([start, source]) * start.size(1) ** 0.5, numbers)

    def see(self, row: Tensor, step: Tensor) -> Tensor:
        """The network's input [B, d + 1] for starts ``row`` after ``step`` hops: the word, and the hops left over H."""
        horizon = self.numbers.size(1) - 1
        left = (horizon - step).to(self.vectors.dtype).unsqueeze(1) / horizon
        return torch.cat([self.vectors[self.numbers[row, step]], left], 1)


class QNetwork(nn.Sequential):
    """Q(S, stop) and Q(S, hop): ``[B, inputs]`` to ``[B, 2]``, hidden layers of 128, 256 and 128 units with ReLU."""

    def __init__(self, inputs: int):
        layers: List[nn.Module] = []
        for width in (128, 256, 128):
            layers += [nn.Linear(inputs, width), nn.ReLU()]
            inputs = width
        super().__init__(*layers, nn.Linear(inputs, 2))


def q_targets(reward: Tensor, ended: Tensor, next_values: Tensor) -> Tensor:
    """The target of Q(S, A): R + max(Q(S', stop), Q(S', hop)), or R where the episode ended.

    ``reward`` and ``ended`` are ``[B]``, ``next_values`` ``[B, 2]``.
    """
    return reward + next_values.max(1).values.masked_fill(ended, 0.0)


class Replay:
    """The last ``size`` transitions: start, hops so far, action, reward, whether the episode ended."""

    def __init__(self, size: int):
        self._size, self._added = size, 0
        self._columns: Dict[str, Tensor] = {}

    def __len__(self) -> int:
        return min(self._added, self._size)

    def add(self, **columns: Tensor) -> None:
        """Adds transitions, one per entry of the columns; they replace the oldest ones."""
        count = len(columns["row"])
        places = (self._added + torch.arange(count)) % self._size
        for name, column in columns.items():
            self._columns.setdefault(name, column.new_zeros(self._size))[places] = column
        self._added += count

    def sample(self, count: int, generator: torch.Generator) -> Dict[str, Tensor]:
        """``count`` transitions, drawn with replacement."""
        places = torch.randint(len(self), (count,), generator=generator)
        return {name: column[places] for name, column in self._columns.items()}


class _Episodes:
    """Episodes side by side: where each of them is, and the actions that the agent takes in them."""

    def __init__(self, path: Hops, states: States, frequencies: Tensor, settings: Settings, generator: torch.Generator):
        self._path, self._states, self._hop_cost, self._generator = path, states, settings.hop_cost, generator
        self._possible = (path.words[:, 0].ge(0) & frequencies.gt(0)).nonzero().squeeze(1)
        self._cumulated = frequencies[self._possible].double().cumsum(0)
        self._row = self._starts(settings.episodes)
        self._step = torch.zeros_like(self._row)

    def _starts(self, count: int) -> Tensor:
        """Start words, drawn by their frequency."""
        drawn = torch.rand(count, generator=self._generator, dtype=torch.double) * self._cumulated[-1]
        place = torch.searchsorted(self._cumulated, drawn, right=True).clamp(max=len(self._possible) - 1)
        return self._possible[place]

    @torch.no_grad()
    def act(self, network: nn.Module, epsilon: float) -> Dict[str, Tensor]:
        """One action in every episode: the transitions. Ended episodes begin again."""
        row, step, horizon = self._row, self._step, self._path.words.size(1)
        best = network(self._states.see(row, step)).argmax(1)
        explores = torch.rand(len(best), generator=self._generator) < epsilon
        action = torch.where(explores, torch.randint(2, best.shape, generator=self._generator), best)
        hops = action.eq(HOP)
        reward = torch.where(hops, self._path.cosines[row, step] - self._hop_cost, torch.zeros(len(row)))
        after = step + hops.long()
        # an episode also ends where no hop leads further, and at the horizon
        further = after.lt(horizon) & self._path.words[row, after.clamp(max=horizon - 1)].ge(0)
        ended = ~(hops & further)
        self._row = torch.where(ended, self._starts(len(row)), row)
        self._step = after.masked_fill(ended, 0)
        return {"row": row, "step": step, "action": action, "reward": reward, "ended": ended}


def _error(network: nn.Module, copy: nn.Module, states: States, batch: Dict[str, Tensor]) -> Tensor:
    """The squared error of the transitions of a batch; ``copy`` computes the targets."""
    horizon = states.numbers.size(1) - 1
    with torch.no_grad():
        next_step = (batch["step"] + 1).clamp(max=horizon)
        wanted = q_targets(batch["reward"], batch["ended"], copy(states.see(batch["row"], next_step)))
    values = network(states.see(batch["row"], batch["step"]))
    return nn.functional.mse_loss(values.gather(1, batch["action"].unsqueeze(1)).squeeze(1), wanted)


def learn(path: Hops, states: States, frequencies: Tensor, settings: Settings) -> QNetwork:
    """Trains the agent on the paths of all start words; the same seed gives the same agent.

    ``frequencies`` ``[S]`` are how often episodes begin with each word; words that no hop leaves are skipped.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network, copy = (QNetwork(states.vectors.size(1) + 1) for _ in range(2))
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.lr)
    # a rate that ends at zero lets Q settle
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1 - update / settings.updates)
    replay = Replay(settings.buffer_size)
    episodes = _Episodes(path, states, frequencies, settings, generator)
    for update in trange(settings.updates, desc="agent", unit=" updates", disable=None):
        if update % settings.target_every == 0:
            copy.load_state_dict(network.state_dict())
        # linear from 1 to epsilon_end over the first half of the updates
        epsilon = 1 + min(1.0, 2 * update / settings.updates) * (settings.epsilon_end - 1)
        replay.add(**episodes.act(network, epsilon))
        loss = _error(network, copy, states, replay.sample(settings.batch_size, generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


@torch.no_grad()
def greedy_hops(network: nn.Module, path: Hops, states: States) -> Tensor:
    """``[S]``: the number of hops that the agent makes from each start word if it always takes the best action."""
    rows, horizon = path.words.shape
    hops = torch.zeros(rows, dtype=torch.long)
    row = torch.arange(rows)
    for step in range(horizon):
        row = row[path.words[row, step].ge(0)]
        values = torch.cat([network(states.see(some, torch.full_like(some, step))) for some in row.split(4096)])
        # a tie stops, as argmax does
        row = row[values[:, HOP] > values[:, STOP]]
        hops[row] += 1
    return hops
