"""Reading one block.

    entry     shared varint32  non-shared varint32  value size varint32
              key[shared:]  value
    ...
    restarts  u32le each: offsets of the entries whose key is spelled in full
    count     u32le: number of restarts

`shared` counts the bytes that a key has in common with the key before it.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from ckpttool.coding.text import decode_text
from ckpttool.coding.varint import decode_varint
from ckpttool.errors import CorruptError

_MAX_32 = (1 << 32) - 1
# Keys that share much of one another take more room decoded than stored. Writers spell a key out
# after 16 entries at the latest, so more than this is an attempt to fill the memory.
MAX_EXPANSION = 64
# A longer key is no help in a message.
_MAX_NAMED = 4096


def decode_block(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of an uncompressed block, in the order they lie.

    Raises:
        CorruptError: lengths, restarts or the order of the keys contradict the format; `offset`
            counts from the start of the block.
    """
    restarts = _decode_restarts(data)
    end = len(data) - 4 * (len(restarts) + 1)
    restart_at = iter(restarts)
    next_restart = next(restart_at)
    out: list[tuple[bytes, bytes]] = []
    append = out.append
    key = b""
    pos = 0
    room = MAX_EXPANSION * (len(data) + 1024)
    while pos < end:
        start = pos
        # Nearly always three one-byte lengths; anything else takes the general way.
        if pos + 3 <= end and data[pos] < 128 and data[pos + 1] < 128 and data[pos + 2] < 128:
            shared, fresh, size = data[pos], data[pos + 1], data[pos + 2]
            pos += 3
        else:
            shared, fresh, size, pos = _decode_lengths(data, pos, end)
        value_at = pos + fresh
        if shared > len(key) or value_at + size > end:
            raise CorruptError("a table entry has impossible lengths", offset=start)
        previous, key = key, key[:shared] + data[pos:value_at]
        if key <= previous and out:
            raise wrong_order(previous, key, start)
        room -= len(key)
        if room < 0:
            raise CorruptError("the keys of a table block share more than a writer lets them")
        if start == next_restart:
            if shared:
                raise CorruptError("a table key is cut short at a restart", offset=start)
            next_restart = next(restart_at, -1)
        pos = value_at + size
        append((key, data[value_at:pos]))
    if next_restart != -1 and (out or len(restarts) > 1):
        raise CorruptError("a table restart points at no entry", offset=next_restart)
    return out


def wrong_order(previous: bytes, key: bytes, offset: int) -> CorruptError:
    """Return the error for a key that does not lie above the one before it."""
    what = "table keys do not rise"
    if key == previous:
        what += ": one is in the table twice"
    named = decode_text(key) if 0 < len(key) <= _MAX_NAMED else None
    return CorruptError(what, offset=offset, key=named)


def _decode_restarts(data: bytes) -> tuple[int, ...]:
    count = struct.unpack_from("<I", data, len(data) - 4)[0] if len(data) >= 4 else 0
    if count < 1 or 4 * (count + 1) > len(data):
        raise CorruptError("a table block has an impossible count of restarts")
    restarts: tuple[int, ...] = struct.unpack_from(f"<{count}I", data, len(data) - 4 * (count + 1))
    if restarts[0] != 0 or any(a >= b for a, b in pairwise(restarts)):
        raise CorruptError("the restarts of a table block do not rise from 0")
    return restarts


def _decode_lengths(data: bytes, pos: int, end: int) -> tuple[int, int, int, int]:
    shared, at = decode_varint(data, pos, end)
    fresh, at = decode_varint(data, at, end)
    size, at = decode_varint(data, at, end)
    if max(shared, fresh, size) > _MAX_32:
        raise CorruptError("a length in a table entry has more than 32 bits", offset=pos)
    return shared, fresh, size, at
