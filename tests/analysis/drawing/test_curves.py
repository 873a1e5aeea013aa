"""Learning curves: logs in both formats, resumed trainings, which metric a group takes, the picture, mistakes."""

import json
import math
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from figures_for_tests import kept_figures

from fairseq_attn_plugin.analysis.drawing.curves import choose, plot_curves
from fairseq_attn_plugin.analysis.training_logs import Curves, read_log
from fairseq_attn_plugin.errors import OptionError

SVG = "{http://www.w3.org/2000/svg}"
NOISE = """\
2026-11-20 15:57:13 | INFO | fairseq_cli.train | {'_name': None, 'common': {'epoch': 3, 'log_format': 'json'}}
2026-11-20 15:57:13 | INFO | fairseq.trainer | begin training epoch 1
2026-11-20 15:57:14 | INFO | train_inner | {"epoch": 1, "update": 0.5, "loss": "99", "train_wall": "4", "wall": "5"}
2026-11-20 15:57:14 | INFO | train_inner | epoch 001:     50 / 100 loss=99, ppl=99, wps=10, train_wall=4
2026-11-20 15:57:15 | INFO | fairseq.checkpoint_utils | Preparing to save checkpoint for epoch 1 @ 100 updates
2026-11-20 15:57:15 | INFO | fairseq_cli.train | end of epoch 1 (average epoch stats below)
"""


def json_line(subset, epoch, **values):
    stats = {"epoch": epoch, **{f"{subset}_{name}": str(value) for name, value in values.items()}}
    return f"2026-11-20 15:59:17 | INFO | {subset} | {json.dumps(stats)}\n"


def simple_line(subset, epoch, **values):
    where = "" if subset == "train" else f"{subset if subset == 'valid' else 'valid'} on '{subset}' subset | "
    stats = " | ".join(f"{name} {value}" for name, value in values.items())
    return f"2026-11-20 15:59:17 | INFO | {subset} | epoch {epoch:03d} | {where}{stats}\n"


def write(path, *lines):
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def logs(tmp_path):
    """A run of soft attention and a variational one, as ``--criterion latent_alignment`` logs them."""
    soft, elbo = [], []
    for epoch in (1, 2, 3):
        ppl = 900 / 8**epoch
        for subset in ("valid", "train"):
            only_valid = {"marginal_ppl": ppl + 1} if subset == "valid" else {}
            soft.append(json_line(subset, epoch, bound=5 - epoch, ppl=ppl, prior_accuracy=10 * epoch, **only_valid))
            elbo.append(
                json_line(
                    subset,
                    epoch,
                    bound=4.5 - epoch,
                    ppl=ppl,
                    marginal_ppl=ppl,
                    kl=0.1,
                    prior_accuracy=11 * epoch,
                    posterior_accuracy=12 * epoch,
                )
            )
    return {"soft": write(tmp_path / "soft.log", *soft), "elbo": write(tmp_path / "elbo.log", *elbo)}


def words(path):
    root = ElementTree.parse(path).getroot()
    return ["".join(element.itertext()).strip() for element in root.iter(SVG + "text")]


@pytest.mark.parametrize("line", [json_line, simple_line])
def test_both_formats(tmp_path, line):
    path = write(
        tmp_path / "train.log",
        NOISE,
        line("valid", 1, loss="6.5", ppl="91.1", num_updates="642"),
        line("train", 1, loss="7.67", train_wall="112", lr="2.5e-05"),
        line("valid", 2, loss="5.4", ppl="42.41", num_updates="1284"),
        line("test", 2, loss="1.1"),
    )
    assert read_log(path) == Curves(
        train={"loss": {1: 7.67}, "train_wall": {1: 112.0}, "lr": {1: 2.5e-05}},
        valid={"loss": {1: 6.5, 2: 5.4}, "ppl": {1: 91.1, 2: 42.41}, "num_updates": {1: 642.0, 2: 1284.0}},
    )


