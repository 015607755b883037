"""The records of the index.

    key ""          BundleHeaderProto   num_shards=1 int32  endianness=2 enum  version=3 message
                                        version: producer=1  min_consumer=2  bad_consumers=3
    key of tensor   BundleEntryProto    dtype=1 enum  shape=2 message  shard_id=3 int32
                                        offset=4 int64  size=5 int64  crc32c=6 fixed32
                                        slices=7 repeated message

A tensor that is stored in slices has an entry without data that lists them; each slice has an entry
of its own under the key that `tensor.slice_key` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ckpttool.coding import wire
from ckpttool.coding.varint import encode_varint
from ckpttool.coding.version import Version, decode_version
from ckpttool.errors import CorruptError
from ckpttool.tensor.dtypes import STRING, VARIANT, DType, dtype_of_number
from ckpttool.tensor.shape import Shape, decode_shape, element_count, encode_shape
from ckpttool.tensor.slices import TensorSlice, decode_slice, encode_slice

# The version of the format that this package reads and writes.
VERSION = 1
MAX_SHARDS = 99999

# The fields of an entry that are numbers, and their wire types.
_NUMBERS = {1: wire.VARINT, 3: wire.VARINT, 4: wire.VARINT, 5: wire.VARINT, 6: wire.FIXED32}
# What may follow dtype and shape where neither comes again: nothing, or the tag of a later field.
_LATER_TAGS = (b"", b"\x18", b"\x20", b"\x28", b"\x35", b"\x3a")
# The bits that say whether a varint goes on: of seven bytes, and as they are in one of each length.
_HIGH_BITS = 0x80808080808080
_CONTINUED = tuple(_HIGH_BITS >> 8 * (8 - length) for length in range(8))
# A string takes a byte for its length at least, all of them four for a checksum; a variant takes
# both by itself.
_STRING_MIN, _STRINGS_MIN, _VARIANT_MIN = 1, 4, 5


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """What holds for the whole bundle.

    Attributes:
        num_shards: how many data shards there are.
        big_endian: byte order of the tensor bytes.
        producer: version of the format that the writer had.
        min_consumer: oldest version whose readers may read it.
        bad_consumers: versions whose readers must not.
        unknown: fields that are not known here, as they lie in the file.
    """

    num_shards: int = 1
    big_endian: bool = False
    producer: int = VERSION
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()
    unknown: bytes = b""

    def encode(self) -> bytes:
        """Return the record as TensorFlow writes it."""
        version = wire.varint_field(1, self.producer) + wire.varint_field(2, self.min_consumer)
        if self.bad_consumers:
            packed = b"".join(encode_varint(v & (1 << 64) - 1) for v in self.bad_consumers)
            version += wire.bytes_field(3, packed)
        return (
            wire.varint_field(1, self.num_shards)
            + wire.varint_field(2, self.big_endian)
            + wire.bytes_field(3, version)
            + self.unknown
        )


class BundleEntry(NamedTuple):
    """Where a tensor lies and what it is.

    A named tuple, not a dataclass: an index can hold millions of them.

    Attributes:
        dtype: what the elements are.
        shape: of the whole tensor; in a slice's entry, of the slice.
        shard_id: number of the data shard.
        offset: first byte in that shard.
        size: stored bytes.
        crc32c: checksum of the stored bytes, masked as it is in the file.
        slices: the slices of a partitioned tensor, which has no bytes under its own key.
        unknown: fields that are not known here, as they lie in the file.
    """

    dtype: DType
    shape: Shape
    shard_id: int = 0
    offset: int = 0
    size: int = 0
    crc32c: int = 0
    slices: tuple[TensorSlice, ...] = ()
    unknown: bytes = b""

    @property
    def elements(self) -> int:
        """Number of elements of the whole tensor."""
        return element_count(self.shape)

    def encode(self) -> bytes:
        """Return the record as TensorFlow writes it."""
        return (
            _encode_head(self.dtype.number, self.shape, self.shard_id)
            + wire.varint_field(4, self.offset)
            + wire.varint_field(5, self.size)
            + wire.fixed32_field(6, self.crc32c)
            + b"".join(wire.bytes_field(7, encode_slice(part)) for part in self.slices)
            + self.unknown
        )


@lru_cache(1024)  # tensors by the million share a few
def _encode_head(dtype_number: int, shape: Shape, shard_id: int) -> bytes:
    return (
        wire.varint_field(1, dtype_number)
        + wire.bytes_field(2, encode_shape(shape))
        + wire.varint_field(3, shard_id)
    )


def decode_header(data: bytes) -> BundleHeader:
    """Decode the record under the empty key.

    Raises:
        CorruptError: it is malformed or its numbers are impossible.
        UnsupportedError: it says that readers of our version must keep out.
    """
    num_shards = endianness = 0
    version = Version()
    unknown = b""
    for number, kind, value, raw in wire.decode_fields(data):
        if number == 1 and kind == wire.VARINT:
            num_shards = wire.signed64(int(value))
        elif number == 2 and kind == wire.VARINT:
            endianness = wire.signed64(int(value))
        elif number == 3 and kind == wire.BYTES:
            version = decode_version(bytes(value))
        else:
            unknown += raw
    if not 0 < num_shards <= MAX_SHARDS:
        raise CorruptError(f"the header names {num_shards} data shards")
    if endianness not in (0, 1):
        raise CorruptError(f"the header names byte order {endianness}")
    version.check(VERSION, "bundle")
    return BundleHeader(num_shards, bool(endianness), *version, unknown)


class EntryHead(NamedTuple):
    """What dtype and shape, the first two fields of an entry, say of the rest.

    Attributes:
        dtype: the dtype.
        shape: the shape.
        size: the stored bytes; None where they depend on the elements.
        tail: the bytes from there up to the crc32c, if nothing else follows the offset.
    """

    dtype: DType
    shape: Shape
    size: int | None
    tail: bytes


class EntryDecoder:
    """Decodes the entries of one bundle.

    Attributes:
        num_shards: how many data shards the bundle has.
    """

    def __init__(self, num_shards: int) -> None:
        self.num_shards = num_shards
        # Most tensors of a checkpoint share a handful of dtypes and shapes.
        self._heads: dict[bytes, EntryHead] = {}
        # The same by what an entry begins with and the tag behind it, where that may follow.
        self._beginnings: dict[bytes, EntryHead] = {}

    def decode(self, data: bytes) -> BundleEntry:
        """Decode an entry and check it against itself.

        Raises:
            CorruptError: it is malformed, or its numbers contradict one another.
            UnsupportedError: its shape has no known rank.
        """
        # This goes straight at the bytes of a sound entry of fixed-size elements, laid out as all
        # writers do: such are all but a few. A head that is known was looked at before.
        head = self._heads.get(data[: 4 + data[3]]) if len(data) > 3 else None
        if head is None:
            head = self.head(data)
            if head is None:
                return self._decode_unusual(data)
        dtype, shape, size, tail = head
        pos, end = 4 + data[3], len(data) - 4 - len(tail)
        if size is None or end < pos or data[end:-4] != tail:
            return self._decode_unusual(data)
        shard_id = offset = 0
        if pos < end and data[pos] == 0x18:
            shard_id = data[pos + 1]
            pos += 2
        if pos < end:
            # A varint is seven bits of each byte; only its last byte is below 0x80.
            raw = int.from_bytes(data[pos + 1 : end], "little")
            length = end - pos - 1
            if data[pos] != 0x20 or not 0 < length <= 7 or raw & _HIGH_BITS != _CONTINUED[length]:
                return self._decode_unusual(data)
            offset = raw & 0x7F | raw >> 1 & 0x3F80 | raw >> 2 & 0x1FC000 | raw >> 3 & 0xFE00000
            if length > 4:
                offset |= raw >> 4 & 0x7F << 28 | raw >> 5 & 0x7F << 35 | raw >> 6 & 0x7F << 42
        if pos > end or shard_id >= min(self.num_shards, 128):
            return self._decode_unusual(data)
        crc = int.from_bytes(data[-4:], "little")
        return _new_entry(BundleEntry, (dtype, shape, shard_id, offset, size, crc, (), b""))

    def _decode_unusual(self, data: bytes) -> BundleEntry:
        """Decode an entry of any form."""
        entry = _decode_any(data)
        dtype, shape, shard_id, offset, size, _, slices, _ = entry
        if not 0 <= shard_id < self.num_shards:
            raise CorruptError(
                f"the entry names data shard {shard_id}, but there are {self.num_shards}"
            )
        if offset < 0 or size < 0:
            raise CorruptError(f"the entry has offset {offset} and size {size}")
        if slices:
            for part in slices:
                part.bounds(shape)
        else:
            _check_size(dtype, shape, size)
        return entry

    def decode_head(self, data: bytes) -> EntryHead:
        """Decode dtype and shape alone, at a fraction of the cost."""
        head = self._heads.get(data[: 4 + data[3]]) if len(data) > 3 else None
        if head is None:
            head = self.head(data)
        if head is None or data[4 + data[3] : 5 + data[3]] not in _LATER_TAGS:
            entry = self.decode(data)
            return EntryHead(entry.dtype, entry.shape, None, b"")
        return head

    def decode_heads(self, records: Iterable[bytes]) -> Iterator[EntryHead]:
        """Yield what `decode_head` returns for each entry, several times as fast."""
        known = self._beginnings
        for data in records:
            try:
                yield known[data[: 5 + data[3]]]
            except (KeyError, IndexError):
                head = self.decode_head(data)
                if head.tail:
                    known[data[: 5 + data[3]]] = head
                yield head

    def head(self, data: bytes) -> EntryHead | None:
        """Return what an entry that begins with dtype and shape says by them; else None."""
        if len(data) < 4 or data[0] != 0x08 or data[1] > 127 or data[2] != 0x12 or data[3] > 127:
            return None
        raw = data[: 4 + data[3]]
        head = self._heads.get(raw)
        if head is None and len(raw) == 4 + data[3]:
            dtype, shape = dtype_of_number(data[1]), decode_shape(raw[4:])
            size = None if dtype.size is None else dtype.size * element_count(shape)
            tail = wire.varint_field(5, size or 0) + b"\x35"
            head = self._heads[raw] = EntryHead(dtype, shape, size, tail)
        return head


# What the class itself would call, without the time that takes.
_new_entry: Callable[[type[BundleEntry], tuple[object, ...]], BundleEntry] = tuple.__new__


def _check_size(dtype: DType, shape: Shape, size: int) -> None:
    """Hold the stored size against what the shape says."""
    count = element_count(shape)
    if dtype.size is not None:
        fits = size == dtype.size * count
    elif dtype == STRING:
        fits = size >= _STRING_MIN * count + _STRINGS_MIN or size == count == 0
    elif dtype == VARIANT:
        fits = size >= _VARIANT_MIN * count
    else:
        return
    if not fits:
        raise CorruptError(f"the entry has {size} bytes for {count} elements of {dtype}")


def _decode_any(data: bytes) -> BundleEntry:
    """Decode an entry whose fields may come in any order and number."""
    numbers: dict[int, int] = {}
    shape: bytes | None = None
    slices = []
    unknown = b""
    for number, kind, value, raw in wire.decode_fields(data):
        if number in _NUMBERS and kind == _NUMBERS[number] and number not in numbers:
            numbers[number] = int(value)
        elif number == 2 and kind == wire.BYTES and shape is None:
            shape = bytes(value)
        elif number < 7:
            raise CorruptError(
                f"field {number} of the entry is repeated or has the wrong wire type"
            )
        elif number == 7 and kind == wire.BYTES:
            slices.append(decode_slice(bytes(value)))
        else:
            unknown += raw
    return BundleEntry(
        dtype_of_number(wire.signed64(numbers.get(1, 0))),
        decode_shape(shape or b""),
        wire.signed64(numbers.get(3, 0)),
        wire.signed64(numbers.get(4, 0)),
        wire.signed64(numbers.get(5, 0)),
        numbers.get(6, 0),
        tuple(slices),
        unknown,
    )
