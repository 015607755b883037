"""Numbers as small pictures in a line of text: one character each, higher for more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, log

# Never the full block: rows of those melt into each other.
_LEVELS = "▁▂▃▄▅▆▇"
NOTHING, NOT_FINITE = "·", "!"
WIDEST = 24
# A scale spans at least this part of its highest number, or this factor, so that noise stays low.
_LEAST_PART, _LEAST_FACTOR = 0.01, 2


@dataclass(frozen=True, slots=True)
class Scale:
    """From which to which number the characters reach.

    Attributes:
        low: the lowest, or its logarithm.
        high: the highest, or its logarithm.
        logarithmic: whether these are logarithms.
    """

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def of(cls, values: Iterable[float | None], *, logarithmic: bool = False) -> Scale:
        """Return the scale of values; None, NaN and infinities have no part in it.

        Args:
            values: none of them negative.
            logarithmic: whether equal steps are equal factors; then zeros have no part either.
        """
        known = [value for value in values if value is not None and isfinite(value)]
        if logarithmic:
            known = [log(value) for value in known if value > 0]
        low, high = min(known, default=0.0), max(known, default=0.0)
        least = log(_LEAST_FACTOR) if logarithmic else high * _LEAST_PART
        more = max(least - (high - low), 0) / 2
        return cls(low - more, high + more, logarithmic)

    def mark(self, value: float | None) -> str:
        """Return the character of a value."""
        if value is None or (self.logarithmic and value == 0):
            return NOTHING
        if not isfinite(value):
            return NOT_FINITE
        if self.high <= self.low:
            return _LEVELS[0]
        place = ((log(value) if self.logarithmic else value) - self.low) / (self.high - self.low)
        return _LEVELS[min(int(place * len(_LEVELS)), len(_LEVELS) - 1)]


def sparkline(values: Sequence[float | None], scale: Scale, width: int = WIDEST) -> str:
    """Return values as characters, at most `width`: each the largest of its share of the values."""
    count = len(values)
    width = min(width, count)
    edges = [number * count // width for number in range(width + 1)] if width else []
    shares = (values[low:high] for low, high in pairwise(edges))
    return "".join(scale.mark(_largest(share)) for share in shares)


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known, key=lambda value: value if isfinite(value) else float("inf"), default=None)
