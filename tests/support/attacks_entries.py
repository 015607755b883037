"""One bad record or shard for each way in which a bundle can break a rule, all checksums right."""

from __future__ import annotations

import struct

from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    MissingFileError,
    TruncatedError,
    UnsupportedError,
)
from tests.support import encoder
from tests.support.attack import (
    F32,
    FLOATS,
    I32,
    RESOURCE,
    ROWS,
    STRING,
    U8,
    WORDS,
    Change,
    attack,
    record_attack,
)
from tests.support.encoder import bytes_field, entry, number_field, slice_key
from tests.support.handmade import Bundle

_HEADERS: list[tuple[str, bytes | None, type[CkptError], str]] = [
    ("none", None, CorruptError, "no header"),
    ("empty", b"", CorruptError, "0 data shards"),
    ("no shards", encoder.header(0), CorruptError, "0 data shards"),
    ("100,000 shards", encoder.header(100_000), CorruptError, "100000 data shards"),
    ("-1 shards", encoder.header(-1), CorruptError, "-1 data shards"),
    ("byte order 2", encoder.header(2, endianness=2), CorruptError, "byte order 2"),
    ("producer -1", encoder.header(2, version=number_field(1, -1)), CorruptError, "version -1"),
    ("newer", encoder.header(2, version=number_field(2, 2)), UnsupportedError, "version 2"),
    ("bars us", encoder.header(2, version=b"\x1a\x01\x01"), UnsupportedError, "bars"),
    ("malformed", b"\x0f", CorruptError, "wire type 7"),
]


def _set_header(header: bytes | None) -> Change:
    def change(made: Bundle) -> None:
        made.header = header

    return change


for _name, _header, _error, _message in _HEADERS:
    attack("I14", _name, _error, _message)(_set_header(_header))


def _of(
    dtype: int = F32,
    dims: tuple[int, ...] = (2, 3),
    *,
    size: int = 24,
    offset: int = 0,
    shard: int = 0,
) -> bytes:
    crc = encoder.masked_crc(FLOATS)
    return entry(dtype, dims, size=size, offset=offset, shard=shard, crc=crc)


for _number in (0, 34, 101, RESOURCE, 2**31 - 1, -1):
    record_attack("I15", str(_number), UnsupportedError, "cannot be read", _of(_number))

_UNKNOWN_RANK = number_field(1, F32) + bytes_field(2, b"\x18\x01") + number_field(5, 24)
_RECORDS: list[tuple[str, str, type[CkptError], str, bytes]] = [
    ("I16", "unknown rank", UnsupportedError, "rank", _UNKNOWN_RANK),
    ("I16", "rank 255", CorruptError, "255 dimensions", _of(dims=(1,) * 255)),
    ("I16", "rank 254", UnsupportedError, "254 dimensions", _of(dims=(6, *(1,) * 253))),
    ("I16", "negative", CorruptError, "dimension of -2", _of(dims=(-2, -3))),
    # The first two are inverse to one another modulo 2**64.
    ("I16", "product wraps to 6", CorruptError, "elements", _of(dims=(7, 7905747460161236407, 6))),
    ("I16", "2**40 x 2**40", CorruptError, "elements", _of(dims=(2**40, 2**40))),
    ("I17", "one byte less", CorruptError, "23 bytes for 6", _of(size=23)),
    ("I17", "one byte more", CorruptError, "25 bytes for 6", _of(size=25)),
    ("I17", "none", CorruptError, "0 bytes for 6", _of(size=0)),
    ("I17", "another dtype", CorruptError, "24 bytes for 6 elements of float64", _of(2)),
    ("I17", "strings of no byte", CorruptError, "24 bytes for 21", _of(STRING, (21,))),
    ("I18", "shard 2 of 2", CorruptError, "data shard 2", _of(shard=2)),
    ("I18", "shard -1", CorruptError, "data shard -1", _of(shard=-1)),
    ("I18", "shard 2**31", CorruptError, "data shard 2147483648", _of(shard=2**31)),
    ("I18", "offset -1", CorruptError, "offset -1", _of(offset=-1)),
    ("I18", "size -1", CorruptError, "size -1", _of(size=-1)),
    ("I18", "past the end", TruncatedError, "24 bytes wanted", _of(offset=60)),
    ("I18", "offset 2**63 - 1", TruncatedError, "24 bytes wanted", _of(offset=2**63 - 1)),
    ("I18", "10**12 strings", CorruptError, "bytes for 1000000000000", _of(STRING, (10**12,))),
    ("I20", "another place", ChecksumError, "damaged", _of(offset=1)),
    ("I20", "another shard", ChecksumError, "damaged", _of(shard=1)),
    ("I20", "no crc", ChecksumError, "damaged", entry(F32, (2, 3), size=24)),
]
for _rule, _name, _error, _message, _record in _RECORDS:
    record_attack(_rule, _name, _error, _message, _record)


@attack("I19", "two tensors share bytes", None)
def _(made: Bundle) -> None:
    made.records[b"g"] = _of()


