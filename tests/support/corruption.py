"""Damage to good files."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.support import encoder

_FOOTER = 48
_TRAILER = 5


@dataclass(frozen=True)
class Span:
    """A stored block without its trailer: first byte and the byte after the last."""

    start: int
    stop: int


def flip(data: bytes, at: int, bits: int) -> bytes:
    """Turn some bits of one byte; `bits` must not be 0."""
    return data[:at] + bytes((data[at] ^ bits,)) + data[at + 1 :]


def bits_for(at: int) -> int:
    """Return which bits to turn at a position: one, all or some of them, by turns."""
    return (1 << (at % 8), 0xFF, 0x80, 0x01)[at % 4]


def spans(table: bytes) -> list[Span]:
    """Return all blocks of a good table: data blocks, metaindex, index."""
    handles = table[-_FOOTER:-8]
    found = []
    at = 0
    numbers = []
    for _ in range(4):
        number, at = varint(handles, at)
        numbers.append(number)
    for offset, size in ((numbers[0], numbers[1]), (numbers[2], numbers[3])):
        found.append(Span(offset, offset + size))
    index = table[found[-1].start : found[-1].stop]
    (count,) = struct.unpack("<I", index[-4:])
    at, end = 0, len(index) - 4 * (count + 1)
    while at < end:
        _, at = varint(index, at)
        fresh, at = varint(index, at)
        size, at = varint(index, at)
        offset, value_at = varint(index, at + fresh)
        length, _ = varint(index, value_at)
        at += fresh + size
        found.append(Span(offset, offset + length))
    return sorted(found, key=lambda span: span.start)


def reseal(table: bytes, span: Span) -> bytes:
    """Make the checksum of one block right again."""
    stop = span.stop + 1
    crc = struct.pack("<I", encoder.masked_crc(table[span.start : stop]))
    return table[:stop] + crc + table[stop + 4 :]


def sealed_flips(table: bytes) -> list[tuple[int, bytes]]:
    """Return (position, file) with one byte of a block or of the footer turned, checksums right."""
    out = []
    for span in spans(table):
        for at in range(span.start, span.stop + 1):
            out.append((at, reseal(flip(table, at, bits_for(at)), span)))
    for at in range(len(table) - _FOOTER, len(table)):
        out.append((at, flip(table, at, bits_for(at))))
    return out


def mixed_up(table: bytes, data: st.DataObject) -> bytes:
    """Exchange, repeat and drop runs of bytes within a block; the file keeps its length."""
    span = data.draw(st.sampled_from(spans(table)))
    block = bytearray(table[span.start : span.stop + 1])
    for _ in range(data.draw(st.integers(1, 4))):
        size = data.draw(st.integers(1, min(8, len(block))))
        source = data.draw(st.integers(0, len(block) - size))
        target = data.draw(st.integers(0, len(block) - size))
        runs = [bytes(block[source : source + size]), bytes(size), b"\xff" * size]
        block[target : target + size] = data.draw(st.sampled_from(runs))
    return reseal(table[: span.start] + bytes(block) + table[span.stop + 1 :], span)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a varint; return it and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value += (byte % 128) << shift
        shift += 7
        if byte < 128:
            return value, at
