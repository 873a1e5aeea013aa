"""The agent that hops: its world and its learning against exact ones, the table, the command line, mistakes."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.voting import q_learning, word_table
from fairseq_attn_plugin.analysis.voting.embeddings import read_target_words, translation_task, unit_rows
from fairseq_attn_plugin.analysis.voting.q_learning import (
    Hops,
    QNetwork,
    Replay,
    Settings,
    States,
    _Episodes,
    greedy_hops,
    learn,
    nearest,
    paths,
    q_targets,
)
from fairseq_attn_plugin.analysis.voting.word_table import FORMAT
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.vocabulary import check_vocabulary


def some_vectors(starts=12, words=10, width=4, seed=0):
    """Vectors of start words and source words; the first of each have none."""
    rng = np.random.default_rng(seed)
    vectors = [unit_rows(rng.normal(size=(count, width))) for count in (starts, words)]
    for part in vectors:
        part[0] = 0
    return [torch.from_numpy(part) for part in vectors]


def slow_way(here, visited, left, source, threshold):
    """[(word, cosine), ...] of all hops that are left."""
    ways = [
        (float(here @ source[word]), word)
        for word in range(len(source))
        if word not in visited and source[word].any() and here.any()
    ]
    ways = [way for way in ways if way[0] >= threshold]
    if not left or not ways:
        return []
    cosine, word = max(ways)
    return [(word, cosine), *slow_way(source[word], visited | {word}, left - 1, source, threshold)]


def best_values(path, hop_cost):
    """Exact Q of hopping, ``[S, H]``, by dynamic programming; -inf after the last hop. Stopping has the value 0.

    Q(S_i, hop) = cos(S_i+1, S_i) - C + max(0, Q(S_i+1, hop))
    """
    result = torch.full_like(path.cosines, float("-inf"))
    after = torch.zeros(len(result))
    for step in reversed(range(result.size(1))):
        there = path.words[:, step].ge(0)
        result[there, step] = (path.cosines[:, step] - hop_cost + after)[there]
        after = result[:, step].clamp(min=0)
    return result


def world(start, source, threshold, horizon):
    return paths(nearest(start, source, 1), nearest(source, source, horizon), threshold, horizon)


@pytest.mark.parametrize("threshold", [-0.99, 0.0, 0.5])
@pytest.mark.parametrize("horizon", [1, 3, 7, 20])
def test_paths_against_recursion(monkeypatch, threshold, horizon):
    """Also that the nearest ``horizon`` source words are enough, and that chunks change nothing."""
    monkeypatch.setattr(q_learning, "_CHUNK", 25)
    start, source = some_vectors()
    path = world(start, source, threshold, horizon)
    longest = 0
    for row in range(len(start)):
        way = slow_way(start[row], frozenset(), horizon, source, threshold)
        found = [word for word in path.words[row].tolist() if word >= 0]
        assert found == [word for word, _ in way]
        assert path.words[row, len(found) :].eq(-1).all() and path.cosines[row, len(found) :].eq(0).all()
        torch.testing.assert_close(path.cosines[row, : len(way)], torch.tensor([cosine for _, cosine in way]))
        longest = max(longest, len(found))
    assert not path.words[0].ge(0).any()
    if threshold < 0 and horizon >= 7:
        assert longest == min(horizon, 9)
    start, source = some_vectors(width=50)
    source[3] = start[5]
    assert world(start, source, 1.0, 4).words.ge(0).nonzero().tolist() == [[5, 0]]  # equal vectors pass


def test_replay_keeps_the_last():
    replay, generator = Replay(5), torch.Generator().manual_seed(1)

    def add(*rows):
        row = torch.tensor(rows)
        replay.add(row=row, step=row + 1, action=row % 2, reward=row / 10, ended=row > 3)

    add(1, 2, 3)
    assert len(replay) == 3 and set(replay.sample(200, generator)["row"].tolist()) == {1, 2, 3}
    add(4, 5, 6, 7)
    batch = replay.sample(500, generator)
    assert len(replay) == 5 and set(batch["row"].tolist()) == {3, 4, 5, 6, 7}
    # the columns of a transition stay together
    assert torch.equal(batch["step"], batch["row"] + 1) and torch.equal(batch["reward"], batch["row"] / 10)


def test_what_the_network_sees_and_learns():
    reward, ended = torch.tensor([0.5, 0.5, -0.2, 0.0]), torch.tensor([False, True, False, True])
    following = torch.tensor([[0.0, 0.9], [0.0, 0.9], [0.1, -3.0], [5.0, 5.0]])
    assert q_targets(reward, ended, following).tolist() == pytest.approx([1.4, 0.5, -0.1, 0.0])
    assert [layer.out_features for layer in QNetwork(5) if isinstance(layer, torch.nn.Linear)] == [128, 256, 128, 2]
    start, source = some_vectors()
    path = world(start, source, -0.9, 4)
    seen = States.of(path, start, source).see(torch.tensor([2, 2, 2, 5]), torch.tensor([0, 1, 4, 3]))
    expected = [start[2], source[path.words[2, 0]], source[path.words[2, 3]], source[path.words[5, 2]]]
    torch.testing.assert_close(seen[:, :4], torch.stack(expected) * 2)  # sqrt(4)
    assert seen[:, 4].tolist() == [1.0, 0.75, 0.0, 0.25]


def learnable(horizon=4, cost=0.68):
    """A world in which no two paths look the same to the network and go on differently, and no choice is close."""
    start, source = some_vectors(120, 40, 8, seed=7)
    path = world(start, source, 0.2, horizon)
    values, ways, kept = best_values(path, cost), {}, []
    for row, words in enumerate(path.words.tolist()):
        own = {(word, step): tuple(words[step:]) for step, word in enumerate(words) if word >= 0}
        clear = values[row][values[row].isfinite()].abs().gt(0.03).all()
        if clear and all(ways.get(place, way) == way for place, way in own.items()):
            ways.update(own)
            kept.append(row)
    path = Hops(path.words[kept], path.cosines[kept])
    return path, States.of(path, start[kept], source)


def test_learns_the_exact_values_and_policy():
    cost = 0.68
    path, states = learnable(cost=cost)
    exact = best_values(path, cost)
    ideal = exact.gt(0).int().cumprod(1).sum(1)  # hops until the first one that is not worth its cost
    possible = path.words.ge(0)
    # there is something to learn: to go on, to stop at once or later
    assert len(ideal) > 40 and len(set(ideal.tolist())) == 5
    network = learn(path, states, torch.ones(len(ideal)), Settings(hop_cost=cost, updates=700, seed=2))
    assert torch.equal(greedy_hops(network, path, states), ideal)
    rows = torch.arange(len(ideal))
    q = torch.stack([network(states.see(rows, torch.full_like(rows, step))) for step in range(4)], 1).detach()
    assert (q[..., 1] - exact)[possible].abs().max() < 0.05 and q[..., 0][possible].abs().max() < 0.05


def test_seeds_and_frequencies():
    path, states = learnable()
    settings = Settings(updates=20, hop_cost=0.5, seed=3)
    state = torch.random.get_rng_state()
    first = learn(path, states, torch.ones(len(path.words)), settings)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.rand(5)
    for seed in (3, 4):
        again = learn(path, states, torch.ones(len(path.words)), settings._replace(seed=seed)).state_dict()
        assert all(torch.equal(value, again[name]) for name, value in first.state_dict().items()) == (seed == 3)
    # episodes begin at the words that have a frequency, and of those at the ones that a hop leads from
    assert not path.words[0].ge(0).any()
    frequencies = torch.zeros(len(path.words))
    frequencies[0], frequencies[7] = 1e9, 1
    episodes = _Episodes(path, states, frequencies, settings, torch.Generator().manual_seed(1))
    for _ in range(9):
        assert set(episodes.act(first, 1.0)["row"].tolist()) == {7}


def test_command_line(tiny_data, tmp_path, capsys):
    """Every word of the tiny corpus is translated by one word, spelt backwards, that stands in the same pairs."""
    out = tmp_path / "words.json"
    command = [str(tiny_data), "--updates", "150"]
    cli.main(["election", *command, "--agent", str(out)])
    said = capsys.readouterr().out
    content = json.loads(out.read_text(encoding="utf-8"))
    assert content["words"] == {word: [word[::-1]] for word in content["words"]} and len(content["words"]) == 10
    assert (content["format"], content["threshold"], content["horizon"]) == (FORMAT, 0.79, 5)
    for side, language in (("source", "xx"), ("target", "yy")):
        own = Dictionary.load(str(tiny_data / f"dict.{language}.txt"))
        check_vocabulary(content[f"{side}_vocabulary"], own, "--election-table", out, side)
    assert "xx: 10 of 12 words have a vector, 100.0% of the running text" in said
    assert "10 of 12 target words (100.0% of the running text) name 10 source words, 10 different ones" in said
    # the same again; then every hop at a loss
    again = [*command, "--agent", str(tmp_path / "again.json")]
    cli.main(["election", *again])
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()
    with pytest.raises(OptionError, match=r"--hop-cost 1.5: no hop is worth it; the highest cosine is 1, so give less"):
        cli.main(["election", *again, "--hop-cost", "1.5"])


def write_vectors(folder, **words):
    path = folder / f"{next(iter(words))}.vec"
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in words.items()))
    return str(path)


def test_given_embeddings(tiny_data, tmp_path):
    """ama - bel - cor on a circle, 30 degrees apart, and the target word leb a little before ama."""

    def at(degrees):
        return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), 0]

    source = write_vectors(tmp_path, ama=at(0), bel=at(30), cor=at(60), dun=[0, 0, 1], beyond=at(1))
    target = write_vectors(tmp_path, leb=at(-10), roc=[0, 0, -1], jat=at(3))
    out = tmp_path / "words.json"
    command = [str(tiny_data), "--agent", str(out), "--updates", "120"]
    for options, expected in (
        ([], ["ama", "bel", "cor"]),
        (["--horizon", "2"], ["ama", "bel"]),
        (["--hop-cost", "0.92"], ["ama"]),  # cosines 0.985, 0.866, 0.866
    ):
        cli.main(["election", *command, "--embeddings", source, target, *options])
        assert json.loads(out.read_text())["words"] == {"leb": expected}
    # one file of both languages: ama, which both have, names itself
    merged = write_vectors(tmp_path, ama=at(0), leb=at(10), cor=at(80))
    cli.main(["election", *command, "--embeddings", merged])
    assert json.loads(out.read_text())["words"] == {"ama": ["ama"], "leb": ["ama"]}
    wide = write_vectors(tmp_path, roc=[1, 2])
    for files, options, said in (
        ([source, target], ["--threshold", "0.99"], r"--threshold 0.99: .* highest cosine is 0.9848 \(leb - ama\);"),
        ([source, wide], [], "--embeddings .*roc.vec: have vectors of width 3 and 2; must be of"),
        ([source, target, wide], [], "--embeddings: 3 files are given; must be one, or one a language"),
        ([wide], [], r"--embeddings .*roc.vec: has no vector for any word of the source .* \(xx"),
        ([merged], ["--min-count", "2"], "--min-count 2: is of vectors made from the pairs, not of --emb"),
        ([source, target], ["--agent", target], "--agent .*leb.vec: is one of the files that are read, and would be"),
    ):
        with pytest.raises(OptionError, match=said):
            cli.main(["election", *command, "--embeddings", *files, *options])


@refuses(
    (["--horizon", "0"], "--horizon 0: must be at least 1"),
    (["--hop-cost", "-0.1"], r"--hop-cost -0\.1: must be at least 0"),
    (["--min-count", "100000"], "--min-count 100000: no word of the source is that frequent"),
    (["--path", "b.pt"], r"--path b\.pt: excludes --agent; leave one out"),
    (["--embeddings", "absent.vec"], r"--embeddings absent\.vec: cannot be read: No such file"),
    (["--out", "x"], "--out x: excludes --agent; leave one out"),
)
def test_wrong_options(options, tiny_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield lambda: cli.main(["election", str(tiny_data), "--agent", str(tmp_path / "words.json"), *options])
    assert not list(tmp_path.iterdir())


def test_start_words_are_those_of_a_split(tiny_data, tmp_path, monkeypatch):
    """Episodes begin at the target words of training or validation, by their counts in the split."""
    task = translation_task(str(tiny_data))
    for split in ("train", "valid"):
        task.load_dataset(split)
        words = torch.cat([item["target"] for item in task.dataset(split)])
        expected = words[words.ge(task.target_dictionary.nspecial)]
        assert read_target_words(task, str(tiny_data), split).tolist() == expected.tolist()
    out = tmp_path / "words.json"
    seen = []
    monkeypatch.setattr(word_table, "learn", lambda *given: seen.append(given[2]) or learn(*given))
    cli.main(["election", str(tiny_data), "--agent", str(out), "--updates", "20", "--start-split", "valid"])
    assert torch.equal(seen[0], torch.bincount(expected, minlength=len(task.target_dictionary)))
    data = shutil.copytree(tiny_data, tmp_path / "bin", ignore=shutil.ignore_patterns("valid*"))
    with pytest.raises(OptionError, match="^--start-split valid: .*bin is not there; binarise it"):
        cli.main(["election", str(data), "--agent", str(out), "--updates", "20", "--start-split", "valid"])


def test_wrong_folders(tiny_data, tmp_path):
    out = str(tmp_path / "words.json")
    with pytest.raises(OptionError, match="absent: is not a folder; give one that fairseq-preprocess wrote"):
        cli.main(["election", str(tmp_path / "absent"), "--agent", out])
    data = tmp_path / "bin"
    data.mkdir()
    with pytest.raises(OptionError, match="bin: is no data of two languages; give a folder that fairseq-preprocess"):
        cli.main(["election", str(data), "--agent", out])
    shutil.copytree(tiny_data, data, ignore=shutil.ignore_patterns("train*"), dirs_exist_ok=True)
    with pytest.raises(OptionError, match="bin: its training split is not there; binarise it with fairseq-preprocess"):
        cli.main(["election", str(data), "--agent", out])
    with pytest.raises(OptionError, match="--agent .*: cannot be written: it is a folder; name a file"):
        cli.main(["election", str(tiny_data), "--agent", str(data), "--updates", "1"])
