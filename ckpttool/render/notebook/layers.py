"""Changes of layers that differ in their number only: one character for each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ckpttool.render.sparklines import Scale, sparkline

_NUMBER = re.compile(r"(\d+)")
# Fewer are seen at a glance in the list of changes.
_LEAST_LAYERS = 3
_FARTHEST = 10_000


class LayerStrip(NamedTuple):
    """The changes of layers that differ in one number.

    Attributes:
        name: of the layers, with `#` for the number.
        layers: how many changed.
        first: the lowest number.
        last: the highest number.
        strip: a character for each number, or for several.
    """

    name: str
    layers: int
    first: int
    last: int
    strip: str


def layer_strips(changes: Iterable[tuple[str, float]], most: int) -> list[LayerStrip]:
    """Return the changes of the groups with the most layers.

    A layer counts with the largest change of its tensors; numbers between that did not change, or
    are not there, have a dot.

    Args:
        changes: names of tensors, and how much they changed.
        most: how many groups at most.
    """
    groups: dict[str, dict[int, float]] = {}
    for name, change in changes:
        parts = _NUMBER.split(name)
        for at in range(1, len(parts), 2):
            if len(parts[at]) > 9:
                continue
            # All that is below one layer counts as one.
            layers = groups.setdefault("".join((*parts[:at], "#")), {})
            number = int(parts[at])
            layers[number] = max(layers.get(number, 0.0), change)
    found = sorted(
        (group for group in groups.items() if len(group[1]) >= _LEAST_LAYERS),
        key=lambda group: (-len(group[1]), group[0]),
    )[:most]
    scale = Scale.of(
        (change for _, layers in found for change in layers.values()), logarithmic=True
    )
    strips = []
    for name, layers in found:
        first, last = min(layers), max(layers)
        if last - first < _FARTHEST:
            values = [layers.get(number) for number in range(first, last + 1)]
        else:
            values = [layers[number] for number in sorted(layers)]
        strips.append(LayerStrip(name, len(layers), first, last, sparkline(values, scale)))
    return strips
