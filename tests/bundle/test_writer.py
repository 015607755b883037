from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.writer import BundleWriter
from ckpttool.errors import (
    InvalidTensorError,
)
from ckpttool.tensor.slices import TensorSlice
from ckpttool.tensor.values import object_array
from ckpttool.tensor.variants import VariantElement
from tests.support import encoder
from tests.support.encoder import string_data, variant_data
from tests.support.fixtures import folder_contents, read_bytes
from tests.support.handmade import Bundle, shard_path
from tests.support.refusals import refused
from tests.support.slices import parse_slice

F32, I32, U8, STRING, BOOL, I16, VARIANT = 1, 3, 4, 7, 10, 5, 21


def assert_same_bytes(prefix: str, made: Bundle) -> None:
    """Compare with the second opinion, and that nothing else lies there."""
    count = len(made.shards)
    expected = {shard_path("m", at, count): data for at, data in enumerate(made.shards)}
    expected["m.index"] = encoder.table(made.sorted_records())
    assert folder_contents(os.path.dirname(prefix)) == expected


def test_worked_example_of_one_tensor(prefix: str) -> None:
    with BundleWriter(prefix) as writer:
        writer.add("w", np.array([1.0, -2.0], np.float32))
    assert read_bytes(shard_path(prefix)).hex() == "0000803f000000c0"
    index = read_bytes(prefix + ".index")
    assert len(index) == 121
    assert index[:36].hex() == (
        "00000608011a02080100010f770801120412020802280835453f16880000000001000000"
    )
    assert index[36:].hex() == (
        "0088ef43ba" "0000000001000000" "00c0f2a1b0" "000102780024" "0000000001000000"
        "00ab30707f" "2908360e" + "00" * 36 + "57fb808b247547db"
    )  # fmt: skip


def test_worked_example_of_slices(prefix: str) -> None:
    with BundleWriter(prefix) as writer:
        rows = np.arange(6, dtype=np.int32).reshape(3, 2)
        writer.add_slice("p", (3, 2), parse_slice("0,2:-"), rows[:2])
        writer.add_slice("p", (3, 2), parse_slice("2,1:-"), rows[2:])
    index = read_bytes(prefix + ".index")
    assert len(index) == 196
    assert index[0x29:0x2C].hex() == "060415"
    assert index[0x45:0x67].hex() == (
        "00011e70" "080312081202080312020802" "3a060a0210020a00" "3a080a04080210010a00"
    )  # fmt: skip
    assert index[-48:].hex() == "740881010e" + "00" * 35 + "57fb808b247547db"


def test_worked_example_of_two_shards(prefix: str) -> None:
    with BundleWriter(prefix, num_shards=2) as writer:
        writer.add("a", np.array([7], np.uint8))
        writer.add("b", np.True_, shard_id=1)
        writer.add("bb", np.int16(9), shard_id=1)
    assert read_bytes(shard_path(prefix, 0, 2)).hex() == "07"
    assert read_bytes(shard_path(prefix, 1, 2)).hex() == "010900"
    made = Bundle(header=bytes.fromhex("08021a020801"), shards=[b"\x07", b"\x01\x09\x00"])
    made.records = {
        b"a": bytes.fromhex("0804120412020801280135" "46f8f711"),
        b"b": bytes.fromhex("080a12001801280135" "052b2843"),
        b"bb": bytes.fromhex("0805120018012001280235" "86eabdfa"),
    }  # fmt: skip
    assert_same_bytes(prefix, made)


def test_worked_example_of_corner_cases(prefix: str) -> None:
    with BundleWriter(prefix) as writer:
        writer.add("none", np.zeros((0, 3), np.float32))
        writer.add("no strings", np.empty(0, object))
        writer.add("empty", b"")
        writer.add("two", np.float32(2))
    made = Bundle(shards=[bytes.fromhex("d8ea82a200a67b113a00000040")])
    made.records = {
        b"none": bytes.fromhex("0801120612001202080335d8ea82a2"),
        b"no strings": bytes.fromhex("080712021200280435f6c10c64"),
        b"empty": bytes.fromhex("080712002004280535bd6707be"),
        b"two": bytes.fromhex("0801120020092804" "3510fd784f"),
    }  # fmt: skip
    assert_same_bytes(prefix, made)


def test_data_lie_in_the_order_of_writing_and_the_index_by_key(prefix: str) -> None:
    with BundleWriter(prefix) as writer:
        for key in ("b", "c/d", "a", "c"):
            writer.add(key, np.frombuffer(key.encode(), np.uint8))
    assert read_bytes(shard_path(prefix)) == b"bc/dac"
    made = Bundle()
    for raw in (b"b", b"c/d", b"a", b"c"):
        made.add(raw, U8, (len(raw),), raw)
    assert_same_bytes(prefix, made)


@pytest.mark.large
def test_many_keys_make_many_blocks(prefix: str) -> None:
    made = Bundle()
    with BundleWriter(prefix) as writer:
        for at in range(11_000):
            writer.add(f"layer_{at:05}/kernel", np.uint8(at % 256))
            made.add(b"layer_%05d/kernel" % at, U8, (), bytes((at % 256,)))
    assert os.path.getsize(prefix + ".index") > 262144
    assert_same_bytes(prefix, made)


