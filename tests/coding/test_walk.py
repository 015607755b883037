"""Walking messages that are read on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding import walk, wire
from ckpttool.coding.walk import MessageWalk
from ckpttool.errors import CorruptError
from tests.support.encoder import bytes_field, fixed32_field, long_varint, number_field


class Counted:
    """Bytes that count how many of them were read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.read = 0

    def read_at(self, pos: int, length: int) -> bytes:
        assert 0 <= pos <= pos + length <= self.size
        self.read += length
        return self.data[pos : pos + length]

    def chunks(self, pos: int, length: int, *, chunk_size: int) -> Iterator[memoryview]:
        raise NotImplementedError


def fields(data: bytes) -> list[tuple[int, int, bytes]]:
    message = MessageWalk(Counted(b"##" + data + b"###"), 2, 2 + len(data))
    return [(field.number, field.kind, message.take(field)) for field in message.fields()]


MESSAGE = (
    bytes_field(1, b"abc")
    + number_field(2, 300)
    + fixed32_field(3, 7)
    + bytes((4 << 3 | 1,))
    + bytes(8)
    + bytes_field(1 << 20, b"")
)


def test_all_wire_types() -> None:
    assert fields(MESSAGE) == [
        (1, wire.BYTES, b"abc"),
        (2, wire.VARINT, b"\xac\x02"),
        (3, wire.FIXED32, b"\7\0\0\0"),
        (4, wire.FIXED64, bytes(8)),
        (1 << 20, wire.BYTES, b""),
    ]


@given(st.lists(st.tuples(st.integers(1, 5000), st.binary(max_size=400)), max_size=40))
def test_as_the_small_reader_says(content: list[tuple[int, bytes]]) -> None:
    data = b"".join(bytes_field(number, value) for number, value in content)
    assert fields(data) == [(n, k, v) for n, k, v, _ in wire.decode_fields(data)]


def test_what_nobody_takes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_WINDOW", 64)
    source = Counted(bytes_field(1, b"a") + bytes_field(2, bytes(1 << 20)) + number_field(3, 1))
    message = MessageWalk(source, 0, source.size)
    taken = [message.take(field) for field in message.fields() if field.number != 2]
    assert taken == [b"a", b"\1"]
    assert source.read < 300


@pytest.mark.parametrize("window", [10, 11, 64])
def test_windows_of_any_size(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "_WINDOW", window)
    data = MESSAGE * 20 + bytes_field(2, bytes(100))
    assert fields(data) == [(n, k, v) for n, k, v in fields(MESSAGE)] * 20 + [
        (2, wire.BYTES, bytes(100))
    ]


@pytest.mark.parametrize(
    ("data", "message", "offset"),
    [
        (b"\x00\x01", "0 is not", 2),
        (b"\x08", "past its end", 3),
        (b"\x08\xff", "past its end", 3),
        (b"\x08" + b"\xff" * 11, "64 bits", 3),
        (b"\x0a\x05abc", "past its end", 2),
        (b"\x0a" + long_varint(5, 10) + b"abc", "past its end", 2),
        (b"\x0d123", "past its end", 2),
        (b"\x0b", "wire type 3", 2),
        (b"\x0c", "wire type 4", 2),
        (b"\x0e", "wire type 6", 2),
        (number_field(1, 1) + b"\x0f", "wire type 7", 4),
    ],
)
def test_malformed_messages(data: bytes, message: str, offset: int) -> None:
    with pytest.raises(CorruptError, match=message) as caught:
        fields(data)
    assert caught.value.offset == offset
