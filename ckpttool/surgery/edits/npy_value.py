"""Values from files of NumPy arrays, read when they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ckpttool.errors import SurgeryError
from ckpttool.interchange.contents import ONLY_ARRAY
from ckpttool.interchange.entry import ArrayEntry
from ckpttool.interchange.reader import ArrayReader
from ckpttool.storage.source import Identity, RandomAccessFile
from ckpttool.surgery.values import ValueAction, ValueSource
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.given import number_pieces
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.values import Array


@dataclass(frozen=True, slots=True)
class NpyValue:
    """The array in a file, of the shape of its tensor.

    Attributes:
        path: of the file.
        dtype: of the tensor.
        shape: of the tensor.
        identities: of the file when it was looked at.
    """

    path: str
    dtype: DType
    shape: Shape
    identities: dict[str, Identity]
    action: ValueAction = "set"
    sources: tuple[ValueSource, ...] = ()

    def chunks(self) -> Iterator[memoryview | bytes]:
        """Yield the elements in the dtype of the tensor.

        Raises:
            SurgeryError: an element does not fit, or the file changed.
            CkptError: it cannot be read.
        """
        with ArrayReader(self.path, "npy") as reader:
            if reader.identities != self.identities:
                raise SurgeryError("the file changed while it was read", path=self.path)
            entry = reader.entries[ONLY_ARRAY]
            if not is_raw(entry, self.dtype):
                yield from number_pieces(entry.dtype, self.dtype, reader.chunks(ONLY_ARRAY))
                return
            with RandomAccessFile(self.path) as file:
                yield from file.chunks(file.size - entry.size, entry.size)


def read_npy(path: str, dtype: DType, shape: Shape) -> NpyValue | Array:
    """Return what a file of an array gives a tensor: a value, or the array if that is small.

    Args:
        path: of the file.
        dtype: of the tensor.
        shape: of the tensor.

    Raises:
        SurgeryError: the shape is another.
        CkptError: the file cannot be read, or its elements have no dtype of TensorFlow.
    """
    with ArrayReader(path, "npy") as reader:
        entry = reader.entries[ONLY_ARRAY]
        if entry.shape not in ((), shape):
            raise SurgeryError(
                f"the array in '{path}' has shape {list(entry.shape)}, not {list(shape)}"
            )
        if entry.shape == shape and is_raw(entry, dtype):
            return NpyValue(path, dtype, shape, dict(reader.identities))
        reader.readable(ONLY_ARRAY)
        if entry.dtype == STRING or entry.shape != shape:
            return reader.read(ONLY_ARRAY)
        return NpyValue(path, dtype, shape, dict(reader.identities))


def is_raw(entry: ArrayEntry, dtype: DType) -> bool:
    """Tell whether an array has bytes without a dtype, as `ckpt show --out` writes bfloat16."""
    layout = entry.layout
    size = layout.width if layout is not None else 0
    turned = layout is not None and (layout.fortran or layout.characters > 0)
    return not entry.dtype.known and size == dtype.size and not turned
