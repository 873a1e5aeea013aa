"""Deep Q-learning on the paths of :mod:`._hops`; what is learnt and why is written in :mod:`.q_agent`."""

from __future__ import annotations

from typing import Dict, List, NamedTuple

import torch
from torch import Tensor, nn
from tqdm import tqdm

from fairseq_attn_plugin.analysis.voting.hops import Paths

__all__ = ["Agent", "History", "QNetwork", "Replay", "Settings", "States", "greedy_hops", "learn", "q_targets"]


STOP, HOP = 0, 1


class Settings(NamedTuple):
    """What the document leaves open; :mod:`.q_agent` has the reasons."""

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

    Row ``numbers[s, i]`` of ``vectors`` is the word at which the episode from start s is after i hops, of which H - i
    are left; i runs from 0 to H.
    """

    vectors: Tensor  # [number of words, d]
    numbers: Tensor  # [S, H + 1]

    @classmethod
    def of(cls, path: Paths, start: Tensor, source: Tensor) -> States:
        """``start`` [S, d] and ``source`` [Vs, d]: vectors of the start words and of the source words."""
        first = torch.arange(len(start)).unsqueeze(1)
        # where the path has ended the number is that of any word; no decision is made there
        numbers = torch.cat([first, path.words.clamp(min=0) + len(start)], 1)
        # entries of about unit size, whatever the width
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


class Replay:
    """The last ``size`` transitions: start, hops so far, action, reward, whether the episode ended."""

    def __init__(self, size: int):
        self._columns: Dict[str, Tensor] = {
            "row": torch.zeros(size, dtype=torch.long),
            "step": torch.zeros(size, dtype=torch.long),
            "action": torch.zeros(size, dtype=torch.long),
            "reward": torch.zeros(size),
            "ended": torch.zeros(size, dtype=torch.bool),
        }
        self._next = 0
        self._filled = 0

    def __len__(self) -> int:
        return self._filled

    def add(self, **columns: Tensor) -> None:
        """Puts in transitions, one per entry of the columns, in the place of the oldest ones."""
        size = len(self._columns["row"])
        count = len(columns["row"])
        places = (self._next + torch.arange(count)) % size
        for name, column in self._columns.items():
            column[places] = columns[name]
        self._next = (self._next + count) % size
        self._filled = min(self._filled + count, size)

    def sample(self, count: int, generator: torch.Generator) -> Dict[str, Tensor]:
        """``count`` transitions, each one drawn from all that are there."""
        places = torch.randint(self._filled, (count,), generator=generator)
        return {name: column[places] for name, column in self._columns.items()}


def q_targets(reward: Tensor, ended: Tensor, next_values: Tensor) -> Tensor:
    """What Q(S, A) is drawn to: R + max(Q(S', stop), Q(S', hop)), or R where the episode ended.

    ``reward`` and ``ended`` are ``[B]``, ``next_values`` ``[B, 2]``.
    """
    return reward + next_values.max(1).values.masked_fill(ended, 0.0)


class History(NamedTuple):
    """Means over the updates up to ``updates[k]`` since the one before."""

    updates: List[int]
    rewards: List[float]  # of an episode, as the agent explored
    epsilons: List[float]
    losses: List[float]


class Agent(NamedTuple):
    network: QNetwork
    history: History


def _epsilon(update: int, settings: Settings) -> float:
    """Linear from 1 to ``epsilon_end`` over the first half of the updates."""
    progress = min(1.0, 2 * update / settings.updates)
    return 1 + progress * (settings.epsilon_end - 1)


def learn(path: Paths, states: States, frequencies: Tensor, settings: Settings) -> Agent:
    """Trains the agent; the same seed gives the same agent.

    Args:
        path: of all start words
        states: what the network sees
        frequencies: ``[S]``, how often episodes begin with a word; words from which no hop leads are left out
        settings: see :class:`Settings`
    """
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network, target = (QNetwork(states.vectors.size(1) + 1) for _ in range(2))
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.lr)
    # a rate that ends at zero lets Q settle
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: 1 - update / settings.updates)
    replay = Replay(settings.buffer_size)
    horizon = path.words.size(1)
    possible = (path.words[:, 0].ge(0) & frequencies.gt(0)).nonzero().squeeze(1)
    cumulated = frequencies[possible].double().cumsum(0)

    def starts(count: int) -> Tensor:
        drawn = torch.rand(count, generator=generator, dtype=torch.double) * cumulated[-1]
        return possible[torch.searchsorted(cumulated, drawn, right=True).clamp(max=len(possible) - 1)]

    row, step = starts(settings.episodes), torch.zeros(settings.episodes, dtype=torch.long)
    total = torch.zeros(settings.episodes)
    history = History([], [], [], [])
    every = max(1, settings.updates // 100)
    rewards = ended_episodes = losses = 0.0
    with tqdm(total=settings.updates, desc="agent", unit=" updates", disable=None) as bar:
        for update in range(1, settings.updates + 1):
            epsilon = _epsilon(update - 1, settings)
            with torch.no_grad():
                action = network(states.see(row, step)).argmax(1)
            explores = torch.rand(len(row), generator=generator) < epsilon
            action = torch.where(explores, torch.randint(2, row.shape, generator=generator), action)
            hops = action.eq(HOP)
            reward = torch.where(hops, path.cosines[row, step] - settings.hop_cost, torch.zeros(len(row)))
            after = step + hops.long()
            # nowhere to hop to from the next word, or no hops left, ends it as stopping does
            further = after.lt(horizon) & path.words[row, after.clamp(max=horizon - 1)].ge(0)
            ended = ~(hops & further)
            replay.add(row=row, step=step, action=action, reward=reward, ended=ended)
            total += reward
            rewards += total[ended].sum().item()
            ended_episodes += int(ended.sum())
            row, step = torch.where(ended, starts(len(row)), row), after.masked_fill(ended, 0)
            total = total.masked_fill(ended, 0.0)

            batch = replay.sample(settings.batch_size, generator)
            with torch.no_grad():
                next_step = (batch["step"] + 1).clamp(max=horizon)
                wanted = q_targets(batch["reward"], batch["ended"], target(states.see(batch["row"], next_step)))
            values = network(states.see(batch["row"], batch["step"]))
            loss = nn.functional.mse_loss(values.gather(1, batch["action"].unsqueeze(1)).squeeze(1), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += loss.item()
            if update % settings.target_every == 0:
                target.load_state_dict(network.state_dict())
            bar.update()
            if update % every == 0 and ended_episodes:
                history.updates.append(update)
                history.rewards.append(rewards / ended_episodes)
                history.epsilons.append(epsilon)
                history.losses.append(losses / every)
                bar.set_postfix(loss=f"{history.losses[-1]:.4f}", reward=f"{history.rewards[-1]:.3f}", refresh=False)
                rewards = ended_episodes = losses = 0.0
    return Agent(network, history)


@torch.no_grad()
def greedy_hops(network: nn.Module, path: Paths, states: States) -> Tensor:
    """``[S]``: how many hops the agent makes from each start word when it does what it thinks best."""
    rows, horizon = path.words.shape
    hops = torch.zeros(rows, dtype=torch.long)
    row = torch.arange(rows)
    for step in range(horizon):
        row = row[path.words[row, step].ge(0)]
        parts = [network(states.see(some, torch.full_like(some, step))) for some in row.split(4096)]
        if not parts:
            break
        values = torch.cat(parts)
        # a tie stops, as argmax does
        row = row[values[:, HOP] > values[:, STOP]]
        hops[row] += 1
    return hops
