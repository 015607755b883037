"""Numbers that sum a tensor up, found in one pass and in bounded memory.

What they are numbers of depends on the dtype:

    values       real and quantised numbers, as they are
    magnitudes   complex numbers
    truth        bools, true being 1
    lengths      strings, in bytes

Sums are kept as mean and standard deviation of what has been seen, in float64. Those of each piece
are taken around its own mean and merged by the rule of Chan, Golub and LeVeque, so that neither
many elements nor a mean far from zero costs digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ckpttool.query.values.parts import SMALL_FLOATS, SMALL_INTEGERS, Part
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.values import Array

# Elements taken at once: their float64 copy should fit a processor's second cache.
_PIECE = 1 << 16
# Beyond these the square of a float64 over- or underflows.
_LARGE, _TINY = 1e140, 1e-140
# Ranges between these can be counted in float32.
_SHORT = 1e-30, 1e37


@dataclass(frozen=True, slots=True)
class Statistics:
    """A tensor in numbers.

    NaN and infinities are counted, and left out of `min`, `max`, `mean` and `std`, which are None
    where nothing is left. A complex number counts as NaN if either part is, else as infinite if
    either part is.

    Attributes:
        of: what they are numbers of: `"values"`, `"magnitudes"`, `"truth"` or `"lengths"`.
        count: number of elements.
        min: the least, exactly; an integer for integer dtypes, bools and lengths.
        max: the greatest, exactly.
        mean: arithmetic mean; of integers the float64 next to the true one.
        std: standard deviation of the elements as a population, as `numpy.std` has it.
        zeros: elements equal to zero, of either sign; false ones; empty strings.
        nan: elements that are not a number.
        inf: infinite elements of either sign.
    """

    of: str
    count: int
    min: int | float | None
    max: int | float | None
    mean: float | None
    std: float | None
    zeros: int
    nan: int
    inf: int

    @property
    def true(self) -> int | None:
        """How many elements of a bool tensor are true; None for another."""
        return self.count - self.zeros if self.of == "truth" else None


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distribution of the finite elements over bins of equal width.

    Attributes:
        low: where the first bin begins: the least element.
        high: where the last bin ends, which belongs to it: the greatest element.
        counts: elements in each bin.
    """

    low: int | float
    high: int | float
    counts: tuple[int, ...]


class Moments:
    """Count, mean and standard deviation of numbers that come in pieces.

    Args:
        base: a number near them, for those whose own digits leave no room in a float64. The mean
            is its distance from it.
    """

    def __init__(self, base: int | float = 0) -> None:
        self.base = base
        self.count = 0
        self.mean = 0.0
        self.std = 0.0

    def merge(self, count: int, mean: float, std: float) -> None:
        """Add `count` numbers with this mean (as distance from the base) and deviation."""
        if not count:
            return
        total = self.count + count
        old, new = self.count / total, count / total
        half = mean / 2 - self.mean / 2
        step = 2 * half
        if math.isinf(step):
            self.mean = self.mean * old + mean * new
        else:
            self.mean += step * new
        # By hypot, since the squares of float64 overflow long before the numbers do.
        between = 2 * (half * math.sqrt(old * new))
        self.std = math.hypot(self.std * math.sqrt(old), std * math.sqrt(new), between)
        self.count = total


