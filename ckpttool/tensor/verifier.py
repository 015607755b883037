"""Checking the bytes of a tensor as they stream by, in bounded memory.

A verifier takes the stored bytes of one tensor in pieces of any size and returns the crc32c that
its entry must have. On the way it checks the checksums and lengths inside the bytes. It knows no
file: the pieces may come from a reader or go to a writer.
"""

from __future__ import annotations

import struct
from typing import Protocol

from ckpttool.coding.checksum import crc32c, unmask
from ckpttool.coding.varint import Buffer
from ckpttool.errors import ChecksumError, CorruptError, TruncatedError, UnsupportedError
from ckpttool.tensor.dtypes import STRING, VARIANT, DType
from ckpttool.tensor.strings import pack_lengths

_CRC_SIZE = 4
_MAX_64 = (1 << 64) - 1
# String lengths that are held in memory at a time.
_RUN = 1 << 16


class Verifier(Protocol):
    """Takes the bytes of one tensor; made by `make_verifier`."""

    def feed(self, chunk: Buffer) -> None:
        """Take the next bytes.

        Raises:
            CorruptError: they contradict themselves or those before; `offset` counts from the
                first byte of the tensor. Nothing more may be fed then.
        """

    def finish(self) -> int:
        """Return the crc32c that the entry must have, not masked.

        Raises:
            TruncatedError: the tensor goes on behind the bytes that were fed.
        """


def make_verifier(dtype: DType, count: int, *, big_endian: bool = False) -> Verifier:
    """Return a verifier for a tensor.

    Args:
        dtype: of the tensor.
        count: number of its elements.
        big_endian: byte order of the writer.

    Raises:
        UnsupportedError: how tensors of this dtype are stored is not known.
    """
    if dtype.size is not None:
        return _FixedVerifier(dtype.size * count)
    if dtype == STRING:
        return _StringVerifier(count, ">" if big_endian else "<")
    if dtype == VARIANT:
        return _VariantVerifier(count, ">" if big_endian else "<")
    raise UnsupportedError(f"values of dtype {dtype} cannot be checked")


