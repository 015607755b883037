"""The bytes of a tensor in the form of today's bundles, from any source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.region import boxes
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import TensorSlice, check_coverage
from ckpttool.tensor.values import Array, decode_array, encode_array

_BLOCK = 1 << 23


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes stored in one piece: of a tensor, or of a slice.

    Attributes:
        part: the slice; None for a whole tensor.
        shape: of this piece.
        chunks: its bytes, read on demand; take them before the next payload.
        crc: the unmasked crc32c for the entry if it is not simply that of the bytes.
    """

    part: TensorSlice | None
    shape: Shape
    chunks: Iterable[memoryview]
    crc: int | None = None


def payload_shapes(tensor: PlannedTensor, *, join: bool) -> list[tuple[TensorSlice | None, Shape]]:
    """Return slice (or None) and shape of each payload of a tensor, in order."""
    entry = tensor.entry
    if join or tensor.value is not None or not entry.slices:
        return [(None, tensor.shape)]
    return [(part, part.shape(entry.shape)) for part in entry.slices]


def check_slices(plan: Plan) -> None:
    """Raise `CorruptError` if the slices of a partitioned tensor leave a gap or overlap."""
    for tensor in plan.tensors:
        if not tensor.entry.slices or tensor.value is not None:
            continue
        try:
            check_coverage(tensor.entry.shape, tensor.entry.slices)
        except CkptError as error:
            error.locate(path=plan.source.reader.path, key=tensor.source_key)
            raise


def payloads(source: Checkpoint, tensor: PlannedTensor, *, join: bool) -> Iterator[Payload]:
    """Yield the payloads of a tensor, in bounded memory if elements are of fixed size.

    They are those of the source, whatever new value the tensor gets: `surgery.values.value_of`
    has that.

    Args:
        source: the checkpoint of the tensor.
        tensor: the tensor.
        join: make one payload of all slices. Slices of a large V1 tensor that are not rows are
            joined in memory.

    Raises:
        CkptError: the values are damaged or cannot be read; also while chunks are taken.
    """
    key, entry = tensor.source_key, tensor.entry
    if entry.dtype.size is None:
        yield from _from_elements(source.reader.read(key), tensor, join=join)
    elif not (join and entry.slices):
        pieces = _pieces(source, key, entry.dtype)
        for part, shape in payload_shapes(tensor, join=False):
            yield Payload(part, shape, _take(pieces, entry.dtype.size * prod(shape)))
        for _ in pieces:
            pass  # the checksum is compared behind the last piece
    elif _are_rows(entry.shape, entry.slices):
        yield Payload(None, entry.shape, _pieces(source, key, entry.dtype))
    elif source.generation == "V1":
        yield from _from_elements(source.reader.read(key), tensor, join=True)
    else:
        yield Payload(None, entry.shape, _blocks(source, tensor))


def _from_elements(value: Array, tensor: PlannedTensor, *, join: bool) -> Iterator[Payload]:
    """Yield the payloads of a tensor in memory."""
    for part, shape in payload_shapes(tensor, join=join):
        element = value
        if part is not None:
            bounds = part.bounds(tensor.entry.shape)
            element = value[tuple(slice(start, stop) for start, stop in bounds)]
        data, crc = encode_array(tensor.entry.dtype, element)
        yield Payload(part, shape, [data], crc)


def _pieces(source: Checkpoint, key: str, dtype: DType) -> Iterator[memoryview]:
    """Yield the stored elements of a tensor, as little-endian."""
    for chunk in source.reader.chunks(key):
        if not source.reader.big_endian:
            yield chunk
            continue
        count = len(chunk) // (dtype.size or 1)
        yield encode_array(dtype, decode_array(dtype, (count,), chunk, big_endian=True))[0]


def _take(pieces: Iterator[memoryview], size: int) -> Iterator[memoryview]:
    """Yield the pieces of one slice; no piece belongs to two."""
    if not size:
        return
    for piece in pieces:
        yield piece
        size -= len(piece)
        if size <= 0:
            return


def _are_rows(shape: Shape, parts: tuple[TensorSlice, ...]) -> bool:
    """Tell whether the elements of consecutive slices are in the order of the whole tensor."""
    row = 0
    for part in parts:
        bounds = part.bounds(shape)
        if bounds[0][0] != row or bounds[1:] != tuple((0, dim) for dim in shape[1:]):
            return False
        row = bounds[0][1]
    return True


def _blocks(source: Checkpoint, tensor: PlannedTensor) -> Iterator[memoryview]:
    """Yield the elements of any slices in the order of the whole tensor."""
    key, entry = tensor.source_key, tensor.entry
    for _ in source.reader.chunks(key):
        pass  # blocks cross slices: their checksums are compared beforehand
    for bounds in boxes(entry.shape, _BLOCK // (entry.dtype.size or 1)):
        index = tuple(slice(start, stop) for start, stop in bounds)
        yield encode_array(entry.dtype, source.read_region(key, index))[0]
