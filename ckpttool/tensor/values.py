"""Stored bytes to NumPy arrays and back.

Fixed-size elements lie in C order, in the byte order of the writer. A bool is one byte; dtypes
below a byte take a whole one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ckpttool.coding.text import encode_text
from ckpttool.errors import InvalidTensorError
from ckpttool.tensor.dtypes import STRING, VARIANT, DType
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.strings import decode_strings, encode_strings
from ckpttool.tensor.variants import VariantElement, decode_variants, encode_variants

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ckpttool.tensor.region import Index

# What NumPy can hold; TensorFlow goes up to 254.
MAX_RANK = 32 if np.__version__.startswith("1.") else 64

Array = np.ndarray[Any, np.dtype[Any]]


def decode_array(dtype: DType, shape: Shape, data: memoryview, *, big_endian: bool) -> Array:
    """Return fixed-size elements as an array.

    The array is a view of `data` where alignment allows, else a copy. A writable buffer is
    byte-swapped in place.

    Args:
        dtype: a dtype with a size.
        shape: its product times the element size is the length of `data`.
        data: the stored bytes.
        big_endian: byte order of the writer.
    """
    if dtype.name == "bool":
        flags = np.frombuffer(data, np.uint8)
        # TensorFlow takes any byte but 0 for true; NumPy knows only 0 and 1.
        if flags.max(initial=0) > 1:
            flags = np.minimum(flags, 1, out=flags if flags.flags.writeable else None)
        return flags.view(np.bool_).reshape(shape)
    numpy_dtype = dtype.numpy_dtype
    if big_endian != (sys.byteorder == "big"):
        # Swap plain words: extension dtypes have no byte order, and the halves of a complex number
        # are swapped separately.
        word = numpy_dtype.itemsize // (2 if numpy_dtype.kind == "c" else 1)
        words = np.frombuffer(data, f"u{word}")
        flat = words.byteswap(inplace=words.flags.writeable).view(numpy_dtype)
    else:
        flat = np.frombuffer(data, numpy_dtype)
    return np.require(flat.reshape(shape), requirements="A")


def swapped_bytes(dtype: DType, data: memoryview | bytes) -> memoryview:
    """Return a copy of the bytes of fixed-size elements in the other byte order."""
    word = (dtype.size or 1) // (2 if dtype.name.startswith("complex") else 1)
    return plain_bytes(np.frombuffer(data, f"u{word}").byteswap())


def joined_array(dtype: DType, shape: Shape, chunks: Iterable[memoryview | bytes]) -> Array:
    """Return an array of the bytes that a little-endian bundle stores for it."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
    if dtype.size is not None:
        return decode_array(dtype, shape, memoryview(data), big_endian=False)
    decode = decode_strings if dtype == STRING else decode_variants
    elements, _ = decode(memoryview(data), element_count(shape))
    return object_array(list(elements), shape)


def array_part(value: Array, index: Index) -> Array:
    """Return a copy of part of an array; a single element is an array too."""
    where = (*index, Ellipsis)
    part: Array = value[where]
    copied: Array = part.copy()
    return copied


def to_array(value: ArrayLike) -> Array:
    """Return a value as an array, as NumPy does except for text.

    Text and bytes in lists become objects, because NumPy would drop NULs at their end.

    Raises:
        ValueError: the value is nested unevenly.
    """
    try:
        array: Array = np.asanyarray(value)
    except UnicodeError:  # text beside bytes
        return np.asarray(value, dtype=object)
    if array.dtype.kind in "SU" and not isinstance(value, np.ndarray):
        return np.asarray(value, dtype=object)
    return array


def empty_array(dtype: DType, shape: Shape) -> Array:
    """Return an uninitialised array."""
    return np.empty(shape, dtype.numpy_dtype)


def plain_bytes(array: Array) -> memoryview:
    """Return the memory of a C-contiguous array as bytes; writing to them changes the array."""
    data: memoryview = array.reshape(-1).view(np.uint8).data
    return data


def object_array(elements: list[Any], shape: Shape) -> Array:
    """Return elements, given in C order, as an array of objects."""
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array.reshape(shape)


def encode_array(dtype: DType, array: Array) -> tuple[memoryview, int | None]:
    """Return the bytes under which an array is stored.

    Args:
        dtype: the dtype to store; for fixed-size dtypes that of the array itself.
        array: of any layout; a C-contiguous one is not copied.

    Returns:
        The bytes, and the unmasked crc32c for the entry if it is not simply that of the bytes.

    Raises:
        InvalidTensorError: an element cannot be stored as this dtype.
    """
    if dtype == STRING:
        data, crc = encode_strings([string_bytes(item) for item in array.ravel().tolist()])
        return memoryview(data), crc
    if dtype == VARIANT:
        data, crc = encode_variants([_variant(item) for item in array.ravel().tolist()])
        return memoryview(data), crc
    contiguous = np.ascontiguousarray(array)
    if sys.byteorder == "big" or contiguous.dtype.byteorder == ">":
        contiguous = contiguous.astype(contiguous.dtype.newbyteorder("<"))
    return plain_bytes(contiguous), None


def string_bytes(item: object) -> bytes:
    """Return the bytes of an element of a string tensor; text is UTF-8.

    Raises:
        InvalidTensorError: it is neither bytes nor text.
    """
    if isinstance(item, str):
        try:
            return encode_text(item)
        except UnicodeEncodeError as error:
            raise InvalidTensorError(f"text that is not Unicode: {error.reason}") from error
    if isinstance(item, bytes):
        return item
    raise InvalidTensorError(f"a string tensor cannot hold {type(item).__name__}")


def _variant(item: object) -> VariantElement:
    if isinstance(item, VariantElement):
        return item
    raise InvalidTensorError(f"a variant tensor cannot hold {type(item).__name__}")