class Accumulator:
    """Takes the elements of a tensor in pieces of any size and order.

    Args:
        dtype: what they are; a dtype with a size, or string.
    """

    def __init__(self, dtype: DType) -> None:
        self._numbers = _Numbers(dtype)
        self._moments: Moments | None = None
        self._sum: int | None = None
        self._low: int | float | None = None
        self._high: int | float | None = None
        self._count = self._zeros = self._nan = self._inf = 0
        self._scratch = np.empty(_PIECE)

    def add(self, elements: Array) -> None:
        """Add the elements of an array."""
        flat = elements.reshape(-1)
        with np.errstate(all="ignore"):
            for start in range(0, len(flat), _PIECE):
                self._add_piece(self._numbers.of(flat[start : start + _PIECE]))

    def result(self) -> Statistics:
        """Return the statistics of all elements so far."""
        return Statistics(
            of=self._numbers.name,
            count=self._count,
            min=self._low,
            max=self._high,
            mean=self._mean(),
            std=self._std(),
            zeros=self._zeros,
            nan=self._nan,
            inf=self._inf,
        )

    def _mean(self) -> float | None:
        if self._sum is not None:
            return float(Fraction(self._sum, self._count))
        if self._moments is None:
            return None
        return float(Fraction(self._moments.base) + Fraction(self._moments.mean))

    def _std(self) -> float | None:
        if self._moments is None or self._low is None or self._high is None:
            return None
        # It cannot be more than half the range; rounding up could make it infinite.
        low, high = self._low, self._high
        whole = isinstance(low, int) and isinstance(high, int)
        return min(self._moments.std, (high - low) / 2 if whole else high / 2 - low / 2)

    def _add_piece(self, piece: Array) -> None:
        self._count += len(piece)
        low, high = piece.min(), piece.max()
        if piece.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high)):
            finite = np.isfinite(piece)
            nan = int(np.count_nonzero(np.isnan(piece)))
            self._nan += nan
            self._inf += len(piece) - nan - int(np.count_nonzero(finite))
            piece = piece[finite]
            if not len(piece):
                return
            low, high = piece.min(), piece.max()
        if low <= 0 <= high:
            self._zeros += int(np.count_nonzero(piece == 0))
        least, greatest = low.item(), high.item()
        self._low = least if self._low is None else min(self._low, least)
        self._high = greatest if self._high is None else max(self._high, greatest)
        if piece.dtype.kind in "iu":
            self._sum = (self._sum or 0) + _sum_of(piece)
        if piece.dtype.kind in "iu" and piece.dtype.itemsize == 8:
            self._merge_long(piece, least)
        else:
            self._merge(piece, max(abs(float(low)), abs(float(high))))

    def _merge(self, piece: Array, largest: float) -> None:
        scratch = self._scratch[: len(piece)]
        scale = 0
        if _TINY < largest < _LARGE or not largest:
            np.copyto(scratch, piece)
        else:
            scale = math.frexp(largest)[1]
            np.ldexp(piece, -scale, out=scratch)
        if self._moments is None:
            wide = piece.dtype.itemsize == 8 and not scale
            self._moments = Moments(base=float(scratch.mean()) if wide else 0)
        base = self._moments.base
        if base and not scale:
            scratch -= base
            base = 0
        mean, std = _moments_of(scratch)
        self._moments.merge(len(piece), math.ldexp(mean, scale) - base, math.ldexp(std, scale))

    def _merge_long(self, piece: Array, least: int) -> None:
        """Merge 64-bit integers, by their exact distances from the least of them."""
        if self._moments is None:
            self._moments = Moments(base=least)
        # Taken as unsigned the difference is right even where the signed one would overflow.
        unsigned = piece.view(np.uint64)
        scratch = self._scratch[: len(piece)]
        np.copyto(scratch, unsigned - unsigned.dtype.type(least % (1 << 64)))
        mean, std = _moments_of(scratch)
        self._moments.merge(len(piece), least - int(self._moments.base) + mean, std)


class _Numbers:
    """Turns elements of a dtype into numbers for statistics."""

    def __init__(self, dtype: DType) -> None:
        self._dtype: np.dtype[Any] = dtype.numpy_dtype
        self._as: type[Any] | None = None
        self.name = "values"
        kind = self._dtype.kind
        if dtype == STRING:
            self.name = "lengths"
        elif kind == "c":
            self.name = "magnitudes"
        elif kind == "b":
            self.name = "truth"
            self._as = np.uint8
        elif dtype.name in SMALL_INTEGERS:
            self._as = np.int8
        elif dtype.name in SMALL_FLOATS or dtype.name == "float16":
            # Exactly, and NumPy is many times faster with these.
            self._as = np.float32

    def of(self, elements: Array) -> Array:
        """Return the numbers for a one-dimensional array of elements."""
        if self.name == "lengths":
            return np.fromiter(map(len, elements.tolist()), np.int64, len(elements))
        if self.name == "magnitudes":
            return _magnitudes(elements)
        if self._dtype.names is not None:
            return elements[self._dtype.names[0]]
        return elements if self._as is None else elements.astype(self._as)


