"""Values that a person or a program gives, as elements of a tensor that exists.

Numbers keep their value: integers must be exact in the dtype, and within its range. A number with a
fraction is rounded to the nearest that a floating-point dtype has, ties to even.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ckpttool.errors import SurgeryError
from ckpttool.tensor.casting import Cast, can_cast, sort_of
from ckpttool.tensor.dtypes import STRING, DType, dtype_of_array, dtype_of_name
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.values import Array, decode_array, encode_array, plain_bytes, to_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_CHUNK = 1 << 20


def given_array(value: ArrayLike, dtype: DType, shape: Shape) -> Array:
    """Return a value as an array of a dtype: of the shape, or a scalar that is meant to fill it.

    Args:
        value: a number, text, list of these, or array.
        dtype: of the tensor.
        shape: of the tensor.

    Raises:
        SurgeryError: the shape is another, or the dtype has no such elements.
    """
    try:
        array = to_array(value) if isinstance(value, np.ndarray) else _objects(value)
    except ValueError as error:
        raise SurgeryError(f"no array: {error}") from error
    if array.shape not in ((), shape):
        raise SurgeryError(f"the value has shape {list(array.shape)}, not {list(shape)}")
    if dtype == STRING:
        encode_array(dtype, array.astype(object))  # refuses what is no text
        return array.astype(object)
    if array.dtype.kind == "O":
        return _of_python(array, dtype)
    return of_numbers(array, dtype)


def number_pieces(
    source: DType, dtype: DType, pieces: Iterable[memoryview]
) -> Iterator[memoryview]:
    """Yield pieces of numbers in another dtype, integers unchanged.

    Args:
        source: their dtype.
        dtype: the new one.
        pieces: the bytes of whole elements, little-endian.

    Raises:
        SurgeryError: the dtype has no such elements.
    """
    done = 0
    for piece in pieces:
        count = len(piece) // (source.size or 1)
        array = decode_array(source, (count,), piece, big_endian=False)
        yield encode_array(dtype, of_numbers(array, dtype, start=done))[0]
        done += count


def of_numbers(array: Array, dtype: DType, *, start: int = 0) -> Array:
    """Return numbers in another dtype, integers unchanged.

    Args:
        array: the numbers.
        dtype: the new dtype.
        start: the number of the first one, for errors.

    Raises:
        SurgeryError: the dtype has no such elements.
    """
    try:
        source = dtype_of_array(array)
    except TypeError as error:
        raise SurgeryError(str(error)) from error
    if source == dtype:
        return array
    if not can_cast(source, dtype):
        raise SurgeryError(f"the value is {source}, and the tensor {dtype}")
    flat = array.reshape(-1)
    out = Cast(source, dtype, start=start).array(flat)
    if sort_of(source) == "integer" and sort_of(dtype) != "integer":
        whole = flat if flat.dtype == np.uint64 else flat.astype(np.int64)
        wide = np.real(out.astype(np.complex128 if sort_of(dtype) == "complex" else np.float64))
        limit = 2.0**64 if whole.dtype == np.uint64 else 2.0**63
        inside = (wide >= -limit) & (wide < limit)
        changed = ~inside | (np.where(inside, wide, 0).astype(whole.dtype) != whole)
        if changed.any():
            raise _inexact(flat[int(changed.argmax())], dtype)
    result: Array = out.reshape(array.shape)
    return result


def array_chunks(array: Array, dtype: DType, shape: Shape) -> Iterator[memoryview]:
    """Yield the bytes that a little-endian bundle stores for an array.

    Args:
        array: from `given_array`.
        dtype: of the tensor.
        shape: of the tensor, filled if the array is a scalar.
    """
    if dtype.size is None:
        yield encode_array(dtype, np.broadcast_to(array, shape))[0]
    elif array.shape == shape:
        data, _ = encode_array(dtype, array)
        for at in range(0, len(data), _CHUNK):
            yield data[at : at + _CHUNK]
    else:
        left = element_count(shape)
        many = max(1, min(left, _CHUNK // dtype.size))
        block = plain_bytes(np.full(many, array, dtype.numpy_dtype))
        while left:
            taken = min(left, many)
            yield block[: taken * dtype.size]
            left -= taken


def _objects(value: ArrayLike) -> Array:
    """Return numbers and text of Python as they are, in an array of their shape."""
    array: Array = np.array(value, dtype=object)
    if any(isinstance(each, (list, tuple)) for each in array.flat):
        raise ValueError("its lists have different lengths")
    return array


def _of_python(array: Array, dtype: DType) -> Array:
    """Return numbers of Python as an array of a dtype other than strings."""
    numbers = array.ravel().tolist()
    out = np.empty(len(numbers), dtype.numpy_dtype)
    quantised = dtype.name.startswith(("q",))
    plain = dtype_of_name(dtype.name[1:]) if quantised else dtype
    for at, number in enumerate(numbers):
        found = _element(number, plain)
        out[at] = (found.item(),) if quantised else found
    result: Array = out.reshape(array.shape)
    return result


def _element(number: object, dtype: DType) -> Any:
    """Return a number of Python as a scalar of a dtype."""
    sort = sort_of(dtype)
    if isinstance(number, np.generic):
        number = number.item()
    if sort is None or isinstance(number, (str, bytes)) or number is None:
        raise SurgeryError(f"the tensor is {dtype}, and {number!r} is not")
    if sort == "bool" or isinstance(number, bool):
        if sort != "bool" or number not in (0, 1):
            raise SurgeryError(f"the tensor is {dtype}, and {str(number).lower()} is not")
        return np.bool_(number)
    if isinstance(number, int):
        if sort == "integer":
            return _integer(number, dtype)
        return _exact(number, dtype)
    if isinstance(number, complex):
        kind = "complex128"
    elif isinstance(number, float):
        kind = "float64"
    else:
        raise SurgeryError(f"{type(number).__name__} is no number")
    if not can_cast(dtype_of_name(kind), dtype):
        raise SurgeryError(f"the tensor is {dtype}, and {number} is not")
    return Cast(dtype_of_name(kind), dtype).array(np.array([number]))[0]


def _integer(number: int, dtype: DType) -> Any:
    kind = "uint64" if number > (1 << 63) - 1 else "int64"
    try:
        wide = np.array([number], kind)
        return Cast(dtype_of_name(kind), dtype).array(wide)[0]
    except (OverflowError, SurgeryError) as error:
        raise SurgeryError(f"{number} is out of the range of {dtype}") from error


def _exact(number: int, dtype: DType) -> Any:
    """Return an integer as a floating-point or complex number that is equal to it."""
    try:
        found = Cast(dtype_of_name("float64"), dtype).array(np.array([float(number)]))[0]
        same = complex(found).imag == 0 and int(complex(found).real) == number
    except (OverflowError, SurgeryError) as error:
        raise SurgeryError(f"{number} is out of the range of {dtype}") from error
    if not same:
        raise _inexact(number, dtype)
    return found


def _inexact(number: object, dtype: DType) -> SurgeryError:
    return SurgeryError(f"{number} is not exact in {dtype}; {number}.0 would be rounded")
