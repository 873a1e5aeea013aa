"""The figures of docs/results/claims.md are those of benchmarks/results, and its p-values come out again."""

import json
import re
import statistics
from functools import lru_cache

import pytest
from leaderboard import bleu_statistics, holm, score_bleu
from scipy.stats import ttest_rel
from test_result_tables import VALUES

from documentation import REPO, runs, runs_of

PAGE = " ".join((REPO / "docs/results/claims.md").read_text(encoding="utf-8").split())
PLAIN = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", PAGE)  # without links
E10, E10_SLOW, E15 = (f"multi30k-de-en-epoch{name}" for name in ("10-lr3e-3", "10", "15-lr3e-3"))
SMALL15, SEVEN = "multi30k-de-en-small-epoch15-lr3e-3", "multi30k-de-en-small-epoch7-lr3e-3"
MECHANISMS = "multi30k-de-en-mechanisms-epoch15-lr3e-3"
SCORES, UNKNOWN = "multi30k-de-en-small-scores", "multi30k-de-en-unknown-words"
LAST = {"q": "reconstruction_ppl", "accuracy of q": "posterior_accuracy", "accuracy": "prior_accuracy"}


@lru_cache(maxsize=None)
def p(file, system, baseline):
    """The p-value of a difference in BLEU, over the seeds that both have."""
    trainings = {name: runs_of(file, name) for name in (system, baseline)}
    found = score_bleu(
        {
            name: [bleu_statistics([[*map(int, s.split())] for s in sentences(r)]) for r in of]
            for name, of in trainings.items()
        },
        baseline,
        seeds_of={name: [run["seed"] for run in of] for name, of in trainings.items()},
    )
    return found[system].p_value


def sentences(run):
    return run["statistics"]["sentences"]


def each(what, file, system, seeds=None):
    """A figure of each seed."""
    found = [run for run in runs_of(file, system) if seeds is None or run["seed"] in seeds]
    assert found, (file, system)
    if what in LAST:
        return [float(re.search(rf"\b{LAST[what]} ([\d.]+)", " ".join(run["log_end"])).group(1)) for run in found]
    return [run[what] if what in run else VALUES[what](run) for run in found]


def mean(*args, **seeds):
    return statistics.mean(each(*args, **seeds))


def against(file, system, baseline, what="BLEU", **seeds):
    return " against ".join(f"{mean(what, file, name, **seeds):.2f}" for name in (system, baseline))


def deviations(file, system, seeds=(1, 4, 6)):
    systems = runs(f"{file}-words")
    return ", ".join(f"{systems[f'{system}-{seed}']['rare_deviation']:.1f}" for seed in seeds)


def lost(file, system):
    return "{}, {} and {}".format(*deviations(file, system).replace("-", "").split(", "))


def latency(system, kind, digits=2):
    file = REPO / "benchmarks/cpu-latency.json"
    found = json.loads(file.read_text(encoding="utf-8"))["sections"]["latency"]
    baseline = "lstm_soft:attention_score=additive"
    ratios = (found[words]["systems"][system]["time_ratio"][baseline][kind] for words in ("4-7", "8-11", "12-15"))
    return ", ".join(f"{ratio:.{digits}f}" for ratio in ratios)


def faithfulness(measure):
    models = runs_of("multi30k-de-en-faithfulness", "lstm_soft")
    return f"{statistics.mean(model['measures'][measure] for model in models):.3f}"


def elected(system):
    found = [run["systems"][system] for run in runs_of("tatoeba-en-es-election", "equal")]
    return f"{statistics.mean(one['scores']['BLEU']['score'] for one in found):.2f}"


