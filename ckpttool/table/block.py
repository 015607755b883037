"""Reading one block: its place in the file, its trailer, its compression, its entries.

    entry     shared varint32  non-shared varint32  value size varint32
              key[shared:]  value
    ...
    restarts  u32le each: offsets of the entries whose key is spelled in full
    count     u32le: number of restarts

`shared` counts the bytes that a key has in common with the key before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

from ckpttool.coding.checksum import crc32c, unmask
from ckpttool.coding.text import decode_text
from ckpttool.coding.varint import decode_varint
from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    TruncatedError,
    UnsupportedError,
)
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.format import (
    FOOTER_SIZE,
    NO_COMPRESSION,
    SNAPPY,
    TRAILER_SIZE,
    BlockHandle,
)

_MAX_32 = (1 << 32) - 1
# Three varints.
_MAX_LENGTHS = 30
_RESTARTS_AT_ONCE = 1 << 16  # bytes of them
# Keys that share much of one another take more room decoded than stored. Writers spell a key out
# after 16 entries at the latest, so more than this is an attempt to fill the memory.
_MAX_EXPANSION = 64
# A longer key is no help in a message.
_MAX_NAMED = 4096


def decode_block(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of an uncompressed block in order; raises as `walk_block`."""
    return [(key, data[start:stop]) for key, start, stop in walk_block(data)]


class BlockBytes(Protocol):
    """The bytes of a block, in memory or read on demand."""

    def __len__(self) -> int:
        """Return their number."""

    def __getitem__(self, index: slice, /) -> bytes:
        """Return those from `start` to `stop`."""


