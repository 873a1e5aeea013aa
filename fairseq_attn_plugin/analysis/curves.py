"""Learning curves from the logs of fairseq-train.

    python -m fairseq_attn_plugin.analysis.curves soft=soft.log marginal=marginal.log --out curves.png
        [--metrics accuracy bound ppl] [--json curves.json]

A log is what fairseq-train printed, with ``--log-format json`` or ``simple``, or its ``--log-file``.  There is one
panel per metric: the name of a metric in the logs, or one of the groups that compare latent alignment models (Deng et
al., "Latent Alignment and Variational Attention", 2018):

    accuracy   posterior_accuracy, else prior_accuracy, else accuracy; per cent of words
    bound      bound; nats per word
    ppl        marginal_ppl, else ppl; perplexity per word

A run shows the first of these that it logs in training and in validation: soft attention logs marginal_ppl at
validation alone, and shows ppl, its own prediction's.
What they mean is written in :mod:`fairseq_attn_plugin.criterions.latent_alignment`.
"""

from __future__ import annotations

import argparse
import colorsys
import json
import math
import os
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

from fairseq_attn_plugin.analysis.plot import SUFFIXES, check_drawing
from fairseq_attn_plugin.errors import OptionError

PathLike = Union[str, "os.PathLike[str]"]
GROUPS = {
    "accuracy": ("posterior_accuracy", "prior_accuracy", "accuracy"),
    "bound": ("bound",),
    "ppl": ("marginal_ppl", "ppl"),
}
_SIMPLE = re.compile(r"\bepoch (\d+) \| (?:valid on '([^']*)' subset \| )?(.*)")
_NATS = ("bound", "kl", "marginal", "soft", "topk", "reconstruction", "prior_entropy", "posterior_entropy")
_UNITS = {
    **dict.fromkeys(_NATS, "nats per word"),
    **dict.fromkeys(GROUPS["accuracy"], "% of words"),
    **{"loss": "bits", "nll_loss": "bits per word", "wps": "words per second", "ups": "updates per second"},
    **{"train_wall": "seconds", "wall": "seconds"},
}
_PANEL = (3.7, 2.8)  # inches
_GAP = (0.95, 1.15)  # between panels: tick labels and the axis label; title and the names beneath it
_GREY = "#495057"
_COLOURS = ("#1c7ed6", "#d9480f", "#2b8a3e", "#862e9c", "#b08900", "#0b7285", "#c2255c", "#343a40")


class Curves(NamedTuple):
    """The curves of one training: from the name of a metric to {epoch: value}, without ``train_`` or ``valid_``."""

    train: Dict[str, Dict[int, float]]
    valid: Dict[str, Dict[int, float]]


class Curve(NamedTuple):
    """One metric of one training, {epoch: value} each; ``metric`` is its name in the log."""

    metric: str
    train: Dict[int, float]
    valid: Dict[int, float]


def read_log(path: PathLike) -> Curves:
    """The values that fairseq-train logged at the end of every epoch, for training and the subset ``valid``.

    A line is ``... | INFO | valid | {"epoch": 1, "valid_loss": "6.5", ...}`` (``--log-format json``) or ``... | INFO |
    valid | epoch 001 | valid on 'valid' subset | loss 6.5 | ...`` (``simple``).  Where an epoch has several values, of
    validations during the epoch or of a training that was resumed, the last one counts; epochs that a resumed training
    has not come to again keep what they had.  Values that are no numbers are left out; ``nan`` and ``inf`` stay.
    Raises ``OptionError`` if the file cannot be read or has no such line.
    """
    curves = Curves({}, {})
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                for subset, epoch, name, value in _values(line):
                    getattr(curves, subset).setdefault(name, {})[epoch] = value
    except OSError as error:
        raise OptionError(f"{path}: cannot read the log of fairseq-train: {error.strerror or error}") from None
    if not curves.train and not curves.valid:
        raise OptionError(
            f"{path}: no curves; either no epoch has ended yet, or this is not what fairseq-train --log-format json "
            "(or simple) printed"
        )
    return curves


def _values(line: str) -> Iterable[Tuple[str, int, str, float]]:
    """(``train`` or ``valid``, epoch, metric, value) for every number of a line that sums up an epoch."""
    items: List[Tuple[str, str, object]] = []
    epoch: object = None
    if '{"epoch":' in line:
        try:
            logged = json.loads(line[line.index('{"epoch":') :])
        except ValueError:  # cut off: the training is writing it, or was killed while it did
            return
        epoch = logged.pop("epoch")
        if "update" in logged:  # a line within the epoch
            return
        for key, value in logged.items():
            subset, _, name = key.partition("_")
            items.append((subset, name, value))
    else:
        match = _SIMPLE.search(line)
        if match is None:
            return
        epoch, subset = int(match[1]), match[2] or "train"
        for item in match[3].split(" | "):
            name, _, value = item.strip().partition(" ")
            items.append((subset, name, value))
    for subset, name, value in items:
        if isinstance(epoch, int) and subset in Curves._fields and name and isinstance(value, (str, int, float)):
            try:
                yield subset, epoch, name, float(value)
            except ValueError:
                continue


