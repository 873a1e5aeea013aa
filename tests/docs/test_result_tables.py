"""Tables of results say what the files in benchmarks/results say, cell by cell."""

import re
import statistics
from itertools import groupby

import pytest
from leaderboard import bleu, bleu_statistics

from documentation import REPO, runs, runs_of

MULTI30K, MECHANISMS = "docs/results/multi30k.md", "docs/results/mechanisms.md"
TATOEBA, VI_EN, START = "docs/results/tatoeba.md", "docs/results/iwslt15.md", "docs/results/start.md"
DOCUMENTS = "docs/results/documents.md"
VI_EN_ROWS = {
    "soft (`lstm_soft`)": "lstm_soft",
    "`mqt` (`lstm_adm`)": "lstm_adm",
    "`aqt` (`lstm_adm_aqt`)": "lstm_adm_aqt",
    "structured (`lstm_structured`)": "lstm_structured",
}
PAIRS = {"`lstm_adm` over keys": "lstm_adm_keys", "`lstm_adm` over encodings": "lstm_adm_encodings"}
DROP = {"`lstm_adm`": "lstm_adm_centred_drop", "`lstm_soft`": "lstm_soft_drop"}
LARGE = {
    "`lstm_soft`, additive score": "lstm_soft_additive",
    "`lstm_soft` with `--attention structured`": "structured",
    "`lstm`, stock fairseq's": "lstm",
}
SEVEN = "multi30k-de-en-small-epoch7-lr3e-3"
LEXICON = {f"`small-{name}` with `--lexicon`": f"small-{name}_lexicon" for name in ("attention", "fertility")}
# page, section, number of the table -> file of results, and the system of each row whose name is not the system's
TABLES = {
    (MULTI30K, "Fifteen epochs", 0): ("multi30k-de-en-epoch15-lr3e-3", LARGE),
    (MULTI30K, "Ten epochs, three seeds", 0): ("multi30k-de-en-epoch10-lr3e-3", LARGE),
    (MULTI30K, "English-German", 0): ("multi30k-en-de-epoch10-lr3e-3", LARGE),
    (MULTI30K, "Ten epochs at 1e-3", 0): ("multi30k-de-en-epoch10", {**DROP, **LARGE}),
    (MULTI30K, "The paper's own models", 0): ("multi30k-de-en-paper-models", {}),
    (MULTI30K, "The decoder's start", 1): ("multi30k-de-en-start", DROP),
    (MULTI30K, "Three epochs, from the encoder's state", 0): ("multi30k-de-en-epoch3", PAIRS),
    (MECHANISMS, "Fifteen epochs", 0): ("multi30k-de-en-mechanisms-epoch15-lr3e-3", LEXICON),
    (MECHANISMS, "Seven epochs at 3e-3", 0): (
        SEVEN,
        {
            **LEXICON,
            "`small-agreement`, weight 0.03": "small-agreement",
            "`small-agreement`, weight 0.1": "small-agreement_weight_0.1",
        },
    ),
    (MECHANISMS, "Attention or none, and dot products", 0): (
        "multi30k-de-en-small-scores",
        {
            "additive score": "additive",
            "dot products": "dot",
            "scaled dot products": "scaled_dot",
            "no attention": "none",
        },
    ),
    ("docs/results/lexicon.md", "Unknown words", 0): (
        "multi30k-de-en-unknown-words",
        {
            "as they are": "unknown",
            "the source word, `--replace-unk`": "copied",
            "by a lexicon of the model's own attention": "own-lexicon",
            "by a dictionary from links of eflomal": "eflomal",
        },
    ),
    (MECHANISMS, "Output layer and learning rate", 0): (
        "multi30k-de-en-small-epoch5",
        {
            "`small-attention` at 5e-3": "small-attention_rate_5e-3",
            "`small-attention` at 3e-3": "small-attention_rate_3e-3",
            "`small-attention` at 3e-3, with a tanh": "small-attention_tanh_rate_3e-3",
            "`small-attention` at 1e-3": "small-attention",
        },
    ),
    (MECHANISMS, "Three epochs, three seeds", 0): (
        "multi30k-de-en-small-epoch3",
        {"`small-attention`, start at random": "small-attention-drop"},
    ),
    (MECHANISMS, "Synthetic corpus, three seeds", 0): ("toy-corpus-epoch12", {}),
    (TATOEBA, "English-Spanish", 0): ("tatoeba-en-es-epoch12", {}),
    (TATOEBA, "English-Vietnamese", 0): (
        "tatoeba-en-vi-epoch30",
        {
            f"`lstm_{name}`, {kind}": f"lstm_{name}{tail}"
            for name in ("soft", "adm")
            for kind, tail in (("the last checkpoint", ""), ("of the lowest loss", "_best"))
        },
    ),
    (TATOEBA, "English-Vietnamese", 1): (
        "tatoeba-en-vi-epoch12",
        {"`lstm_soft` at 1e-3, batches of 2,000 tokens": "lstm_soft_rate_1e-3"},
    ),
    (TATOEBA, "German-English", 0): ("tatoeba-de-en-epoch4", {}),
    ("docs/results/romanian.md", "", 0): ("ro-en-epoch8", {}),
    (TATOEBA, "Latent alignment", 0): ("tatoeba-en-es-small-epoch4", {}),
    ("docs/results/latent.md", "Fifteen epochs", 0): ("multi30k-de-en-small-epoch15-lr3e-3", {}),
    ("docs/results/latent.md", "Seven epochs", 0): (SEVEN, {}),
    (DOCUMENTS, "Two thousand reviews", 0): ("polarity-han", {"TF-IDF, logistic regression": "tfidf"}),
    (DOCUMENTS, "Fifty thousand reviews", 0): (
        "imdb-han",
        {
            "TF-IDF, linear support vector machine": "tfidf",
            "`han` with `--dropout 0.5 --word-dropout 0.3`": "han_dropout",
        },
    ),
    (VI_EN, "", 0): ("iwslt15-vi-en", {"soft, with structured weights, 8 epochs": "structured", **VI_EN_ROWS}),
    (VI_EN, "English-Vietnamese", 0): ("iwslt15-en-vi", VI_EN_ROWS),
}
VALUES = {
    "theirs": None,  # of the paper
    "best validation accuracy": lambda run: run.get("valid_accuracy") or max(run["valid_accuracies"]),
    "accuracy": lambda run: run["accuracy"],
    "folds": lambda run: run["accuracy"],
    "macro-F1": lambda run: run["macro_f1"],
    "seconds per epoch": lambda run: run["seconds_per_epoch"],
    "tst2012": lambda run: run["valid_bleu"],
    "tst2013": lambda run: run["bleu"]["tokenized"]["score"],
    "left": lambda run: run["unknown_words"],
    "perplexity": lambda run: run["valid_perplexity"],
    "BLEU": lambda run: run["bleu"]["tokenized"]["score"],
    "chrF": lambda run: run["chrf"]["score"],
    "AER": lambda run: 100 * run["aer"],
    "entropy": lambda run: run["entropy"],
    "information": lambda run: run["information"],
    "eflomal": lambda run: 100 * run["links"]["aer"],
    "CPU": lambda run: run["cpu_seconds_per_1000_updates"],
    "parameters": lambda run: run["parameters"],
    "seeds": lambda run: run["seed"],
}
NUMBER = r"\d[\d,]*\.?\d*"


