"""Reading one block as it is stored: its place in the file, its trailer, its compression."""

from __future__ import annotations

import struct

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


def read_footer(file: RandomAccessFile) -> Footer:
    """Read the last bytes of a table.

    Raises:
        CorruptError: the file is not a table.
    """
    if file.size < FOOTER_SIZE:
        raise TruncatedError(
            f"not a table file: {file.size} bytes are fewer than its footer has",
            path=file.path,
        )
    at = file.size - FOOTER_SIZE
    try:
        return Footer.decode(file.read_at(at, FOOTER_SIZE))
    except CkptError as error:
        error.offset = at + (error.offset or 0)
        error.locate(path=file.path)
        raise


def read_entries(
    file: RandomAccessFile, handle: BlockHandle, *, verify: bool = True
) -> list[tuple[bytes, bytes]]:
    """Read the keys and values of a block.

    Args:
        file: the table.
        handle: where the block lies.
        verify: whether a wrong checksum is an error. Only who wants to save what there is in a
            damaged table does without.

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
    """Check that a block lies within the file and is not too large.

    Raises:
        TruncatedError: it does not.
        UnsupportedError: it is.
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
    """Hold the crc32c of a block and its type byte against the one in its trailer.

    Raises:
        ChecksumError: they differ.
    """
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
    """Return the bytes of a compressed block.

    Args:
        kind: how it is compressed, as its trailer says.
        block: the stored bytes.
        path: the file, for errors.
        offset: where in the file the block begins, for errors.

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