class _FixedVerifier:
    """Elements of one size: the crc is over all bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._fed = 0
        self._crc = 0

    def feed(self, chunk: Buffer) -> None:
        self._fed += len(chunk)
        if self._fed > self._size:
            raise _left_over(self._fed - self._size, "element", self._size)
        self._crc = crc32c(chunk, self._crc)

    def finish(self) -> int:
        if self._fed < self._size:
            raise TruncatedError(
                f"{self._fed} bytes are too few for elements of {self._size}", offset=self._fed
            )
        return self._crc


class _Varint:
    """A variable-length number that may begin in one piece and end in another."""

    __slots__ = ("_shift", "_value")

    def __init__(self) -> None:
        self._value = self._shift = 0

    def take(self, byte: int, offset: int) -> int | None:
        """Take the next byte, which lies at `offset`; return the number if it is the last."""
        self._value |= (byte & 0x7F) << self._shift
        if byte < 0x80:
            value, self._value, self._shift = self._value, 0, 0
            if value <= _MAX_64:
                return value
        else:
            self._shift += 7
            if self._shift <= 63:
                return None
        raise CorruptError("a varint has more than 64 bits", offset=offset)

    @property
    def begun(self) -> bool:
        return self._shift > 0


class _StringVerifier:
    """Strings: `tensor.strings` draws the bytes."""

    def __init__(self, count: int, order: str) -> None:
        self._order = order
        self._lengths = count  # still to come
        self._contents = 0  # bytes still to come
        self._varint = _Varint()
        self._stored = b""  # the crc of the lengths, as far as it has come
        self._fed = 0
        self._crc = 0

    def feed(self, chunk: Buffer) -> None:
        data = memoryview(chunk)
        while self._lengths and data:
            run = bytes(data[: min(self._lengths, _RUN)])
            self._take_lengths(run)
            data = data[len(run) :]
        if data and len(self._stored) < _CRC_SIZE:
            piece = data[: _CRC_SIZE - len(self._stored)]
            self._take_stored(bytes(piece))
            data = data[len(piece) :]
        if data:
            if len(data) > self._contents:
                extra = len(data) - self._contents
                raise _left_over(extra, "string", self._fed + self._contents)
            self._contents -= len(data)
            self._fed += len(data)
            self._crc = crc32c(data, self._crc)

    def finish(self) -> int:
        # A writer may have stored nothing at all for no elements.
        if self._fed and (self._lengths or len(self._stored) < _CRC_SIZE or self._contents):
            what = (
                f"string lengths call for {self._contents} bytes more"
                if len(self._stored) == _CRC_SIZE
                else f"{self._lengths} string lengths are missing"
            )
            raise TruncatedError(what, offset=self._fed)
        if not self._fed and self._lengths:
            raise TruncatedError(f"no bytes for {self._lengths} strings", offset=0)
        return self._crc

    def _take_lengths(self, run: bytes) -> None:
        if run.isascii() and not self._varint.begun:
            lengths: bytes | list[int] = run  # one byte each
        else:
            lengths = []
            for at, byte in enumerate(run):
                length = self._varint.take(byte, self._fed + at)
                if length is not None:
                    lengths.append(length)
        self._crc = crc32c(pack_lengths(lengths, self._order), self._crc)
        self._contents += sum(lengths)
        self._lengths -= len(lengths)
        self._fed += len(run)

    def _take_stored(self, piece: bytes) -> None:
        self._stored += piece
        self._fed += len(piece)
        if len(self._stored) < _CRC_SIZE:
            return
        stored = unmask(struct.unpack(f"{self._order}I", self._stored)[0])
        if stored != self._crc:
            raise ChecksumError(
                "string lengths are damaged",
                stored=stored,
                computed=self._crc,
                offset=self._fed - _CRC_SIZE,
            )
        self._crc = crc32c(self._stored, self._crc)


class _VariantVerifier:
    """Variants: `tensor.variants` draws the bytes."""

    def __init__(self, count: int, order: str) -> None:
        self._order = order
        self._count = count
        self._done = 0  # elements that are complete
        self._start = 0  # first byte of the element that is being taken
        self._varint = _Varint()
        self._body: int | None = None  # bytes of its message still to come, once its size is known
        self._stored = b""
        self._fed = 0
        self._crc = 0

    def feed(self, chunk: Buffer) -> None:
        data = memoryview(chunk)
        while data:
            if self._done == self._count:
                raise _left_over(len(data), "variant element", self._fed)
            if self._body is None:
                taken = self._take_size(data)
            elif self._body:
                taken = min(self._body, len(data))
                self._crc = crc32c(data[:taken], self._crc)
                self._body -= taken
            else:
                taken = min(_CRC_SIZE - len(self._stored), len(data))
                self._take_stored(bytes(data[:taken]), self._fed + taken)
            self._fed += taken
            data = data[taken:]

    def finish(self) -> int:
        if self._done < self._count:
            raise TruncatedError(
                f"variant element {self._done} of {self._count} is cut short", offset=self._start
            )
        return self._crc

    def _take_size(self, data: memoryview) -> int:
        for at, byte in enumerate(data):
            size = self._varint.take(byte, self._fed + at)
            if size is not None:
                self._body = size
                self._crc = crc32c(struct.pack(f"{self._order}Q", size), self._crc)
                return at + 1
        return len(data)

    def _take_stored(self, piece: bytes, end: int) -> None:
        self._stored += piece
        if len(self._stored) < _CRC_SIZE:
            return
        stored = unmask(struct.unpack(f"{self._order}I", self._stored)[0])
        if stored != self._crc:
            raise ChecksumError(
                f"variant element {self._done} is damaged",
                stored=stored,
                computed=self._crc,
                offset=self._start,
            )
        self._crc = crc32c(self._stored, self._crc)
        self._stored, self._body = b"", None
        self._done += 1
        self._start = end


def _left_over(count: int, noun: str, offset: int) -> CorruptError:
    return CorruptError(f"{count} bytes follow the last {noun}", offset=offset)
