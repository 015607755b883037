"""A compressed member of an archive, read as a file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ckpttool.errors import CorruptError, TruncatedError
from ckpttool.storage.source import RandomAccessFile

_CHUNK = 1 << 16
_PIECE = 1 << 20


class Inflated:
    """The unpacked bytes of a deflated member.

    They can only be made from the first to the last. Going on is cheap; going back begins anew.

    Args:
        file: the archive.
        offset: where the compressed bytes begin.
        stored: how many there are.
        size: how many they become.

    Raises, as all methods do:
        CorruptError: the bytes are no deflate, or become more or fewer.
    """

    def __init__(self, file: RandomAccessFile, offset: int, stored: int, size: int) -> None:
        self.size = size
        self._file = file
        self._offset = offset
        self._stored = stored
        self._begin()

    def read_at(self, pos: int, length: int) -> bytes:
        """Return `length` bytes from `pos`."""
        if pos < self._at:
            self._begin()
        while self._at < pos:
            self._next(min(pos - self._at, _PIECE))
        parts = []
        while length:
            piece = self._next(min(length, _PIECE))
            parts.append(piece)
            length -= len(piece)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def chunks(self, pos: int, length: int, *, chunk_size: int = _PIECE) -> Iterator[memoryview]:
        """Yield `length` bytes from `pos` in pieces of `chunk_size`, the last one shorter."""
        while length:
            piece = self.read_at(pos, min(chunk_size, length))
            yield memoryview(piece)
            pos += len(piece)
            length -= len(piece)

    def check_end(self) -> None:
        """Check that nothing follows the last byte, which has been read."""
        try:
            more = self._unpacker.decompress(self._take(), 1)
        except zlib.error as error:
            raise self._broken() from error
        if more or not self._unpacker.eof or self._unpacker.unused_data or self._left:
            raise CorruptError("its compressed bytes do not end with it", offset=self._read_to)

    def _begin(self) -> None:
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        self._at = 0
        self._left = self._stored

    @property
    def _read_to(self) -> int:
        return self._offset + self._stored - self._left

    def _take(self) -> bytes:
        """Return compressed bytes that were not used yet."""
        if self._unpacker.unconsumed_tail:
            return self._unpacker.unconsumed_tail
        length = min(self._left, _CHUNK)
        data = self._file.read_at(self._read_to, length) if length else b""
        self._left -= length
        return data

    def _next(self, length: int) -> bytes:
        """Return the next bytes: at least one, at most `length`."""
        while True:
            data = self._take()
            try:
                piece = self._unpacker.decompress(data, length)
            except zlib.error as error:
                raise self._broken() from error
            if piece:
                self._at += len(piece)
                return piece
            if self._unpacker.eof or not (data or self._left):
                message = f"its compressed bytes end after {self._at} of {self.size}"
                raise TruncatedError(message, offset=self._read_to)

    def _broken(self) -> CorruptError:
        return CorruptError("its compressed bytes are damaged", offset=self._read_to)
