"""Two arrays compared element by element.

Distances are computed in float64, of complex numbers in complex128, of integers exactly: those of
64 bits as unsigned numbers, which hold every distance of two signed ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, inf, isfinite, isinf, sqrt

import numpy as np

from ckpttool.query.diff.results import Element, Tolerance, ValueDifference
from ckpttool.query.values.parts import SMALL_FLOATS, SMALL_INTEGERS
from ckpttool.query.values.texts import Formatter
from ckpttool.tensor.dtypes import STRING, VARIANT, DType
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.values import Array

# Elements taken at once: the float64 copies of both sides should fit a processor's second cache.
_PIECE = 1 << 15
# Products of vectors longer than this may be shared out to threads of the BLAS library, which wait
# for each other when several of ours ask at once.
_PRODUCT = 1 << 13
# A sum of squares below this may have lost digits to underflow.
_LEAST_SQUARES = 1e-280


@dataclass(slots=True)
class Tally:
    """The differences in part of a tensor.

    Attributes:
        differing: elements that differ.
        max_abs: the largest distance of those.
        max_rel: the largest distance of those, divided by the magnitude in B.
        total: sum of the distances.
        base: norm of the elements of A.
        change: norm of the distances.
        at: where the element with the largest distance is in C order; -1 if none differs.
        pair: that element of A and of B, as arrays of one.
    """

    differing: int = 0
    max_abs: int | float = -1
    max_rel: float = -1.0
    total: float = 0.0
    base: float = 0.0
    change: float = 0.0
    at: int = -1
    pair: tuple[Array, Array] | None = None

    def merge(self, other: Tally) -> None:
        """Add those of another part."""
        self.differing += other.differing
        self.total += other.total
        self.base = hypot(self.base, other.base)
        self.change = hypot(self.change, other.change)
        self.max_rel = max(self.max_rel, other.max_rel)
        if other.at >= 0 and (self.at < 0 or (other.max_abs, -other.at) > (self.max_abs, -self.at)):
            self.max_abs, self.at, self.pair = other.max_abs, other.at, other.pair


class Comparer:
    """Compares elements of one dtype.

    Args:
        dtype: what they are.
        tolerance: when two are equal.
    """

    def __init__(self, dtype: DType, tolerance: Tolerance) -> None:
        self.dtype = dtype
        self._tolerance = tolerance
        self._loose = bool(tolerance.rtol or tolerance.atol)
        self._objects = dtype in (STRING, VARIANT)

    def compare(self, a: Array, b: Array, start: int = 0) -> Tally:
        """Compare one-dimensional arrays of the same length.

        Args:
            a: elements of A.
            b: those of B in the same places.
            start: position of the first of them in the tensor.
        """
        tally = Tally()
        if self._objects:
            self._compare_objects(a, b, start, tally)
            return tally
        with np.errstate(all="ignore"):
            for at in range(0, len(a), _PIECE):
                piece_a, piece_b = a[at : at + _PIECE], b[at : at + _PIECE]
                self._compare_piece(piece_a, piece_b, start + at, tally)
        return tally

    def values(self, tally: Tally, shape: Shape) -> ValueDifference:
        """Return the result for a whole tensor."""
        count = 1
        for dim in shape:
            count *= dim
        bare = self._objects or self.dtype.name == "bool"
        return ValueDifference(
            differing=tally.differing,
            elements=count,
            max_abs=None if bare or tally.at < 0 else tally.max_abs,
            max_rel=None if bare or tally.max_rel < 0 else tally.max_rel,
            mean_abs=None if bare or not count else tally.total / count,
            rel_norm=None if bare else _relative_norm(tally),
            worst=self._element(tally, shape),
        )

    def _compare_objects(self, a: Array, b: Array, start: int, tally: Tally) -> None:
        differ = [
            at
            for at, (one, other) in enumerate(zip(a.tolist(), b.tolist(), strict=True))
            if one != other
        ]
        tally.differing = len(differ)
        if differ:
            _note_worst(tally, 0, differ[0], a, b, start)

    def _compare_piece(self, a: Array, b: Array, start: int, tally: Tally) -> None:
        exact = self._tolerance.exact
        differ = _bits_differ(a, b) if exact else None
        x, y = numbers(self.dtype, a), numbers(self.dtype, b)
        if differ is None:
            differ = x != y
        count = int(np.count_nonzero(differ))
        wide = _widened(x)
        tally.base = hypot(tally.base, _norm(wide))
        if not count:
            return
        distances = _distances(x, y, wide)
        sizes = _magnitudes(y)
        largest = distances.max()
        plain = not self._loose and not exact
        if not (plain and np.isfinite(largest)):
            if distances.dtype.kind == "f" and not np.isfinite(largest):
                _settle(distances, x, y)
            if not exact:
                differ = self._differ(differ, x, y, distances, sizes)
                count = int(np.count_nonzero(differ))
        tally.total += float(distances.sum(dtype=np.float64))
        tally.change = hypot(tally.change, _norm(distances.astype(np.float64, copy=False)))
        if not count:
            return
        tally.differing += count
        if plain and np.isfinite(largest):
            if largest > tally.max_abs:
                _note_worst(tally, largest.item(), int(distances.argmax()), a, b, start)
            _note_relative(tally, distances, sizes)
            return
        where = np.flatnonzero(differ)
        of_these = distances[where]
        at = int(of_these.argmax())
        if of_these[at] > tally.max_abs:
            _note_worst(tally, of_these[at].item(), int(where[at]), a, b, start)
        _note_relative(tally, of_these, sizes[where])

    def _differ(self, unequal: Array, x: Array, y: Array, distances: Array, sizes: Array) -> Array:
        """Return which elements differ by more than the tolerance."""
        tolerance = self._tolerance
        differ: Array = unequal
        if self._loose:
            allowed = sizes.astype(np.float64) * tolerance.rtol + tolerance.atol
            far = ~(distances.astype(np.float64) <= allowed)
            differ = unequal & (far | ~np.isfinite(x) | ~np.isfinite(y))
        if tolerance.equal_nan and x.dtype.kind in "fc":
            differ = differ & ~(np.isnan(x) & np.isnan(y))
        return differ

    def _element(self, tally: Tally, shape: Shape) -> Element | None:
        if tally.pair is None:
            return None
        index = tuple(map(int, np.unravel_index(tally.at, shape))) if shape else ()
        texts = [_text(self.dtype, element) for element in tally.pair]
        a, b = (self._plain(element) for element in tally.pair)
        return Element(index, a, b, *texts)

    def _plain(self, element: Array) -> object:
        if self.dtype.name == "bool" or self._objects:
            return element.tolist()[0]
        value = numbers(self.dtype, element)[0].item()
        return {"re": value.real, "im": value.imag} if isinstance(value, complex) else value


def numbers(dtype: DType, elements: Array) -> Array:
    """Return elements as NumPy's own numbers, of the same values."""
    if dtype.name in SMALL_FLOATS or dtype.name == "float16":
        # NumPy is many times faster with these.
        return elements.astype(np.float32)
    if dtype.name in SMALL_INTEGERS:
        return elements.astype(np.int8)
    if elements.dtype.names is not None:
        return elements[elements.dtype.names[0]]
    return elements.view(np.uint8) if elements.dtype.kind == "b" else elements


