from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import UnsupportedError
from ckpttool.query.verify.slices import coverage_problems
from ckpttool.tensor.slices import TensorSlice
from tests.support.limits import memory_limit, time_limit
from tests.support.slices import parse_slice

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def sliced(draw: st.DrawFn) -> tuple[tuple[int, ...], list[TensorSlice]]:
    """Draw a shape and slices that lie within it, whether they cover it or not."""
    shape = draw(shapes)
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        extents = []
        for dim in shape:
            start = draw(st.integers(0, max(dim - 1, 0)))
            length = draw(st.integers(1, dim - start)) if dim else -1
            extents.append((start, length))
        parts.append(TensorSlice(tuple(extents)))
    return shape, parts


@given(sliced())
def test_as_counted_cell_by_cell(case: tuple[tuple[int, ...], list[TensorSlice]]) -> None:
    shape, parts = case
    counts = dict.fromkeys(itertools.product(*map(range, shape)), 0)
    for part in parts:
        for cell in itertools.product(*(range(*bounds) for bounds in part.bounds(shape))):
            counts[cell] += 1
    problems = coverage_problems(shape, parts)
    codes = {code for code, _ in problems}
    assert ("slice-overlap" in codes) == any(count > 1 for count in counts.values())
    missing = [cell for cell, count in counts.items() if not count]
    assert ("slice-gap" in codes) == bool(missing)
    if missing:
        (message,) = (text for code, text in problems if code == "slice-gap")
        assert message.endswith(f"the first at {list(missing[0])}")
        if "slice-overlap" not in codes:
            assert f" {len(missing)} of {len(counts)} elements" in message


@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        ((6, 4), ["2,3:0,4", "0,2:0,4", "5,1:0,4"]),
        ((6, 4), ["0,6:0,3", "-:3,1"]),
        ((4, 4), ["0,2:0,2", "0,2:2,2", "2,2:0,2", "2,2:2,2"]),
        # A ring around a middle: no cut goes through.
        ((3, 3), ["0,1:0,2", "0,2:2,1", "2,1:1,2", "1,2:0,1", "1,1:1,1"]),
        ((), [""]),
        ((0, 4), ["-:0,2", "-:2,2"]),
        ((0, 4), []),
    ],
)
def test_slices_that_fit(shape: tuple[int, ...], parts: list[str]) -> None:
    assert coverage_problems(shape, [parse_slice(part) for part in parts]) == []


def test_every_overlap_is_told() -> None:
    parts = [parse_slice(part) for part in ("0,3", "2,3", "4,2", "0,1")]
    assert coverage_problems((6,), parts) == [
        ("slice-overlap", "slices 0,3 and 2,3 overlap"),
        ("slice-overlap", "slices 0,3 and 0,1 overlap"),
        ("slice-overlap", "slices 2,3 and 4,2 overlap"),
    ]


def test_the_same_slice_twice() -> None:
    part = parse_slice("0,3")
    assert [code for code, _ in coverage_problems((3,), [part, part])] == ["slice-overlap"]
    scalar = TensorSlice(())
    assert [code for code, _ in coverage_problems((), [scalar, scalar])] == ["slice-overlap"]


def test_no_slices_at_all() -> None:
    assert coverage_problems((2, 3), []) == [
        (
            "slice-gap",
            "its slices leave a gap: 6 of 6 elements are missing, the first at [0, 0]",
        )
    ]


@pytest.mark.large
@pytest.mark.parametrize("count", [10_000])
def test_many_slices_take_little_time(count: int) -> None:
    rows = [TensorSlice(((at, 1), (0, -1))) for at in range(count)]
    side = 100
    grid = [TensorSlice(((at // side, 1), (at % side, 1))) for at in range(side * side)]
    with memory_limit(64 << 20), time_limit(10):
        assert coverage_problems((count, 8), rows) == []
        assert coverage_problems((side, side), grid) == []
        assert len(coverage_problems((count, 8), rows[1:])) == 1


def test_claims_of_very_many_elements() -> None:
    # A diagonal of single cells in a cube that no memory holds.
    parts = [TensorSlice(((at, 1),) * 4) for at in range(300)]
    with memory_limit(64 << 20), time_limit(10):
        (problem,) = coverage_problems((10_000,) * 4, parts)
    assert problem[0] == "slice-gap" and problem[1].endswith("[0, 0, 0, 1]")


def bars(count: int) -> list[TensorSlice]:
    """Return bars along two axes in two planes: they meet along each axis and overlap nowhere."""
    first = [TensorSlice(((0, -1), (at, 1), (0, 1))) for at in range(count)]
    second = [TensorSlice(((at, 1), (0, -1), (1, 1))) for at in range(count)]
    return first + second


def test_slices_that_form_no_grid(exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 2_000
    if not exhaustive:
        count = 500
        monkeypatch.setattr("ckpttool.query.verify.slices._MAX_COMPARISONS", 10_000)
    shape = (count, count, 2)
    parts = bars(count)
    with time_limit(30):
        assert coverage_problems(shape, parts) == []
        ((code, _),) = coverage_problems(shape, parts[1:])
        assert code == "slice-gap"
        ((code, _),) = coverage_problems(shape, [*parts[1:], parts[-1]])
        assert code == "slice-overlap"


@pytest.mark.large
def test_slices_that_form_no_grid_and_are_too_many() -> None:
    with time_limit(30), pytest.raises(UnsupportedError, match="too many"):
        coverage_problems((10_500, 10_500, 2), bars(10_500))