def statistics(part: Part) -> Statistics | None:
    """Return the statistics of a tensor or a part of one; None for variants.

    Raises:
        CorruptError: the stored bytes are damaged.
        UnsupportedError: the dtype is not known.
    """
    if part.dtype.size is None and part.dtype != STRING:
        part.read()  # to check the dtype and the bytes
        return None
    return statistics_of(part.dtype, part.blocks(ordered=False))


def statistics_of(dtype: DType, blocks: Iterable[Array]) -> Statistics:
    """Return the statistics of elements that come in arrays.

    Args:
        dtype: what they are; a dtype with a size, or string.
        blocks: arrays of any shape.
    """
    accumulator = Accumulator(dtype)
    for block in blocks:
        accumulator.add(block)
    return accumulator.result()


def histogram(
    dtype: DType, blocks: Iterable[Array], summary: Statistics, *, bins: int = 32
) -> Histogram | None:
    """Count elements into bins of equal width from the least to the greatest.

    Args:
        dtype: what they are.
        blocks: the elements once more.
        summary: their statistics.
        bins: how many bins.

    Returns:
        The histogram; None without two different finite elements.
    """
    low, high = summary.min, summary.max
    if low is None or high is None or low == high:
        return None
    numbers = _Numbers(dtype)
    counts = np.zeros(bins, np.int64)
    # The width of such a range may overflow float64.
    unit = 4.0 if max(abs(low), abs(high)) > _LARGE else 1.0
    start = float(low) / unit
    width = float(high) / unit - start
    finite = not (summary.nan or summary.inf)
    # For float32 its own width is enough, and twice as fast.
    short = _SHORT[0] < width < _SHORT[1] and max(abs(low), abs(high)) < _SHORT[1]
    with np.errstate(all="ignore"):
        for block in blocks:
            flat = block.reshape(-1)
            for at in range(0, len(flat), _PIECE):
                piece = numbers.of(flat[at : at + _PIECE])
                if piece.dtype.kind == "f" and not finite:
                    piece = piece[np.isfinite(piece)]
                if short and piece.dtype == np.float32:
                    share = piece - np.float32(low)
                    share *= np.float32(bins / width)
                    places = np.minimum(share, bins - 1, out=share).astype(np.intp)
                else:
                    share = (piece.astype(np.float64) / unit - start) / width
                    places = np.clip((share * bins).astype(np.intp), 0, bins - 1)
                counts += np.bincount(places, minlength=bins)
    return Histogram(low, high, tuple(counts.tolist()))


def _moments_of(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """Return mean and standard deviation; the numbers are overwritten."""
    count = len(numbers)
    mean = float(numbers.sum()) / count
    numbers -= mean
    # Correct the rounding error of the mean.
    rest = float(numbers.sum()) / count
    # Not a dot product: BLAS starts threads, and its sums are less exact.
    np.multiply(numbers, numbers, out=numbers)
    return mean + rest, math.sqrt(max(float(numbers.sum()) / count - rest * rest, 0.0))


def _sum_of(integers: Array) -> int:
    """Return the exact sum of no more than 2**31 integers."""
    if integers.dtype.itemsize < 8:
        return int(integers.sum(dtype=np.int64))
    # The halves of 64 bits are summed by themselves, the upper one with the sign.
    low = int((integers & integers.dtype.type(0xFFFFFFFF)).sum())
    return low + (int((integers >> integers.dtype.type(32)).sum()) << 32)


def _magnitudes(elements: Array) -> Array:
    real = elements.real.astype(np.float64)
    imaginary = elements.imag.astype(np.float64)
    out: Array = np.hypot(real, imaginary)
    # hypot of an infinite part and NaN is infinite.
    out[np.isnan(real) | np.isnan(imaginary)] = np.nan
    return out
