from __future__ import annotations

import itertools
import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import (
    ChecksumError,
    CorruptError,
)
from ckpttool.tensor.region import fit_index, parse_index
from tests.support import corruption, encoder
from tests.support.encoder import entry, slice_key, string_data, variant_data
from tests.support.handmade import Bundle, shard_path
from tests.support.refusals import refused

F32, F64, I32, U8, I16, I8, STRING, C64, I64, BOOL = range(1, 11)
QINT32, BFLOAT16, C128, F16, RESOURCE, VARIANT, U32 = 13, 14, 18, 19, 20, 21, 22
MIB = 1 << 20


def simple() -> Bundle:
    made = Bundle().add(b"f", F32, (2, 3), np.arange(6, dtype="<f4").tobytes())
    made.add_strings(b"s", (2,), [b"one", b"\xff\0"])
    made.add(b"x", U8, (), b"\x07")
    rows = [(((0, 2), (0, -1)), struct.pack("<4i", 0, 1, 2, 3)), (((2, 1), (0, -1)), bytes(8))]
    return made.add_slices(b"p", I32, (3, 2), rows)


# How a 4x6 int32 tensor may be partitioned.
PARTITIONS = [
    ("rows", ["0,1:-", "1,3:-"]),
    ("columns", ["-:0,2", "-:2,4"]),
    ("spelled out", ["0,2:0,6", "2,2:0,6"]),
    ("one slice spelled out", ["0,4:0,6"]),
    ("grid", ["0,2:0,3", "0,2:3,3", "2,2:0,3", "2,2:3,3"]),
    ("bricks", ["0,2:0,1", "0,2:1,5", "2,2:0,4", "2,2:4,2"]),
    ("pinwheel", ["0,1:0,4", "0,3:4,2", "3,1:2,4", "1,3:0,2", "1,2:2,2"]),
]
WHOLE = np.arange(24, dtype="<i4").reshape(4, 6)


def extents_of(text: str) -> tuple[tuple[int, int], ...]:
    pairs = (part.partition(",")[::2] for part in text.split(":"))
    return tuple((0, -1) if a == "-" else (int(a), int(b)) for a, b in pairs)


def cut_out(extents: tuple[tuple[int, int], ...]) -> bytes:
    box = tuple(slice(a, None if n == -1 else a + n) for a, n in extents)
    return np.ascontiguousarray(WHOLE[box]).tobytes()


@pytest.mark.parametrize("texts", [row[1] for row in PARTITIONS], ids=[r[0] for r in PARTITIONS])
def test_partitions(prefix: str, texts: list[str]) -> None:
    for order in itertools.islice(itertools.permutations(texts), 6):
        parts = [(extents_of(text), cut_out(extents_of(text))) for text in order]
        Bundle().add_slices(b"p", I32, (4, 6), parts).write(prefix)
        reader = BundleReader(prefix)
        assert reader.read("p").tolist() == WHOLE.tolist()
        for text in ("1:3,2:5", "::-1,::-2", "2", "...,3", "3:1,0", "-1,-1", "1:1"):
            index = fit_index(parse_index(text), (4, 6))
            assert np.array_equal(reader.read_region("p", index), WHOLE[index]), text
        found = b"".join(map(bytes, reader.chunks("p")))
        assert found == b"".join(data for _, data in parts)


def test_partitions_over_several_shards(prefix: str) -> None:
    made = Bundle(header=encoder.header(3), shards=[b"", b"", b""])
    for shard_id, text in ((2, "0,1:-"), (1, "1,3:-")):
        extents = extents_of(text)
        dims = (extents[0][1], 6)
        made.records[slice_key(b"p", extents)] = made.store(
            I32, dims, cut_out(extents), shard=shard_id
        )
    made.records[b"p"] = entry(I32, (4, 6), slices=[extents_of("0,1:-"), extents_of("1,3:-")])
    made.write(prefix)
    os.unlink(shard_path(prefix, 0, 3))
    reader = BundleReader(prefix)
    assert reader.read("p").tolist() == WHOLE.tolist()
    assert [os.path.basename(file.path) for file in reader.shard_files()] == [
        "m.data-00001-of-00003",
        "m.data-00002-of-00003",
    ]


