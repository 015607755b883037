"""The records of V1 files, against bytes spelled out by hand."""

from __future__ import annotations

import pytest

from ckpttool.errors import CkptError, CorruptError, UnsupportedError
from ckpttool.legacy.records import (
    SliceMeta,
    decode_meta,
    encode_meta,
    find_values,
    slice_head,
)
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.values import TableValue
from ckpttool.tensor.dtypes import dtype_of_name
from ckpttool.tensor.slices import TensorSlice
from tests.legacy import handmade
from tests.support.encoder import bytes_field, number_field

# Row 0 of an int32 [2, 2], and a scalar string.
META = bytes.fromhex(
    "0a 28"
    "0a 17 0a 01 61 12 08 12 02 08 02 12 02 08 02 18 03 22 06 0a 02 10 01 0a 00"
    "0a 09 0a 01 73 12 00 18 07 22 00"
    "12 02 08 01"
)
ROW = TensorSlice(((0, 1), (0, -1)))
TENSORS = [
    SliceMeta("a", dtype_of_name("int32"), (2, 2), (ROW,)),
    SliceMeta("s", dtype_of_name("string"), (), (TensorSlice(()),)),
]
DATA = bytes.fromhex(
    "12 1a 0a 01 61 12 06 0a 02 10 01 0a 00 1a 0d 3a 0b 01 ff ff ff ff ff ff ff ff ff 01"
)


def value(data: bytes) -> TableValue:
    with RandomAccessFile(__file__) as file:
        return TableValue(len(data), file, 0, memoryview(data))


def test_description_both_ways() -> None:
    assert decode_meta(META) == TENSORS
    assert encode_meta(TENSORS) == META


def test_values_of_a_slice() -> None:
    start, stop = find_values(value(DATA), "a", ROW)
    assert DATA[start:stop] == bytes.fromhex("3a0b01ffffffffffffffffff01")
    assert slice_head("a", ROW, stop - start) + DATA[start:stop] == DATA


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("b", ROW),
        ("aa", ROW),
        ("", ROW),
        ("a", TensorSlice(((1, 1), (0, -1)))),
        ("a", TensorSlice(((0, 1), (0, 2)))),
        ("a", TensorSlice(())),
    ],
)
def test_a_record_of_something_else(name: str, part: TensorSlice) -> None:
    with pytest.raises(CorruptError, match="the record is that of another"):
        find_values(value(DATA), name, part)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no slice"),
        (META, "not that of one slice"),
        (DATA + DATA, "not that of one slice"),
        (number_field(2, 1), "not that of one slice"),
        (bytes_field(2, bytes_field(1, b"a")), "another slice"),
        (bytes_field(2, DATA[2:13]), "no values"),
        (bytes_field(2, bytes_field(1, b"a") * 2), "is repeated"),
        (bytes_field(2, number_field(1, 7)), "wrong wire type"),
        (DATA[:-1], "past its end"),
        (b"\x12\xff\xff\xff\xff\x0f", "past its end"),
    ],
)
def test_malformed_records(data: bytes, message: str) -> None:
    with pytest.raises(CorruptError, match=message) as caught:
        find_values(value(data), "a", ROW)
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", CorruptError, "does not describe"),
        (DATA, CorruptError, "not the one that describes"),
        (META + DATA, CorruptError, "not the one that describes"),
        (META * 2, CorruptError, "not the one that describes"),
        (number_field(1, 3), CorruptError, "not the one that describes"),
        (META[:-1], CorruptError, "past its end"),
        (handmade.description(b"")[1], CorruptError, "no name"),
        (handmade.description(b"\x0a\x01a" * 2)[1], CorruptError, "is repeated"),
        (handmade.description(b"\x0a\x01a\x1d1234")[1], CorruptError, "wrong wire type"),
        (
            handmade.description(handmade.described(b"a", 1, (2,), [((0, 3),)]))[1],
            CorruptError,
            "does not fit",
        ),
        (
            handmade.description(handmade.described(b"a", 1, (2,), [((0, 1), (0, 1))]))[1],
            CorruptError,
            "another rank",
        ),
        (handmade.description(handmade.described(b"a", 1, (-1,)))[1], CorruptError, "-1"),
        (handmade.description(version=b"\x10\x02")[1], UnsupportedError, "version 2"),
        (handmade.description(version=b"\x1a\x02\x05\x01")[1], UnsupportedError, "bars"),
        (handmade.description(version=b"\x18\x01")[1], UnsupportedError, "bars"),
        (
            handmade.description(version=number_field(1, -1))[1],
            CorruptError,
            "version -1",
        ),
    ],
)
def test_malformed_descriptions(data: bytes, error: type[CkptError], message: str) -> None:
    with pytest.raises(error, match=message):
        decode_meta(data)


@pytest.mark.parametrize("version", [b"", b"\x08\x00", b"\x08\x63", b"\x10\x01", b"\x18\x02"])
def test_versions_that_may_be_read(version: bytes) -> None:
    assert decode_meta(handmade.description(version=version)[1]) == []


def test_fields_that_are_not_known_are_passed_over() -> None:
    tensor = handmade.described(b"a", 1, ()) + bytes_field(9, b"new")
    raw = handmade.description(tensor, extra=bytes_field(8, b"new"))[1] + bytes_field(5, b"new")
    assert [each.name for each in decode_meta(raw)] == ["a"]


def test_names_that_are_not_utf8_come_back() -> None:
    (tensor,) = decode_meta(handmade.description(handmade.described(b"\xff/x", 1, ()))[1])
    assert tensor.name == "\udcff/x"
    assert decode_meta(encode_meta([tensor])) == [tensor]
