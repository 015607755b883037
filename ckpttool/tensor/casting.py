"""Elements in another dtype: rounded once, to nearest and ties to even, or refused.

NumPy and ml_dtypes round to nearest even from float32. From wider numbers ml_dtypes goes through
float32 and rounds twice, so those are first brought to float32 "to odd": cut off, the last bit set
if anything was lost. Rounding that again gives what one rounding would.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ckpttool.errors import SurgeryError
from ckpttool.tensor.dtypes import DTYPES, DType, dtype_of_array, dtype_of_name
from ckpttool.tensor.values import Array, decode_array, plain_bytes

Sort = Literal["float", "integer", "complex", "bool"]

_NARROW = ("bfloat16", "float8", "float4")
_FLOAT4 = "float4_e2m1fn"
# What rounds to nothing that the dtype has.
_FLOAT4_END = 7.0
_EXACT = 1 << 53
_HINT = "; --saturate takes the nearest that there is"


def sort_of(dtype: DType) -> Sort | None:
    """Return what elements of a dtype are; None for what cannot be calculated with."""
    name = dtype.name
    if dtype.size is None or name.startswith(("q", "unknown")):
        return None
    if name == "bool":
        return "bool"
    if name.startswith("complex"):
        return "complex"
    return "float" if name.startswith(("float", "bfloat")) else "integer"


def can_cast(source: DType, target: DType) -> bool:
    """Tell whether numbers of one dtype can become numbers of another."""
    wider: dict[Sort | None, tuple[Sort, ...]] = {
        "bool": ("bool", "integer", "float", "complex"),
        "integer": ("integer", "float", "complex"),
        "float": ("integer", "float", "complex"),
        "complex": ("complex",),
    }
    return source == target or sort_of(target) in wider.get(sort_of(source), ())


def castable_names() -> list[str]:
    """Return the names of the dtypes that something can be cast to."""
    return [dtype.name for dtype in DTYPES.values() if sort_of(dtype) not in (None, "bool")]


class Cast:
    """Gives elements another dtype, piece by piece.

    Args:
        source: their dtype.
        target: the new one; `can_cast` has allowed it.
        saturate: whether what is out of range becomes the nearest that the dtype has.
        start: the number of the first element, for errors.
    """

    def __init__(
        self, source: DType, target: DType, *, saturate: bool = False, start: int = 0
    ) -> None:
        self._source = source
        self._target = target
        self._saturate = saturate
        self._done = start

    def piece(self, data: memoryview | bytes) -> memoryview:
        """Return the bytes of the next elements, little-endian as they were given.

        Raises:
            SurgeryError: an element is out of range, or there is no such number.
        """
        count = len(data) // (self._source.size or 1)
        array = decode_array(self._source, (count,), memoryview(data), big_endian=False)
        result = self.array(array)
        self._done += count
        return plain_bytes(np.ascontiguousarray(result))

    def array(self, array: Array) -> Array:
        """Return the next elements in the new dtype, a one-dimensional array.

        Raises:
            SurgeryError: as of `piece`.
        """
        target = self._target
        if self._source == target:
            return array
        if sort_of(target) == "complex":
            half = dtype_of_name("float32" if target.name == "complex64" else "float64")
            numpy_half = half.numpy_dtype
            if sort_of(self._source) == "complex":
                parts = array.view(array.real.dtype)
                return self._floats(parts, half, per_element=2).view(target.numpy_dtype)
            real = self._floats(_plain(array, self._source), half)
            out = np.zeros(len(array), target.numpy_dtype)
            out.view(numpy_half)[::2] = real
            return out
        plain = _plain(array, self._source)
        if sort_of(target) == "float":
            return self._floats(plain, target)
        return self._integers(plain)

    def _floats(self, array: Array, target: DType, *, per_element: int = 1) -> Array:
        """Return numbers of a plain dtype, rounded to floats."""
        with np.errstate(all="ignore"):
            result = rounded(array, target)
            real = array.dtype.kind == "f"
            if target.name == _FLOAT4:
                wide = array.astype(np.float64)
                lost = ~(np.abs(wide) < _FLOAT4_END)
            else:
                lost = ~np.isfinite(result)
                if real and lost.any():
                    # What was no number stays none, and infinity where the dtype has one.
                    kept = np.isnan(array) | (np.isinf(array) & np.isinf(result))
                    lost &= ~kept
        if not lost.any():
            return result
        if real and target.name == _FLOAT4:
            self._refuse(np.isnan(array), array, f"which {target} does not have", per_element)
        if not self._saturate:
            self._refuse(lost, array, f"out of the range of {target}{_HINT}", per_element)
        largest = _largest(target)
        result[lost] = np.where(array[lost] < 0, -largest, largest).astype(target.numpy_dtype)
        return result

    def _integers(self, array: Array) -> Array:
        """Return numbers of a plain dtype as integers, none of them changed."""
        target = self._target
        low, high = _range(target)
        if array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                self._refuse(np.isnan(array), array, f"which {target} does not have")
                parted = np.isfinite(array) & (array != np.rint(array))
                self._refuse(parted, array, "not a whole number")
                wide = array.astype(np.float64)
                # The upper bound of 64 bits is no float64; the number behind it is.
                below, above = wide < float(low), wide >= float(high + 1)
        else:
            wide = array.astype(np.uint8) if array.dtype.kind == "b" else array
            least, largest = _range(dtype_of_array(wide))
            none = np.zeros(len(wide), bool)
            below = wide < low if least < low else none
            above = wide > high if largest > high else none
        lost = below | above
        if lost.any() and not self._saturate:
            self._refuse(lost, array, f"out of the range of {target}{_HINT}")
        plain = _plain_integer(target)
        with np.errstate(all="ignore"):
            result = np.where(lost, 0, wide).astype(plain)
        result[below], result[above] = low, high
        return result if plain == target.numpy_dtype else result.astype(target.numpy_dtype)

    def _refuse(self, found: Array, array: Array, why: str, per_element: int = 1) -> None:
        """Refuse the elements found, if there are any."""
        if found.any():
            at = int(found.argmax())
            where = self._done + at // per_element
            raise SurgeryError(f"element {where} is {array[at]!s}, {why}")


def rounded(array: Array, target: DType) -> Array:
    """Return real numbers of a NumPy dtype as floats, each rounded once, to nearest even.

    What is too large becomes infinity, or what the dtype has instead.
    """
    if target.name.startswith(_NARROW):
        if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
            array = _sticky(array)
        if array.dtype.itemsize > 4 or array.dtype.kind != "f":
            array = _to_odd(array.astype(np.float64))
        elif array.dtype != np.float32:
            array = array.astype(np.float32)
    return array.astype(target.numpy_dtype)


def _plain(array: Array, source: DType) -> Array:
    """Return real numbers in a dtype of NumPy's own that holds each of them."""
    if source.name.startswith(_NARROW):
        return array.astype(np.float32)
    if source.name.startswith(("int4", "int2")):
        return array.astype(np.int8)
    if source.name.startswith(("uint4", "uint2")):
        return array.astype(np.uint8)
    return array