def sayings():
    """What the page must say, in its words."""
    yield f"{against(E15, 'lstm_adm', 'lstm_soft')}, p = {p(E15, 'lstm_adm', 'lstm_soft'):.2f}"
    slow = "lstm_adm_centred_drop", "lstm_soft_drop"
    yield f"{against(E10_SLOW, *slow)}, p = {p(E10_SLOW, *slow):.3f}"
    own, matrix_and_soft = "multi30k-de-en-paper-models", ("lstm_adm", "lstm_soft")
    yield f"{deviations(own, 'mqt')} against {deviations(own, 'soft')} per cent; on En-Vi, two seeds, level: " + (
        " against ".join(deviations("iwslt15-en-vi", name, (1, 2)) for name in ("mqt", "soft")) + "; over keys"
    )
    level = (
        (own, 2),
        (f"{own}-lr3e-3", 2),
        (f"{own}-nothing-fed", 2),
        ("tatoeba-de-en-epoch4", 2),
        ("ro-en-epoch8", 2),
        ("tatoeba-en-vi-epoch30", 2),
    )
    for file, digits in (("iwslt15-vi-en", 3), ("iwslt15-en-vi", 2), ("tatoeba-en-es-epoch12", 3), *level):
        yield f"{against(file, 'lstm_adm', 'lstm_soft')}, p = {p(file, 'lstm_adm', 'lstm_soft'):.{digits}f}"
    yield f"`mqt` loses {lost(E10_SLOW, 'mqt')} per cent of them, soft attention {lost(E10_SLOW, 'soft')}, soft"
    yield f"additive score {lost(E10_SLOW, 'additive')}. After ten epochs at 3e-3 these are {lost(E10, 'mqt')};"
    yield f"{deviations(E15, 'mqt')} against {deviations(E15, 'soft')} per cent"
    worst = "lstm_adm_aqt", "lstm_soft_drop"
    yield f"{against(E10_SLOW, *worst)} of soft attention, p = {p(E10_SLOW, *worst):.2f}"
    yield f"{against(E15, 'structured', 'lstm_soft')}, p = {p(E15, 'structured', 'lstm_soft'):.2f}"
    file, rival = "iwslt15-vi-en", ("lstm_structured", "lstm_soft")
    yield f"one seed: {against(file, *rival, seeds=(1,))}, p = {p(file, *rival):.2f}; weights alone"
    file = "tatoeba-de-en-epoch4"
    yield f"{against(file, 'structured', 'lstm_soft')}, p = {p(file, 'structured', 'lstm_soft'):.2f}"
    yield against(E10, "lstm_adm", "lstm_soft", "perplexity")
    yield f"{against(E10, 'lstm_adm', 'lstm_soft')} (p = {p(E10, 'lstm_adm', 'lstm_soft'):.2f})"
    yield against(E15, "lstm_adm", "lstm_soft", "perplexity")
    file = "tatoeba-en-vi-epoch12"
    yield f"{against(file, 'lstm_adm', 'lstm_soft')} (p = {p(file, 'lstm_adm', 'lstm_soft'):.3f})"
    yield f"(one seed, p = {p('multi30k-en-de-epoch10-lr3e-3', 'lstm_adm', 'lstm_soft'):.3f})"
    additive = "lstm_adm_centred_drop", "lstm_soft_additive"
    others = ("lstm_soft_drop", "structured", "lstm", "lstm_adm_aqt", "lstm_adm_centred_drop")
    corrected = holm({name: p(E10_SLOW, name, additive[1]) for name in others})[additive[0]]
    yield (
        f"{against(E10_SLOW, *additive)} (p = {p(E10_SLOW, *additive):.3f}, after Holm's correction {corrected:.2f})"
    )
    vietnamese = ("iwslt15-vi-en", "{} against {}; on En-Vi"), ("iwslt15-en-vi", "on En-Vi {} against {}, with a")
    for file, text in ((own, "{} against {} with"), *vietnamese):
        yield text.format(*(", ".join(f"{one:.2f}" for one in each("entropy", file, name)) for name in matrix_and_soft))
    yield "of {} against {}; on Ro-En".format(
        *(
            ", ".join(f"{one:.3f}" for one in each("diagonal_distance", "iwslt15-en-vi", name))
            for name in matrix_and_soft
        )
    )
    yield f"on Ro-En {against('ro-en-epoch8', *matrix_and_soft, 'entropy')}; on"
    yield f"on Tatoeba De-En {against('tatoeba-de-en-epoch4', *matrix_and_soft, 'entropy')}; over"
    yield f"over keys, in nats, {against(E15, *matrix_and_soft, 'entropy')}"
    one, two = ("structured", "lstm_soft_drop"), ("structured", "lstm_soft")
    yield f"{against(E10_SLOW, *one)} (p = {p(E10_SLOW, *one):.3f}), and level"
    yield f"at 3e-3 (p = {p(E10, *two):.2f})"
    scale = [each("perplexity", SEVEN, name, (1, 2)) for name in ("small-structured_scale_1", "small-structured")]
    scale.append(each("perplexity", SEVEN, "small-attention", (1, 2)))
    for text, (first, second) in zip(("it has {} and {}", "a scale of 2 {} and {}", "soft attention {} and {}"), scale):
        yield text.format(f"{first:.2f}", f"{second:.2f}")
    for name, kind in (("lstm_gaussian", "median"), ("lstm_election", "median"), ("lstm_election", "max")):
        yield latency(name, kind)
    best = "small-marginal-scratch", "small-soft"
    yield f"{against(SMALL15, *best, 'perplexity')}, {against(SMALL15, *best)}, p = {p(SMALL15, *best):.3f}"
    file = "tatoeba-en-es-small-epoch4"
    yield f"{against(file, *best, 'perplexity')}, {against(file, *best)}, p = {p(file, *best):.3f}"
    file, others = "kftt-ja-en-alignments", ("marginal", "lstm_soft_unsmoothed")
    aer = [statistics.mean(100 * run["alignments"]["posterior"]["aer"] for run in runs_of(file, n)) for n in others]
    perplexities = against(file, *others, "perplexity")
    yield f"{perplexities}; alignment errors of the posterior: {aer[0]:.1f} against {aer[1]:.1f}"
    for baseline in best:
        both = "small-elbo-enum", baseline
        yield f"{against(SMALL15, *both, seeds=(1, 2))}, p = {p(SMALL15, *both):.2f}"
    for name in ("small-elbo-enum", *best):
        yield " and ".join(f"{value:.2f}" for value in each("perplexity", SMALL15, name, (1, 2)))
    entropies = [mean("entropy", SMALL15, name) for name in ("small-elbo-enum", "small-soft", best[0])]
    yield "{:.2f} against {:.2f}; the marginal has {:.2f}".format(*entropies)
    yield against(SEVEN, "small-hard-reinforce", "small-soft", "perplexity")
    trainings = [(SEVEN, f"small-{name}", (1,)) for name in ("elbo-enum", "elbo-reinforce", "soft")]
    score = ", ".join(f"{mean('BLEU', *one):.2f}" for one in trainings)
    yield f"{score}; REINFORCE against soft attention p = {p(SEVEN, 'small-elbo-reinforce', 'small-soft'):.3f}"
    for kinds, digits in ((("q", "q", "q"), 2), (("accuracy of q", "accuracy of q", "accuracy"), 1)):
        yield ", ".join(f"{mean(kind, *one):.{digits}f}" for kind, one in zip(kinds, trainings))
    yield ", ".join(f"{mean('perplexity', *one):.2f}" for one in trainings)
    yield ", ".join(f"{mean('accuracy', *one):.1f}" for one in trainings)
    for one in (("none", "additive"), ("scaled_dot", "dot")):
        yield f"{against(SCORES, *one)} BLEU, p = {p(SCORES, *one):.3f}"
    yield against(SCORES, "scaled_dot", "dot", "perplexity")
    for one, by in (("own-lexicon", "BLEU by a lexicon"), ("copied", "by copying")):
        yield f"{against(UNKNOWN, one, 'unknown')} {by}, p = {p(UNKNOWN, one, 'unknown'):.3f}"
    mlp = "lstm_soft_additive", "lstm_soft"
    yield f"{mean('parameters', E10, mlp[0]):,.0f} against {mean('parameters', E10, mlp[1]):,.0f}"
    bilinear = "lstm_soft_additive", "lstm_soft_drop"
    yield f"{against(E10_SLOW, *bilinear)} BLEU, p = {p(E10_SLOW, *bilinear):.2f}"
    yield f"{against(E10, *mlp)}, p = {p(E10, *mlp):.3f}"
    yield against(E10, *mlp, "perplexity")
    yield f"by {faithfulness('comprehensiveness 1')} without the word most attended to"
    yield f"by {faithfulness('comprehensiveness 1 random')} without a random one"
    yield f"{faithfulness('tau leave-one-out')}, two attributions one of {faithfulness('tau leave-one-out / gradient')}"
    lexicon = "small-attention_lexicon", "small-attention"
    yield f"{against(MECHANISMS, *lexicon)}, p = {p(MECHANISMS, *lexicon):.3f}"
    yield f"{against(SEVEN, *lexicon)}, three seeds, p = {p(SEVEN, *lexicon):.3f}"
    biases = [f"small-{name}" for name in ("position", "markov", "fertility")]
    found = [p(MECHANISMS, name, "small-attention") for name in biases]
    yield "p = " + "{:.2f}, {:.2f} and {:.2f}".format(*found)
    for what in ("perplexity", "BLEU"):
        values = [mean(what, MECHANISMS, name) for name in (*biases, "small-attention")]
        yield f"{what} " + "{:.2f}, {:.2f} and {:.2f} against {:.2f}".format(*values)

    folds = {name: runs_of("polarity-han", name) for name in ("han", "han_flat", "han_mean", "tfidf")}
    scores = {name: [run["accuracy"] for run in of] for name, of in folds.items()}
    tests = {name: ttest_rel(scores["han"], scores[name]).pvalue for name in scores if name != "han"}
    yield f"means in place of attention {statistics.mean(scores['han_mean']):.1f} (t-test over ten folds: "
    yield f"p = {tests['han_mean']:.2f})"
    yield f"(p = {tests['han_flat']:.3f}, after Holm's correction {holm(tests)['han_flat']:.3f})"
    votes = [run["election"] for run in runs_of("tatoeba-en-es-election", "equal")]
    distances = [", ".join(f"{one[of]['distance']:.2f}" for one in votes) for of in ("gaussian", "recommended")]
    yield "the fitted Gaussian is {}, within the windows {};".format(*distances)
    students = {name: elected(name) for name in ("election-model", "gaussian", "mask-words", "mask")}
    yield "{election-model} against {gaussian} trained, {mask-words} against {mask} untrained".format(**students)


