"""Slot variables by the names that optimizers of TensorFlow 1 give them.

TensorFlow 1 names the slots of a variable after the optimizer and numbers them in the order of
their creation: `w/Adam` is the slot that an object graph calls "m", `w/Adam_1` is "v". The scope in
which the optimizer is applied comes before: `train/w/Adam`. Keras optimizers use the slot's own
name instead: `training/Adam/w/m`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from ckpttool.checkpoint.kinds.optimizers import BERT_SLOTS, endings


@dataclass(frozen=True, slots=True)
class Family:
    """Optimizers that keep the same slots.

    Attributes:
        names: of the optimizers, in the names of slots.
        slots: for each slot, in the order of the numbers, its names in object graphs.
        lists: for each slot, its list in an optimizer of today's Keras; empty without one.
        optional: positions of slots that only some settings of the optimizer have.
    """

    names: frozenset[str]
    slots: tuple[tuple[str, ...], ...]
    lists: tuple[str, ...] = ()
    optional: frozenset[int] = frozenset()

    def position(self, slot_name: str) -> int | None:
        """Return the position of a slot by its name in an object graph; None if unknown."""
        found = (at for at, names in enumerate(self.slots) if slot_name in names)
        return next(found, None)

    def positions(self, count: int) -> tuple[int, ...]:
        """Return the positions that the numbers after an optimizer's name stand for.

        Args:
            count: how many slots with that name a variable has.
        """
        needed = len(self.slots) - len(self.optional)
        if needed < count < len(self.slots):
            # Of RMSProp's two optional slots the momentum is always made.
            return (*range(needed), *range(len(self.slots) - count + needed, len(self.slots)))
        return tuple(range(min(count, len(self.slots))))


_MOMENTS = (("m",), ("v",))
MOMENTUM = Family(
    frozenset({"Momentum", "MomentumW", "LARSOptimizer"}), (("momentum",),), ("momentums",)
)
FAMILIES = (
    Family(frozenset({"Adam", "AdamW", "Nadam"}), _MOMENTS, ("_momentums", "_velocities")),
    Family(frozenset({"AdaMax", "Adamax"}), _MOMENTS, ("_m", "_u")),
    Family(frozenset({"AddSignOptimizer", "PowerSignOptimizer"}), (("m",),)),
    MOMENTUM,
    Family(
        frozenset({"RMSProp"}),
        (("rms",), ("mg",), ("momentum",)),
        ("_velocities", "_average_gradients", "_momentums"),
        frozenset({1, 2}),
    ),
    Family(frozenset({"Adagrad", "ProximalAdagrad"}), (("accumulator",),), ("_accumulators",)),
    Family(
        frozenset({"AdagradDA"}), (("gradient_accumulator",), ("gradient_squared_accumulator",))
    ),
    Family(
        frozenset({"Adadelta"}),
        (("accum", "accum_grad"), ("accum_update", "accum_var")),
        ("_accumulated_grads", "_accumulated_delta_vars"),
    ),
    Family(
        frozenset({"Ftrl"}), (("accum", "accumulator"), ("linear",)), ("_accumulators", "_linears")
    ),
)
# Further slots that an optimizer of any family may have.
_BESIDES = frozenset({"vhat"})
_BY_NAME = {name: family for family in FAMILIES for name in family.names}
_LISTS = frozenset(name for family in FAMILIES for name in family.lists)
_SLOT_NAMES = {name: name for family in FAMILIES for names in family.slots for name in names}
_SLOT_NAMES |= BERT_SLOTS
_NUMBERED = re.compile(r"(.+?)(?:_([1-9]\d?))?\Z", re.DOTALL)
# Optimizers of TensorFlow 1 that keep two slots or more for each variable.
OF_TWO_SLOTS = frozenset(
    name for family in FAMILIES if len(family.slots) > 1 for name in family.names
)


@dataclass(frozen=True, slots=True)
class SlotGroup:
    """The slots of one variable that one optimizer keeps.

    Attributes:
        scope: their names without the last segment: the variable's name, perhaps after a scope.
        families: the possible families of the optimizer.
        members: the names, by position of the slot.
        numbered: whether they are named after an optimizer of TensorFlow 1.
    """

    scope: str
    families: tuple[Family, ...]
    members: dict[int, str]
    numbered: bool

    def variable(self, known: Callable[[str], bool]) -> str | None:
        """Return the variable of these slots: the longest known name that fits."""
        inner = (each for _, each in endings(self.scope))
        return next(filter(known, inner), None)


def families_of_slots(names: Set[str]) -> tuple[Family, ...]:
    """Return the families of an optimizer with slots of these names in an object graph."""
    own = names - _BESIDES
    fitting = []
    for family in FAMILIES:
        positions = {family.position(name) for name in own}
        needed = set(range(len(family.slots))) - family.optional
        if None not in positions and needed <= positions:
            fitting.append(family)
    return tuple(fitting)


def family_of_lists(names: Set[str]) -> Family | None:
    """Return the family of an optimizer of today's Keras, by the names of its lists."""
    own = names & _LISTS
    return next((family for family in FAMILIES if own and own == set(family.lists)), None)


def slot_groups(names: Iterable[str]) -> list[SlotGroup]:
    """Return the possible names of slots, grouped by variable and optimizer, shallowest first."""
    numbered: dict[tuple[str, str], dict[int, str]] = {}
    spelled: dict[str, dict[str, str]] = {}
    for name in names:
        scope, _, leaf = name.rpartition("/")
        match = _NUMBERED.match(leaf)
        if not scope or match is None:
            continue
        if match[1] in _BY_NAME:
            numbered.setdefault((scope, match[1]), {})[int(match[2] or 0)] = name
        elif leaf in _SLOT_NAMES:
            spelled.setdefault(scope, {})[_SLOT_NAMES[leaf]] = name
    groups = []
    for (scope, optimizer), found in numbered.items():
        family = _BY_NAME[optimizer]
        order = family.positions(max(found) + 1)
        members = {order[number]: name for number, name in found.items() if number < len(order)}
        groups.append(SlotGroup(scope, (family,), members, True))
    for scope, by_name in spelled.items():
        families = families_of_slots(by_name.keys())
        if families:
            places = {name: families[0].position(name) for name in by_name}
            members = {at: by_name[name] for name, at in places.items() if at is not None}
            groups.append(SlotGroup(scope, families, members, False))
    return sorted(groups, key=lambda group: group.scope.count("/"))
