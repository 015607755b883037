"""A few numbers of whole checkpoints, through all checkpoints of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot, isfinite

from ckpttool.query.diff.series import Series, StepRow
from ckpttool.query.rows import short_name

_RATES = ("learning_rate", "_learning_rate", "_current_learning_rate", "lr")


@dataclass(frozen=True, slots=True)
class Curves:
    """A number for each checkpoint; None where it is not known, or is not finite.

    Attributes:
        weights: the norm of all weights together.
        update: the norm of their change since the checkpoint before, divided by their norm there.
        rate: the learning rate.
        slots: the norm of all slot variables together.
    """

    weights: tuple[float | None, ...]
    update: tuple[float | None, ...]
    rate: tuple[float | None, ...]
    slots: tuple[float | None, ...]


def curves_of(series: Series) -> Curves:
    """Return the numbers of each checkpoint.

    Where a tensor could not be read, the norm of all of its kind is not known. Only tensors that
    are in both checkpoints count for an update.
    """
    count = len(series.checkpoints)
    places = {name: at for at, name in enumerate(series.checkpoints)}
    norms: dict[str, list[float | None]] = {"weight": [None] * count, "slot": [None] * count}
    unknown: dict[str, set[int]] = {"weight": set(), "slot": set()}
    updates: list[float | None] = [None] * count
    bases = [0.0] * count
    rates: dict[str, list[float | None]] = {}
    before: StepRow | None = None
    for row in series.rows:
        if before is not None and before.row.key != row.row.key:
            before = None
        at, kind = places[row.checkpoint], row.row.kind
        if kind in norms:
            if row.change == "unreadable":
                unknown[kind].add(at)
            if row.norm is not None:
                norms[kind][at] = hypot(norms[kind][at] or 0.0, row.norm)
        if kind == "weight" and row.update is not None and before is not None:
            updates[at] = hypot(updates[at] or 0.0, row.update)
            bases[at] = hypot(bases[at], before.norm or 0.0)
        if not row.row.shape and short_name(row.row).rpartition("/")[2] in _RATES:
            rates.setdefault(row.row.key, [None] * count)[at] = row.norm
        before = row
    for kind, places_of in unknown.items():
        for at in places_of:
            norms[kind][at] = None
    return Curves(
        _finite(norms["weight"]),
        _finite(
            change / base if change is not None and base and at not in unknown["weight"] else None
            for at, (change, base) in enumerate(zip(updates, bases, strict=True))
        ),
        _finite(next(iter(rates.values()), [None] * count)),
        _finite(norms["slot"]),
    )


def _finite(values: Iterable[float | None]) -> tuple[float | None, ...]:
    return tuple(each if each is not None and isfinite(each) else None for each in values)
