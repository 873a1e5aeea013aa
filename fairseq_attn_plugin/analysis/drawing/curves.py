"""Draws learning curves of fairseq-train, a panel per metric, for any number of runs.

A panel shows a metric of the logs, or one of ``GROUPS``: metrics that make latent alignment models comparable (Deng et
al., "Latent Alignment and Variational Attention", 2018). A run shows the first metric of a group that it logs in
training and in validation. :mod:`fairseq_attn_plugin.criterions.latent_alignment` defines these metrics.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Set

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, check_drawing, save
from fairseq_attn_plugin.analysis.drawing.colours import LIGHT, Series, Theme, series_of
from fairseq_attn_plugin.analysis.drawing.fonts import literal
from fairseq_attn_plugin.analysis.training_logs import Curves, knows_epochs, read_run
from fairseq_attn_plugin.writing import PathLike

__all__ = ["GROUPS", "Curve", "choose", "plot_curves"]


GROUPS = {
    "accuracy": ("posterior_accuracy", "prior_accuracy", "accuracy"),
    "bound": ("bound",),
    "ppl": ("marginal_ppl", "ppl"),
}
_UNITS = {"accuracy": "% of words", "bound": "nats per word", "loss": "bits"}
_PANEL = (3.7, 2.8)  # inches
_GAP = (0.95, 1.15)  # between panels: tick labels and the axis label; title and the names beneath it


class Curve(NamedTuple):
    """One metric of one training, {epoch or update: value} each; ``metric`` is its name in the log."""

    metric: str
    train: Dict[int, float]
    valid: Dict[int, float]
    x: str = "epochs"


def choose(curves: Mapping[str, Curves], metric: str) -> Dict[str, Curve]:
    """The curve of ``metric`` for every run of ``curves`` {label: curves} that has one.

    For a group of names (see ``GROUPS``) a run shows the first name that it logs both in training and in validation, or
    else the first name that it logs: its two curves always show the same quantity.
    """
    chosen = {}
    for label, run in curves.items():
        names = [name for name in GROUPS.get(metric, (metric,)) if name in run.train or name in run.valid]
        names.sort(key=lambda name: not (name in run.train and name in run.valid))
        if names:
            chosen[label] = Curve(names[0], run.train.get(names[0], {}), run.valid.get(names[0], {}), run.x)
    return chosen


def _read_runs(runs: Mapping[str, PathLike]) -> Dict[str, Curves]:
    """The curves of all runs, over epochs; over updates if one of them has TensorBoard files, which know no epochs."""
    over = "epochs" if all(knows_epochs(path) for path in runs.values()) else "updates"
    return {label: read_run(path, over) for label, path in runs.items()}


def plot_curves(runs: Mapping[str, PathLike], metrics: Sequence[str], path: PathLike, theme: Theme = LIGHT) -> None:
    """Draw the logs ``runs`` {label: log or folder} to ``path``, a panel per metric.

    Curves are over epochs, or over updates if a run has TensorBoard files. Validation is solid, training dashed, and a
    run has the same colour and marker in all panels. Beneath the title of a group is the metric that each run shows,
    and the runs without the panel's metric. Perplexities have a logarithmic scale if the largest exceeds ten times the
    smallest. Values that are not finite are left out. The suffix of ``path`` is the format (PNG, SVG or PDF).

    Each metric is in the log of a run. Raises ``OptionError`` for unreadable logs, another suffix, a path that cannot
    be written, or without matplotlib (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    path = check_drawing(path)
    curves = _read_runs(runs)
    panels = {metric: choose(curves, metric) for metric in metrics}
    from matplotlib.lines import Line2D

    looks = dict(zip(runs, series_of(len(runs), theme)))
    columns = len(panels) if len(panels) <= 3 else math.ceil(math.sqrt(len(panels)))
    rows = math.ceil(len(panels) / columns)
    width, height = columns * _PANEL[0] + (columns - 1) * _GAP[0], rows * _PANEL[1] + (rows - 1) * _GAP[1]
    # no margins: the picture is cropped to its content
    with canvas("curves", (width, height), theme=theme) as figure:
        for number, (metric, drawn) in enumerate(panels.items()):
            row, column = divmod(number, columns)
            left, bottom = column * (_PANEL[0] + _GAP[0]), height - _PANEL[1] - row * (_PANEL[1] + _GAP[1])
            box = (left / width, bottom / height, _PANEL[0] / width, _PANEL[1] / height)
            _draw(figure.add_axes(box), metric, drawn, looks, theme)
        handles = [Line2D([], [], color=look.colour, marker=look.marker, linewidth=2) for look in looks.values()]
        texts = [literal(label) for label in runs]
        if any(curve.valid for drawn in panels.values() for curve in drawn.values()):
            handles.append(Line2D([], [], color=theme.muted, linestyle="-", linewidth=1.4))
            texts.append("validation")
        if any(curve.train for drawn in panels.values() for curve in drawn.values()):
            handles.append(Line2D([], [], color=theme.muted, linestyle="--", linewidth=1.4))
            texts.append("training")
        anchor = figure.axes[columns - 1]
        anchor.legend(
            handles, texts, loc="upper left", bbox_to_anchor=(1.03, 1), borderaxespad=0, frameon=False, fontsize=9
        )
        save(figure, path)


def _draw(axes: Any, metric: str, drawn: Mapping[str, Curve], looks: Mapping[str, Series], theme: Theme) -> None:
    """One panel: the curves of one metric."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    epochs: Set[int] = set()
    values: List[float] = []
    for label, curve in drawn.items():
        for subset, style in ((curve.valid, "-"), (curve.train, "--")):
            points = [(epoch, value) for epoch, value in sorted(subset.items()) if math.isfinite(value)]
            # a marker for each epoch of a short training; of long ones twelve, at other epochs for each run
            every = round(len(points) / 12) if len(points) > 30 else 1
            first = list(looks).index(label) * every // len(looks)
            axes.plot(
                *([point[i] for point in points] for i in (0, 1)),
                color=looks[label].colour,
                linestyle=style,
                linewidth=1.6 if style == "-" else 1.2,
                marker=looks[label].marker,
                markevery=(first, every),
                markersize=4,
                markerfacecolor=looks[label].colour if style == "-" else theme.paper,
            )
            epochs.update(epoch for epoch, _ in points)
            values.extend(value for _, value in points)
    names = {curve.metric for curve in drawn.values()}
    perplexity = all(name.split("_")[-1] == "ppl" for name in names)
    if perplexity and values and 0 < 10 * min(values) < max(values):
        axes.set_yscale("log")
        # labels at 1, 2, 5 times a power of ten, or only at powers if there are many
        steps = (1.0, 2.0, 5.0) if max(values) < 1e4 * min(values) else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(epochs) == 1:
        axes.set_xlim(min(epochs) - 0.5, max(epochs) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.set_xlabel({"epochs": "epoch"}.get(next(iter(drawn.values())).x, "updates"))
    axes.set_ylabel(_axis_label(metric))
    axes.grid(True)
    notes = _notes(metric, drawn, looks)
    for number, note in enumerate(reversed(notes)):
        axes.annotate(
            note, (0, 1), (0, 5 + 11 * number), "axes fraction", "offset points", fontsize=7.5, color=theme.muted
        )
    axes.set_title(metric, loc="left", fontsize=10, weight="bold", pad=6 + 11 * len(notes))


def _axis_label(metric: str) -> str:
    """The quantity with its unit: ``bound (nats per word)``."""
    words = metric.replace("ppl", "perplexity")
    return f"{words} ({_UNITS[metric]})" if metric in _UNITS else words


def _notes(metric: str, drawn: Mapping[str, Curve], labels: Iterable[str]) -> List[str]:
    """The lines beneath the title: the metrics that the runs show, and the runs without a curve."""
    lines = []
    names = list(dict.fromkeys(curve.metric for curve in drawn.values()))
    if names != [metric]:
        for name in names:
            shown = [label for label, curve in drawn.items() if curve.metric == name]
            lines.append(name if len(names) == 1 else _clip(f"{name}: {', '.join(shown)}"))
    missing = [label for label in labels if label not in drawn]
    if missing:
        lines.append(_clip(f"not logged: {', '.join(missing)}"))
    return [literal(line) for line in lines]


def _clip(text: str, width: int = 58) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
