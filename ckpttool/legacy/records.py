"""The records of a V1 file, which is a table, and the entry of a tensor.

    key ""         SavedTensorSlices   meta=1 SavedTensorSliceMeta
    slice key      SavedTensorSlices   data=2 SavedSlice

    SavedTensorSliceMeta   tensor=1 repeated SavedSliceMeta   versions=2 VersionDef
    SavedSliceMeta         name=1 string  shape=2 message  type=3 enum  slice=4 repeated message
    SavedSlice             name=1 string  slice=2 message  data=3 TensorProto
    VersionDef             producer=1  min_consumer=2  bad_consumers=3 repeated

`tensor.slices` makes slice keys; a whole tensor has one too, with every extent full. The
TensorProto has only elements: shape and dtype are in the first record.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import NamedTuple

from ckpttool.coding import wire
from ckpttool.coding.text import decode_text, encode_text
from ckpttool.coding.varint import encode_varint
from ckpttool.coding.version import decode_version
from ckpttool.coding.walk import Bytes, Field, MessageWalk
from ckpttool.errors import CkptError, CorruptError
from ckpttool.tensor.dtypes import DType, dtype_of_number
from ckpttool.tensor.shape import Shape, decode_shape, element_count, encode_shape
from ckpttool.tensor.slices import TensorSlice, decode_slice, encode_slice

# The version of the format that this package reads and writes.
VERSION = 1

_META, _DATA = 1, 2


class SliceMeta(NamedTuple):
    """The description of a tensor in the first record; `slices` are those in this file."""

    name: str
    dtype: DType
    shape: Shape
    slices: tuple[TensorSlice, ...]


class LegacyPart(NamedTuple):
    """A slice of a tensor, or the whole, and the number of its file."""

    part: TensorSlice
    shard_id: int


class LegacyEntry(NamedTuple):
    """A tensor; a named tuple, not a dataclass, because a checkpoint may have very many."""

    dtype: DType
    shape: Shape
    parts: tuple[LegacyPart, ...]

    @property
    def elements(self) -> int:
        """Number of elements of the whole tensor."""
        return element_count(self.shape)

    @property
    def whole(self) -> LegacyPart | None:
        """The part that is the whole tensor; None for a partitioned one."""
        if len(self.parts) == 1 and self.parts[0].part.covers(self.shape):
            return self.parts[0]
        return None

    @property
    def slices(self) -> tuple[TensorSlice, ...]:
        """The slices of a partitioned tensor."""
        return () if self.whole else tuple(part for part, _ in self.parts)

    @property
    def size(self) -> int | None:
        """Bytes of the elements in memory, not in the file; None where they vary in size."""
        return None if self.dtype.size is None else self.dtype.size * self.elements


# Stands for the entry of a damaged tensor.
UNKNOWN = LegacyEntry(dtype_of_number(0), (), ())


def decode_meta(
    data: bytes, damaged: MutableMapping[str, CkptError] | None = None
) -> list[SliceMeta]:
    """Decode the record under the empty key.

    Args:
        data: the record.
        damaged: takes the errors of single tensors, by name, instead of raising them.

    Raises:
        CorruptError: it is malformed, or a slice does not lie within its tensor.
        UnsupportedError: it bars readers of our version, or has a shape of unknown rank.
    """
    meta = None
    for number, kind, value, _ in wire.decode_fields(data):
        if number == _META and kind == wire.BYTES and meta is None:
            meta = bytes(value)
        elif number in (_META, _DATA):
            raise CorruptError("the first record is not the one that describes the tensors")
    if meta is None:
        raise CorruptError("the first record does not describe the tensors")
    tensors = []
    version = b""
    for number, kind, value, _ in wire.decode_fields(meta):
        if number == 1 and kind == wire.BYTES:
            try:
                tensors.append(_decode_tensor(bytes(value)))
            except CkptError as error:
                if damaged is None or error.key is None:
                    raise  # the name is unknown
                damaged.setdefault(error.key, error)
        elif number == 2 and kind == wire.BYTES:
            version = bytes(value)
    decode_version(version).check(VERSION, "file")
    return tensors


def encode_meta(tensors: Iterable[SliceMeta]) -> bytes:
    """Encode the record under the empty key as TensorFlow does."""
    parts = [wire.bytes_field(1, _encode_tensor(each)) for each in tensors]
    parts.append(wire.bytes_field(2, wire.varint_field(1, VERSION)))
    return wire.bytes_field(_META, b"".join(parts))


def _decode_tensor(data: bytes) -> SliceMeta:
    name: str | None = None
    shape: bytes | None = None
    dtype = 0
    slices: list[bytes] = []
    try:
        for number, kind, value, _ in wire.decode_fields(data):
            if number == 1 and kind == wire.BYTES and name is None:
                name = decode_text(bytes(value))
            elif number == 2 and kind == wire.BYTES and shape is None:
                shape = bytes(value)
            elif number == 3 and kind == wire.VARINT and not dtype:
                dtype = wire.signed64(int(value))
            elif number == 4 and kind == wire.BYTES:
                slices.append(bytes(value))
            elif number <= 4:
                raise CorruptError(
                    f"field {number} of a tensor is repeated or has the wrong wire type"
                )
        if not name:
            raise CorruptError("a tensor has no name")
        whole = decode_shape(shape or b"")
        parts = tuple(map(decode_slice, slices))
        for part in parts:
            part.bounds(whole)
    except CkptError as error:
        error.offset = None
        if name:
            error.locate(key=name)
        raise
    return SliceMeta(name, dtype_of_number(dtype), whole, parts)


def _encode_tensor(tensor: SliceMeta) -> bytes:
    return (
        wire.bytes_field(1, encode_text(tensor.name))
        + wire.bytes_field(2, encode_shape(tensor.shape))
        + wire.varint_field(3, tensor.dtype.number)
        + b"".join(wire.bytes_field(4, encode_slice(part)) for part in tensor.slices)
    )


def find_values(source: Bytes, name: str, part: TensorSlice) -> tuple[int, int]:
    """Return where the TensorProto of a slice begins and ends in its record.

    Args:
        source: the record.
        name: the expected name of the tensor.
        part: the expected slice.

    Raises:
        CorruptError: the record is malformed or of another slice; `offset` counts from its start.
    """
    walk = MessageWalk(source, 0, source.size)
    data = None
    for field in walk.fields():
        if field.number == _DATA and field.kind == wire.BYTES and data is None:
            data = field
        elif field.number in (_META, _DATA):
            raise CorruptError("the record is not that of one slice", offset=field.start)
    if data is None:
        raise CorruptError("the record has no slice", offset=0)
    walk = MessageWalk(source, data.start, data.stop)
    found: dict[int, Field] = {}
    for field in walk.fields():
        if field.number > 3:
            continue
        if field.kind != wire.BYTES or field.number in found:
            raise CorruptError(
                f"field {field.number} of the slice is repeated or has the wrong wire type",
                offset=field.start,
            )
        found[field.number] = field
    for number, wanted, what in (
        (1, encode_text(name), "another tensor"),
        (2, encode_slice(part), "another slice"),
    ):
        stored = found.get(number, Field(number, wire.BYTES, 0, 0))
        if stored.stop - stored.start != len(wanted) or walk.take(stored) != wanted:
            raise CorruptError(f"the record is that of {what}", offset=data.start)
    if 3 not in found:
        raise CorruptError("the slice has no values", offset=data.start)
    return found[3].start, found[3].stop


def slice_head(name: str, part: TensorSlice, size: int) -> bytes:
    """Return the bytes of a slice's record before its TensorProto of `size` bytes."""
    inner = wire.bytes_field(1, encode_text(name))
    inner += wire.bytes_field(2, encode_slice(part))
    inner += encode_varint(3 << 3 | wire.BYTES) + encode_varint(size)
    return encode_varint(_DATA << 3 | wire.BYTES) + encode_varint(len(inner) + size) + inner