@pytest.mark.parametrize(
    "key", ["a", "é", "\udcff\udcfe", "a\0b", "\0odd", "k" * 70_000, " ", "\n", "m.index"]
)
def test_keys(prefix: str, key: str) -> None:
    with BundleWriter(prefix) as writer:
        writer.add(key, np.uint8(7))
    raw = key.encode("utf-8", "surrogateescape")
    assert_same_bytes(prefix, Bundle().add(raw, U8, (), b"\x07"))
    assert list(BundleReader(prefix).entries) == [key]


# (id, value, dtype number, shape, stored bytes, masked crc or None for that of the bytes)
VALUES: list[tuple[str, Any, int, tuple[int, ...], bytes, int | None]] = [
    ("Python float", 1.5, 2, (), np.float64(1.5).tobytes(), None),
    ("Python int", 7, 9, (), np.int64(7).tobytes(), None),
    ("Python bool", True, BOOL, (), b"\1", None),
    ("Python complex", 1 - 2j, 18, (), np.complex128(1 - 2j).tobytes(), None),
    ("list", [[1, 2], [3, 4]], 9, (2, 2), np.arange(1, 5).astype("<i8").tobytes(), None),
    ("text", "é", STRING, (), *string_data(["é".encode()])),
    ("bytes", b"\xff\0", STRING, (), *string_data([b"\xff\0"])),
    ("bytes with NULs at the end", b"ab\0\0", STRING, (), *string_data([b"ab\0\0"])),
    ("text with NULs at the end", "ab\0", STRING, (), *string_data([b"ab\0"])),
    ("bytes of nothing but NUL", b"\0", STRING, (), *string_data([b"\0"])),
    ("list of bytes", [b"a\0", b"bb"], STRING, (2,), *string_data([b"a\0", b"bb"])),
    ("rows of text", [["a"], ["b\0"]], STRING, (2, 1), *string_data([b"a", b"b\0"])),
    ("text array", np.array(["a", "bc"]), STRING, (2,), *string_data([b"a", b"bc"])),
    ("objects", np.array(["a", b"\xff"], object), STRING, (2,), *string_data([b"a", b"\xff"])),
    ("big-endian", np.array([1], ">f4"), F32, (1,), np.float32(1).tobytes(), None),
    ("transposed", np.arange(4, dtype="u1").reshape(2, 2).T, U8, (2, 2), b"\0\2\1\3", None),
    ("bfloat16", np.array([1], ml_dtypes.bfloat16), 14, (1,), b"\x80\x3f", None),
    ("int4", np.array([-2], ml_dtypes.int4), 29, (1,), b"\x0e", None),
    ("qint8", np.array([(5,)], [("qint8", "i1")]), 11, (1,), b"\5", None),
    (
        "variants",
        object_array([VariantElement(b"one"), VariantElement(b"")], (2,)),
        VARIANT,
        (2,),
        *variant_data([b"one", b""]),
    ),
    ("one variant", object_array([VariantElement(b"x")], ()), VARIANT, (), *variant_data([b"x"])),
]


@pytest.mark.parametrize(
    ("value", "dtype", "dims", "data", "crc"),
    [row[1:] for row in VALUES],
    ids=[row[0] for row in VALUES],
)
def test_values(
    prefix: str, value: Any, dtype: int, dims: tuple[int, ...], data: bytes, crc: int | None
) -> None:
    with BundleWriter(prefix) as writer:
        writer.add("t", value)
    assert_same_bytes(prefix, Bundle().add(b"t", dtype, dims, data, crc=crc))


def test_a_tensor_of_several_pieces(prefix: str) -> None:
    value = np.arange(700_001, dtype=np.float32)
    with BundleWriter(prefix) as writer:
        writer.add("small", np.uint8(1))
        writer.add("large", value)
    with BundleReader(prefix) as reader:
        assert reader.entries["large"].offset == 1
        assert reader.read("large").tobytes() == value.tobytes()


REFUSED: list[tuple[str, Any]] = [
    ("None", None),
    ("mixed objects", np.array(["a", 1], object)),
    ("dates", np.array(["2020-01-01"], "M8[D]")),
    ("ragged", [[1], [1, 2]]),
    ("long double", np.longdouble(1)),
    ("structure", np.zeros(2, [("a", "f4"), ("b", "f4")])),
    ("structure named like a dtype", np.zeros(2, [("float32", "i8")])),
    ("text without UTF-8", "\ud800"),
    ("variants and others", np.array([VariantElement(b""), b""], object)),
]