@attack("I19", "bytes of nobody between and behind", None)
def _(made: Bundle) -> None:
    made.shards[0] += b"junk"
    data, crc = _strings()
    made.records[b"s"] = made.store(STRING, (3,), data, crc=crc)
    made.shards[0] += b"junk"


@attack("I20", "a turned bit", ChecksumError, "damaged", key="f")
def _(made: Bundle) -> None:
    made.shards[0] = b"\1" + made.shards[0][1:]


def _strings() -> tuple[bytes, int]:
    return encoder.string_data(WORDS)


def _string_attack(
    name: str, error: type[CkptError] | None, message: str, data: bytes, *, count: int = 3
) -> None:
    """Enter a string tensor whose own crc is right for the lengths that it claims."""

    def change(made: Bundle) -> None:
        _, crc = _strings()
        made.records[b"s"] = made.store(STRING, (count,), data, crc=crc)

    attack("I21", name, error, message, key="s")(change)


def _sealed(*lengths: int) -> bytes:
    plain = b"".join(struct.pack("<Q" if n >> 32 else "<I", n) for n in lengths)
    checksum = struct.pack("<I", encoder.masked_crc(plain))
    return b"".join(map(encoder.varint, lengths)) + checksum + b"".join(WORDS)


_GOOD_STRINGS = _strings()[0]
_string_attack("long varints", None, "", b"\x83\0\x80\0" + _GOOD_STRINGS[2:])
_string_attack("damaged length", ChecksumError, "lengths", b"\2\1" + _GOOD_STRINGS[2:])
_string_attack("reaches into the next tensor", CorruptError, "add up", _sealed(3, 0, 9))
_string_attack("leaves bytes over", CorruptError, "add up", _sealed(3, 0, 1))
_string_attack("2**40", CorruptError, "add up", _sealed(3, 0, 2**40))
_string_attack("2**63", CorruptError, "add up", _sealed(3, 0, 2**63))
_string_attack("sum of 2**64 + 8", CorruptError, "add up", _sealed(2**63, 2**63, 8))
_string_attack("length without end", CorruptError, "varint", b"\xff" * 14)
_string_attack("cut", CorruptError, "7 bytes", _GOOD_STRINGS[:7], count=4)
_string_attack("damaged contents", ChecksumError, "damaged", _GOOD_STRINGS[:-1] + b"E")

_FIRST, _SECOND = (slice_key(b"p", part) for part in ROWS)


@attack("I22", "a slice has no entry", CorruptError, "slice 0,2:- has no entry", key="p")
def _(made: Bundle) -> None:
    del made.records[_FIRST]


@attack("I22", "an entry that no tensor lists", None)
def _(made: Bundle) -> None:
    made.records[slice_key(b"p", ((0, 1), (0, 1)))] = made.store(U8, (), b"o")


def _p(first: tuple[tuple[int, int], ...]) -> bytes:
    """Return the entry of the partitioned tensor with another first slice."""
    return entry(I32, (3, 2), slices=[first, ROWS[1]])


_SLICES: list[tuple[str, str, bytes, bytes]] = [
    ("another dtype", "stored as float32", _FIRST, entry(F32, (2, 2), size=16)),
    ("another shape", "stored as int32", _FIRST, entry(I32, (4, 1), size=16)),
    ("shorter than its extents", "stored as int32", _FIRST, entry(I32, (1, 2), size=8)),
    ("in slices itself", "slice", _FIRST, entry(I32, (2, 2), slices=[((0, 1), (0, -1))])),
    ("gap", "gap", b"p", entry(I32, (3, 2), slices=ROWS[:1])),
    ("overlap", "overlap", b"p", entry(I32, (3, 2), slices=(*ROWS, ROWS[0]))),
    ("out of range", "does not fit", b"p", entry(I32, (2, 2), slices=ROWS)),
    ("another rank", "rank", b"p", entry(I32, (6,), slices=ROWS)),
    ("2**40 rows", "gap", b"p", entry(I32, (2**40, 2), slices=ROWS)),
    ("start at 2**63 - 1", "does not fit", b"p", _p(((2**63 - 1, 9), (0, 1)))),
    ("negative start", "does not fit", b"p", _p(((-1, 2), (0, -1)))),
    ("negative length", "length -2", b"p", _p(((0, -2), (0, -1)))),
    ("spelled out in one place only", "no entry", b"p", _p(((0, 2), (0, 2)))),
]  # fmt: skip
for _name, _message, _at, _record in _SLICES:
    record_attack("I22", _name, CorruptError, _message, _record, "p", _at)


@attack("I22", "shares the bytes of another slice", ChecksumError, "damaged", key="p")
def _(made: Bundle) -> None:
    record = made.records[_SECOND]
    made.records[_SECOND] = record.replace(number_field(4, 55), number_field(4, 39))


@attack("I23", "a shard is missing", MissingFileError, "shard is missing", key="x")
def _(made: Bundle) -> None:
    made.shards = made.shards[:1]
    made.count = 2


@attack("I23", "more shards than the header says", None)
def _(made: Bundle) -> None:
    made.shards.append(b"of nobody")
    made.count = 2
