"""A histogram in one line of text."""

from __future__ import annotations

from ckpttool.query.values.statistics import Histogram

_BARS = " ▁▂▃▄▅▆▇█"


def draw(histogram: Histogram, width: int) -> str:
    """Return a histogram as bars between its ends: `-0.5 |▁▃▆█▆▃▁| 0.49`.

    Every bin that holds anything has a bar. On a narrow line neighbouring bins are joined.

    Args:
        histogram: what to draw.
        width: the length of the line, as far as possible.
    """
    low, high = f"{histogram.low:.4g}", f"{histogram.high:.4g}"
    room = max(width - len(low) - len(high) - 4, 4)
    counts = list(histogram.counts)
    while len(counts) > room:
        counts = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
    most = max(counts, default=0) or 1
    steps = len(_BARS) - 1
    bars = "".join(_BARS[-(-count * steps // most)] for count in counts)
    return f"{low} |{bars}| {high}"
