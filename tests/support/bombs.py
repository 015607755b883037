"""Small bundles that claim to be huge."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tests.support import encoder
from tests.support.encoder import Extents, block_entry, entry, slice_key
from tests.support.handmade import Bundle, shard_path

F32, U8, STRING, VARIANT = 1, 4, 7, 21
MIB = 1 << 20


@dataclass(frozen=True)
class Bomb:
    """A bundle of one tensor.

    Attributes:
        name: what it claims.
        write: writes it under a prefix.
        message: part of the refusal; empty if it must be read.
        room: bytes of memory that it may take beyond what every bundle may.
    """

    name: str
    write: Callable[[str], object]
    message: str
    room: int = 0

    def __str__(self) -> str:
        return self.name


def _tensor(record: bytes, data: bytes = b"", *, header: bytes | None = None) -> Callable[..., str]:
    made = Bundle(shards=[data])
    made.records[b"t"] = record
    if header is not None:
        made.header = header
    return made.write


def _slices(
    dtype: int, dims: tuple[int, ...], parts: list[Extents], *, size: int | None = None
) -> Callable[..., str]:
    """Return a partitioned tensor whose slices share the bytes of a shard of 4 KB."""
    made = Bundle(shards=[bytes(4096)])
    for part in parts:
        stored = [
            dim if length == -1 else length for dim, (_, length) in zip(dims, part, strict=True)
        ]
        volume = 1
        for length in stored:
            volume *= length
        made.records[slice_key(b"t", part)] = entry(
            dtype, stored, size=volume if size is None else size, crc=encoder.mask(0)
        )
    made.records[b"t"] = entry(dtype, dims, slices=parts)
    return made.write


def _diagonal(rank: int, cells: int) -> Callable[..., str]:
    """Return slices that cut every axis in many places."""
    side = 4 * cells
    dims = (side,) * rank
    parts: list[Extents] = [((0, side - cells), *[(0, side)] * (rank - 1))]
    parts += [((side - cells + at, 1), *[(3 * at, 1)] * (rank - 1)) for at in range(cells)]
    parts.append(((side - cells, cells), *[(0, side)] * (rank - 1)))
    return _slices(U8, dims, parts)


def _index(raw: bytes) -> Callable[[str], object]:
    return lambda prefix: Bundle().write(prefix, raw)


def _shared_keys() -> bytes:
    head = block_entry(0, b"", encoder.header()) + block_entry(0, b"k" * 500_000, b"")
    return head + b"".join(block_entry(500_000 + at, b"a", b"") for at in range(60_000))


def _dense_snappy(claimed: int) -> bytes:
    """Return the shortest Snappy bytes that make `claimed` zeros: copies of 64."""
    copies, rest = divmod(claimed - 1, 64)
    tail = bytes(((rest - 1) * 4 + 2, 1, 0)) if rest else b""
    return encoder.varint(claimed) + b"\0\0" + b"\xfe\1\0" * copies + tail


def _sparse_index(prefix: str) -> None:
    size = 1 << 40
    with open(prefix + ".index", "wb") as file:
        file.seek(size)
        file.write(encoder.footer((0, 0), (0, size - 5)))


def _many_slices_of_a_long_name(prefix: str) -> None:
    made = Bundle()
    parts = [((at, 1),) for at in range(20_000)]
    made.records[b"k" * 300_000] = entry(U8, (10**6,), slices=parts)
    made.write(prefix)


def _million_strings(prefix: str) -> None:
    count = 10**6
    data, crc = encoder.string_data([b""] * count)
    _tensor(entry(STRING, (count,), size=len(data), crc=crc), data)(prefix)


def _many_dimensions(prefix: str) -> None:
    Bundle(records={b"t": entry(U8, [1] * 300_000, size=1)}).write(prefix)


def _missing_shards(prefix: str) -> None:
    _tensor(entry(U8, (), shard=99998, size=1), header=encoder.header(99999))(prefix)
    os.unlink(shard_path(prefix))


def _bytes_shared_by_slices() -> Callable[..., str]:
    return _slices(U8, (2**24,), [((at * 4096, 4096),) for at in range(4096)])


def _block(block: bytes, kind: int = 0) -> Callable[[str], object]:
    return _index(encoder.Table().add(block, b"\xff" * 9, kind).encode())


def _handle_of(size: int) -> Callable[[str], object]:
    return _index(bytes(48) + encoder.footer((0, 0), (0, size)))


_HALVES: list[Extents] = [((0, 2**39),), ((2**39, 2**39),)]
_TOO_FEW = "wanted here"
_SHARED = "more bytes than the 4096"

BOMBS = [
    Bomb("2**40 floats", _tensor(entry(F32, (2**40,), size=2**42), b"1"), _TOO_FEW),
    Bomb("2**58 bytes", _tensor(entry(U8, (2**58,), size=2**58), b"1"), _TOO_FEW),
    Bomb("10**12 strings", _tensor(entry(STRING, (10**12,), size=9), bytes(9)), "9 bytes for 1000"),
    Bomb("10**12 long strings", _tensor(entry(STRING, (10**12,), size=2**50)), _TOO_FEW),
    Bomb("10**12 variants", _tensor(entry(VARIANT, (10**12,), size=9), bytes(9)), "9 bytes for 10"),
    Bomb("a million strings that are there", _million_strings, "", room=256 * MIB),
    Bomb("nothing, of 2**58 rows", _tensor(entry(U8, (2**58, 0), crc=encoder.mask(0))), ""),
    Bomb("halves of 2**40 bytes", _slices(U8, (2**40,), _HALVES), _SHARED),
    Bomb("halves of 2**40 strings", _slices(STRING, (2**40,), _HALVES, size=9), "9 bytes for"),
    Bomb("halves of unknown dtype", _slices(99, (2**40,), _HALVES, size=9), "unknown(99)"),
    Bomb("slices that share bytes", _bytes_shared_by_slices(), _SHARED),
    Bomb("a diagonal in 4 dimensions", _diagonal(4, 300), _SHARED),
    Bomb("a diagonal in 60 dimensions", _diagonal(60, 40), "more elements"),
    Bomb("many slices of a long name", _many_slices_of_a_long_name, "has no entry"),
    Bomb("300,000 dimensions", _many_dimensions, "300000 dimensions"),
    Bomb("99,999 shards", _missing_shards, "shard is missing"),
    Bomb("2**31 restarts", _block(encoder.close_block(b"", (0,), count=2**31)), "restarts"),
    Bomb("a block of 2**63 bytes", _handle_of(2**63), "past the end"),
    Bomb("keys that share half a megabyte", _block(encoder.close_block(_shared_keys())), "share"),
    Bomb("Snappy that claims 2**32", _block(encoder.varint(2**32 - 1), kind=1), "claims"),
    Bomb("Snappy of 30 MiB", _block(_dense_snappy(30 * MIB), kind=1), "restarts", room=128 * MIB),
    Bomb("an index of 2**40 bytes", _sparse_index, "1099511627"),
]