def walk_block(data: BlockBytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield each key of an uncompressed block, and where its value begins and ends.

    Values are not looked at.

    Raises:
        CorruptError: lengths, restarts or the order of the keys contradict the format; `offset`
            counts from the start of the block.
    """
    end = _end_of_entries(data)
    restarts = _restarts(data, end)
    next_restart = next(restarts)
    key = b""
    pos = 0
    room = _MAX_EXPANSION * (len(data) + 1024)
    while pos < end:
        start = pos
        # Fast path: three one-byte lengths, as nearly always.
        pos += 3
        shared, fresh, size = data[start:pos]
        if pos > end or shared | fresh | size > 127:
            shared, fresh, size, pos = _decode_lengths(data, start, end)
        value_at = pos + fresh
        if shared > len(key) or value_at + size > end:
            raise CorruptError("a table entry has impossible lengths", offset=start)
        previous, key = key, key[:shared] + data[pos:value_at]
        if key <= previous and start:
            raise _wrong_order(previous, key, start)
        room -= len(key)
        if room < 0:
            raise CorruptError("the keys of a table block share more than a writer lets them")
        if start == next_restart:
            if shared:
                raise CorruptError("a table key is cut short at a restart", offset=start)
            next_restart = next(restarts, -1)
        pos = value_at + size
        yield key, value_at, pos
    more = sum(1 for _ in restarts)  # which raises if they do not rise
    if next_restart != -1 and (end or more):
        raise CorruptError("a table restart points at no entry", offset=next_restart)


def _wrong_order(previous: bytes, key: bytes, offset: int) -> CorruptError:
    """Return the error for a key that does not lie above the one before it."""
    what = "table keys do not rise"
    if key == previous:
        what += ": one is in the table twice"
    named = decode_text(key) if 0 < len(key) <= _MAX_NAMED else None
    return CorruptError(what, offset=offset, key=named)


def _end_of_entries(data: BlockBytes) -> int:
    count = struct.unpack("<I", data[len(data) - 4 : len(data)])[0] if len(data) >= 4 else 0
    if count < 1 or 4 * (count + 1) > len(data):
        raise CorruptError("a table block has an impossible count of restarts")
    return len(data) - 4 * (count + 1)


def _restarts(data: BlockBytes, begin: int) -> Iterator[int]:
    end = len(data) - 4
    last = -1
    for at in range(begin, end, _RESTARTS_AT_ONCE):
        for (restart,) in struct.iter_unpack("<I", data[at : min(at + _RESTARTS_AT_ONCE, end)]):
            if restart <= last or (last < 0 and restart):
                raise CorruptError("the restarts of a table block do not rise from 0")
            yield restart
            last = restart


def _decode_lengths(data: BlockBytes, pos: int, end: int) -> tuple[int, int, int, int]:
    head = data[pos : min(pos + _MAX_LENGTHS, end)]
    try:
        shared, at = decode_varint(head, 0, len(head))
        fresh, at = decode_varint(head, at, len(head))
        size, at = decode_varint(head, at, len(head))
    except CorruptError as error:
        error.offset = pos + (error.offset or 0)
        raise
    if max(shared, fresh, size) > _MAX_32:
        raise CorruptError("a length in a table entry has more than 32 bits", offset=pos)
    return shared, fresh, size, pos + at


# The format cannot compress better than about 1 : 21, so a larger claim is a lie.
_SNAPPY_MAX_RATIO = 22
# A record of format V1 holds up to 2 GiB. Beyond that only a sparse file, which costs its sender
# nothing, asks for so much memory.
_MAX_BLOCK_SIZE = (1 << 31) + (1 << 20)


def read_entries(
    file: RandomAccessFile, handle: BlockHandle, *, verify: bool = True
) -> list[tuple[bytes, bytes]]:
    """Read the keys and values of a block.

    Args:
        file: the table.
        handle: where the block lies.
        verify: whether a wrong checksum is an error. Only recovery tools skip this check.

    Raises:
        CorruptError: the block is damaged or lies outside of the file.
        UnsupportedError: it is compressed in a way that is not known, or too large.
    """
    block = _read_block(file, handle, verify)
    try:
        return decode_block(block)
    except CkptError as error:
        # What is wrong in a decompressed block has no offset in the file.
        within = error.offset or 0 if len(block) == handle.size else 0
        error.offset = handle.offset + within
        error.locate(path=file.path)
        raise


def _read_block(file: RandomAccessFile, handle: BlockHandle, verify: bool) -> bytes:
    path, offset = file.path, handle.offset
    check_place(file, handle)
    raw = file.read_at(offset, handle.size + TRAILER_SIZE)
    kind = raw[handle.size]
    if verify:
        computed = crc32c(memoryview(raw)[: handle.size + 1])
        check_trailer(raw[handle.size :], computed, path=path, offset=offset)
    block = raw[: handle.size]
    if kind == NO_COMPRESSION:
        return block
    return bytes(decompress(kind, memoryview(block), path=path, offset=offset))


def check_place(file: RandomAccessFile, handle: BlockHandle) -> None:
    """Check that a block lies within the file (`TruncatedError`) and is not too large.

    Raises:
        UnsupportedError: it is too large.
    """
    if handle.offset + handle.size + TRAILER_SIZE > file.size - FOOTER_SIZE:
        raise TruncatedError(
            f"a table block of {handle.size} bytes runs past the end of the file",
            path=file.path,
            offset=handle.offset,
        )
    if handle.size > _MAX_BLOCK_SIZE:
        raise UnsupportedError(
            f"a table block of {handle.size} bytes is more than {_MAX_BLOCK_SIZE}",
            path=file.path,
            offset=handle.offset,
        )


def check_trailer(trailer: bytes, computed: int, *, path: str, offset: int) -> None:
    """Raise `ChecksumError` if the crc32c of a block and its type byte is not the stored one."""
    stored = unmask(struct.unpack_from("<I", trailer, 1)[0])
    if stored != computed:
        raise ChecksumError(
            "a table block is damaged",
            stored=stored,
            computed=computed,
            path=path,
            offset=offset,
        )


def decompress(kind: int, block: memoryview, *, path: str, offset: int) -> memoryview:
    """Return the bytes of a compressed block; `path` and `offset` are for errors.

    Args:
        kind: the compression type in its trailer.
        block: the stored bytes.
        path: of the table.
        offset: of the block in the file.

    Raises:
        CorruptError: it does not decompress.
        UnsupportedError: this kind is not known.
    """
    if kind != SNAPPY:
        raise UnsupportedError(f"table compression {kind} is not known", path=path, offset=offset)
    import cramjam  # only files of unusual writers have compressed blocks

    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > _SNAPPY_MAX_RATIO * len(block) + 64:
            raise CorruptError(
                f"a compressed table block claims {claimed} bytes from {len(block)}",
                path=path,
                offset=offset,
            )
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptError(
            "a compressed table block does not decompress", path=path, offset=offset
        ) from error