def _plain_integer(target: DType) -> np.dtype[np.int8] | np.dtype[np.uint8] | np.dtype[np.int64]:
    name = target.name
    if name.startswith(("int4", "int2")):
        return np.dtype(np.int8)
    if name.startswith(("uint4", "uint2")):
        return np.dtype(np.uint8)
    plain: np.dtype[np.int64] = np.dtype(name)
    return plain


def _range(target: DType) -> tuple[int, int]:
    """Return the least and the largest integer of a dtype."""
    bits = int(target.name.lstrip("uint"))
    if target.name.startswith("u"):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _largest(target: DType) -> float:
    """Return the largest finite number of a dtype."""
    if target.name.startswith(_NARROW):
        import ml_dtypes

        return float(ml_dtypes.finfo(target.numpy_dtype).max)  # type: ignore[no-untyped-call]
    return float(np.finfo(np.dtype(target.name)).max)


def _sticky(array: Array) -> Array:
    """Return 64-bit integers with at most 53 significant bits that round to the same few bits."""
    large = (array >= _EXACT) if array.dtype.kind == "u" else (np.abs(array // 2) >= _EXACT // 2)
    if not large.any():
        return array
    low = array.dtype.type(0x7FF)
    cut = array & ~low
    odd = np.where(array & low, array.dtype.type(0x800), array.dtype.type(0))
    result: Array = np.where(large, cut | odd, array)
    return result


def _to_odd(array: Array) -> Array:
    """Return float64 as float32, cut off, with the last bit set where anything was lost."""
    near: Array = array.astype(np.float32)
    back = near.astype(np.float64)
    lost = (back != array) & ~np.isnan(array)
    if lost.any():
        bits = near.view(np.int32)
        bits[lost & (np.abs(back) > np.abs(array))] -= 1
        bits[lost] |= 1
    return near
