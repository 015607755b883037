"""The array of a new variable: what TensorFlow would make of a value, on NumPy.

Python's own numbers take the small dtypes (float32, int32), arrays keep theirs, and text becomes
objects of bytes. Numbers are never cut silently: a Python float for an integer dtype is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ckpttool.tensor.dtypes import STRING, DType, dtype_of_array, dtype_of_name
from ckpttool.tensor.values import string_bytes, to_array

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array

# Python's types by the names of TensorFlow, where NumPy takes them for others.
_TYPES: dict[object, str] = {float: "float32", object: "string"}
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_PYTHON = (bool, int, float, complex, str, bytes)
# Which kinds of Python's numbers a dtype takes: those up to its own.
_RANKS = {bool: 0, int: 1, float: 2, complex: 3}


def as_dtype(dtype: object) -> DType:
    """Return a dtype given as ours, by TensorFlow's name, or as NumPy's.

    Raises:
        TypeError: there is none.
    """
    if isinstance(dtype, DType):
        return dtype
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    if isinstance(dtype, type):
        name = _TYPES.get(dtype)
    if isinstance(name, str):
        try:
            return dtype_of_name(name)
        except KeyError:
            pass
    return dtype_of_array(np.empty(0, np.dtype(dtype)))  # type: ignore[call-overload]


def initial_array(value: Any, dtype: DType | None) -> tuple[Array, DType]:
    """Return a value as an array that may be the caller's, and its dtype.

    Raises:
        TypeError: a Python value does not go with the dtype, or nothing goes with the value.
        ValueError: lists are uneven or hold different kinds, or a number is out of range.
    """
    leaves = None if _has_dtype(value) else list(_leaves(value))
    if leaves is not None and all(type(leaf) in _PYTHON for leaf in leaves):
        return _from_python(value, leaves, dtype)
    array = to_array(value)
    found = dtype_of_array(array)
    if found == STRING:
        array = _as_bytes(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if dtype is None or dtype == found:
        return array, found
    if STRING in (dtype, found):
        raise TypeError(f"a {found} value for a variable of {dtype}")
    return array.astype(dtype.numpy_dtype), dtype


def _has_dtype(value: object) -> bool:
    return isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__")


def _leaves(value: object) -> Iterator[object]:
    """Yield the elements of lists in lists, in no particular order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple | range):
            stack += item
        else:
            yield item


def _from_python(value: Any, leaves: list[object], dtype: DType | None) -> tuple[Array, DType]:
    kinds = {type(leaf) for leaf in leaves}
    if kinds & {str, bytes}:
        if kinds - {str, bytes}:
            raise ValueError("text and numbers in one value")
        if dtype not in (None, STRING):
            raise TypeError(f"text for a variable of {dtype}")
        return _as_bytes(to_array(value)), STRING
    if dtype is None:
        dtype = _widest(kinds, leaves)
    rank = max((_RANKS[kind] for kind in kinds if isinstance(kind, type)), default=0)
    if rank > _rank(dtype):
        kind = next(kind.__name__ for kind in kinds if _RANKS[kind] == rank)
        raise TypeError(f"a Python {kind} for a variable of {dtype}")
    wide = np.asarray(value)
    if rank == 1:
        _refuse_range(leaves, dtype)
    with np.errstate(over="ignore"):
        array = wide.astype(dtype.numpy_dtype)
    if rank >= 2 and np.any(np.isinf(array) & ~np.isinf(wide)):
        raise ValueError(f"a number is out of range for {dtype}")
    return array, dtype


def _widest(kinds: set[Any], leaves: list[object]) -> DType:
    if len(kinds) > 1 and kinds != {int, float}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"values of different kinds: {names}")
    if kinds <= {int, float} and kinds != {int}:
        return dtype_of_name("float32")
    if kinds == {bool}:
        return dtype_of_name("bool")
    if kinds == {complex}:
        return dtype_of_name("complex128")
    if all(leaf in _INT32 for leaf in leaves):
        return dtype_of_name("int32")
    if all(leaf in _INT64 for leaf in leaves):
        return dtype_of_name("int64")
    raise ValueError("an integer is out of range for int64")


def _rank(dtype: DType) -> int:
    name = dtype.name
    if name == "bool":
        return 0
    if name.startswith(("int", "uint")):
        return 1
    if name.startswith(("float", "bfloat")):
        return 2
    return 3 if name.startswith("complex") else -1


def _refuse_range(leaves: list[object], dtype: DType) -> None:
    if _rank(dtype) != 1:
        return
    bits = int(dtype.name.lstrip("uint"))
    low, high = (0, 1 << bits) if dtype.name[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    for leaf in leaves:
        if isinstance(leaf, int) and not low <= leaf < high:
            raise ValueError(f"{leaf} is out of range for {dtype}")


def _as_bytes(array: Array) -> Array:
    """Return text of any form as objects of bytes."""
    out = np.empty(array.shape, dtype=object)
    flat = out.reshape(-1)
    flat[:] = [string_bytes(item) for item in array.ravel().tolist()]
    return out
