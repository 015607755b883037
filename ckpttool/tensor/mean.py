"""The mean of elements, computed in float64 and rounded once, to nearest even.

The sum goes in the order of the tensors. Where all elements have the same bits the mean has them
too, whatever they are: identical tensors give themselves, infinities and NaN included.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, ldexp

import numpy as np

from ckpttool.tensor.casting import rounded
from ckpttool.tensor.dtypes import DType, dtype_of_name
from ckpttool.tensor.values import Array, plain_bytes

# Sums of numbers this much smaller do not overflow.
_SMALLER = 2.0**-64


class Mean:
    """Computes the means of pieces of tensors.

    Args:
        dtype: of the elements, floating-point or complex.
        weights: one for each tensor, positive; None for equal ones.
    """

    def __init__(self, dtype: DType, weights: Sequence[float] | None = None) -> None:
        # The parts of a complex number are averaged by themselves.
        parts = {"complex64": "float32", "complex128": "float64"}
        self._dtype = dtype_of_name(parts.get(dtype.name, dtype.name))
        self._numpy = self._dtype.numpy_dtype
        self._bits = np.dtype(f"u{self._dtype.size}")
        self._weights = weights and _scaled(weights)
        self._total: Array = np.empty(0)

    def piece(self, pieces: Sequence[memoryview]) -> memoryview:
        """Return the mean of pieces of one size; as they are, it is little-endian."""
        arrays = [np.frombuffer(each, self._numpy) for each in pieces]
        with np.errstate(all="ignore"):
            result = rounded(self._mean(arrays), self._dtype)
            if self._dtype.size == 8 or np.isnan(result).any():
                self._keep_equal(pieces, result)
        return plain_bytes(result)

    def _mean(self, arrays: Sequence[Array]) -> Array:
        """Return the mean in float64."""
        if len(self._total) != len(arrays[0]):
            self._total = np.empty(len(arrays[0]))
        total = self._sum(arrays, self._total)
        if not np.isfinite(total).all():
            wide = [each.astype(np.float64) for each in arrays]
            finite = np.logical_and.reduce([np.isfinite(each) for each in wide])
            over = finite & ~np.isfinite(total)
            if over.any():
                smaller = [each[over] * _SMALLER for each in wide]
                limit = np.finfo(np.float64).max * _SMALLER
                part = self._sum(smaller, np.empty(len(smaller[0])))
                total[over] = np.clip(part, -limit, limit) / _SMALLER
        return total

    def _sum(self, arrays: Sequence[Array], total: Array) -> Array:
        """Return the sum, divided by that of the weights."""
        if self._weights is None:
            total[...] = arrays[0]
            for array in arrays[1:]:
                # NumPy adds its own dtypes without a copy.
                total += array if array.dtype.isbuiltin == 1 else array.astype(np.float64)
            total /= len(arrays)
            return total
        for at, (array, weight) in enumerate(zip(arrays, self._weights, strict=True)):
            term = array.astype(np.float64)
            term *= weight
            if at:
                total += term
            else:
                total[...] = term
        total /= sum(self._weights)
        return total

    def _keep_equal(self, pieces: Sequence[memoryview], result: Array) -> None:
        """Give elements that are the same in all pieces to the result as they are."""
        first, *others = (np.frombuffer(each, self._bits) for each in pieces)
        same = np.logical_and.reduce([first == each for each in others])
        np.copyto(result.view(self._bits), first, where=same)


def _scaled(weights: Sequence[float]) -> list[float]:
    """Return weights of the same proportions, the largest from 1/2 to 1: no product overflows."""
    exponent = frexp(max(weights))[1]
    return [ldexp(weight, -exponent) for weight in weights]
