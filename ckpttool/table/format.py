"""What surrounds the blocks of a table.

    block  type u8  masked crc u32     the trailer's crc covers the block and the type byte
    ...
    metaindex block, trailer           always empty, never consulted
    index block, trailer               for each data block: separator key -> handle
    footer, 48 bytes:
        metaindex handle  index handle  zeros up to 40 bytes  57 fb 80 8b 24 75 47 db

A handle is offset and size of a block, two varints; the size leaves the trailer out.
"""

from __future__ import annotations

from dataclasses import dataclass

from ckpttool.coding.varint import Buffer, decode_varint, encode_varint
from ckpttool.errors import CorruptError

MAGIC = bytes.fromhex("57fb808b247547db")
FOOTER_SIZE = 48
HANDLES_SIZE = 40
TRAILER_SIZE = 5
NO_COMPRESSION = 0
SNAPPY = 1


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is cut into blocks; the defaults are those of TensorFlow's writers.

    Attributes:
        block_size: bytes after which a data block is closed.
        restart_interval: entries of a data block between two keys that are spelled in full.
    """

    block_size: int = 262144
    restart_interval: int = 16


@dataclass(frozen=True, slots=True)
class BlockHandle:
    """Where a block lies: byte offset and size, both without the trailer."""

    offset: int
    size: int

    def encode(self) -> bytes:
        """Return the two varints."""
        return encode_varint(self.offset) + encode_varint(self.size)

    @classmethod
    def decode(cls, data: Buffer, pos: int = 0) -> tuple[BlockHandle, int]:
        """Decode a handle at `pos`; return it and the position after it."""
        offset, pos = decode_varint(data, pos, len(data))
        size, pos = decode_varint(data, pos, len(data))
        return cls(offset, size), pos


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 48 bytes of a table."""

    metaindex: BlockHandle
    index: BlockHandle

    def encode(self) -> bytes:
        """Return the 48 bytes."""
        return (self.metaindex.encode() + self.index.encode()).ljust(HANDLES_SIZE, b"\0") + MAGIC

    @classmethod
    def decode(cls, data: bytes) -> Footer:
        """Decode the 48 bytes.

        Raises:
            CorruptError: the magic number is missing or a handle is malformed.
        """
        if data[HANDLES_SIZE:] != MAGIC:
            raise CorruptError("not a table file: the magic number is missing", offset=HANDLES_SIZE)
        handles = data[:HANDLES_SIZE]
        metaindex, pos = BlockHandle.decode(handles)
        index, pos = BlockHandle.decode(handles, pos)
        return cls(metaindex, index)


def shortest_separator(last: bytes, following: bytes) -> bytes:
    """Return a short key `s` with `last <= s < following`; `last` itself where none is shorter."""
    for at, (low, high) in enumerate(zip(last, following, strict=False)):
        if low != high:
            if low < 0xFF and low + 1 < high:
                return last[:at] + bytes((low + 1,))
            break
    return last


def short_successor(last: bytes) -> bytes:
    """Return a short key that is not below `last`."""
    for at, byte in enumerate(last):
        if byte != 0xFF:
            return last[:at] + bytes((byte + 1,))
    return last