def choose(curves: Mapping[str, Curves], metric: str) -> Dict[str, Curve]:
    """The curve of ``metric`` for every run of ``curves`` {label: curves} that has one.

    For a group of names (see ``GROUPS``) a run shows the first name that it has for training and for validation, or
    else the first one that it has at all: its two curves are always of the same quantity.
    Raises ``OptionError``, with the names that the logs have, if no run has the metric.
    """
    chosen = {}
    for label, run in curves.items():
        names = [name for name in GROUPS.get(metric, (metric,)) if name in run.train or name in run.valid]
        names.sort(key=lambda name: not (name in run.train and name in run.valid))
        if names:
            chosen[label] = Curve(names[0], run.train.get(names[0], {}), run.valid.get(names[0], {}))
    if not chosen:
        known = sorted({name for run in curves.values() for subset in run for name in subset})
        names = list(GROUPS.get(metric, ()))
        which = f" ({', '.join(names)})" if len(names) > 1 else ""
        raise OptionError(f"--metrics {metric}: not in the logs{which}; they have {', '.join(known)}")
    return chosen


def plot_curves(runs: Mapping[str, PathLike], metrics: Sequence[str], path: PathLike) -> Dict[str, Dict[str, Curve]]:
    """Draw the logs ``runs`` {label: file} to ``path``, a panel per metric; returns {metric: {label: what was drawn}}.

    Over the epochs: solid is validation, dashed training, and a run has one colour throughout.  Beneath the title of
    a group stands which of its metrics each run has, and which runs lack the panel's metric.  Perplexities whose
    largest value exceeds ten times the smallest are drawn on a logarithmic scale.  Values that are not finite are left
    out.  The suffix of ``path`` is the format (PNG, SVG or PDF).
    Raises ``ValueError`` without runs or metrics, ``OptionError`` for logs that cannot be read, metrics that they do
    not have, another suffix, a path that cannot be written, or without matplotlib
    (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    if not runs or not metrics:
        raise ValueError("no runs or no metrics to draw")
    path = check_drawing(path)
    curves = {label: read_log(log) for label, log in runs.items()}
    panels = {metric: choose(curves, metric) for metric in metrics}
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    colours = dict(zip(runs, _colours(len(runs))))
    columns = len(panels) if len(panels) <= 3 else math.ceil(math.sqrt(len(panels)))
    rows = math.ceil(len(panels) / columns)
    width, height = columns * _PANEL[0] + (columns - 1) * _GAP[0], rows * _PANEL[1] + (rows - 1) * _GAP[1]
    # svg.fonttype none keeps words searchable; hashsalt makes the same picture the same file
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "curves", "font.family": "DejaVu Sans"}):
        # the margins do not matter: bbox_inches cuts the picture to what is drawn
        figure = Figure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(figure)
        for number, (metric, drawn) in enumerate(panels.items()):
            row, column = divmod(number, columns)
            left, bottom = column * (_PANEL[0] + _GAP[0]), height - _PANEL[1] - row * (_PANEL[1] + _GAP[1])
            box = (left / width, bottom / height, _PANEL[0] / width, _PANEL[1] / height)
            _draw(figure.add_axes(box), metric, drawn, colours)
        handles = [Line2D([], [], color=colour, linewidth=2) for colour in colours.values()]
        texts = [_literal(label) for label in runs]
        if any(curve.valid for drawn in panels.values() for curve in drawn.values()):
            handles.append(Line2D([], [], color=_GREY, linestyle="-", linewidth=1.4))
            texts.append("validation")
        if any(curve.train for drawn in panels.values() for curve in drawn.values()):
            handles.append(Line2D([], [], color=_GREY, linestyle="--", linewidth=1.4))
            texts.append("training")
        anchor = figure.axes[columns - 1]
        anchor.legend(
            handles, texts, loc="upper left", bbox_to_anchor=(1.03, 1), borderaxespad=0, frameon=False, fontsize=9
        )
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        try:
            figure.savefig(path, dpi=150, metadata=metadata, bbox_inches="tight", pad_inches=0.12)
        except OSError as error:
            raise OptionError(f"{path}: cannot write the picture: {error.strerror or error}") from None
    return panels


def _draw(axes: Any, metric: str, drawn: Mapping[str, Curve], colours: Mapping[str, str]) -> None:
    """One panel: the curves of one metric."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    epochs: Set[int] = set()
    values: List[float] = []
    for label, curve in drawn.items():
        for subset, style in ((curve.valid, "-"), (curve.train, "--")):
            points = [(epoch, value) for epoch, value in sorted(subset.items()) if math.isfinite(value)]
            # a curve of a single epoch is a marker alone, and those of short trainings show where their epochs are
            marker = "o" if len(points) <= 30 else ""
            axes.plot(
                *([point[i] for point in points] for i in (0, 1)),
                color=colours[label],
                linestyle=style,
                linewidth=1.6 if style == "-" else 1.2,
                marker=marker,
                markersize=3.5,
                markerfacecolor=colours[label] if style == "-" else "white",
            )
            epochs.update(epoch for epoch, _ in points)
            values.extend(value for _, value in points)
    names = {curve.metric for curve in drawn.values()}
    perplexity = all(name.split("_")[-1] == "ppl" for name in names)
    if perplexity and values and 0 < 10 * min(values) < max(values):
        axes.set_yscale("log")
        # labels at 1, 2, 5 times a power of ten, or at powers alone where there are many of them
        steps = (1.0, 2.0, 5.0) if max(values) < 1e4 * min(values) else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(epochs) == 1:
        axes.set_xlim(min(epochs) - 0.5, max(epochs) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch", fontsize=9)
    axes.set_ylabel(_axis_label(metric, sorted(names)[0]), fontsize=9)
    axes.tick_params(labelsize=8, length=2.5, color="#b8c2cc")
    axes.grid(color="#e3e8ee", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[:].set_color("#b8c2cc")
    notes = _notes(metric, drawn, colours)
    for number, note in enumerate(reversed(notes)):
        axes.annotate(note, (0, 1), (0, 5 + 11 * number), "axes fraction", "offset points", fontsize=7.5, color=_GREY)
    axes.set_title(metric, loc="left", fontsize=10, weight="bold", pad=6 + 11 * len(notes))


def _axis_label(metric: str, name: str) -> str:
    """What the numbers are, with their unit: ``prior entropy (nats per word)``."""
    unit = _UNITS.get(name)
    words = metric.replace("ppl", "perplexity").replace("_", " ")
    return f"{words} ({unit})" if unit else words


def _notes(metric: str, drawn: Mapping[str, Curve], labels: Iterable[str]) -> List[str]:
    """The lines beneath the title: what the runs of a group show, and which runs have no curve here."""
    lines = []
    names = list(dict.fromkeys(curve.metric for curve in drawn.values()))
    if names != [metric]:
        for name in names:
            shown = [label for label, curve in drawn.items() if curve.metric == name]
            lines.append(name if len(names) == 1 else _clip(f"{name}: {', '.join(shown)}"))
    missing = [label for label in labels if label not in drawn]
    if missing:
        lines.append(_clip(f"not logged: {', '.join(missing)}"))
    return [_literal(line) for line in lines]


def _clip(text: str, width: int = 58) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _literal(text: str) -> str:
    """Shown by matplotlib as it is: ``$`` would begin a formula, and a legend leaves out what begins with ``_``."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _colours(count: int) -> List[str]:
    if count <= len(_COLOURS):
        return list(_COLOURS[:count])
    wheel = (colorsys.hsv_to_rgb(number / count, 0.85, 0.78) for number in range(count))
    return ["#" + "".join(f"{round(255 * part):02x}" for part in colour) for colour in wheel]


def write_json(path: PathLike, panels: Mapping[str, Mapping[str, Curve]]) -> None:
    """Write what ``plot_curves`` returned: {metric: {label: {"metric", "train", "valid"}}}, the latter two {epoch:
    value} with null for a value that is not finite.  Raises ``OptionError`` if the file cannot be written."""

    def plain(values: Mapping[int, float]) -> Dict[int, Optional[float]]:
        return {epoch: value if math.isfinite(value) else None for epoch, value in sorted(values.items())}

    text = json.dumps(
        {
            metric: {
                label: {"metric": curve.metric, "train": plain(curve.train), "valid": plain(curve.valid)}
                for label, curve in drawn.items()
            }
            for metric, drawn in panels.items()
        },
        indent=1,
    )
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path}: cannot write the curves: {error.strerror or error}") from None


def _runs(arguments: Sequence[str]) -> Dict[str, str]:
    runs: Dict[str, str] = {}
    for argument in arguments:
        label, _, path = argument.partition("=")
        if not label or not path:
            raise OptionError(f"{argument!r}: is not LABEL=PATH, a name for the run and the log of its fairseq-train")
        if label in runs:
            raise OptionError(f"{argument!r}: the label {label!r} already stands for {runs[label]}; choose another")
        runs[label] = path
    return runs


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_attn_plugin.analysis.curves",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("runs", nargs="+", metavar="LABEL=PATH", help="a name for the run, and its log")
    parser.add_argument(
        "--metrics",
        nargs="+",
        default=list(GROUPS),
        metavar="NAME",
        help=f"a panel each: {', '.join(GROUPS)} (the default), or any metric of the logs",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help=f"picture to write: {', '.join(SUFFIXES)}")
    parser.add_argument("--json", metavar="FILE", help="write the values of the picture as well")
    args = parser.parse_args(argv)
    panels = plot_curves(_runs(args.runs), args.metrics, args.out)
    if args.json:
        write_json(args.json, panels)
    print(f"{args.out}: {', '.join(panels)} of {', '.join(_runs(args.runs))}")


if __name__ == "__main__":
    main()