def rows(page, section, number):
    """A table of a section, or of the page for an empty one: the cells of each row by the heads of the columns."""
    text = (REPO / page).read_text(encoding="utf-8")
    if section:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    table = re.findall(r"(?:^\|.*\n)+", text, re.M)[number]
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    return [dict(zip(head, row)) for row in body]


def holds(cell, values):
    """Whether a cell says the values: one after the other, or their mean with their deviation in brackets."""
    found = re.findall(NUMBER, cell.replace("*", ""))
    if "(" in cell or "±" in cell or len(found) == 1 < len(values):
        values = [statistics.mean(values), statistics.stdev(values)][: len(found)]
    # a figure that ends in 5 may have been rounded either way
    close = [
        abs(float(text.replace(",", "")) - value) < 0.501 * 10.0 ** -len(text.partition(".")[2])
        for text, value in zip(found, values)
    ]
    return len(found) == len(values) and all(close)


@pytest.mark.parametrize(("page", "section", "number"), TABLES)
def test_a_table_says_what_was_measured(page, section, number):
    file, names = TABLES[page, section, number]
    checked, wrong = 0, []
    for row in rows(page, section, number):
        label = re.sub(r" \(\d\)$", "", next(iter(row.values())))
        runs = runs_of(file, names.get(label) or label.split("`")[1])
        assert runs, f"{page}: no results of {label} in {file}"
        for head, cell in row.items():
            name = next((name for name in VALUES if name in head), None)
            if name not in (None, "theirs") and cell:
                checked += 1
                values = [VALUES[name](run) for run in runs]
                values = values[0] if isinstance(values[0], list) else values
                values = [statistics.median(values)] if name == "seconds per epoch" else values
                wrong += [] if holds(cell, values) else [f"{label}, {head}: {cell}, measured {values}"]
    assert not wrong, "\n".join(wrong)
    assert checked >= 8


