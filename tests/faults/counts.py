"""How many faults the tests of this folder have injected, so that the figure can be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

CALLS = "calls made to fail"
KILLS = "kills"
INTERRUPTS = "interrupts"
FULL = "full disks"
STATES = "crash states"
MOMENTS = "moments of others' writing"
KINDS = (CALLS, KILLS, INTERRUPTS, FULL, STATES, MOMENTS)

_counted: Counter[str] = Counter()


def count(kind: str, number: int = 1) -> None:
    """Count faults of one of `KINDS`."""
    _counted[kind] += number


def taken() -> dict[str, int]:
    """Return what was counted since the last call."""
    found = dict(_counted)
    _counted.clear()
    return found


def told(counts: Mapping[str, int]) -> str:
    """Return counts as a line of text."""
    return ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in KINDS)
