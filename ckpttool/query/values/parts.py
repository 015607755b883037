"""A tensor, or the part of one that an index selects, read in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import CkptError, UnsupportedError
from ckpttool.interchange.entry import ArrayEntry
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.layout import TensorLayout
from ckpttool.tensor.partial import string_part
from ckpttool.tensor.region import Index, boxes
from ckpttool.tensor.shape import element_count
from ckpttool.tensor.slices import Bounds, check_coverage
from ckpttool.tensor.strings import Strings
from ckpttool.tensor.values import Array, decode_array

# Dtypes that NumPy has from ml_dtypes. Their `kind` says nothing: float8_e5m2 has that of a float.
SMALL_FLOATS = frozenset(
    {
        "bfloat16",
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e4m3b11fnuz",
        "float8_e5m2fnuz",
        "float4_e2m1fn",
    }
)
SMALL_INTEGERS = frozenset({"int4", "uint4", "int2", "uint2"})
ML_DTYPES = SMALL_FLOATS | SMALL_INTEGERS
# What is smaller is read at once.
_SMALL = 1 << 25
_BLOCK = 1 << 23
# What an object of a short string takes.
_OBJECT = 64


class Part:
    """A tensor of a checkpoint or, with an index, a part of it; nothing is read yet.

    Args:
        ckpt: the checkpoint.
        key: the tensor's key, as `Checkpoint.resolve` gives it.
        index: a number or a slice for each dimension, as `tensor.region.fit_index` gives; None
            for the whole tensor.

    Attributes:
        dtype: of the tensor.
        shape: of the part.
        verified: whether what is read is checked against its crc32c, or CRC-32. That covers all
            bytes of a tensor, so it cannot be checked for a part of fixed-size elements; and
            safetensors and single arrays of NumPy have none.

    Raises:
        UnsupportedError: the dtype is not known, or NumPy has no arrays of so many dimensions.
    """

    def __init__(self, ckpt: Checkpoint, key: str, index: Index | None = None) -> None:
        self.ckpt = ckpt
        self.key = key
        self.index = index
        self.entry = ckpt.entries[key]
        self.dtype = self.entry.dtype
        self.shape = self.entry.shape
        if index is not None:
            steps = (
                range(*part.indices(dim))
                for part, dim in zip(index, self.entry.shape, strict=True)
                if isinstance(part, slice)
            )
            self.shape = tuple(map(len, steps))
        self._strings: Strings | None = None  # read once for all boxes
        self.verified = index is None or self.dtype.size is None
        if isinstance(self.entry, ArrayEntry):
            self.verified = self.verified and self.entry.packing is not None
        self._check()

    @property
    def elements(self) -> int:
        """How many elements the part has."""
        return element_count(self.shape)

    @property
    def small(self) -> bool:
        """Whether `blocks` reads it at once; variants and partitioned strings always are."""
        if self.dtype.size is None and not self._packed:
            return True
        return self.elements * self._element_size <= _SMALL

    def read(self) -> Array:
        """Return all elements; writing to the array changes no file.

        Raises:
            CorruptError: the stored bytes are damaged.
        """
        if self._strings is not None and self.index is not None:
            return string_part(self._strings, self.entry.shape, self.index)
        if self.index is None:
            return self.ckpt.reader.read(self.key)
        value = self.ckpt.read_region(self.key, self.index)
        if isinstance(value, np.ndarray):
            return value
        # All dimensions were numbers, so this is the element itself.
        array = np.empty((), self.dtype.numpy_dtype)
        array[()] = value
        return array

    def box(self, bounds: Bounds) -> Array:
        """Return the elements in a box, given as (start, stop) for each dimension of the part.

        Their crc32c is not checked, that of strings once for all boxes.
        """
        inner = Part(self.ckpt, self.key, self._narrow(bounds))
        reader = self.ckpt.reader
        if self._packed and self._strings is None and isinstance(reader, BundleReader):
            self._strings = reader.read_strings(self.key)
        inner._strings = self._strings
        return inner.read()

    def blocks(self, *, ordered: bool = True) -> Iterator[Array]:
        """Yield all elements as one-dimensional arrays, each valid until the next is asked for.

        Unless the part is `small`, memory stays bounded. A checksum that does not match is found
        when all elements have been yielded.

        Args:
            ordered: whether they have to come in C order.

        Raises:
            CorruptError: the stored bytes are damaged.
        """
        if self.small:
            yield self.read().reshape(-1)
        elif self.index is None and not self._packed and not (self.entry.slices and ordered):
            yield from self._chunks()
        else:
            if self.index is None and not self._packed:
                for _ in self._chunks():
                    pass  # slices cross blocks: their checksums are compared beforehand
            for bounds in boxes(self.shape, _BLOCK // self._element_size):
                yield self.box(bounds).reshape(-1)

    @property
    def _packed(self) -> bool:
        """Whether the elements are strings that need not all become objects."""
        whole = not self.entry.slices and isinstance(self.ckpt.reader, BundleReader)
        return self.dtype == STRING and whole

    @property
    def _element_size(self) -> int:
        return _OBJECT if self.dtype.size is None else max(self.dtype.size, 1)

    def _check(self) -> None:
        problem = "" if self.dtype.known else f"values of dtype {self.dtype} cannot be read"
        if isinstance(self.entry, ArrayEntry):
            problem = self.entry.unreadable
        rank = len(self.entry.shape)
        try:
            np.empty((0,) * rank, np.uint8)
        except ValueError:
            problem = f"NumPy has no arrays of {rank} dimensions"
        if problem:
            raise UnsupportedError(problem, path=self.ckpt.reader.path, key=self.key)

    def _chunks(self) -> Iterator[Array]:
        """Yield the elements in stored order, that of the slices for a partitioned tensor."""
        if self.entry.slices:
            try:
                check_coverage(self.entry.shape, self.entry.slices)
            except CkptError as error:
                error.locate(path=self.ckpt.reader.path, key=self.key)
                raise
        big_endian = self.ckpt.reader.big_endian
        for chunk in self.ckpt.reader.chunks(self.key):
            count = len(chunk) // (self.dtype.size or 1)
            yield decode_array(self.dtype, (count,), chunk, big_endian=big_endian)

    def _narrow(self, bounds: Bounds) -> Index:
        """Return the index into the tensor that selects a box of the part."""
        index = self.index or (slice(None),) * len(self.entry.shape)
        out: list[int | slice] = []
        box = iter(bounds)
        for part, dim in zip(index, self.entry.shape, strict=True):
            if isinstance(part, int):
                out.append(part)
                continue
            low, high = next(box)
            steps = range(*part.indices(dim))[low:high]
            # A stop of -1 would count from the end.
            stop = None if steps.stop < 0 else steps.stop
            out.append(slice(steps.start, stop, steps.step) if steps else slice(0, 0))
        return tuple(out)


class LaidOutPart(Part):
    """A tensor with its dimensions permuted or reshaped.

    Args:
        ckpt: the checkpoint.
        key: the tensor's key; its elements have a fixed size.
        layout: for the shape of the tensor.
    """

    def __init__(self, ckpt: Checkpoint, key: str, layout: TensorLayout) -> None:
        super().__init__(ckpt, key)
        self._layout = layout
        self._as_stored = Part(ckpt, key)
        self.shape = layout.result

    def read(self) -> Array:
        """Return all elements, as a new array."""
        return self._layout.apply(self._as_stored.read())

    def blocks(self, *, ordered: bool = True) -> Iterator[Array]:
        """Yield all elements in C order as one-dimensional arrays, as `Part.blocks` does."""
        stored = self._as_stored
        if not self._layout.fits(self._element_size):
            for _ in stored._chunks():
                pass  # boxes cross the stored order: the checksum is compared beforehand
        yield from self._layout.blocks(self._element_size, stored.read, stored.box)
