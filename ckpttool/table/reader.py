"""Walking a table file.

Nothing is skipped: a block that cannot be read ends the walk with an error. A reader that moves on
past a damaged block shows a shorter list and no error, and whoever writes that list loses tensors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ckpttool.coding.checksum import crc32c, unmask
from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    TruncatedError,
    UnsupportedError,
)
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.block import decode_block
from ckpttool.table.format import (
    FOOTER_SIZE,
    NO_COMPRESSION,
    SNAPPY,
    TRAILER_SIZE,
    BlockHandle,
    Footer,
)

# The format cannot compress better than about 1 : 21, so a larger claim is a lie.
_SNAPPY_MAX_RATIO = 22
# A record of format V1 holds up to 2 GiB. Beyond that only a sparse file, which costs its sender
# nothing, asks for so much memory.
_MAX_BLOCK_SIZE = (1 << 31) + (1 << 20)


class TableReader:
    """Reads a table block by block.

    Opening reads the footer and the index block; data blocks are read as the walk reaches them.

    Args:
        file: the open file; the caller closes it.

    Raises:
        CorruptError: the file is not a table or contradicts itself.
    """

    def __init__(self, file: RandomAccessFile) -> None:
        self._file = file
        if file.size < FOOTER_SIZE:
            raise TruncatedError(
                f"not a table file: {file.size} bytes are fewer than its footer has",
                path=file.path,
            )
        at = file.size - FOOTER_SIZE
        try:
            footer = Footer.decode(file.read_at(at, FOOTER_SIZE))
        except CkptError as error:
            error.offset = at + (error.offset or 0)
            error.locate(path=file.path)
            raise
        self._index = self._decode_index(footer.index)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value, in key order.

        Raises:
            CorruptError: a block is damaged or its keys do not lie between its separators.
            UnsupportedError: a block is compressed in a way that is not known.
        """
        low: bytes | None = None
        for separator, handle in self._index:
            entries = self._read_entries(handle)
            if entries and (
                (low is not None and entries[0][0] <= low) or entries[-1][0] > separator
            ):
                raise CorruptError(
                    "the keys of a table block lie outside what the index says of it",
                    path=self._file.path,
                    offset=handle.offset,
                )
            yield from entries
            low = separator

    def _decode_index(self, index: BlockHandle) -> list[tuple[bytes, BlockHandle]]:
        out = []
        end = 0
        for separator, value in self._read_entries(index):
            try:
                handle, _ = BlockHandle.decode(value)
            except CorruptError as error:
                raise CorruptError(
                    error.message, path=self._file.path, offset=index.offset
                ) from error
            if handle.offset < end:
                raise CorruptError(
                    "table blocks overlap", path=self._file.path, offset=handle.offset
                )
            end = handle.offset + handle.size + TRAILER_SIZE
            out.append((separator, handle))
        return out

    def _read_entries(self, handle: BlockHandle) -> list[tuple[bytes, bytes]]:
        block = self._read_block(handle)
        try:
            return decode_block(block)
        except CkptError as error:
            # What is wrong in a decompressed block has no offset in the file.
            within = error.offset or 0 if len(block) == handle.size else 0
            error.offset = handle.offset + within
            error.locate(path=self._file.path)
            raise

    def _read_block(self, handle: BlockHandle) -> bytes:
        path, offset = self._file.path, handle.offset
        if offset + handle.size + TRAILER_SIZE > self._file.size - FOOTER_SIZE:
            raise TruncatedError(
                f"a table block of {handle.size} bytes runs past the end of the file",
                path=path,
                offset=offset,
            )
        if handle.size > _MAX_BLOCK_SIZE:
            raise UnsupportedError(
                f"a table block of {handle.size} bytes is more than {_MAX_BLOCK_SIZE}",
                path=path,
                offset=offset,
            )
        raw = self._file.read_at(offset, handle.size + TRAILER_SIZE)
        kind = raw[handle.size]
        stored = unmask(struct.unpack_from("<I", raw, handle.size + 1)[0])
        computed = crc32c(memoryview(raw)[: handle.size + 1])
        if stored != computed:
            raise ChecksumError(
                "a table block is damaged",
                stored=stored,
                computed=computed,
                path=path,
                offset=offset,
            )
        block = raw[: handle.size]
        if kind == NO_COMPRESSION:
            return block
        if kind == SNAPPY:
            return self._decompress(block, offset)
        raise UnsupportedError(f"table compression {kind} is not known", path=path, offset=offset)

    def _decompress(self, block: bytes, offset: int) -> bytes:
        import cramjam  # only files of unusual writers have compressed blocks

        try:
            claimed = cramjam.snappy.decompress_raw_len(block)
            if claimed > _SNAPPY_MAX_RATIO * len(block) + 64:
                raise CorruptError(
                    f"a compressed table block claims {claimed} bytes from {len(block)}",
                    path=self._file.path,
                    offset=offset,
                )
            return bytes(cramjam.snappy.decompress_raw(block))
        except cramjam.DecompressionError as error:
            raise CorruptError(
                "a compressed table block does not decompress", path=self._file.path, offset=offset
            ) from error
