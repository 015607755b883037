from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CkptError, CorruptError
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import TensorSlice, check_coverage, decode_slice, encode_slice
from tests.support import encoder
from tests.support.limits import memory_limit, time_limit
from tests.support.refusals import refused
from tests.support.slices import parse_slice

FULL = (0, -1)
Extents = tuple[tuple[int, int], ...]

# (id, as TensorFlow spells it, bytes, extents)
SLICES: list[tuple[str, str, str, Extents]] = [
    ("first rows", "0,2:-", "0a0210020a00", ((0, 2), FULL)),
    ("last row", "2,1:-", "0a04080210010a00", ((2, 1), FULL)),
    ("length spelled out", "0,4", "0a021004", ((0, 4),)),
    ("all of it", "-:-", "0a000a00", (FULL, FULL)),
    ("scalar", "", "", ()),
    ("three dimensions", "1,2:-:3,4", "0a04080110020a000a0408031004", ((1, 2), FULL, (3, 4))),
]


@pytest.mark.parametrize(
    ("text", "code", "extents"), [row[1:] for row in SLICES], ids=[row[0] for row in SLICES]
)
def test_text_and_bytes_both_ways(text: str, code: str, extents: Extents) -> None:
    part = TensorSlice(extents)
    assert str(part) == text
    assert parse_slice(text) == part
    assert encode_slice(part).hex() == code
    assert decode_slice(bytes.fromhex(code)) == part
    assert part.is_full == all(extent == FULL for extent in extents)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("0a020802", "start but no length"),
        ("0a0b10ffffffffffffffffff01", "length -1"),
        ("0a0210", "varint|past its end"),
    ],
)
def test_bad_bytes(code: str, message: str) -> None:
    with refused(CorruptError, message):
        decode_slice(bytes.fromhex(code))


# (id, extents, shape of the tensor, bounds)
BOUNDS: list[tuple[str, Extents, Shape, Extents]] = [
    ("part", ((1, 2), (0, 3)), (4, 3), ((1, 3), (0, 3))),
    ("full", (FULL, (2, 1)), (4, 3), ((0, 4), (2, 3))),
    ("scalar", (), (), ()),
    ("full of nothing", (FULL, (0, 1)), (0, 1), ((0, 0), (0, 1))),
    ("last element", ((3, 1),), (4,), ((3, 4),)),
]

# (id, extents, shape of the tensor, message)
NO_BOUNDS: list[tuple[str, Extents, Shape, str]] = [
    ("too few dimensions", ((0, 1),), (2, 2), "rank"),
    ("too many dimensions", ((0, 1), (0, 1)), (2,), "rank"),
    ("past the end", ((2, 3),), (4,), "does not fit"),
    ("start past the end", ((5, 1),), (4,), "does not fit"),
    ("negative start", ((-1, 2),), (4,), "does not fit"),
    ("no length", ((1, 0),), (4,), "does not fit"),
    ("length of nothing", ((0, 0),), (0,), "does not fit"),
    ("negative length", ((0, -2),), (4,), "does not fit"),
    ("full length from elsewhere", ((3, -1),), (4,), "does not fit"),
    ("64 bits wrap", ((2**63 - 1, 2**63 - 1),), (4,), "does not fit"),
]


@pytest.mark.parametrize(
    ("extents", "shape", "bounds"), [row[1:] for row in BOUNDS], ids=[row[0] for row in BOUNDS]
)
def test_bounds(extents: Extents, shape: Shape, bounds: Extents) -> None:
    part = TensorSlice(extents)
    assert part.bounds(shape) == bounds
    assert part.shape(shape) == tuple(stop - start for start, stop in bounds)
    assert part.covers(shape) == (part.shape(shape) == shape)


@pytest.mark.parametrize(
    ("extents", "shape", "message"),
    [row[1:] for row in NO_BOUNDS],
    ids=[row[0] for row in NO_BOUNDS],
)
def test_no_bounds(extents: Extents, shape: Shape, message: str) -> None:
    with refused(CorruptError, message):
        TensorSlice(extents).bounds(shape)


def parts(*texts: str) -> list[TensorSlice]:
    return [parse_slice(text) for text in texts]


# (id, shape, slices)
COVERED: list[tuple[str, Shape, list[TensorSlice]]] = [
    ("rows", (3, 2), parts("0,2:-", "2,1:-")),
    ("any order", (6,), parts("4,2", "0,2", "2,2")),
    ("one slice that spells it out", (4,), parts("0,4")),
    ("grid", (2, 2), parts("0,1:0,1", "0,1:1,1", "1,1:0,1", "1,1:1,1")),
    ("like bricks", (2, 4), parts("0,1:0,1", "0,1:1,3", "1,1:0,3", "1,1:3,1")),
    ("pinwheel", (3, 3), parts("0,1:0,2", "0,2:2,1", "2,1:1,2", "1,2:0,1", "1,1:1,1")),
    ("no elements", (0, 4), parts("-:0,4")),
    ("huge", (2**40, 2**10), parts("0,5:-", f"5,{2**40 - 5}:-")),
    ("scalar", (), parts("")),
]

