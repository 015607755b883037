from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckpttool.coding.checksum import crc32c
from ckpttool.errors import InvalidTensorError
from ckpttool.tensor.dtypes import DTYPES, dtype_of_array, dtype_of_name
from ckpttool.tensor.region import fit_index, parse_index
from ckpttool.tensor.values import (
    Array,
    array_part,
    decode_array,
    encode_array,
    object_array,
    to_array,
)
from ckpttool.tensor.variants import VariantElement
from tests.support import encoder
from tests.support.refusals import refused

BF16 = ml_dtypes.bfloat16

# (dtype, bytes as TensorFlow stores them, values as NumPy makes them)
VALUES: list[tuple[str, str, list[Any]]] = [
    ("float32", "0000803f000000c0", [1.0, -2.0]),
    ("float64", "000000000000f03f", [1.0]),
    ("float16", "003c00c0", [1.0, -2.0]),
    ("bfloat16", "803f00c0", [1.0, -2.0]),
    ("int8", "7f80ff", [127, -128, -1]),
    ("uint8", "00ff", [0, 255]),
    ("int16", "0900feff", [9, -2]),
    ("uint16", "0900feff", [9, 65534]),
    ("int32", "01000000ffffffff", [1, -1]),
    ("uint32", "01000000ffffffff", [1, 2**32 - 1]),
    ("int64", "0500000000000000" "ffffffffffffffff", [5, -1]),
    ("uint64", "0500000000000000" "ffffffffffffffff", [5, 2**64 - 1]),
    ("bool", "000100", [False, True, False]),
    ("complex64", "0000803f000000c0", [1 - 2j]),
    ("complex128", "000000000000f03f" "00000000000000c0", [1 - 2j]),
    ("int4", "0e0f07", [-2, -1, 7]),
    ("uint4", "0e0f07", [14, 15, 7]),
    ("int2", "020301", [-2, -1, 1]),
    ("uint2", "020301", [2, 3, 1]),
    ("float4_e2m1fn", "0409", [2.0, -0.5]),
    ("float8_e5m2", "3cc0", [1.0, -2.0]),
    ("float8_e4m3fn", "38c0", [1.0, -2.0]),
    ("float8_e4m3fnuz", "40c8", [1.0, -2.0]),
    ("float8_e4m3b11fnuz", "58e0", [1.0, -2.0]),
    ("float8_e5m2fnuz", "40c4", [1.0, -2.0]),
    ("qint8", "7f80", [(127,), (-128,)]),
    ("quint8", "00ff", [(0,), (255,)]),
    ("qint16", "0900feff", [(9,), (-2,)]),
    ("quint16", "0900feff", [(9,), (65534,)]),
    ("qint32", "01000000ffffffff", [(1,), (-1,)]),
]  # fmt: skip
IDS = [row[0] for row in VALUES]


def view(raw: bytes) -> memoryview:
    return memoryview(bytearray(raw))


def test_every_dtype_of_fixed_size_is_in_the_table() -> None:
    assert sorted(IDS) == sorted(dtype.name for dtype in DTYPES.values() if dtype.size)


@pytest.mark.parametrize(("name", "code", "values"), VALUES, ids=IDS)
def test_both_ways(name: str, code: str, values: list[Any]) -> None:
    dtype = dtype_of_name(name)
    array = decode_array(dtype, (len(values),), view(bytes.fromhex(code)), big_endian=False)
    assert array.dtype == dtype.numpy_dtype
    assert array.tolist() == values
    assert array.flags.writeable
    made = np.array(values, dtype.numpy_dtype)
    assert dtype_of_array(made) == dtype
    data, crc = encode_array(dtype, made)
    assert bytes(data).hex() == code
    assert crc is None


@pytest.mark.parametrize(("name", "code", "values"), VALUES, ids=IDS)
def test_big_endian(name: str, code: str, values: list[Any]) -> None:
    dtype = dtype_of_name(name)
    raw = bytes.fromhex(code)
    word = (dtype.size or 0) // (2 if name.startswith("complex") else 1)
    swapped = b"".join(raw[at : at + word][::-1] for at in range(0, len(raw), word))
    array = decode_array(dtype, (len(values),), view(swapped), big_endian=True)
    assert array.dtype == dtype.numpy_dtype
    assert array.tolist() == values


