"""The tensors of an export, and their names in its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ckpttool.checkpoint.nearest import listed, quoted, require_one_of
from ckpttool.checkpoint.selection.select import Listed, Selector
from ckpttool.errors import CorruptError, KeyCollisionError, SelectionError
from ckpttool.surgery.choosing import planned_names
from ckpttool.surgery.maps.layouts import with_layouts
from ckpttool.surgery.maps.reading import map_tensors
from ckpttool.surgery.plan import Plan, PlannedTensor
from ckpttool.surgery.pruning import WEIGHT_KINDS
from ckpttool.surgery.rules import RenameRule

Naming = Literal["path", "variable", "key"]
# The path to a weight of Keras 3 that does not pass a layer.
_LISTED = re.compile(r"(?:^|/)_trainable_variables/[0-9]+\Z")
NAMINGS: tuple[Naming, ...] = ("path", "variable", "key")


def choose_tensors(plan: Plan, selector: Selector, *, all_kinds: bool = False) -> Plan:
    """Return the plan with the selected tensors only; its graph stays as it was.

    Args:
        plan: of the checkpoint.
        selector: what is wanted. Without kinds only weights are, because what reads the file
            seldom knows an optimizer.
        all_kinds: whether tensors of every kind are wanted.

    Raises:
        SelectionError: a pattern selects nothing, or nothing of the wanted kinds.
        CorruptError: the entry of a selected tensor is damaged.
    """
    if not plan.tensors:
        raise SelectionError("there are no tensors to export", path=plan.source.prefix)
    wanted = selector.kinds or (frozenset() if all_kinds else WEIGHT_KINDS)
    patterns = Selector.of(selector.steps)
    named = patterns.choose([Listed(planned_names(plan), plan.source)]).chosen
    keys = {row.key for row in named if not wanted or row.kind in wanted}
    if not keys:
        kinds = Counter(row.kind for row in named)
        found = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        what = " or ".join(sorted(wanted)) if wanted else "tensor"
        hint = f"; of other kinds there are {found}: --all-kinds takes them too" if found else ""
        raise SelectionError(f"no {what} is selected{hint}", path=plan.source.prefix)
    chosen = tuple(tensor for tensor in plan.tensors if tensor.source_key in keys)
    for tensor in chosen:
        if tensor.damage is not None:
            raise CorruptError(
                f"{tensor.damage.message}; `-x` leaves it out",
                path=tensor.damage.path,
                key=tensor.source_key,
            ) from tensor.damage
    return replace(plan, tensors=chosen)


def name_tensors(plan: Plan, naming: Naming) -> Mapping[str, str]:
    """Return the name of each tensor of a plan in the files, by its key.

    Args:
        plan: the plan.
        naming: "path": the object path, or the key where there is none; "variable": the full name
            of the variable, in a name-based checkpoint its key; "key": the key.

    Raises:
        SelectionError: the checkpoint does not tell the name of a variable.
        KeyCollisionError: two tensors would have one name.
    """
    require_one_of("names", naming, NAMINGS)
    if naming == "key":
        return {tensor.key: tensor.key for tensor in plan.tensors}
    if naming == "path" or plan.graph is None:
        named = {tensor.key: plan.short_name(tensor.key) for tensor in plan.tensors}
    else:
        named = _variable_names(plan)
    refuse_same_names(plan, named.items())
    return named


def notes_on_names(plan: Plan, named: Mapping[str, str]) -> list[str]:
    """Return a note if object paths say nothing: Keras 3 saves weights by its optimizer's list."""
    listed_ones = [name for name in named.values() if _LISTED.search(name)]
    if not listed_ones or not plan.source.variable_names:
        return []
    return [
        f"named by the list of an optimizer: {listed(listed_ones)}; --names variable gives names "
        "of variables"
    ]


def name_by_map(
    plan: Plan, rules: Sequence[RenameRule], *, skip_unmatched: bool = False
) -> tuple[Plan, Mapping[str, str]]:
    """Return the plan with the layouts of a map, and the names by key that the map gives.

    Args:
        plan: the selected tensors.
        rules: the map. It may also name tensors of the source that are not selected.
        skip_unmatched: whether to leave out tensors that the map does not name.

    Raises:
        SelectionError: the map does not fit the source, or does not name a tensor of the plan.
        KeyCollisionError: two tensors would have one name.
    """
    found = map_tensors(plan.source, rules, plan.source.entries)
    unnamed = [tensor for tensor in plan.tensors if tensor.source_key not in found]
    names = listed(plan.short_name(tensor.key) for tensor in unnamed)
    if len(unnamed) == len(plan.tensors):
        raise SelectionError("the map names none of the selected tensors", path=plan.source.prefix)
    if unnamed and not skip_unmatched:
        raise SelectionError(
            f"the map does not name {names}; --skip-unmatched leaves out what it does not name",
            path=plan.source.prefix,
        )
    if unnamed:
        kept = tuple(tensor for tensor in plan.tensors if tensor.source_key in found)
        plan = replace(plan, tensors=kept).with_notes(f"the map does not name, left out: {names}")
    layouts = {key: each.layout for key, each in found.items() if each.layout is not None}
    named = {tensor.key: found[tensor.source_key].name for tensor in plan.tensors}
    return with_layouts(plan, layouts), named


def refuse_same_names(plan: Plan, named: Iterable[tuple[str, str]]) -> None:
    """Refuse names that two tensors would share.

    Args:
        plan: the plan.
        named: key and name of each tensor.

    Raises:
        KeyCollisionError: there are such names; the message has them all.
    """
    holders: dict[str, list[str]] = {}
    for key, name in named:
        holders.setdefault(name, []).append(key)
    shared = [
        f"'{name}' of {quoted(plan.short_name(key) for key in keys)}"
        for name, keys in holders.items()
        if len(keys) > 1
    ]
    if shared:
        raise KeyCollisionError(
            f"tensors would have the same name: {'; '.join(shared)}", path=plan.source.prefix
        )


def _variable_names(plan: Plan) -> dict[str, str]:
    known = plan.source.variable_names
    nameless = [tensor for tensor in plan.tensors if tensor.source_key not in known]
    if nameless:
        raise SelectionError(
            "the checkpoint records no variable name of "
            f"{listed(plan.short_name(tensor.key) for tensor in nameless)}; --names path gives "
            "every tensor a name",
            path=plan.source.prefix,
        )
    return {tensor.key: known[tensor.source_key] for tensor in plan.tensors}


def by_name(plan: Plan, named: Mapping[str, str]) -> list[tuple[str, PlannedTensor]]:
    """Return name and tensor of each, by name."""
    return sorted((named[tensor.key], tensor) for tensor in plan.tensors)
