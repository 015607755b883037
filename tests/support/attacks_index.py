"""One bad index file for each way in which a table can break a rule, all checksums right."""

from __future__ import annotations

from collections.abc import Callable

import cramjam

from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    TruncatedError,
    UnsupportedError,
)
from tests.support import encoder
from tests.support.attack import index_attack
from tests.support.encoder import block_entry


def _whole(records: list[tuple[bytes, bytes]]) -> bytes:
    return encoder.table(records)


def _footer(metaindex: tuple[int, int], index: tuple[int, int]) -> Callable[..., bytes]:
    return lambda records: _whole(records)[:-48] + encoder.footer(metaindex, index)


def _patched(at: int, data: bytes) -> Callable[..., bytes]:
    def change(records: list[tuple[bytes, bytes]]) -> bytes:
        raw = bytearray(_whole(records))
        start = len(raw) + at if at < 0 else at
        raw[start : start + len(data)] = data
        return bytes(raw)

    return change


def _one(stored: Callable[[bytes], bytes], kind: int = 0) -> Callable[..., bytes]:
    """Store something else than the data block, sealed."""
    return lambda records: (
        encoder.Table().add(stored(encoder.block(records)), b"\xff" * 9, kind).encode()
    )


def _handle(place: Callable[[int], tuple[int, int]], more: bytes = b"") -> Callable[..., bytes]:
    """Let the index block give another handle; `place` gets the true size."""

    def change(records: list[tuple[bytes, bytes]]) -> bytes:
        block = encoder.block(records)
        made = encoder.Table().add(block, b"\xff" * 9)
        made.handles[0] = encoder.handle(*place(len(block))) + more
        return made.encode()

    return change


def _restarts(*restarts: int, count: int | None = None) -> Callable[[bytes], bytes]:
    return lambda block: encoder.close_block(block[:-8], restarts, count=count)


def _more(raw: bytes) -> Callable[[bytes], bytes]:
    """Put entries behind those of the block."""
    return lambda block: encoder.close_block(block[:-8] + raw)


def _lying(fresh: int, size: int) -> bytes:
    """Return an entry of one byte of key that claims these lengths."""
    return block_entry(0, b"z", b"", fresh=fresh, size=size)


def _two(last: bytes, final: bytes = b"\xff" * 9, at: int = 2) -> Callable[..., bytes]:
    """Cut the records into two blocks with these separators."""
    return lambda records: (
        encoder.Table()
        .add(encoder.block(records[:at]), last)
        .add(encoder.block(records[at:]), final)
        .encode()
    )


def _overlapping(records: list[tuple[bytes, bytes]]) -> bytes:
    made = encoder.Table()
    made.add(encoder.block(records[:2]), records[1][0]).add(encoder.block(records[2:]), b"\xff")
    made.handles[1] = encoder.handle(4, 30)
    return made.encode()


def _gap(records: list[tuple[bytes, bytes]]) -> bytes:
    junk = b"nobody points here"
    made = encoder.Table().add(junk, b"").add(encoder.block(records), b"\xff" * 9)
    raw = made.encode()
    size = len(made.blocks[1][0])
    index = encoder.block([(b"\xff" * 9, encoder.handle(len(junk) + 5, size))])
    head = raw[: len(junk) + 5 + size + 5]
    return head + index + encoder.trailer(index) + encoder.footer((0, 0), (len(head), len(index)))


def _snappy(block: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(block))


_BAD_VARINT = b"\xff" * 40
_TABLE: list[tuple[str, str, type[CkptError] | None, str, Callable[..., bytes]]] = [
    ("I1", "empty", TruncatedError, "not a table", lambda records: b""),
    ("I1", "47 bytes", TruncatedError, "not a table", lambda records: _whole(records)[-47:]),
    ("I1", "magic number", CorruptError, "magic", _patched(-1, b"\0")),
    ("I1", "handle without end", CorruptError, "varint", _patched(-48, _BAD_VARINT)),
    ("I1", "padding", None, "", _patched(-12, b"\1\2\3\4")),
    ("I2", "index past the end", TruncatedError, "past", _footer((0, 0), (9, 2**20))),
    ("I2", "index at 2**64 - 8", TruncatedError, "past", _footer((0, 0), (2**64 - 8, 8))),
    ("I2", "index of 2**63", TruncatedError, "past", _footer((0, 0), (0, 2**63))),
    ("I2", "block past the end", TruncatedError, "past", _handle(lambda n: (n, n * 2))),
    ("I2", "block of 2**64 - 1", TruncatedError, "past", _handle(lambda n: (1, -1))),
    ("I2", "block into the footer", TruncatedError, "past", _handle(lambda n: (60, n))),
    ("I2", "blocks overlap", CorruptError, "overlap", _overlapping),
    ("I3", "data block", ChecksumError, "damaged", _patched(1, b"\1")),
    ("I3", "its type", ChecksumError, "damaged", _handle(lambda n: (0, n - 1))),
    ("I4", "type 2", UnsupportedError, "compression 2", _one(bytes, 2)),
    ("I4", "raw called Snappy", CorruptError, "block", _one(bytes, 1)),
    ("I4", "Snappy", None, "", _one(_snappy, 1)),
    ("I4", "claims 4 GiB", CorruptError, "claims", _one(lambda b: encoder.varint(2**32 - 1), 1)),
    ("I4", "Snappy and more", CorruptError, "decompress", _one(lambda b: _snappy(b) + b"\0", 1)),
    ("I4", "Snappy cut", CorruptError, "decompress", _one(lambda b: _snappy(b)[:-1], 1)),
    ("I5", "none", CorruptError, "restarts", _one(_restarts())),
    ("I5", "2**31", CorruptError, "restarts", _one(_restarts(0, count=2**31))),
    ("I5", "first not 0", CorruptError, "restarts", _one(_restarts(1))),
    ("I5", "falling", CorruptError, "restarts", _one(_restarts(0, 30, 20))),
    ("I5", "within an entry", CorruptError, "restart", _one(_restarts(0, 5))),
    ("I5", "behind the entries", CorruptError, "restart", _one(_restarts(0, 2**20))),
    ("I6", "33 bits", CorruptError, "32 bits", _one(_more(_lying(1, 2**32)))),
    ("I6", "shares too much", CorruptError, "lengths", _one(_more(block_entry(9, b"z", b"")))),
    ("I6", "key past the end", CorruptError, "lengths", _one(_more(_lying(2, 0)))),
    ("I6", "32-bit sum wraps", CorruptError, "lengths", _one(_more(_lying(2**32 - 1, 2)))),
    ("I6", "bytes left over", CorruptError, "varint", _one(_more(b"\0\0"))),
    ("I7", "equal", CorruptError, "rise", _one(_more(block_entry(0, b"x", b"")))),
    ("I7", "falling", CorruptError, "rise", _one(_more(block_entry(0, b"a", b"")))),
    ("I7", "falling from block to block", CorruptError, "outside", _two(b"x")),
    ("I8", "below the last key", CorruptError, "outside", _two(b"", at=3)),
    ("I8", "above the next key", CorruptError, "outside", _two(b"z")),
    ("I8", "last below the last key", CorruptError, "outside", _two(b"\0\xff", b"f", at=1)),
    ("I8", "bytes behind the handle", None, "", _handle(lambda n: (0, n), b"more")),
    ("I9", "before the first block", None, "", _gap),
]  # fmt: skip
for _rule, _name, _error, _message, _change in _TABLE:
    index_attack(_rule, _name, _error, _message, _change)