@pytest.mark.parametrize(("name", "code", "values"), VALUES, ids=IDS)
def test_bytes_at_an_odd_address(name: str, code: str, values: list[Any]) -> None:
    dtype = dtype_of_name(name)
    raw = view(b"\xee" + bytes.fromhex(code))[1:]
    array = decode_array(dtype, (len(values),), raw, big_endian=False)
    assert array.tolist() == values
    assert array.flags.aligned


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2)])
def test_no_elements(name: str, shape: tuple[int, ...]) -> None:
    dtype = dtype_of_name(name)
    array = decode_array(dtype, shape, view(b""), big_endian=False)
    assert (array.shape, array.dtype) == (shape, dtype.numpy_dtype)
    assert bytes(encode_array(dtype, array)[0]) == b""


@pytest.mark.parametrize("name", IDS)
def test_scalar(name: str) -> None:
    dtype = dtype_of_name(name)
    array = decode_array(dtype, (), view(bytes(dtype.size or 0)), big_endian=False)
    assert (array.shape, array.dtype) == ((), dtype.numpy_dtype)
    assert bytes(encode_array(dtype, array)[0]) == bytes(dtype.size or 0)


INDICES = ["0", "-1", ":", "::-1", "1:", "0:0", ":,0", "...,-1", "1,1", "::-1,::2", "0:1,1:"]


@pytest.mark.parametrize("text", INDICES)
def test_part_of_an_array_of_objects_is_an_array(text: str) -> None:
    whole = object_array([b"%d" % at for at in range(6)], (2, 3))
    index = fit_index(parse_index(text), (2, 3))
    part = array_part(whole, index)
    assert isinstance(part, np.ndarray)
    assert part.dtype == object
    assert part.shape == np.shape(whole[index])
    assert np.array_equal(part, whole[index])
    assert not np.shares_memory(part, whole)


TO_ARRAY: list[tuple[str, Any, Any]] = [
    ("number", 1.5, np.float64(1.5)),
    ("list", [[1, 2]], np.array([[1, 2]])),
    ("bytes", b"a\0", object_array([b"a\0"], ())),
    ("text", "a\0", object_array(["a\0"], ())),
    ("list of both", ["\xe9", b"\xff\0"], object_array(["\xe9", b"\xff\0"], (2,))),
    ("rows", [["a"], ["b\0"]], object_array(["a", "b\0"], (2, 1))),
]


@pytest.mark.parametrize(
    ("value", "array"), [row[1:] for row in TO_ARRAY], ids=[row[0] for row in TO_ARRAY]
)
def test_arrays_of_values(value: Any, array: Array) -> None:
    made = to_array(value)
    assert (made.dtype, made.shape) == (array.dtype, array.shape)
    assert made.tolist() == array.tolist()


def test_an_array_is_itself() -> None:
    for array in (np.array(["a"]), np.zeros(3, ">f4"), object_array([b""], (1,))):
        assert to_array(array) is array
    with pytest.raises(ValueError, match="inhomogeneous"):
        to_array([[1], [1, 2]])


def test_elements_lie_row_by_row() -> None:
    raw = struct.pack("<6i", *range(6))
    array = decode_array(dtype_of_name("int32"), (2, 3), view(raw), big_endian=False)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_any_byte_but_0_is_true() -> None:
    array = decode_array(dtype_of_name("bool"), (4,), view(b"\0\1\2\xff"), big_endian=False)
    assert array.tolist() == [False, True, True, True]
    assert array.tobytes() == b"\0\1\1\1"


@pytest.mark.parametrize("name", ["float32", "bool", "qint32", "bfloat16", "complex128"])
def test_nothing_is_copied_where_nothing_has_to_be(name: str) -> None:
    dtype = dtype_of_name(name)
    raw = bytearray(160)
    shape = (160 // (dtype.size or 1),)
    array = decode_array(dtype, shape, memoryview(raw), big_endian=False)
    assert np.shares_memory(array, np.frombuffer(raw, np.uint8))


@pytest.mark.parametrize("name", ["int32", "complex64", "bfloat16"])
def test_a_buffer_of_ones_own_is_swapped_where_it_lies(name: str) -> None:
    raw = bytearray(range(16))
    array = decode_array(
        dtype_of_name(name), (len(raw) // array_size(name),), memoryview(raw), big_endian=True
    )
    assert np.shares_memory(array, np.frombuffer(raw, np.uint8))
    kept = bytes(range(16))
    same = decode_array(dtype_of_name(name), array.shape, memoryview(kept), big_endian=True)
    assert same.tobytes() == array.tobytes() != kept == bytes(range(16))


def array_size(name: str) -> int:
    return dtype_of_name(name).size or 1


def test_writing_copies_no_array_that_lies_in_order() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    data, _ = encode_array(dtype_of_name("float32"), array)
    assert np.shares_memory(np.frombuffer(data, np.uint8), array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int32).reshape(2, 3).T,
        np.arange(12, dtype=np.int32)[::2],
        np.arange(6, dtype=np.int32)[::-1],
        np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        np.arange(6, dtype=">i4"),
        np.arange(6, dtype=">i4").reshape(2, 3).T,
        np.broadcast_to(np.int32(7), (2, 3)),
    ],
    ids=["transposed", "strided", "reversed", "Fortran", "big-endian", "both", "broadcast"],
)
def test_arrays_of_any_layout(array: Array) -> None:
    data, _ = encode_array(dtype_of_name("int32"), array)
    assert bytes(data) == struct.pack(f"<{array.size}i", *array.ravel().tolist())


