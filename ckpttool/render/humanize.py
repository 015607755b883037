"""Numbers, shapes and times as people read them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(count: int | None) -> str:
    """Return a number of bytes in the largest fitting unit: `48 B`, `1.5 KiB`, `12.0 MiB`.

    One that is not known is `? B`.
    """
    if count is None:
        return "? B"
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in _UNITS[1:]:
        value /= 1024
        if abs(value) < 999.95 or unit == _UNITS[-1]:
            return f"{value:.1f} {unit}"
    raise AssertionError("unreachable: the last unit takes everything")


def figure(value: float) -> str:
    """Return a number of a statistic: a whole one exactly, others to four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def amount(count: int) -> str:
    """Return a large number in short: `950`, `26.6 M`, `1.34 B`; a thousand is not large."""
    for unit, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
        if count >= factor:
            return f"{float(f'{count / factor:.3g}'):,g} {unit}"
    return number(count)


def number(count: int) -> str:
    """Return a whole number with its digits in groups of three: `1,234,567`."""
    return f"{count:,}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 tensor`, `2,000 tensors`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def stored(entries: int, *, graph: bool) -> str:
    """Return how many tensors are stored; the object graph, which is an entry too, is none."""
    tensors = counted(entries - graph, "tensor")
    return f"{tensors} and the object graph" if graph else tensors


def shape(dimensions: Sequence[int]) -> str:
    """Return a shape as Python writes a list: `[]`, `[3, 4]`."""
    return f"[{', '.join(map(str, dimensions))}]"


def partial_shape(dimensions: Sequence[int] | None) -> str:
    """Return a shape in which some dimensions, or all, may not be known: `[?, 2]`, `any`."""
    if dimensions is None:
        return "any"
    return f"[{', '.join('?' if dim < 0 else str(dim) for dim in dimensions)}]"


def moment(seconds: float) -> str:
    """Return a time since 1970 as local date and time, to the second; empty if out of range."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):
        return ""


def duration(seconds: float) -> str:
    """Return a span of time: `0.3 s`, `42 s`, `3 min 05 s`, `2 h 07 min`."""
    if not math.isfinite(seconds) or seconds < 0:
        return "?"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"