@pytest.mark.parametrize("prefix", ["", "[2026-11-20 15:59:17,123][valid][INFO] - "])
@pytest.mark.parametrize("line", [json_line, simple_line])
def test_log_file_and_hydra_lines(tmp_path, line, prefix):
    bare = line("valid", 3, bound="2.5").split(" | ", 3)[3]
    assert read_log(write(tmp_path / "train.log", prefix + bare)).valid == {"bound": {3: 2.5}}


@pytest.mark.parametrize("line", [json_line, simple_line])
def test_the_last_value_of_an_epoch_counts(tmp_path, line):
    path = write(
        tmp_path / "train.log",
        *(line("valid", epoch, loss=value) for epoch, value in ((1, 9), (2, 8.5), (2, 8), (3, 7))),
        *(line("valid", epoch, loss=value) for epoch, value in ((2, 6),)),  # resumed from epoch 1
    )
    assert read_log(path).valid["loss"] == {1: 9.0, 2: 6.0, 3: 7.0}


def test_lines_that_are_cut_off_and_values_that_are_no_numbers(tmp_path):
    path = write(
        tmp_path / "train.log",
        json_line("valid", 1, loss="nan", ppl="inf", best="None"),
        '2026-11-20 15:59:17 | INFO | valid | {"epoch": null, "valid_loss": "1"}\n',
        json_line("valid", 2, loss="6.5", ppl="91.1")[:-20],
    )
    with open(path, "ab") as stream:
        stream.write(b"\xff\xfe\n")
    curves = read_log(path)
    assert not curves.train and set(curves.valid) == {"loss", "ppl"}
    assert math.isnan(curves.valid["loss"][1]) and curves.valid["ppl"] == {1: math.inf}


def test_a_group_takes_what_a_run_has(logs):
    curves = {label: read_log(path) for label, path in logs.items()}
    assert {label: curve.metric for label, curve in choose(curves, "accuracy").items()} == {
        "soft": "prior_accuracy",
        "elbo": "posterior_accuracy",
    }
    # the validation of soft attention logs marginal_ppl too, but its training does not: never two quantities in one run
    ppl = choose(curves, "ppl")
    assert (ppl["soft"].metric, ppl["elbo"].metric) == ("ppl", "marginal_ppl")
    assert ppl["soft"].train == ppl["soft"].valid == curves["soft"].train["ppl"]
    # a run that never has both: the first name
    sampled = Curves({}, {"marginal_ppl": {1: 9.0}, "ppl": {1: 8.0}})
    assert choose({"a": sampled}, "ppl")["a"].metric == "marginal_ppl"
    # a name of the log is that name
    assert choose(curves, "prior_accuracy")["elbo"].valid == {1: 11.0, 2: 22.0, 3: 33.0}
    assert set(choose(curves, "kl")) == {"elbo"}


def test_files_without_curves(tmp_path):
    with pytest.raises(OptionError, match="none.log: cannot read the log of fairseq-train: No such file"):
        read_log(tmp_path / "none.log")
    with pytest.raises(OptionError, match="cannot read the log"):
        read_log(tmp_path)
    with pytest.raises(OptionError, match="young.log: has no curves; either no epoch has ended yet"):
        read_log(write(tmp_path / "young.log", NOISE))