def test_the_tables_of_the_election_say_what_was_measured():
    runs = runs_of("tatoeba-en-es-election", "equal")
    page, wrong = "docs/results/election.md", []

    def compare(row, head, values):
        if not holds(row[head], values):
            wrong.append(f"{next(iter(row.values()))}, {head}: {row[head]}, measured {values}")

    systems = rows(page, "Pairs of equal length", 0)
    assert len(systems) == len(runs[0]["systems"]) == 5
    for row, name in zip(systems, runs[0]["systems"]):
        found = [run["systems"][name] for run in runs]
        if name != "teacher":
            scores = zip(found, (run["systems"]["teacher"] for run in runs))
            share = statistics.mean(
                100 * one["scores"]["BLEU"]["score"] / t["scores"]["BLEU"]["score"] for one, t in scores
            )
            compare(row, "of the teacher's", [share])
        compare(row, "BLEU", [one["scores"]["BLEU"]["score"] for one in found])
        compare(row, "validation perplexity", [one["valid_perplexity"] for one in found])
    rules = rows(page, "Pairs of equal length", 1)
    assert len(rules) == len(runs[0]["election"]["rules"]) == 4
    for number, row in enumerate(rules):
        found = [run["election"]["rules"][number]["satisfaction"] for run in runs]
        for head, name in (
            ("k-Borda satisfaction", "k-borda"),
            ("by chance", "chance"),
            ("SNTV", "sntv"),
            ("Bloc", "bloc"),
        ):
            compare(row, head, [one[name] for one in found])
    assert not wrong, "\n".join(wrong)


