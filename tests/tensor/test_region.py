from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import SelectionError
from ckpttool.tensor.region import bounding_box, fit_index, parse_index, within_box
from tests.support.refusals import refused

ALL = slice(None)

INDICES: list[tuple[str, tuple[int | slice | None, ...]]] = [
    ("0", (0,)),
    ("-1", (-1,)),
    (":", (ALL,)),
    ("::", (ALL,)),
    ("0:4", (slice(0, 4),)),
    (":4", (slice(None, 4),)),
    ("-4:", (slice(-4, None),)),
    ("::-1", (slice(None, None, -1),)),
    ("8:2:-3", (slice(8, 2, -3),)),
    ("0:4, :, -1", (slice(0, 4), ALL, -1)),
    ("...", (None,)),
    ("..., 0", (None, 0)),
    ("1,...,2", (1, None, 2)),
    (" 1 , 2 : 3 ", (1, slice(2, 3))),
    ("999999999999999999", (999999999999999999,)),
]

MALFORMED = ["", ",", "1,", "a", "1.5", "1:2:3:4", "--1", "- 1", "1 2", "..", "....", "…", "None"]
MALFORMED += ["-", "-:", ":-", "1:2:-", "+1", "0x1", "1_0", "9" * 5000, ":" + "9" * 5000, "[0]"]
MALFORMED += ["0" * 5000, "\x1b"]


@pytest.mark.parametrize(("text", "parts"), INDICES, ids=[row[0] for row in INDICES])
def test_parse(text: str, parts: tuple[int | slice | None, ...]) -> None:
    assert parse_index(text) == parts


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: repr(text[:9]))
def test_malformed(text: str) -> None:
    with pytest.raises(SelectionError):
        parse_index(text)


@pytest.mark.parametrize(
    ("text", "message"), [("1::0", "step"), ("...,...", "more than one"), ("a", "'a' in \\[a\\]")]
)
def test_messages(text: str, message: str) -> None:
    with refused(SelectionError, message):
        parse_index(text)


FITS: list[tuple[str, tuple[int, ...], tuple[int | slice, ...]]] = [
    ("0", (3, 4), (0, ALL)),
    ("-1", (3, 4), (2, ALL)),
    ("...", (3, 4), (ALL, ALL)),
    ("...", (), ()),
    ("...,1", (3, 4), (ALL, 1)),
    ("0,...,1", (3, 4, 5), (0, ALL, 1)),
    ("0,...,1", (3, 4), (0, 1)),
    ("1:2", (3,), (slice(1, 2),)),
    ("5:9", (3,), (slice(5, 9),)),
]


@pytest.mark.parametrize(("text", "shape", "index"), FITS)
def test_fit(text: str, shape: tuple[int, ...], index: tuple[int | slice, ...]) -> None:
    assert fit_index(parse_index(text), shape) == index


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("3", (3,), "out of bounds for axis 0 of size 3"),
        ("-4", (3,), "out of bounds"),
        ("0,9", (3, 4), "axis 1"),
        ("0", (0,), "out of bounds"),
        ("0", (), "1 indices"),
        ("0,0", (3,), "2 indices"),
        ("0,...,0", (3,), "2 indices"),
    ],
)
def test_does_not_fit(text: str, shape: tuple[int, ...], message: str) -> None:
    with refused(SelectionError, message):
        fit_index(parse_index(text), shape)


BOUND = st.one_of(st.none(), st.integers(-9, 9))
PART = st.one_of(
    st.integers(-6, 6),
    st.builds(slice, BOUND, BOUND, st.one_of(st.none(), st.integers(-4, 4).filter(bool))),
    st.none(),
)


def spelled(part: int | slice | None) -> str:
    if part is None:
        return "..."
    if isinstance(part, int):
        return str(part)
    return ":".join("" if n is None else str(n) for n in (part.start, part.stop, part.step))


@given(
    st.lists(st.integers(0, 6), max_size=4),
    st.lists(PART, min_size=1, max_size=4).filter(lambda parts: parts.count(None) < 2),
)
def test_numpy_says_the_same(shape: list[int], parts: list[int | slice | None]) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape)
    text = ",".join(map(spelled, parts))
    try:
        expected = array[tuple(... if part is None else part for part in parts)]
    except IndexError:
        with pytest.raises(SelectionError):
            fit_index(parse_index(text), tuple(shape))
        return
    index = fit_index(parse_index(text), tuple(shape))
    assert np.array_equal(array[index], expected)
    box = bounding_box(index, tuple(shape))
    assert all(0 <= low <= high <= dim for (low, high), dim in zip(box, shape, strict=True))
    cut = array[tuple(slice(low, high) for low, high in box)]
    assert np.array_equal(cut[within_box(index, tuple(shape), box)], expected)
    if expected.size and shape:
        # No smaller box would do: each of its faces holds an element that is wanted.
        where = [np.unique(axis) for axis in np.unravel_index(expected.ravel(), shape)]
        assert [(int(axis[0]), int(axis[-1]) + 1) for axis in where] == list(box)


def test_a_step_larger_than_any_dimension() -> None:
    index = fit_index((slice(None, None, 10**17),), (5,))
    assert bounding_box(index, (5,)) == ((0, 1),)