@pytest.mark.parametrize("numpy_dtype", [">f4", ">f8", ">f2", ">u2", ">i8", ">c8", ">c16"])
def test_big_endian_arrays_are_stored_little_endian(numpy_dtype: str) -> None:
    array = np.array([1, 2, 3]).astype(numpy_dtype)
    data, _ = encode_array(dtype_of_array(array), array)
    assert bytes(data) == array.astype(numpy_dtype.replace(">", "<")).tobytes()


STRINGS = [
    ("bytes", [b"hi", b"", b"\xff"], [b"hi", b"", b"\xff"]),
    ("text", ["hi", "", "\xff"], [b"hi", b"", b"\xc3\xbf"]),
    ("bytes that are not UTF-8, as text", ["\udcff"], [b"\xff"]),
    ("trailing NULs", [b"a\0\0", "b\0"], [b"a\0\0", b"b\0"]),
]


@pytest.mark.parametrize(
    ("given", "stored"), [row[1:] for row in STRINGS], ids=[row[0] for row in STRINGS]
)
def test_strings(given: list[Any], stored: list[bytes]) -> None:
    data, crc = encode_array(dtype_of_name("string"), object_array(given, (len(given),)))
    raw, masked = encoder.string_data(stored)
    assert bytes(data) == raw
    assert crc is not None
    assert encoder.mask(crc) == masked


def test_fixed_width_text_arrays() -> None:
    for array in (np.array(["ab", "c"]), np.array([b"ab", b"c"])):
        assert (
            bytes(encode_array(dtype_of_name("string"), array)[0])
            == (encoder.string_data([b"ab", b"c"])[0])
        )


@pytest.mark.parametrize("item", [1, None, 1.5, ["a"], VariantElement(b"")])
def test_what_is_no_string(item: object) -> None:
    with refused(InvalidTensorError, type(item).__name__):
        encode_array(dtype_of_name("string"), object_array([b"a", item], (2,)))


def test_text_that_has_no_utf8() -> None:
    with pytest.raises(InvalidTensorError):
        encode_array(dtype_of_name("string"), object_array(["\ud800"], (1,)))


def test_variants() -> None:
    elements = [VariantElement(b"one"), VariantElement(b"")]
    data, crc = encode_array(dtype_of_name("variant"), object_array(elements, (2, 1)))
    raw, masked = encoder.variant_data([b"one", b""])
    assert bytes(data) == raw
    assert crc is not None
    assert encoder.mask(crc) == masked
    with refused(InvalidTensorError, "bytes"):
        encode_array(dtype_of_name("variant"), object_array([b"one"], (1,)))


@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (1, 6, 1)])
def test_object_arrays(shape: tuple[int, ...]) -> None:
    elements: list[Any] = [b"%d" % at for at in range(6 if shape else 1)]
    array = object_array(elements, shape)
    assert array.shape == shape
    assert array.dtype == object
    assert array.reshape(-1).tolist() == elements


def test_object_arrays_of_sequences_stay_arrays_of_objects() -> None:
    array = object_array([[1, 2], [3]], (2,))
    assert array.tolist() == [[1, 2], [3]]


def test_the_crc_of_fixed_size_elements_is_that_of_their_bytes() -> None:
    data, crc = encode_array(dtype_of_name("float32"), np.array([1.0, -2.0], np.float32))
    assert crc is None
    assert encoder.mask(crc32c(data)) == 0x88163F45
