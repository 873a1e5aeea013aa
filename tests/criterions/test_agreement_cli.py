"""Agreement models through the real command-line tools: both directions of one checkpoint, export, errors."""

import contextlib
import io
import re

import pytest
import torch
from in_process import run_tool
from training import SIZES, generate, right_lines
from training import train as train_with

from fairseq_attn_plugin.checkpoints import plain_config
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError

from cli import USER_DIR

AGREEMENT = "--arch lstm_agreement_small --attention-hidden-dim 32 --criterion agreement".split()
AGREEMENT += SIZES
REVERSE = ["--source-lang", "yy", "--target-lang", "xx"]


@pytest.fixture(scope="module")
def trained(zoo):
    """A model of both directions."""
    return zoo("agreement")


@pytest.fixture(scope="module")
def translations(trained, tiny_data):
    """What the checkpoint makes of the test set, forward and back."""
    options = ["--beam", 5, "--print-alignment", "hard"]
    return [generate(tiny_data, trained.last, *options, *languages) for languages in ([], REVERSE)]


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """The reverse direction as a checkpoint of its own."""
    out = tmp_path_factory.mktemp("exported") / "new" / "yy-xx.pt"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        export(trained.last, "yy-xx", out)
    assert re.match(rf"{out}: yy-xx, [\d,]+ parameters\n", printed.getvalue())
    return out


def export(checkpoint, direction, out, *options):
    main(list(map(str, ["export", checkpoint, "--direction", direction, "--out", out, *options])))


def test_learns_both_directions_and_logs(trained):
    first, *_, last = trained.validations
    assert last["valid_forward_ppl"] < 1.4 and last["valid_reverse_ppl"] < 1.4
    assert last["valid_loss"] == last["valid_nll_loss"]
    # as many words on both sides
    assert 2 * last["valid_nll_loss"] == pytest.approx(
        last["valid_forward_nll_loss"] + last["valid_reverse_nll_loss"], abs=2e-3
    )
    assert last["valid_ppl"] == pytest.approx(2 ** last["valid_nll_loss"], abs=0.01)
    assert first["valid_agreement"] < 0.6 < last["valid_agreement"]
    assert {"valid_agreement_loss", "valid_best_loss"} <= set(last)


def test_translates_in_both_directions(translations):
    for lines in translations:
        right = len(right_lines(lines))
        assert right >= 0.8 * len(lines["T"]), f"{right} of {len(lines['T'])} lines right"
    forward, reverse = translations
    assert {i: line[0] for i, line in forward["T"].items()} == {i: line[0] for i, line in reverse["S"].items()}
    for lines in translations:
        # target word j is source word n - 1 - j spelt backwards
        right = total = 0
        for i, line in lines["A"].items():
            length = len(lines["S"][i][0].split())
            links = [tuple(map(int, link.split("-"))) for link in line[0].split()]
            right += sum(source + target == length - 1 for source, target in links)
            total += len(links)
        assert right > 0.8 * total


def test_interactive_and_validate_in_reverse(trained, tiny_data):
    options = [tiny_data, "--user-dir", USER_DIR, "--path", trained.last, "--cpu", *REVERSE]
    done = run_tool("fairseq-interactive", *options, stdin="nud roc leb ama\n\n")
    assert re.search(r"H-0\t\S+\tama bel cor dun", done.stdout)
    assert "S-1\t\n" in done.stdout and "\nH-1\t" in done.stdout, "an empty line loses nothing"
    options += ["--task", "translation", "--valid-subset", "valid", "--batch-size", 16, "--log-format", "json"]
    done = run_tool("fairseq-validate", *options)
    line = [text for text in done.stdout.splitlines() if "reverse_ppl" in text][-1]
    for name, trained_as in (("forward_ppl", "reverse_ppl"), ("reverse_ppl", "forward_ppl"), ("agreement",) * 2):
        value = float(re.search(rf'valid_{name}": "?([\d.]+)', line)[1])
        assert value == pytest.approx(trained.validations[-1][f"valid_{trained_as}"], abs=0.011)


def test_exported_direction_translates_alike(exported, trained, translations, tiny_data):
    alone = generate(tiny_data, exported, "--beam", 5, "--print-alignment", "hard", *REVERSE)
    assert alone == translations[1]
    both = generate(tiny_data, f"{trained.last}:{exported}", "--beam", 5, *REVERSE)
    words = [{i: line[1] for i, line in lines["H"].items()} for lines in (both, alone)]
    assert words[0] == words[1]  # an ensemble of a model with itself


def test_exported_checkpoint_is_an_ordinary_one(exported, trained, tiny_data):
    state = torch.load(exported)
    model, task = state["cfg"]["model"], state["cfg"]["task"]
    assert model["_name"] == "attn_lstm" and model["encoder_bidirectional"] and model["decoder_hidden_size"] == 64
    assert not [name for name in model if name.startswith("agreement")]
    assert (task["source_lang"], task["target_lang"]) == ("yy", "xx")
    assert state["cfg"]["criterion"]["label_smoothing"] == 0.01
    assert not state["last_optimizer_state"] and not [name for name in state["model"] if "models." in name]
    whole = torch.load(trained.last)["model"]
    assert all(torch.equal(value, whole[f"models.yy-xx.{name}"]) for name, value in state["model"].items())
    done = run_tool(
        *("fairseq-validate", tiny_data, "--user-dir", USER_DIR, "--task", "translation", "--path", exported),
        *("--batch-size", 16, "--log-format", "json"),
    )
    value = float(re.search(r'valid_nll_loss": "?([\d.]+)', done.stdout)[1])
    assert value == pytest.approx(trained.validations[-1]["valid_reverse_nll_loss"], abs=2e-3)


def test_a_checkpoint_from_before_an_option_is_exported_as_it_was_trained(trained, tmp_path):
    state = torch.load(trained.last)
    config = plain_config(state["cfg"])
    now = [config["model"].pop(name) for name in ("output_layer", "adm_pairs")]
    torch.save({**state, "cfg": config}, tmp_path / "old.pt")
    export(tmp_path / "old.pt", "xx-yy", tmp_path / "out.pt")
    model = torch.load(tmp_path / "out.pt")["cfg"]["model"]
    assert (now, [model["output_layer"], model["adm_pairs"]]) == (["linear", "encodings"], ["tanh", "keys"])


def test_mistakes_of_export_are_one_line(exported, trained, tmp_path):
    out, before = tmp_path / "out.pt", exported.read_bytes()
    for checkpoint, direction, to, message in (
        (trained.last, "yy-zz", out, "translates xx-yy and yy-xx"),
        (exported, "yy-xx", out, "attn_lstm, which has one direction"),
        (tmp_path / "none.pt", "yy-xx", out, "no such file"),
        (trained.last, "xx-yy", exported, "add --force"),
    ):
        with pytest.raises(OptionError, match=message):
            export(checkpoint, direction, to)
    assert not list(tmp_path.iterdir()) and exported.read_bytes() == before
    out.write_text("something else")
    export(trained.last, "xx-yy", out, "--force")
    assert torch.load(out)["cfg"]["task"]["source_lang"] == "xx"


def test_resumes_in_the_other_direction(trained, tiny_data, tmp_path):
    """Nothing in a checkpoint depends on which direction was called forward: not the optimizer's state either."""
    options = [*AGREEMENT, *REVERSE, "--label-smoothing", 0.01, "--restore-file", trained.last, "--log-format", "json"]
    log = train_with(tiny_data, tmp_path, *options, updates=122).validations
    assert log[-1]["valid_reverse_ppl"] < 1.6 and log[-1]["valid_forward_ppl"] < 1.6
