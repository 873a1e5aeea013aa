"""Hard alignments of records: a slow twin, both directions, mistakes."""

import numpy as np
import pytest
from records_for_tests import record, write_records
from refusals import refuses

from fairseq_attn_plugin.analysis.alignment.linking import Linking, align, align_both, record_links
from fairseq_attn_plugin.analysis.records.files import meet, open_records
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError


def slow_links(one, linking):
    """By loops over words and their pieces."""

    def pieces(tokens):
        groups, rest = [], list(enumerate(tokens))
        while rest:
            groups.append([])
            while rest:
                index, token = rest.pop(0)
                groups[-1].append(index)
                if linking.level == "subwords" or not token.endswith("@@"):
                    break
        return groups

    sources, links = pieces(one.source), set()
    for j, rows in enumerate(pieces(one.target)):
        weights = []
        for columns in [*sources, [len(one.source)]]:
            weights.append(sum(float(one.attention[row, column]) for row in rows for column in columns) / len(rows))
        end = weights.pop()
        best = max(weights, default=0)
        if weights and (linking.end == "exclude" or best >= end):
            links.add((weights.index(best), j))
    return links


@pytest.mark.parametrize("level", ["words", "subwords"])
@pytest.mark.parametrize("end", ["null", "exclude"])
def test_equals_its_slow_twin(level, end):
    rng = np.random.default_rng(0)
    linking = Linking(end, level=level)
    total = 0
    for number in range(60):
        sides = [
            " ".join(f"w{k}" + "@@" * bool(rng.random() < 0.4) for k in range(rng.integers(0, 7))) for _ in range(2)
        ]
        one = record(number, *sides)
        rows, columns = len(one.target) + 1, len(one.source) + 1
        one.weights["attention"] = rng.dirichlet(np.full(columns, 0.4), size=rows)
        links = record_links(one, linking)
        assert links == slow_links(one, linking)
        total += len(links)
    assert total > 50


def test_a_line_for_each_sentence_of_the_corpus(tmp_path, capsys):
    # sentences 1 and 4 were too long to be extracted; 3 comes before 2
    records = [record(0, "a b", "x y"), record(3, "a", "x"), record(2, "", "x")]
    path = write_records(tmp_path / "soft.jsonl", records=records, sentences=5)
    assert align(open_records(path)) == [{(0, 0), (1, 1)}, None, set(), {(0, 0)}, None]
    main(["align", str(path), "--out", str(tmp_path / "links")])
    assert (tmp_path / "links").read_text() == "0-0 1-1\n\n\n0-0\n\n"
    assert capsys.readouterr().out == (
        f"{tmp_path / 'links'}: 3 links of 5 sentences; 2 are not in the records or too long, and have empty lines\n"
    )


def test_other_weights(tmp_path):
    one = record(0, "a b", "x y")
    one.weights["posterior"] = one.attention[:, [1, 0, 2]]
    path = write_records(tmp_path / "elbo.jsonl", records=[one], weights=("attention", "posterior"))
    assert align(open_records(path)) == [{(0, 0), (1, 1)}]
    assert align(open_records(path), Linking(weights="posterior")) == [{(1, 0), (0, 1)}]
    with pytest.raises(OptionError, match=r"^--weights bayes: \S*elbo\S* has attention, posterior$"):
        align(open_records(path), Linking(weights="bayes"))


def both(tmp_path, backward_records, **header):
    forward = write_records(tmp_path / "f.jsonl", "f", records=[record(0, "a@@ b c", "x y"), record(1, "d", "z")])
    header = {"source_lang": "en", "target_lang": "de", **header}
    backward = write_records(tmp_path / "b.jsonl", "b", records=backward_records, **header)
    return forward, backward


