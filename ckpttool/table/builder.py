"""Building a table; its bytes equal those of TensorFlow's writers for the same entries."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import chain

from ckpttool.coding.checksum import crc32c, mask
from ckpttool.coding.varint import encode_varint
from ckpttool.table.block_builder import BlockBuilder
from ckpttool.table.format import (
    NO_COMPRESSION,
    TRAILER_SIZE,
    BlockHandle,
    Footer,
    TableOptions,
    short_successor,
    shortest_separator,
)


class TableBuilder:
    """Writes a table as its entries come in.

    Args:
        write: takes the file's bytes, piece by piece.
        options: how to cut it into blocks.
    """

    def __init__(
        self, write: Callable[[bytes | memoryview], object], options: TableOptions | None = None
    ) -> None:
        self._write = write
        self._options = options or TableOptions()
        self._offset = 0
        self._entries = 0
        self._block = BlockBuilder(self._options.restart_interval)
        self._index = BlockBuilder(1)
        self._last_key = b""
        # The index entry of a closed block waits for the next key, to find the separator.
        self._pending: BlockHandle | None = None

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry.

        Raises:
            ValueError: `key` is not above the key before it.
        """
        self._begin(key, len(value))
        self._block.add(key, value)
        if self._block.size >= self._options.block_size:
            self._close_block(None)

    def add_pieces(self, key: bytes, size: int, pieces: Iterable[bytes | memoryview]) -> None:
        """Append an entry whose value comes in pieces; a large one is never held as a whole.

        Args:
            key: the key.
            size: bytes of the value.
            pieces: the value.

        Raises:
            ValueError: `key` is not above the key before it, or the pieces have another size.
        """
        if not self._is_large(key, size):
            value = b"".join(pieces)
            if len(value) != size:
                raise ValueError(f"a value of {len(value)} bytes, not {size}")
            self.add(key, value)
            return
        self._begin(key, size)
        head = b"\0" + encode_varint(len(key)) + encode_varint(size) + key
        tail = struct.pack("<IIB", 0, 1, NO_COMPRESSION)
        self._pending = BlockHandle(self._offset, len(head) + size + len(tail) - 1)
        crc = 0
        for piece in chain((head,), pieces, (tail,)):
            crc = crc32c(piece, crc)
            self._emit(piece)
        self._emit(struct.pack("<I", mask(crc)))
        if self._offset != self._pending.offset + self._pending.size + TRAILER_SIZE:
            raise ValueError(f"a value of another size than {size} bytes")

    def finish(self) -> int:
        """Write the last block, the index and the footer; return the size of the file in bytes."""
        self._close_block(None)
        metaindex = self._write_block(BlockBuilder(1).finish())
        if self._pending is not None:
            self._index.add(short_successor(self._last_key), self._pending.encode())
        index = self._write_block(self._index.finish())
        self._emit(Footer(metaindex, index).encode())
        return self._offset

    def _is_large(self, key: bytes, size: int) -> bool:
        """Tell whether an entry gets a block to itself."""
        return len(key) + size >= 2 * self._options.block_size

    def _begin(self, key: bytes, size: int) -> None:
        """Get ready for an entry."""
        if self._entries and key <= self._last_key:
            raise ValueError(f"table keys must rise: {key!r} after {self._last_key!r}")
        if self._pending is not None:
            self._index.add(shortest_separator(self._last_key, key), self._pending.encode())
            self._pending = None
        if self._entries and self._is_large(key, size):
            self._close_block(key)
        self._last_key = key
        self._entries += 1

    def _close_block(self, following: bytes | None) -> None:
        """Write the data block; `following` is the next key where it is known already."""
        if self._block.empty:
            return
        handle = self._write_block(self._block.finish())
        self._block.clear()
        if following is None:
            self._pending = handle
        else:
            self._index.add(shortest_separator(self._last_key, following), handle.encode())

    def _write_block(self, block: bytes) -> BlockHandle:
        handle = BlockHandle(self._offset, len(block))
        kind = bytes((NO_COMPRESSION,))
        crc = mask(crc32c(kind, crc32c(block)))
        self._emit(block + kind + struct.pack("<I", crc))
        return handle

    def _emit(self, data: bytes | memoryview) -> None:
        self._write(data)
        self._offset += len(data)
