"""A second opinion on tables and tensor bundles, for files that no proper writer makes.

Nothing here comes from ckpttool, checksums included, so that a mistake there cannot cancel itself
out. Every function takes the odd along with the usual: lengths that lie, keys out of order, fields
in another order, checksums of one's own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MAGIC = bytes((0x57, 0xFB, 0x80, 0x8B, 0x24, 0x75, 0x47, 0xDB))
EMPTY_BLOCK = bytes((0, 0, 0, 0, 1, 0, 0, 0))

Record = tuple[bytes, bytes]
Extents = Sequence[tuple[int, int]]


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC_TABLE = _crc_table()


def crc32c(data: bytes, crc: int = 0) -> int:
    """Return the crc32c, a byte at a time."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    """Return the stored form of a crc."""
    turned = (crc >> 15) + ((crc & 0x7FFF) << 17)
    return (turned + 0xA282EAD8) % (1 << 32)


def masked_crc(data: bytes) -> int:
    """Return the crc32c of bytes as it is stored."""
    return mask(crc32c(data))


def varint(value: int) -> bytes:
    """Encode a number; a negative one as its two's complement of 64 bits."""
    value %= 1 << 64
    out = []
    while True:
        value, low = divmod(value, 128)
        out.append(low + (128 if value else 0))
        if not value:
            return bytes(out)


def long_varint(value: int, size: int) -> bytes:
    """Encode a number in more bytes than it takes."""
    out = [(value >> (7 * at)) % 128 + 128 for at in range(size)]
    out[-1] -= 128
    return bytes(out)


def tag(number: int, kind: int) -> bytes:
    """Encode the tag of a protobuf field."""
    return varint(number * 8 + kind)


