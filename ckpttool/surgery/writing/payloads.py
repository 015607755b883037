"""The bytes of a tensor as a bundle of today holds them, whatever the source holds."""

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
    """What is stored in one piece: a tensor, or a slice of one.

    Attributes:
        part: which slice; None for a whole tensor.
        shape: of this piece.
        chunks: its bytes; they are read as they are taken, and have to be taken before the next
            payload is asked for.
        crc: their crc32c, unmasked, where it is not simply that of the bytes.
    """

    part: TensorSlice | None
    shape: Shape
    chunks: Iterable[memoryview]
    crc: int | None = None


def payload_shapes(tensor: PlannedTensor, *, join: bool) -> list[tuple[TensorSlice | None, Shape]]:
    """Return which payloads a tensor has, in order: the slice, or None, and its shape."""
    entry = tensor.entry
    if join or not entry.slices:
        return [(None, entry.shape)]
    return [(part, part.shape(entry.shape)) for part in entry.slices]


def check_slices(plan: Plan) -> None:
    """Check that the slices of every partitioned tensor are all of it, and none of it twice.

    Raises:
        CorruptError: they leave a gap or overlap.
    """
    for tensor in plan.tensors:
        if not tensor.entry.slices:
            continue
        try:
            check_coverage(tensor.entry.shape, tensor.entry.slices)
        except CkptError as error:
            error.locate(path=plan.source.reader.path, key=tensor.source_key)
            raise


def payloads(source: Checkpoint, tensor: PlannedTensor, *, join: bool) -> Iterator[Payload]:
    """Yield the payloads of a tensor; memory stays bounded where elements are of fixed size.

    Args:
        source: the checkpoint that the tensor is in.
        tensor: which.
        join: make one payload of all slices. Slices that are no rows of a large V1 tensor are
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
    """Yield the payloads of a tensor that is in memory."""
    for part, shape in payload_shapes(tensor, join=join):
        element = value
        if part is not None:
            bounds = part.bounds(tensor.entry.shape)
            element = value[tuple(slice(start, stop) for start, stop in bounds)]
        data, crc = encode_array(tensor.entry.dtype, element)
        yield Payload(part, shape, [data], crc)


def _pieces(source: Checkpoint, key: str, dtype: DType) -> Iterator[memoryview]:
    """Yield the elements of a tensor as they are stored, but little-endian."""
    for chunk in source.reader.chunks(key):
        if not source.reader.big_endian:
            yield chunk
            continue
        count = len(chunk) // (dtype.size or 1)
        yield encode_array(dtype, decode_array(dtype, (count,), chunk, big_endian=True))[0]


def _take(pieces: Iterator[memoryview], size: int) -> Iterator[memoryview]:
    """Yield the pieces that make up one slice: no piece belongs to two."""
    if not size:
        return
    for piece in pieces:
        yield piece
        size -= len(piece)
        if size <= 0:
            return


def _are_rows(shape: Shape, parts: tuple[TensorSlice, ...]) -> bool:
    """Tell whether slices follow one another as their elements do in the whole tensor."""
    row = 0
    for part in parts:
        bounds = part.bounds(shape)
        if bounds[0][0] != row or bounds[1:] != tuple((0, dim) for dim in shape[1:]):
            return False
        row = bounds[0][1]
    return True


def _blocks(source: Checkpoint, tensor: PlannedTensor) -> Iterator[memoryview]:
    """Yield the elements of slices of any form in the order of the whole tensor."""
    key, entry = tensor.source_key, tensor.entry
    for _ in source.reader.chunks(key):
        pass  # blocks cross slices: their checksums are compared beforehand
    for bounds in boxes(entry.shape, _BLOCK // (entry.dtype.size or 1)):
        index = tuple(slice(start, stop) for start, stop in bounds)
        yield encode_array(entry.dtype, source.read_region(key, index))[0]
