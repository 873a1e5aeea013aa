"""The learning curve of the agent: reward and exploration over the updates."""

from __future__ import annotations

from fairseq_attn_plugin.analysis.drawing.canvas import MUTED, SERIES_COLOURS, canvas, check_drawing, save
from fairseq_attn_plugin.analysis.voting.q_learning import History

__all__ = ["plot_rewards"]


_REWARD, _EPSILON = SERIES_COLOURS[:2]


def plot_rewards(history: History, best: float, path: str) -> None:
    """Mean reward of an episode and epsilon over the updates, with the best possible mean reward as a line.

    Raises ``OptionError`` for a suffix other than PNG, SVG and PDF, for a path that cannot be written, or without
    matplotlib.
    """
    file = check_drawing(path)
    with canvas("rewards", (6.2, 3.4)) as figure:
        axes = figure.add_axes((0.1, 0.15, 0.78, 0.72))
        (reward,) = axes.plot(history.updates, history.rewards, color=_REWARD, linewidth=1.6)
        line = axes.axhline(best, color=MUTED, linewidth=1, linestyle="--")
        right = axes.twinx()
        (epsilon,) = right.plot(history.updates, history.epsilons, color=_EPSILON, linewidth=1.2, linestyle=":")
        right.set_ylim(0, 1.05)
        axes.set_xlabel("updates")
        axes.set_ylabel("mean reward of an episode", color=_REWARD)
        right.set_ylabel("epsilon (share of random actions)", color=_EPSILON)
        axes.grid(True)
        axes.legend(
            [reward, line, epsilon],
            ["agent (exploring)", "best possible", "epsilon"],
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=3,
            frameon=False,
            fontsize=8,
        )
        save(figure, file)