def magnitudes(dtype: DType, elements: Array) -> Array:
    """Return the magnitudes of elements as float64."""
    return _magnitudes(numbers(dtype, elements))


def distances(dtype: DType, a: Array, b: Array) -> Array:
    """Return the distances between elements in the same places as float64."""
    x = numbers(dtype, a)
    return _distances(x, numbers(dtype, b), _widened(x)).astype(np.float64, copy=False)


def _text(dtype: DType, element: Array) -> str:
    if dtype == VARIANT:
        return str(element[0].type_name)
    return next(Formatter(dtype, lambda: [element]).texts(element)).strip()


def _note_worst(
    tally: Tally, distance: int | float, at: int, a: Array, b: Array, start: int
) -> None:
    tally.max_abs, tally.at = distance, start + at
    tally.pair = a[at : at + 1].copy(), b[at : at + 1].copy()


def _note_relative(tally: Tally, distances: Array, sizes: Array) -> None:
    ratios = distances / sizes
    largest = ratios.max()
    if not np.isfinite(largest):
        some = (sizes > 0) & (distances > 0)  # equal elements are no ratio of zero
        ratios = distances[some] / sizes[some]
        largest = np.fmax.reduce(ratios, initial=-1)  # NaN: infinity divided by infinity
    if largest > tally.max_rel:
        tally.max_rel = float(largest)


def _widened(x: Array) -> Array:
    """Return a copy as complex128 or float64."""
    out: Array = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return out


def _norm(wide: Array) -> float:
    """Return the square root of the sum of the squared magnitudes; it may be NaN or infinite."""
    flat = wide.view(np.float64)
    squares = 0.0
    for at in range(0, len(flat), _PRODUCT):
        part = flat[at : at + _PRODUCT]
        squares += float(np.dot(part, part))
    if isfinite(squares) and squares >= _LEAST_SQUARES:
        return sqrt(squares)
    # The squares may leave the range of float64 where the numbers do not.
    largest = float(np.abs(flat).max(initial=0))
    if not (isfinite(largest) and largest):
        return largest
    return largest * sqrt(float(np.square(flat / largest).sum()))


def _relative_norm(tally: Tally) -> float | None:
    if isinf(tally.change):
        return inf
    return tally.change / tally.base if tally.base and isfinite(tally.base) else None


def _distances(x: Array, y: Array, wide: Array) -> Array:
    """Return `|x - y|` for each pair: of floats as float64, of integers exactly.

    Args:
        x: the one.
        y: the other.
        wide: `x` as `_widened` returns it; it is overwritten.
    """
    if x.dtype.kind in "fc":
        wide -= y
        return np.abs(wide, out=wide if x.dtype.kind == "f" else None)
    if x.dtype.itemsize < 8:
        out = np.subtract(x, y, dtype=np.int64)
        return np.abs(out, out=out)
    # Unsigned: the signed difference may overflow.
    one, other = x.view(np.uint64), y.view(np.uint64)
    return np.where(x > y, one - other, other - one)


def _magnitudes(y: Array) -> Array:
    if y.dtype.kind == "c":
        return np.abs(y.astype(np.complex128))
    out: Array = y.astype(np.float64)
    return np.abs(out, out=out)


def _settle(distances: Array, x: Array, y: Array) -> None:
    """Set the defined distances of pairs with NaN or an infinity."""
    of_x, of_y = np.isnan(x), np.isnan(y)
    distances[np.isnan(distances)] = np.inf
    distances[of_x ^ of_y] = np.inf
    distances[(x == y) | (of_x & of_y)] = 0


def _bits_differ(a: Array, b: Array) -> Array:
    width = a.dtype.itemsize
    word = min(width, 8)
    one, other = (
        np.ascontiguousarray(each).view(f"u{word}").reshape(len(each), -1) for each in (a, b)
    )
    out: Array = (one != other).any(axis=1)
    return out