@pytest.mark.parametrize("value", [row[1] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_values_that_cannot_be_stored(prefix: str, value: Any) -> None:
    with pytest.raises(InvalidTensorError) as caught, BundleWriter(prefix) as writer:
        writer.add("t", value)
    assert caught.value.key == "t"
    assert folder_contents(os.path.dirname(prefix)) == {}


def test_a_refused_value_does_not_spoil_the_rest(prefix: str) -> None:
    with BundleWriter(prefix) as writer:
        with pytest.raises(InvalidTensorError):
            writer.add("t", np.array([None]))
        writer.add("t", np.uint8(3))
    assert BundleReader(prefix).read("t") == 3


@pytest.mark.parametrize("key", ["", "\ud800"])
def test_keys_that_cannot_be_stored(prefix: str, key: str) -> None:
    with BundleWriter(prefix) as writer:
        with pytest.raises(InvalidTensorError):
            writer.add(key, 1)
        with pytest.raises(InvalidTensorError):
            writer.add_slice(key, (2,), TensorSlice(((0, 1),)), [1])
        writer.add("a", 1)
    assert list(BundleReader(prefix).entries) == ["a"]


def rows(*texts: str) -> Callable[[BundleWriter], None]:
    def add(writer: BundleWriter) -> None:
        for text in texts:
            part = parse_slice(text)
            count = part.extents[0][1]
            writer.add_slice("p", (3, 2), part, np.zeros((count, 2), np.int32))

    return add


def test_slices_in_any_order_and_several_shards(prefix: str) -> None:
    whole = np.arange(12, dtype=np.int32).reshape(3, 4)
    with BundleWriter(prefix, num_shards=3) as writer:
        writer.add_slice("p", (3, 4), parse_slice("1,2:0,4"), whole[1:], shard_id=2)
        writer.add("a", np.uint8(1), shard_id=2)
        writer.add_slice("p", (3, 4), parse_slice("0,1:0,4"), whole[:1], shard_id=1)
    with BundleReader(prefix) as reader:
        assert np.array_equal(reader.read("p"), whole)
        entry = reader.entries["p"]
        assert [str(part) for part in entry.slices] == ["1,2:0,4", "0,1:0,4"]
        assert (entry.size, entry.offset, entry.crc32c) == (0, 0, 0)


@pytest.mark.parametrize("text", ["-:-", "0,3:-", "0,3:0,2"])
def test_a_slice_of_everything_is_an_ordinary_tensor(prefix: str, text: str) -> None:
    with BundleWriter(prefix) as writer:
        writer.add_slice("p", (3, 2), parse_slice(text), np.ones((3, 2), np.int32))
    made = Bundle().add(b"p", I32, (3, 2), np.ones((3, 2), "<i4").tobytes())
    assert_same_bytes(prefix, made)


def another_shape_of_the_whole(writer: BundleWriter) -> None:
    rows("0,2:-")(writer)
    writer.add_slice("p", (4, 2), parse_slice("2,2:-"), [[0, 0]] * 2)


def another_dtype(writer: BundleWriter) -> None:
    rows("0,2:-")(writer)
    writer.add_slice("p", (3, 2), parse_slice("2,1:-"), [[0.0, 1.0]])


def another_shape_than_the_slice_has(writer: BundleWriter) -> None:
    writer.add_slice("p", (3, 2), parse_slice("0,2:-"), np.zeros((3, 2), np.int32))


def whole_tensor_before(writer: BundleWriter) -> None:
    writer.add("p", 1)
    rows("0,2:-")(writer)


def whole_tensor_after(writer: BundleWriter) -> None:
    rows("0,2:-", "2,1:-")(writer)
    writer.add("p", 1)


def same_key_twice(writer: BundleWriter) -> None:
    writer.add("p", 1)
    writer.add("p", 1)


def full_length_from_elsewhere(writer: BundleWriter) -> None:
    writer.add_slice("p", (3, 2), TensorSlice(((1, -1), (0, -1))), [[1, 1]])


SLICE_MISTAKES: list[tuple[Callable[[BundleWriter], None], str]] = [
    (rows("0,2:-"), "gap"),
    (rows("0,2:-", "1,2:-"), "overlap"),
    (rows("0,2:-", "0,2:-", "2,1:-"), "already exists"),
    (rows("0,2:-", "2,2:-"), "does not fit"),
    (another_shape_of_the_whole, r"slice of int64 \[4, 2\] for a tensor of int32 \[3, 2\]"),
    (another_dtype, "slice of float64"),
    (another_shape_than_the_slice_has, r"has shape \[2, 2\], not \[3, 2\]"),
    (whole_tensor_before, "already exists"),
    (whole_tensor_after, "already exists"),
    (same_key_twice, "already exists"),
    (full_length_from_elsewhere, "does not fit"),
]


@pytest.mark.parametrize(("mistake", "message"), SLICE_MISTAKES)
def test_mistakes(prefix: str, mistake: Callable[[BundleWriter], None], message: str) -> None:
    with refused(InvalidTensorError, message) as caught, BundleWriter(prefix) as writer:
        mistake(writer)
    assert caught.value.key == "p"
    assert folder_contents(os.path.dirname(prefix)) == {}


def test_no_shards_make_no_sense(prefix: str) -> None:
    for count in (0, -1):
        with pytest.raises(ValueError, match="at least one"):
            BundleWriter(prefix, num_shards=count)