def test_both_directions(tmp_path, capsys):
    # forward ab-x, c-y; backward: ab looks at x, c at x; other subwords, and <unk> for a word, do not matter
    weights = np.array([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    paths = both(tmp_path, [record(1, "z", "<unk>"), record(0, "x y", "ab c", weights)])
    forward, backward = map(open_records, paths)
    expected = {
        "intersection": [{(0, 0)}, {(0, 0)}],
        "union": [{(0, 0), (1, 0), (1, 1)}, {(0, 0)}],
        # both (1, 0) and (1, 1) lie beside (0, 0), diagonally and sideways, and c and y have no link at first
        "grow-diag-final-and": [{(0, 0), (1, 0), (1, 1)}, {(0, 0)}],
    }
    for method, links in expected.items():
        assert align_both(forward, backward, method=method) == links
    out = tmp_path / "links"
    main(["align", str(paths[0]), "--out", str(out), "--reverse", str(paths[1]), "--symmetrize", "intersection"])
    assert out.read_text() == "0-0\n0-0\n"


def test_a_sentence_that_one_direction_left_out_has_no_links(tmp_path):
    forward, backward = both(tmp_path, [record(1, "z", "d")], sentences=2)
    assert align_both(open_records(forward), open_records(backward)) == [None, {(0, 0)}]


@refuses(
    (("x y", "ab e"), {}, r"sentence 0: \S*f.jsonl and --reverse \S*b.jsonl have .* source words \('c' and 'e'\)"),
    (("x y y", "ab c"), {}, r"have different target words \(2 and 3 words\)"),
    (("x y", "a@@ b c"), {"subwords": "none"}, r"\(.*\); --reverse \S*b.jsonl has @@ in its words"),
    (("x y", "ab c"), {"source_lang": "de", "target_lang": "en"}, r"b.jsonl: translates de-en, must translate en-"),
    (("x y", "ab c"), {"sentences": 7}, r"has a corpus of 7 sentences, \S*f.jsonl has one of 2$"),
)
def test_directions_that_do_not_fit(pair, header, tmp_path):
    forward, backward = both(tmp_path, [record(0, *pair)], **{"sentences": 2, **header})
    align_both(open_records(forward), open_records(backward))


@pytest.mark.parametrize("orders", [("abc", "abc"), ("abc", "cab"), ("abcd", "db"), ("", "a"), ("ab", "cd")])
def test_meeting(orders):
    one, other = ([(ord(letter), letter * times) for letter in order] for order, times in zip(orders, (1, 2)))
    common = set(orders[0]) & set(orders[1])
    assert sorted(meet(one, other)) == sorted((ord(letter), letter, letter * 2) for letter in common)


@refuses(
    (["--method", "saliency", "--weights", "bayes"], "^--weights bayes: --method saliency reads the matrix sal"),
    (["--method", "loo"], r"^--method loo: \S*soft.jsonl has attention; the model gives the matrix loo"),
    (["--gen-subset", "valid"], "^--gen-subset valid: needs --path, the checkpoint of a model$"),
    (["--path", "checkpoint_best.pt"], r"soft.jsonl: is a file; --path needs the data folder of the model$"),
    (["--symmetrize", "union"], "^--symmetrize union: needs --reverse"),
)
def test_options_that_do_not_serve(options, tmp_path):
    path = write_records(tmp_path / "soft.jsonl")
    yield lambda: main(["align", str(path), "--out", str(tmp_path / "links"), *options])
    assert not (tmp_path / "links").exists()


def test_the_next_step(tmp_path, capsys):
    """Shift-Att links y_t by the row of y_t+1, the last word by that of the end."""
    rows = np.array([[0.7, 0.2, 0.0, 0.1], [0.1, 0.7, 0.1, 0.1], [0.0, 0.1, 0.6, 0.3], [0.4, 0.5, 0.1, 0.0]])
    path = write_records(tmp_path / "soft.jsonl", records=[record(0, "a b c", "x y z", rows)])
    (found,) = align(open_records(path), Linking(shift=True))
    assert found == {(1, 0), (2, 1), (1, 2)}
    main(["align", str(path), "--method", "shift", "--out", str(tmp_path / "links")])
    assert (tmp_path / "links").read_text() == "1-0 1-2 2-1\n"


def test_a_row_without_weight_has_no_link(tmp_path):
    rows = np.array([[0.7, 0.2, 0.1, 0], [0.1, 0.7, 0.2, 0], [0.0, 0.1, 0.9, 0], [0, 0, 0, 0]])
    one = record(0, "a b c", "x y z", rows)
    path = write_records(tmp_path / "soft.jsonl", records=[one])
    for end in ("exclude", "null"):
        assert align(open_records(path), Linking(shift=True, end=end)) == [{(1, 0), (2, 1)}]
    one.weights["attention"][1] = [0, 0, 0, 1]
    assert record_links(one) == {(0, 0), (2, 2)}