@pytest.mark.slow
def test_the_page_says_what_was_measured():
    said = [re.sub(r"\s+", " ", text) for text in sayings()]
    missing = [text for text in said if text not in PLAIN]
    assert not missing, missing
    shown = re.findall(r"\bp = ([\d.]*\d)", PLAIN)
    assert sorted(shown) == sorted(re.findall(r"\bp = ([\d.]*\d)", " ".join(said)))


def test_the_page_of_the_papers_test_set_says_the_same():
    page = " ".join((REPO / "docs/results/iwslt15.md").read_text(encoding="utf-8").split())
    systems = "iwslt15-vi-en", "lstm_adm", "lstm_soft"
    assert f"of three seeds, {against(*systems).replace('against', 'and')} BLEU" in page
    assert f"all seeds, p = {p(*systems):.3f}): by" in page
    other = "iwslt15-en-vi", *systems[1:]
    assert f"are {against(*other).replace('against', 'and')} (paired" in page
    assert f"both seeds, p = {p(*other):.2f}). On" in page
    for what, text in (("tst2013", "tell*: by {} and {} BLEU"), ("tst2012", "ahead by {} and {}. Its perplexity")):
        leads = (f"{x - y:.2f}" for x, y in zip(*(each(what, other[0], name) for name in other[1:])))
        assert text.format(*leads) in page
    words = [[runs("iwslt15-en-vi-words")[f"{name}-{seed}"] for seed in (1, 2)] for name in ("mqt", "soft")]
    for text, figure in (
        ("about alike: {} against {} per cent", lambda run: run["rare_deviation"]),
        ("times is {} against {}.", lambda run: 100 * run["accuracy"]["10-99"]["f1"]),
    ):
        assert text.format(*(", ".join(f"{figure(run):.1f}" for run in both) for both in words)) in page
    found = [each("diagonal_distance", other[0], name) for name in other[1:]]
    found += [
        [run["diagonal_distance"] for run in runs_of(systems[0], name) if run["seed"] == 3] for name in systems[1:]
    ]
    shown = [", ".join(f"{one:.3f}" for one in of) for of in found]
    assert "is {} against {}; from Vietnamese to English it is {} against {} with seed 3".format(*shown) in page
    rival = systems[0], "lstm_structured", systems[2]
    assert f"one seed: {against(*rival, seeds=(1,))} BLEU on tst2013 (p = {p(*rival):.2f})" in page
