"""Arrays of every dtype, and what of a value must agree between TensorFlow and us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ckpttool.tensor.dtypes import DTYPES, STRING, VARIANT, DType
from ckpttool.tensor.variants import VariantElement

Array = np.ndarray[Any, np.dtype[Any]]

# Bits that an element of these may use of its byte.
_LOW_BITS = {"bool": 1, "int2": 3, "uint2": 3, "int4": 15, "uint4": 15, "float4_e2m1fn": 15}
STRINGS = (
    b"",
    b"\xff\xfe\x80",
    b"x" * 300,
    "grün 日本".encode(),
    b"\x00inside\x00",
    b"y" * 127,
    b"z" * 128,
)
PLAIN_DTYPES = tuple(dtype for dtype in DTYPES.values() if dtype.known and dtype != VARIANT)


@dataclass(frozen=True, slots=True)
class Content:
    """A value, bit by bit.

    Attributes:
        dtype: NumPy's name of the dtype; quantised dtypes by that of the number beneath.
        shape: as a list.
        elements: the bytes of the elements; of strings a list.
    """

    dtype: str
    shape: list[int]
    elements: bytes | list[bytes]


def as_array(value: Any) -> Array:
    """Return what TensorFlow or we gave back as an array.

    Strings are objects, and quantised numbers plain ones.
    """
    array: Array = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
    return array.view(array.dtype[0]) if array.dtype.names else array


def content(value: Any) -> Content:
    """Return the content of an array or scalar that TensorFlow or we gave back."""
    array = as_array(value)
    shape = list(array.shape)
    if array.dtype != object:
        return Content(array.dtype.name, shape, array.tobytes())
    items = array.ravel().tolist()
    strings = [item.serialized if isinstance(item, VariantElement) else item for item in items]
    return Content("object", shape, strings)


def sample(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Return an array of random bits (NaNs with a payload among them), the same for a seed."""
    count = int(np.prod(shape, dtype=np.int64))
    rng = np.random.default_rng([dtype.number, *shape, seed])
    if dtype == STRING:
        strings = np.empty(count, object)
        strings[:] = [STRINGS[at] for at in rng.permutation(count) % len(STRINGS)]
        return strings.reshape(shape)
    assert dtype.size is not None
    bits = np.frombuffer(rng.bytes(count * dtype.size), np.uint8)
    array: Array = (bits & _LOW_BITS.get(dtype.name, 255)).view(dtype.as_numpy_dtype)
    return array.reshape(shape)


def as_tensor(tf: Any, array: Array) -> Any:
    """Return a TensorFlow tensor of the same content."""
    if array.dtype == object:
        return tf.constant(array.tolist(), tf.string, shape=array.shape)
    return tf.constant(array)
