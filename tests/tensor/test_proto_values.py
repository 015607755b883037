"""Elements to TensorProtos and back, with TensorFlow's messages as the judge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CorruptError, InvalidTensorError, UnsupportedError
from ckpttool.pb import message_class
from ckpttool.tensor import proto_values, proto_writing
from ckpttool.tensor.dtypes import DTYPES, DType, dtype_of_name
from ckpttool.tensor.proto_values import (
    FIELDS,
    check_proto,
    check_room,
    decode_proto,
    proto_pieces,
    stored_run,
    value_field,
)
from ckpttool.tensor.proto_writing import encode_proto, encoded_size
from ckpttool.tensor.values import Array

KNOWN = [dtype for dtype in DTYPES.values() if dtype.name in FIELDS]


class Held:
    """Bytes in memory, as a file has them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read_at(self, pos: int, length: int) -> bytes:
        return self.data[pos : pos + length]

    def chunks(self, pos: int, length: int, *, chunk_size: int) -> Iterator[memoryview]:
        for at in range(pos, pos + length, chunk_size):
            yield memoryview(self.data)[at : min(at + chunk_size, pos + length)]


def sample(dtype: DType, count: int) -> Array:
    rng = np.random.default_rng(dtype.number)
    if dtype.size is None:
        strings = np.empty(count, object)
        strings[:] = [rng.bytes(int(size)) for size in rng.integers(0, 300, count)]
        return strings
    if dtype.name == "bool":
        return rng.integers(0, 2, count).astype(bool)
    return np.frombuffer(rng.bytes(count * dtype.size), dtype.numpy_dtype)


def encoded(dtype: DType, array: Array) -> bytes:
    data = b"".join(map(bytes, encode_proto(dtype, array)))
    assert len(data) == encoded_size(dtype, array)
    return data


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_both_ways(dtype: DType, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto_writing, "ELEMENTS_AT_ONCE", 64)
    monkeypatch.setattr(proto_values, "ELEMENTS_AT_ONCE", 64)
    monkeypatch.setattr(proto_values, "_FIXED_PIECE", 160)
    monkeypatch.setattr(proto_values, "_VARINT_PIECE", 37)
    array = sample(dtype, count)
    data = encoded(dtype, array)
    source = Held(b"##" + data + b"#")
    place = (2, 2 + len(data))
    found = decode_proto(dtype, (count,), source, *place)
    assert found.dtype == array.dtype and found.shape == (count,)
    assert found.tobytes() == array.tobytes() or found.tolist() == array.tolist()
    pieces = list(map(len, proto_pieces(dtype, count, source, *place)))
    assert sum(pieces) == count
    assert len(pieces) > 3 or count < 1000
    check_proto(dtype, count, source, *place)
    for other in {count + 1, max(count - 1, 0)} - {count}:
        with pytest.raises(CorruptError):
            check_proto(dtype, other, source, *place)
        with pytest.raises(CorruptError):
            decode_proto(dtype, (other,), source, *place)


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_the_protobuf_library_agrees(dtype: DType) -> None:
    array = sample(dtype, 50)
    message = message_class("tensorflow.TensorProto")()
    message.ParseFromString(encoded(dtype, array))
    ((field, values),) = message.ListFields()
    assert field.number == value_field(dtype).number
    assert message.SerializeToString() == encoded(dtype, array)
    if dtype.name == "float16":
        assert list(values) == array.view(np.uint16).tolist()
    elif array.dtype.kind == "c":
        np.testing.assert_array_equal(
            np.array(values, array.real.dtype), array.view(array.real.dtype)
        )
    elif array.dtype.names is None and array.dtype.kind != "f":
        assert list(values) == array.tolist()


def test_layouts_other_than_c_order() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    dtype = dtype_of_name("int32")
    assert encoded(dtype, array.T) == encoded(dtype, array.T.copy())
    assert encoded(dtype, array[::2, ::-1]) == encoded(dtype, array[::2, ::-1].copy())
    for name, code in (("int32", "i4"), ("float32", "f4"), ("float16", "f2")):
        dtype = dtype_of_name(name)
        assert encoded(dtype, array.astype(f">{code}")) == encoded(dtype, array.astype(f"<{code}"))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), st.integers(10, 30))
def test_varints_in_pieces(numbers: list[int], piece: int) -> None:
    dtype = dtype_of_name("int64")
    data = encoded(dtype, np.array(numbers, np.int64))
    before = proto_values._VARINT_PIECE
    proto_values._VARINT_PIECE = piece
    try:
        found = decode_proto(dtype, (len(numbers),), Held(data), 0, len(data))
    finally:
        proto_values._VARINT_PIECE = before
    assert found.tolist() == numbers


def test_where_elements_lie_as_in_memory() -> None:
    floats = encoded(dtype_of_name("float32"), np.ones(3, np.float32))
    assert stored_run(dtype_of_name("float32"), Held(floats), 0, len(floats)) == (2, 14)
    twice = floats * 2
    assert stored_run(dtype_of_name("float32"), Held(twice), 0, len(twice)) is None
    numbers = encoded(dtype_of_name("int32"), np.ones(3, np.int32))
    assert stored_run(dtype_of_name("int32"), Held(numbers), 0, len(numbers)) is None
    text = encoded(dtype_of_name("string"), np.array([b"x"], object))
    assert stored_run(dtype_of_name("string"), Held(text), 0, len(text)) is None


@pytest.mark.parametrize(
    ("name", "count", "room"),
    [("float64", 2, 15), ("int32", 9, 8), ("string", 5, 9), ("complex128", 2**59, 2**20)],
)
def test_room(name: str, count: int, room: int) -> None:
    with pytest.raises(CorruptError, match="too few"):
        check_room(dtype_of_name(name), count, room)
    check_room(dtype_of_name(name), 0, 0)


def test_what_has_no_field() -> None:
    for dtype in DTYPES.values():
        if dtype.name in FIELDS:
            assert value_field(dtype).number in range(5, 14)
        else:
            with pytest.raises(UnsupportedError, match=dtype.name):
                value_field(dtype)
    with pytest.raises(InvalidTensorError, match="cannot hold int"):
        encoded_size(dtype_of_name("string"), np.array([1], object))