def test_the_page_of_the_papers_own_model_says_what_was_measured():
    text = " ".join((REPO / VI_EN).read_text(encoding="utf-8").split())
    systems = {run["system"]: run for run in runs("iwslt15-vi-en").values() if run["seed"] == 1}
    part = systems["lstm_adm_aqt"]["part"]["numbers"]
    lines = {name: [run["statistics"]["sentences"][i] for i in part] for name, run in systems.items() if "bleu" in run}
    lines["lstm_adm_aqt"] = systems["lstm_adm_aqt"]["part"]["sentences"]
    scores = {n: bleu(bleu_statistics([[*map(int, s.split())] for s in ss]).sum(0)) for n, ss in lines.items()}
    assert f"after {len(part)} sentences" in text
    assert "`mqt` has {lstm_adm:.2f}, `aqt` {lstm_adm_aqt:.2f}, soft".format(**scores) in text
    weights = "attention {lstm_soft:.2f} and soft attention with structured weights {structured:.2f}"
    assert weights.format(**scores) in text
    ended, soft = systems["structured"]["epochs"], systems["lstm_soft"]["valid_perplexities"]
    assert f"{systems['structured']['valid_perplexity']} against {soft[str(ended)]}" in text
    words = runs("iwslt15-vi-en-words")
    columns = ("soft-1", "soft-2", "soft-3"), ("mqt-1", "mqt-2", "mqt-3"), ("structured-1",), ("lstm_structured-1",)
    for number, row in enumerate(rows(VI_EN, "", 1)):
        for cell, names in zip([*row.values()][1:], columns):
            figures = [
                [*one["deviations"][:3], one["rare_deviation"], 100 * one["accuracy"]["10-99"]["f1"]][number]
                for one in map(words.get, names)
            ]
            assert cell == ", ".join(f"{figure:.1f}" for figure in figures)
    of = {name: runs_of("iwslt15-vi-en", name) for name in ("lstm_adm", "lstm_soft")}
    test, valid = ([[VALUES[what](run) for run in of[name]] for name in of] for what in ("tst2013", "tst2012"))
    leads = "by {:.2f} and {:.2f} with seeds 1 and 2, and behind by {:.2f} with seed 3".format
    first, second, third = map(float.__sub__, *test)
    assert leads(first, second, -third) in text
    assert "ahead by {:.2f}, {:.2f} and {:.2f}.".format(*map(float.__sub__, *valid)) in text


def test_the_table_of_larger_embeddings_is_that_of_the_trainings():
    expected = {}
    for run in runs("multi30k-de-en-embeddings").values():
        other = "" if run["attention"] in ("soft", "mqt", "aqt") else f" --attention {run['attention']}"
        name = f"`{run['arch']}{other}`" + (", bfloat16" if run.get("matmul_precision") == "bfloat16" else "")
        for found in run["validations"]:
            key = (name, f"{run['embed_init_range']:g}", str(found["updates"]))
            expected.setdefault(key, []).append((found["perplexity"], found["information"]))
    shown = {tuple(cells[:3]): cells[3:] for cells in map(list, map(dict.values, rows(START, "Larger embeddings", 0)))}
    assert shown.keys() == expected.keys()
    for key, found in expected.items():
        spans = (
            sorted({f"{one:{form}}" for one in column}, key=float) for column, form in zip(zip(*found), (".1f", ".2f"))
        )
        assert shown[key] == [str(len(found)), *(" to ".join(dict.fromkeys((span[0], span[-1]))) for span in spans)]


@pytest.mark.parametrize(
    ("file", "section", "first"),
    [
        ("kftt-ja-en-alignments", "Gold alignments: Japanese-English", "Japanese to English"),
        ("europarl-de-en-alignments", "Gold alignments: German-English", "German to English"),
    ],
)
def test_the_error_rates_against_gold_alignments_are_those_of_the_file(file, section, first):
    found = runs(file)
    models = [run for run in found.values() if "attention" in run.get("alignments", ())]
    systems = [list(of) for _, of in groupby(models, lambda run: run["system"])]
    for row, seeds in zip(rows("docs/results/alignments.md", section, 0), systems, strict=True):
        for method in {"attention", "posterior", "saliency"} & row.keys():
            rates = [100 * run["alignments"][method]["aer"] for run in seeds if method in run["alignments"]]
            assert holds(row[method], rates), (row, method)
        for head, name in (
            ("seeds", "seed"),
            ("validation perplexity", "valid_perplexity"),
            ("information", "information"),
        ):
            assert head not in row or holds(row[head], [run[name] for run in seeds])
    rates = [100 * one["aer"] for one in found["eflomal"]["alignments"].values()]
    text = " ".join((REPO / "docs/results/alignments.md").read_text(encoding="utf-8").split())
    said = "has {:.1f} per cent from %s, {:.1f} in the other direction and {:.1f} in" % first
    assert said.format(*rates) in text


