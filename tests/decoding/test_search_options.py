"""Options of search: refused in one line by every tool that translates, or obeyed in every batch."""

from pathlib import Path

import pytest
import torch
from fairseq import search
from fairseq.data import Dictionary
from in_process import run_tool

from fairseq_attn_plugin.decoding.options import check_search
from fairseq_attn_plugin.errors import OptionError

from cli import USER_DIR


class Options:
    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"beam": 0}, "--beam 0: must be at least 1"),
        ({"beam": 2, "nbest": 9}, "--nbest 9: must be at most --beam 2"),
        ({"lenpen": float("nan")}, "--lenpen nan: must be a number of at most 50"),
        ({"lenpen": 1e10}, "--lenpen 10000000000.0: must be a number of at most 50"),
        ({"temperature": 0}, "--temperature 0: must be above 0"),
        ({"max_len_a": float("inf")}, "--max-len-a inf: must be 0 or more"),
        ({"prefix_size": -1}, "--prefix-size -1: must be 0 or more"),
        ({"min_len": -1}, "--min-len -1: must be 0 or more"),
        ({"sampling_topp": 2.0}, "--sampling-topp 2.0: must be above 0 and at most 1"),
        ({"sampling_topk": -2}, "--sampling-topk -2: must be at least 1"),
        ({"diverse_beam_groups": 2.5}, "--diverse-beam-groups 2.5: must be at least 1, a whole number"),
        ({"diverse_beam_groups": 2}, "--diverse-beam-groups 2: must divide --beam 5"),
        ({"beam": None, "nbest": 5}, "--beam None: must be at least 1"),
        ({"beam": 5, "nbest": None}, "--nbest None: must be at least 1"),
        ({"temperature": "hot"}, "--temperature 'hot': must be above 0"),
        ({"beam": 5, "diverse_beam_groups": 2}, "--diverse-beam-groups 2: must divide --beam 5"),
        ({"sampling": True, "diversity_rate": 0.5}, "--sampling and --diversity-rate: are different searches"),
        ({"retain_iter_history": True}, "--retain-iter-history: is for models"),
    ],
)
def test_wrong_values(options: "dict[str, object]", line: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_search(Options(**options))
    assert str(caught.value).startswith(line)


def test_what_is_not_given_is_not_checked() -> None:
    check_search(Options())
    check_search(Options(beam=5, nbest=5, diverse_beam_groups=-1, diversity_rate=-1.0, sampling_topk=-1, lenpen=-1.0))
    check_search(Options(sampling_topk=0, sampling_topp=0.0, diverse_beam_groups=0))
    check_search(Options(diverse_beam_groups=5))  # of the default width


def test_the_tools(zoo: "object", tiny_data: Path) -> None:
    path = zoo("lstm_soft")  # type: ignore[operator]
    command = ("fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", getattr(path, "last", path))
    for options, line in (
        ("--nbest 9 --beam 2", "--nbest 9: must be at most --beam 2"),
        ("--constraints", "--constraints: fairseq-interactive reads them"),
        ("--wu-penalty 99999999999", "--wu-penalty 99999999999.0: must be 0 or more and at most 50"),
        ("--num-workers 99999999999", "--num-workers 99999999999: must be 0 to 1000"),
        ("--shard-id 3", "--shard-id 3: must be less than --num-shards 1"),
    ):
        assert run_tool(*command, *options.split(), fails=True).error.startswith(line)
    # the second batch holds sentences whose numbers are beyond its size
    found = run_tool(*command, "--batch-size", 4, "--beam", 4, "--diverse-beam-groups", 2).stdout
    assert sum(line.startswith("H-") for line in found.splitlines()) == 40


def test_diverse_search_does_not_depend_on_the_numbers_of_sentences() -> None:
    dictionary = Dictionary()
    for number in range(6):
        dictionary.add_symbol(f"w{number}")
    results = []
    for first in (0, 100):
        torch.manual_seed(1)
        searching = search.DiverseBeamSearch(dictionary, 2, 0.5)
        numbers = torch.tensor([2, 0, 1]) + first
        scores = torch.zeros(3, 4, 0)
        for step in range(4):
            kept = slice(0, None) if step < 2 else slice(1, None)  # the first sentence is finished
            lprobs = torch.randn(3, 4, len(dictionary)).log_softmax(-1)[kept]
            found = searching.step(step, lprobs, scores[kept], None, numbers[kept])
            results.append(torch.stack([part.double() for part in found]))
            scores = torch.randn(3, 4, step + 1)
    for one, other in zip(results[:4], results[4:]):
        assert torch.equal(one, other)