def test_the_picture(logs, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "curves.svg"
    plot_curves(logs, ["accuracy", "bound", "ppl", "kl"], path)
    texts = words(path)
    for text in ("soft", "elbo", "validation", "training"):
        assert texts.count(text) == 1  # one legend
    assert texts.count("epoch") == 4
    for text in ("accuracy (% of words)", "bound (nats per word)", "perplexity", "kl"):
        assert text in texts
    for text in ("prior_accuracy: soft", "posterior_accuracy: elbo", "not logged: soft"):
        assert text in texts
    plot_curves(logs, ["accuracy", "bound", "ppl", "kl"], tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == path.read_bytes()
    for suffix, start in ((".png", b"\x89PNG"), (".PDF", b"%PDF")):
        plot_curves(logs, ["bound"], str(tmp_path / ("picture" + suffix)))
        assert (tmp_path / ("picture" + suffix)).read_bytes().startswith(start)


def test_solid_is_validation_dashed_training_and_a_colour_and_marker_per_run(logs, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    figures = kept_figures(monkeypatch)
    plot_curves(logs, ["bound", "ppl"], tmp_path / "a.png")
    bound, ppl = figures[0].axes
    for axes in (bound, ppl):
        assert [line.get_linestyle() for line in axes.lines] == ["-", "--"] * 2
        colours = [line.get_color() for line in axes.lines]
        assert colours[0] == colours[1] != colours[2] == colours[3]
        markers = [line.get_marker() for line in axes.lines]
        assert markers[0] == markers[1] != markers[2] == markers[3]
        assert [handle.get_marker() for handle in ppl.get_legend().legend_handles][:2] == [markers[0], markers[2]]
    assert list(bound.lines[0].get_xdata()) == [1, 2, 3] and list(bound.lines[0].get_ydata()) == [4, 3, 2]
    assert [line.get_color() for line in bound.lines] == [line.get_color() for line in ppl.lines]
    # from 112.5 to 1.76
    assert (bound.get_yscale(), ppl.get_yscale()) == ("linear", "log")


def test_long_curves_have_markers_at_different_epochs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    figures = kept_figures(monkeypatch)
    path = write(tmp_path / "a.log", *(json_line("valid", epoch, loss=1 / epoch) for epoch in range(1, 121)))
    plot_curves({"a": path, "b": path}, ["loss"], tmp_path / "a.png")
    lines = [line for line in figures[0].axes[0].lines if len(line.get_xdata())]
    assert [line.get_markevery() for line in lines] == [(0, 10), (5, 10)]


@pytest.mark.parametrize(("first", "scale"), [(100, "linear"), (101, "log"), ("inf", "linear"), ("nan", "linear")])
def test_scale_of_perplexities(tmp_path, monkeypatch, first, scale):
    pytest.importorskip("matplotlib")
    figures = kept_figures(monkeypatch)
    path = write(tmp_path / "a.log", json_line("valid", 1, ppl=first, loss=100), json_line("valid", 2, ppl=10, loss=1))
    plot_curves({"a": path}, ["ppl", "loss"], tmp_path / "a.png")
    assert [axes.get_yscale() for axes in figures[0].axes] == [scale, "linear"]


def test_labels_are_not_formulas_and_many_runs_differ(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    path = write(tmp_path / "a.log", json_line("valid", 1, loss=3))
    plot_curves(dict.fromkeys(["_a$1$", *"bcdefghijkl"], path), ["loss"], tmp_path / "a.svg")
    texts = words(tmp_path / "a.svg")
    assert "_a$1$" in texts and "validation" in texts and "training" not in texts
    figures = kept_figures(monkeypatch)
    plot_curves(dict.fromkeys("abcdefghijkl", path), ["loss"], tmp_path / "b.png")
    assert len({(line.get_color(), line.get_marker()) for line in figures[0].axes[0].lines}) == 12


def test_what_cannot_be_written(logs, tmp_path):
    with pytest.raises(OptionError, match=r"cannot draw \.jpg; use \.png, \.svg, \.pdf"):
        plot_curves(logs, ["bound"], tmp_path / "a.jpg")
    pytest.importorskip("matplotlib")
    with pytest.raises(OptionError, match="cannot write the picture: No such file"):
        plot_curves(logs, ["bound"], tmp_path / "none" / "a.png")


def test_without_matplotlib(logs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OptionError, match=r"drawing needs matplotlib: pip install 'fairseq_attn_plugin\[analysis\]'"):
        plot_curves(logs, ["bound"], tmp_path / "a.png")
