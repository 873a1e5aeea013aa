"""Strategies for hostile values, and for valid things that are damaged in one or a few places."""

import copy
import json
from typing import Any, Callable, List

from hypothesis import strategies as st

NUMBERS = "0 -1 1 nan inf -inf 1e400 -0.0 1e-320 2147483648 0.5 1_0 \u0663".split() + ["9" * 25]
WORDS = ["", " ", "\t", "\x00", "\ufeff", "\u2028", "\xa0", "\ud800", "<pad>", "</s>", "a" * 3000]
WORDS += ["None", "[]", "{}", ",", "-", "="]
numbers = st.sampled_from(NUMBERS)
words = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30]),
    st.sampled_from([0.5, -0.0, 1e300, 5e-324, float("nan"), float("inf"), float("-inf")]),
    st.integers(-3, 30),
    words,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


# parts of files that readers stumble over
PARTS = [b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n", b"\n\n", b"\t", b" ", b"\xc2\xa0"]
PARTS += [b"\xe2\x80\xa8", b"9" * 30, b"9" * 5000, b"[" * 100000 + b"]" * 100000, b'{"a":' * 50000, b"a" * 100000]
PARTS += b'NaN Infinity 1e400 -1 null true {} [] "" " , - ? 0 1 1-1 5?7'.split()


@st.composite
def damaged_bytes(draw: Any, data: bytes, most: int = 3) -> bytes:
    """``data`` with one to ``most`` changes: bits flipped, cut, repeated, left out, or with a strange part in it."""
    for _ in range(draw(st.integers(1, most))):
        place = draw(st.integers(0, len(data)))
        size = draw(st.integers(1, 40))
        change = draw(st.sampled_from(["flip", "cut", "leave out", "repeat", "insert", "replace"]))
        if change == "flip" and place < len(data):
            data = data[:place] + bytes([data[place] ^ 1 << draw(st.integers(0, 7))]) + data[place + 1 :]
        elif change == "cut":
            data = data[:place]
        elif change == "leave out":
            data = data[:place] + data[place + size :]
        elif change == "repeat":
            data = data[:place] + data[place : place + size] * draw(st.integers(2, 5)) + data[place + size :]
        else:
            part = draw(st.one_of(st.sampled_from(PARTS), st.binary(max_size=8)))
            data = data[:place] + part + data[place + size * (change == "replace") :]
    return data


def places_of(value: Any) -> List[List[Any]]:
    """The paths to everything in a nested value, itself included."""
    found: List[List[Any]] = [[]]
    if isinstance(value, dict):
        inner = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list) else []
    for key, one in inner:
        found += [[key, *path] for path in places_of(one)]
    return found


@st.composite
def damaged_value(draw: Any, value: Any, by: st.SearchStrategy = values, most: int = 2) -> Any:
    """A nested value with one to ``most`` parts replaced, left out, added or repeated."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, most))):
        *path, last = draw(st.sampled_from(places_of(value))) or [None]
        if last is None:
            return draw(by)
        inside = value
        for key in path:
            inside = inside[key]
        change = draw(st.sampled_from(["replace", "replace", "leave out", "add"]))
        if change == "replace":
            inside[last] = draw(by)
        elif change == "leave out":
            del inside[last]
        elif isinstance(inside, list):
            inside.insert(last, copy.deepcopy(inside[last]) if draw(st.booleans()) else draw(by))
        else:
            inside[draw(words)] = draw(by)
        if not isinstance(value, (dict, list)) or not value:
            break
    return value


@st.composite
def damaged_lines(draw: Any, lines: List[Any], write: Callable[[Any], str] = json.dumps) -> bytes:
    """Lines of JSON (or of what ``write`` writes), with values damaged, or with the bytes of the file damaged."""
    lines = list(lines)
    if draw(st.booleans()):
        place = draw(st.integers(0, len(lines) - 1))
        lines[place] = draw(damaged_value(lines[place]))
    elif draw(st.booleans()):
        place = draw(st.integers(0, len(lines) - 1))
        lines.insert(draw(st.integers(0, len(lines))), lines[place])
    data = "".join(write(line) + "\n" for line in lines).encode("utf-8", "surrogatepass")
    return draw(damaged_bytes(data, 2)) if draw(st.integers(0, 2)) == 0 else data