def number_field(number: int, value: int) -> bytes:
    """Encode a varint field, zero included."""
    return tag(number, 0) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a field of bytes."""
    return tag(number, 2) + varint(len(value)) + value


def fixed32_field(number: int, value: int) -> bytes:
    """Encode a fixed32 field."""
    return tag(number, 5) + struct.pack("<I", value)


def header(
    shards: int | None = 1,
    *,
    endianness: int | None = None,
    version: bytes | None = b"\x08\x01",
    extra: bytes = b"",
) -> bytes:
    """Return a BundleHeaderProto; None leaves a field out."""
    out = b"" if shards is None else number_field(1, shards)
    out += b"" if endianness is None else number_field(2, endianness)
    out += b"" if version is None else bytes_field(3, version)
    return out + extra


def shape(dims: Iterable[int]) -> bytes:
    """Return a TensorShapeProto."""
    return b"".join(bytes_field(2, number_field(1, dim) if dim else b"") for dim in dims)


def slice_proto(extents: Extents) -> bytes:
    """Return a TensorSliceProto; (0, -1) is the full extent."""
    out = b""
    for start, length in extents:
        extent = b""
        if (start, length) != (0, -1):
            extent = (number_field(1, start) if start else b"") + number_field(2, length)
        out += bytes_field(1, extent)
    return out


def entry(
    dtype: int,
    dims: Iterable[int],
    *,
    shard: int = 0,
    offset: int = 0,
    size: int = 0,
    crc: int | None = None,
    slices: Sequence[Extents] = (),
    extra: bytes = b"",
) -> bytes:
    """Return a BundleEntryProto as TensorFlow lays it out; `crc` is the masked one."""
    out = number_field(1, dtype) + bytes_field(2, shape(dims))
    for number, value in ((3, shard), (4, offset), (5, size)):
        out += number_field(number, value) if value else b""
    out += fixed32_field(6, crc) if crc is not None else b""
    for extents in slices:
        out += bytes_field(7, slice_proto(extents))
    return out + extra


def ordered_number(value: int) -> bytes:
    """Encode an unsigned number in the order-preserving code."""
    digits = b""
    while value:
        value, low = divmod(value, 256)
        digits = bytes((low,)) + digits
    return bytes((len(digits),)) + digits


def ordered_string(value: bytes) -> bytes:
    """Encode a string in the order-preserving code."""
    out = b""
    for byte in value:
        out += {0: b"\x00\xff", 255: b"\xff\x00"}.get(byte, bytes((byte,)))
    return out + b"\x00\x01"


def ordered_signed(value: int) -> bytes:
    """Encode a signed number in the order-preserving code.

    Of `size` bytes, the first `size` bits are ones and the next one a zero; the rest is the number.
    A negative number is the complement of the number that lies as far from -1 as it.
    """
    if value < 0:
        return bytes(byte ^ 0xFF for byte in ordered_signed(~value))
    size = 1
    while value >= 1 << (7 * size - 1):
        size += 1
    lead = ((1 << size) - 1) << (7 * size)
    return (lead | value).to_bytes(size, "big")


def slice_key(name: bytes, extents: Extents) -> bytes:
    """Return the key of a slice."""
    out = ordered_number(0) + ordered_string(name) + ordered_number(len(extents))
    for start, length in extents:
        out += ordered_signed(start) + ordered_signed(length)
    return out


def string_data(elements: Sequence[bytes], *, order: str = "<") -> tuple[bytes, int]:
    """Return the bytes of a string tensor and the crc of its entry, masked."""
    lengths = b"".join(struct.pack(order + "I", len(element)) for element in elements)
    middle = struct.pack(order + "I", masked_crc(lengths))
    contents = b"".join(elements)
    data = b"".join(varint(len(element)) for element in elements) + middle + contents
    return data, masked_crc(lengths + middle + contents)


def variant_data(elements: Sequence[bytes], *, order: str = "<") -> tuple[bytes, int]:
    """Return the bytes of a variant tensor and the crc of its entry, masked."""
    data = seen = b""
    for element in elements:
        seen += struct.pack(order + "Q", len(element)) + element
        stored = struct.pack(order + "I", masked_crc(seen))
        seen += stored
        data += varint(len(element)) + element + stored
    return data, masked_crc(seen)


def block_entry(
    shared: int, rest: bytes, value: bytes, *, fresh: int | None = None, size: int | None = None
) -> bytes:
    """Return one entry of a block; `fresh` and `size` replace the true lengths."""
    return (
        varint(shared)
        + varint(len(rest) if fresh is None else fresh)
        + varint(len(value) if size is None else size)
        + rest
        + value
    )


def close_block(
    entries: bytes, restarts: Sequence[int] = (0,), *, count: int | None = None
) -> bytes:
    """Put restarts and their count behind entries."""
    claimed = len(restarts) if count is None else count
    return entries + struct.pack(f"<{len(restarts)}II", *restarts, claimed)


def shared_length(first: bytes, second: bytes) -> int:
    """Return how many bytes two keys have in common at their start."""
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    return shared


def block(records: Iterable[Record], *, interval: int = 16) -> bytes:
    """Return a block of records in the order given, whatever it is."""
    out = b""
    restarts = [0]
    previous = b""
    for at, (key, value) in enumerate(records):
        restart = at and at % interval == 0
        if restart:
            restarts.append(len(out))
        shared = 0 if restart else shared_length(previous, key)
        out += block_entry(shared, key[shared:], value)
        previous = key
    return close_block(out, restarts)


def trailer(stored: bytes, kind: int = 0, *, crc: int | None = None) -> bytes:
    """Return what follows a stored block; `crc` is the masked one."""
    sealed = masked_crc(stored + bytes((kind,))) if crc is None else crc
    return bytes((kind,)) + struct.pack("<I", sealed)


def handle(offset: int, size: int) -> bytes:
    """Return a block handle."""
    return varint(offset) + varint(size)


def footer(metaindex: tuple[int, int], index: tuple[int, int]) -> bytes:
    """Return the last 48 bytes of a table."""
    handles = handle(*metaindex) + handle(*index)
    return handles + bytes(40 - len(handles)) + MAGIC


def successor(key: bytes) -> bytes:
    """Return the short key that stands behind the last block."""
    for at in range(len(key)):
        if key[at] < 255:
            return key[:at] + bytes((key[at] + 1,))
    return key


def separator(last: bytes, following: bytes) -> bytes:
    """Return the short key that stands between two blocks."""
    at = 0
    while at < min(len(last), len(following)) and last[at] == following[at]:
        at += 1
    if at == min(len(last), len(following)) or last[at] == 255 or last[at] + 1 >= following[at]:
        return last
    return last[:at] + bytes((last[at] + 1,))


@dataclass
class Table:
    """A table put together from blocks that are already bytes.

    Attributes:
        blocks: data blocks as stored, with their compression.
        separators: the keys of the index block, one for each data block.
        handles: what the index says instead of where the blocks lie, by number of the block.
    """

    blocks: list[tuple[bytes, int]] = field(default_factory=list)
    separators: list[bytes] = field(default_factory=list)
    handles: dict[int, bytes] = field(default_factory=dict)

    def add(self, stored: bytes, last: bytes, kind: int = 0) -> Table:
        """Append a stored block and its separator."""
        self.blocks.append((stored, kind))
        self.separators.append(last)
        return self

    def encode(self, *, index_interval: int = 1) -> bytes:
        """Return the file."""
        out = b""
        index = []
        for at, (stored, kind) in enumerate(self.blocks):
            place = self.handles.get(at, handle(len(out), len(stored)))
            index.append((self.separators[at], place))
            out += stored + trailer(stored, kind)
        metaindex_at = len(out)
        out += EMPTY_BLOCK + trailer(EMPTY_BLOCK)
        index_at = len(out)
        index_block = block(index, interval=index_interval)
        out += index_block + trailer(index_block)
        return out + footer((metaindex_at, len(EMPTY_BLOCK)), (index_at, len(index_block)))


def table(records: Sequence[Record], *, block_size: int = 262144, interval: int = 16) -> bytes:
    """Return a table as TensorFlow's writers cut it."""
    groups: list[list[Record]] = [[]]
    size = 8
    for key, value in records:
        if len(key) + len(value) >= 2 * block_size and groups[-1]:
            groups.append([])
            size = 8
        group = groups[-1]
        restart = len(group) % interval == 0
        shared = 0 if restart else shared_length(group[-1][0], key)
        size += len(block_entry(shared, key[shared:], value)) + (4 if restart and group else 0)
        group.append((key, value))
        if size >= block_size:
            groups.append([])
            size = 8
    groups = [group for group in groups if group]
    made = Table()
    for at, group in enumerate(groups):
        last = group[-1][0]
        key = separator(last, groups[at + 1][0][0]) if at + 1 < len(groups) else successor(last)
        made.add(block(group, interval=interval), key)
    return made.encode()


def one_block_table(records: Sequence[Record]) -> bytes:
    """Return a table of one block with records in the order given; its separator is very high."""
    return Table().add(block(records), b"\xff" * 64).encode()