def test_what_does_not_begin_to_align_and_what_a_training_takes():
    text = " ".join((REPO / "docs/results/alignments.md").read_text(encoding="utf-8").split())
    found = runs("kftt-ja-en-alignments")
    slow, start = (found[f"lstm_soft_{name}.seed1"]["informations"].values() for name in ("rate_1e-3", "start"))
    after = "after this training gives a perplexity of {:.1f} and {:.1f} instead of {:.1f} and {:.1f}"
    controls = [found[f"soft_objective.seed{seed}"] for seed in (1, 2)]
    assert after.format(*(run[f"{name}_perplexity"] for name in ("marginal", "valid") for run in controls)) in text
    models = [run for run in found.values() if "valid_perplexity" in run]
    chain, marginal, guided = (
        min(100 * run["alignments"]["attention"]["aer"] for run in models if part in run["system"])
        for part in ("first_order", "marginal", "guided")
    )
    said = "has {:.1f} points fewer errors than the best attention of the exact marginal, {:.1f} fewer than the best"
    assert said.format(marginal - chain, guided - chain) in text
    assert min(models, key=lambda run: run["valid_perplexity"])["system"] == "first_order"
    said = "is {:.2f} after the first epoch and {:.2f} after the second, and with `--decoder-init-dropout 0.5` it is "
    assert (said + "{:.2f}, {:.2f} and {:.2f} after three").format(*slow, *start) in text
    assert f"epoch {found['lstm_soft_guided.seed1']['train_alignment_accuracy']:.1f} per cent of the links" in text
    for row, corpus in zip(rows(TATOEBA, "German-English", 1), ("multi30k", "tatoeba"), strict=True):
        for arch in ("lstm_soft", "lstm_adm"):
            run = runs("tatoeba-de-en-epoch4")[f"{corpus}.{arch}"]
            assert row[f"`{arch}`, words/s"] == f"{run['words_per_second']:,}"
            assert row[f"`{arch}`, MiB"] == f"{run['peak_mib']:,}"
    sizes = [runs("imdb-han")[f"size.{name}"] for name in ("han", "han_mean", "han_flat")]
    text = " ".join((REPO / DOCUMENTS).read_text(encoding="utf-8").split())
    assert "takes {}, {} and {} seconds".format(*(one["seconds_per_epoch"] for one in sizes)) in text
    more, less = ([run["accuracy"] for run in runs_of("imdb-han", name)] for name in ("han_dropout", "han"))
    assert "by {:.1f}, {:.1f} and {:.1f} points".format(*(a - b for a, b in zip(more, less))) in text
    assert "up to {:,}, {:,} and {:,} MiB".format(*(one["peak_mib"] for one in sizes)) in text


def test_what_the_page_says_of_the_papers_own_models():
    page = " ".join((REPO / MULTI30K).read_text(encoding="utf-8").split())
    file, names = "multi30k-de-en-paper-models", {"lstm_adm": "mqt", "lstm_soft": "soft"}
    found = {name: runs_of(file, name) for name in names}
    for epoch in "23":
        first, other = ([run["valid_perplexities"][epoch] for run in found[name]] for name in names)
        assert "{:.2f}, {:.2f} and {:.2f} against ".format(*first) + "{:.2f}, {:.2f} and {:.2f}".format(*other) in page
    first, other = (", ".join(f"{run['unnormalized']:.2f}" for run in found[name]) for name in names)
    assert f"they have {first} against {other}" in page
    words = runs(f"{file}-words")
    of = {name: [words[f"{short}-{seed}"] for seed in (1, 4, 6)] for name, short in names.items()}
    three = "{:.1f}, {:.1f} and {:.1f}"
    lost = [three.format(*(-one["rare_deviation"] for one in of[name])) for name in names]
    assert f"by {lost[0]} per cent with `lstm_adm`, and by {lost[1]} with soft attention" in page
    right = [three.format(*(100 * one["accuracy"]["10-99"]["f1"] for one in of[name])) for name in names]
    assert f"{right[0]} against {right[1]}" in page