@pytest.mark.parametrize("dtype", [F16, U32, STRING, VARIANT, BFLOAT16])
def test_partitions_of_dtypes_that_tensorflow_cannot_join(prefix: str, dtype: int) -> None:
    made = Bundle()
    extents = [((0, 1),), ((1, 2),)]
    for part, elements in zip(extents, ([b"a"], [b"bc", b""]), strict=True):
        if dtype == STRING:
            data, crc = string_data(elements)
        elif dtype == VARIANT:
            data, crc = variant_data(elements)
        else:
            data = bytes(range((4 if dtype == U32 else 2) * len(elements)))
            crc = encoder.masked_crc(data)
        made.records[slice_key(b"p", part)] = made.store(dtype, (len(elements),), data, crc=crc)
    made.records[b"p"] = entry(dtype, (3,), slices=extents)
    made.write(prefix)
    array = BundleReader(prefix).read("p")
    assert array.shape == (3,)
    if dtype == STRING:
        assert array.tolist() == [b"a", b"bc", b""]
    elif dtype == VARIANT:
        assert [element.serialized for element in array.tolist()] == [b"a", b"bc", b""]


HALVES = [((0, 2),), ((2, 2),)]

# (id, shape, extents listed, part of the message): the data is always there.
BAD_PARTITIONS = [
    ("gap", (4,), [HALVES[0]], "gap"),
    ("overlap", (4,), [((0, 2),), ((1, 3),)], "overlap"),
    ("overlap that hides a gap", (4,), [((0, 2),), ((1, 2),)], "overlap"),
    ("same slice twice", (4,), [HALVES[0], HALVES[0]], "overlap|twice"),
    ("slice of everything", (4,), [((0, -1),)], ""),
    ("scalar in slices", (), [()], ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dims", "extents", "message"),
    [row[1:] for row in BAD_PARTITIONS],
    ids=[row[0] for row in BAD_PARTITIONS],
)
def test_bad_partitions(
    prefix: str, dims: tuple[int, ...], extents: list[tuple[tuple[int, int], ...]], message: str
) -> None:
    made = Bundle().add(b"x", U8, (), b"\x07")
    parts = [(part, bytes(part[0][1] if part and part[0][1] > 0 else 4)) for part in extents]
    if dims == ():
        parts = [((), b"\0")]
    made.add_slices(b"p", U8, dims, parts)
    made.write(prefix)
    reader = BundleReader(prefix)
    assert reader.read("x") == 7
    if not message:
        # Nobody writes it, TensorFlow cannot read it; the answer must be right or a refusal.
        try:
            assert not reader.read("p").any()
        except CorruptError as error:
            assert error.key == "p"
        return
    with refused(CorruptError, message) as caught:
        reader.read("p")
    assert (caught.value.path, caught.value.key) == (prefix + ".index", "p")


def test_slices_that_share_their_bytes_make_nothing_large(prefix: str) -> None:
    made = Bundle(shards=[bytes(1000)])
    crc = encoder.masked_crc(bytes(1000))
    extents = [((at * 1000, 1000),) for at in range(1000)]
    for part in extents:
        made.records[slice_key(b"p", part)] = entry(U8, (1000,), size=1000, crc=crc)
    made.records[b"p"] = entry(U8, (1_000_000,), slices=extents)
    made.write(prefix)
    with refused(CorruptError, "more bytes than the 1000") as caught:
        BundleReader(prefix).read("p")
    assert caught.value.key == "p"


def test_a_damaged_slice(prefix: str) -> None:
    made = simple()
    made.shards[0] = corruption.flip(made.shards[0], 59, 1)
    made.write(prefix)
    reader = BundleReader(prefix)
    with pytest.raises(ChecksumError) as caught:
        reader.read("p")
    assert (caught.value.offset, caught.value.key) == (52, "p")
    # Rows that lie in the other slice are not touched by it.
    index = fit_index(parse_index("0:2"), (3, 2))
    assert reader.read_region("p", index).tolist() == [[0, 1], [2, 3]]
    pieces = reader.chunks("p")
    assert bytes(next(pieces)) == struct.pack("<4i", 0, 1, 2, 3)
    with pytest.raises(ChecksumError):
        list(pieces)


REGIONS = ["0", "1:", ":,1", "-1,-1", "::-1", "...", "0:0", "5:9", "1,::2"]


@pytest.mark.parametrize("text", REGIONS)
def test_regions(prefix: str, text: str) -> None:
    made = Bundle().add(b"f", F32, (2, 3), np.arange(6, dtype="<f4").tobytes())
    made.add_strings(b"s", (2, 3), [b"%d" % at for at in range(6)])
    made.write(prefix)
    reader = BundleReader(prefix)
    index = fit_index(parse_index(text), (2, 3))
    numbers = np.arange(6, dtype="<f4").reshape(2, 3)[index]
    found = reader.read_region("f", index)
    assert np.array_equal(found, numbers)
    expected = np.array([b"%d" % at for at in range(6)], object).reshape(2, 3)[index]
    assert np.array_equal(reader.read_region("s", index), expected)


def test_a_region_is_a_copy(prefix: str) -> None:
    raw = np.arange(100_000, dtype="<f4").tobytes()
    Bundle().add(b"f", F32, (100_000,), raw).write(prefix)
    with BundleReader(prefix) as reader:
        part = reader.read_region("f", (slice(1, 3),))
    # What it is a view of, if of anything, is not the map of the whole tensor.
    assert part.base is None or part.base.nbytes < 100
    assert part.tolist() == [1, 2]


def test_a_region_of_damaged_strings_is_refused(prefix: str) -> None:
    made = simple()
    made.shards[0] = corruption.flip(made.shards[0], 34, 1)
    made.write(prefix)
    with pytest.raises(ChecksumError):
        BundleReader(prefix).read_region("s", (0,))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.data(),
)
def test_any_region_of_any_partition(
    tmp_path_factory: pytest.TempPathFactory, dims: list[int], data: st.DataObject
) -> None:
    whole = np.arange(int(np.prod(dims)), dtype="<i4").reshape(dims)
    boxes = [tuple((0, dim) for dim in dims)]
    for _ in range(data.draw(st.integers(1, 5))):
        box = boxes.pop(data.draw(st.integers(0, len(boxes) - 1)))
        axis = data.draw(st.integers(0, len(dims) - 1))
        start, length = box[axis]
        cut = data.draw(st.integers(0, length))
        for half in ((start, cut), (start + cut, length - cut)):
            if half[1]:
                boxes.append((*box[:axis], half, *box[axis + 1 :]))
    parts = [
        (box, np.ascontiguousarray(whole[tuple(slice(a, a + n) for a, n in box)]).tobytes())
        for box in data.draw(st.permutations(boxes))
    ]
    prefix = str(tmp_path_factory.getbasetemp() / "region")
    Bundle().add_slices(b"p", I32, dims, parts).write(prefix)
    index = tuple(
        data.draw(
            st.one_of(
                st.integers(0, dim - 1),
                st.builds(
                    slice,
                    st.one_of(st.none(), st.integers(-7, 7)),
                    st.one_of(st.none(), st.integers(-7, 7)),
                    st.one_of(st.none(), st.sampled_from((-3, -2, -1, 1, 2, 3))),
                ),
            )
        )
        for dim in dims
    )
    with BundleReader(prefix) as reader:
        assert np.array_equal(reader.read("p"), whole)
        assert np.array_equal(reader.read_region("p", index), whole[index])
