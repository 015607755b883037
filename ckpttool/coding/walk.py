"""The fields of a protobuf message that may be too large for memory.

`wire` takes a message as bytes. Here a source gives its bytes on demand, and only what is needed
is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ckpttool.coding.varint import decode_varint
from ckpttool.coding.wire import BYTES, FIXED32, FIXED64, VARINT
from ckpttool.errors import CorruptError, TruncatedError

_WINDOW = 1 << 16
_MAX_VARINT = 10


class Bytes(Protocol):
    """Bytes that are read on demand."""

    @property
    def size(self) -> int:
        """How many there are."""

    def read_at(self, pos: int, length: int) -> bytes:
        """Return `length` bytes from `pos`; the caller keeps within the size."""

    def chunks(self, pos: int, length: int, *, chunk_size: int) -> Iterator[memoryview]:
        """Yield bytes in pieces, each valid until the next is asked for."""


class Field(NamedTuple):
    """A field of a message: number, wire type, and where its value (without length) lies."""

    number: int
    kind: int
    start: int
    stop: int


class MessageWalk:
    """Goes through the fields of the message that lies from `start` to `stop` in a source."""

    def __init__(self, source: Bytes, start: int, stop: int) -> None:
        self._source = source
        self._stop = stop
        self._pos = start
        self._window = b""
        self._window_at = start

    def fields(self) -> Iterator[Field]:
        """Yield the fields in order.

        Raises:
            CorruptError: the bytes are not a sequence of fields; `offset` counts from the start of
                the source.
        """
        while self._pos < self._stop:
            start = self._pos
            tag = self._varint()
            number, kind = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise CorruptError(f"{number} is not a protobuf field number", offset=start)
            value_at = self._pos
            if kind == VARINT:
                self._varint()
                size = self._pos - value_at
            elif kind == BYTES:
                size = self._varint()
                value_at = self._pos
            elif kind in (FIXED32, FIXED64):
                size = 4 if kind == FIXED32 else 8
            else:
                raise CorruptError(f"protobuf wire type {kind} is not allowed here", offset=start)
            if size > self._stop - value_at:
                raise TruncatedError("a protobuf field runs past its end", offset=start)
            self._pos = value_at + size
            yield Field(number, kind, value_at, value_at + size)

    def take(self, field: Field) -> bytes:
        """Return the bytes of a field's value."""
        at = field.start - self._window_at
        if at >= 0 and field.stop - self._window_at <= len(self._window):
            return self._window[at : at + field.stop - field.start]
        return self._source.read_at(field.start, field.stop - field.start)

    def _varint(self) -> int:
        at = self._pos - self._window_at
        if at + _MAX_VARINT > len(self._window):
            self._window_at = self._pos
            length = min(_WINDOW, self._stop - self._pos)
            self._window = self._source.read_at(self._pos, length)
            at = 0
        if at < len(self._window) and self._window[at] < 0x80:
            self._pos += 1
            return self._window[at]
        try:
            value, end = decode_varint(self._window, at, len(self._window))
        except CorruptError as error:
            error.offset = self._pos
            raise
        self._pos += end - at
        return value