UNCOVERED: list[tuple[str, Shape, list[TensorSlice], str]] = [
    ("gap at the end", (3, 2), parts("0,2:-"), "gap: 4 of 6"),
    ("gap in the middle", (3,), parts("0,1", "2,1"), "gap: 2 of 3"),
    ("no slice", (3,), [], "gap: 0 of 3"),
    ("same slice twice", (2,), parts("0,1", "0,1"), "overlap"),
    ("overlap that hides a gap", (4,), parts("0,2", "1,2"), "overlap"),
    ("more than everything", (2,), parts("0,2", "0,1"), "overlap"),
    ("full and a part", (2,), parts("-", "0,1"), "overlap"),
    ("crossing", (3, 3), parts("0,3:1,1", "1,1:0,3", "0,1:0,1", "2,1:0,1", "0,1:2,1"), "overlap"),
    ("past the end", (2,), parts("0,1", "1,2"), "does not fit"),
]


@pytest.mark.parametrize(
    ("shape", "slices"), [row[1:] for row in COVERED], ids=[row[0] for row in COVERED]
)
def test_covered(shape: Shape, slices: list[TensorSlice]) -> None:
    for order in itertools.islice(itertools.permutations(slices), 30):
        check_coverage(shape, order)


@pytest.mark.parametrize(
    ("shape", "slices", "message"),
    [row[1:] for row in UNCOVERED],
    ids=[row[0] for row in UNCOVERED],
)
def test_uncovered(shape: Shape, slices: list[TensorSlice], message: str) -> None:
    for order in itertools.islice(itertools.permutations(slices), 30):
        with refused(CorruptError, message):
            check_coverage(shape, order)


def diagonal(rank: int, length: int) -> tuple[Shape, list[TensorSlice]]:
    """Return slices that cut every axis in many places, so that a map of cells would be huge."""
    side = 10 * length
    head = TensorSlice(((0, side - length), *[(0, side)] * (rank - 1)))
    cells = [
        TensorSlice(((side - length + at, 1), *[(3 * at, 1)] * (rank - 1))) for at in range(length)
    ]
    tail = TensorSlice(((side - length, length), *[(0, side)] * (rank - 1)))
    return (side,) * rank, [head, *cells, tail]


@pytest.mark.parametrize(("rank", "length"), [(2, 3000), (4, 300), (8, 300), (60, 50)])
def test_a_map_of_cells_that_would_be_huge_is_not_made(rank: int, length: int) -> None:
    shape, slices = diagonal(rank, length)
    with (
        memory_limit(512 << 20),
        time_limit(10),
        refused(CkptError, r"overlap|too many|more elements"),
    ):
        check_coverage(shape, slices)


@pytest.mark.parametrize("rank", [33, 65, 254])
def test_more_dimensions_than_numpy_has(rank: int) -> None:
    shape = (2, *[1] * (rank - 1))
    halves = [TensorSlice(((at, 1), *[(0, 1)] * (rank - 1))) for at in (0, 1)]
    check_coverage(shape, halves)
    with refused(CorruptError, "overlap"):
        check_coverage(shape, [halves[0], halves[0]])


def test_many_slices_in_a_row_take_little_time() -> None:
    slices = [TensorSlice(((at, 1), FULL)) for at in range(20_000)]
    with time_limit(10):
        check_coverage((20_000, 3), slices)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[Shape, list[Extents]]:
    """Draw a shape, cut into boxes: each time a random box in two along a random axis."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    boxes = [tuple((0, dim) for dim in shape)]
    for _ in range(draw(st.integers(0, 12))):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(shape) - 1))
        start, length = box[axis]
        cut = draw(st.integers(0, length))
        halves = [(start, cut), (start + cut, length - cut)]
        boxes += [(*box[:axis], half, *box[axis + 1 :]) for half in halves if half[1]]
    return shape, draw(st.permutations(boxes))


@given(partitions())
def test_every_partition_is_covered(case: tuple[Shape, list[Extents]]) -> None:
    shape, boxes = case
    check_coverage(shape, [TensorSlice(box) for box in boxes])


@given(partitions(), st.data())
def test_a_changed_partition_is_not(case: tuple[Shape, list[Extents]], data: st.DataObject) -> None:
    shape, boxes = case
    at = data.draw(st.integers(0, len(boxes) - 1))
    axis = data.draw(st.integers(0, len(shape) - 1))
    start = data.draw(st.integers(0, shape[axis] - 1))
    length = data.draw(st.integers(1, shape[axis] - start))
    box = boxes[at]
    changed = (*box[:axis], (start, length), *box[axis + 1 :])
    if changed == box:
        changed = boxes[data.draw(st.integers(0, len(boxes) - 1))]
        if changed == box:
            return
    slices = [TensorSlice(other) for other in (*boxes[:at], changed, *boxes[at + 1 :])]
    with refused(CorruptError, r"gap|overlap"):
        check_coverage(shape, slices)


EXTENT = st.one_of(st.just(FULL), st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1)))


@given(st.lists(EXTENT, max_size=5))
def test_second_opinion(extents: list[tuple[int, int]]) -> None:
    part = TensorSlice(tuple(extents))
    assert encode_slice(part) == encoder.slice_proto(extents)
    assert decode_slice(encode_slice(part)) == part
    assert parse_slice(str(part)) == part


@given(st.binary(max_size=40))
def test_any_bytes_end_in_a_slice_or_an_error(raw: bytes) -> None:
    try:
        part = decode_slice(raw)
    except CorruptError:
        return
    assert all(length >= -1 for _, length in part.extents)
