"""The weight of each moving average, and whether an optimizer keeps the average.

Averages kept by an optimizer are its own variables and are dropped with it. Those made by
`tf.train.ExponentialMovingAverage` belong to the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.checkpoint.kinds.keras import KerasNames
from ckpttool.checkpoint.kinds.optimizers import (
    AVERAGE_SLOTS,
    AVERAGED,
    AVERAGES,
    endings,
    names_optimizer,
    without_number,
)
from ckpttool.checkpoint.kinds.rules import Described
from ckpttool.objects.keys import VARIABLE_VALUE

if TYPE_CHECKING:
    from ckpttool.objects.graph import ObjectGraph

AVERAGES_LIST = "_model_variables_moving_average"
WEIGHTS_LIST = "_trainable_variables"


class Average(NamedTuple):
    """A moving average.

    Attributes:
        key: of the average.
        weight: the key of the averaged weight; None if unknown.
        optimizer: whether an optimizer keeps it.
    """

    key: str
    weight: str | None
    optimizer: bool


def find_averages(
    entries: Mapping[str, Described], kinds: Mapping[str, str], graph: ObjectGraph | None
) -> tuple[Average, ...]:
    """Return all moving averages of a checkpoint, in the order of its tensors."""
    averages = [key for key in entries if kinds.get(key) == "ema"]
    if not averages:
        return ()
    if graph is None:
        keras = KerasNames(entries)
        return tuple(_by_name(key, entries, keras) for key in averages)
    found = _of_optimizers(graph, entries)
    named = named_averages(graph, entries)
    return tuple(Average(key, found.get(key) or named.get(key), key in found) for key in averages)


def averaged_name(name: str, entries: Mapping[str, Described]) -> tuple[str, str] | None:
    """Return the scope and the variable in the name of an average; None for another name.

    Args:
        name: such as `train/dense/kernel/ExponentialMovingAverage`, whose variable is
            `dense/kernel`.
        entries: all tensors by name; the variable is one of them, of the same shape.
    """
    scope, _, leaf = name.rpartition("/")
    bare = without_number(leaf)
    if bare != AVERAGED and bare not in AVERAGES:
        return None
    entry = entries[name]
    for outer, variable in endings(scope):
        found = entries.get(variable)
        # Names other than TensorFlow's own may belong to a layer.
        belongs = bare == AVERAGED or not outer or names_optimizer(outer.rpartition("/")[2])
        alike = found is not None and (found.shape, found.dtype) == (entry.shape, entry.dtype)
        if belongs and alike:
            return outer, variable
    return None


def _by_name(key: str, entries: Mapping[str, Described], keras: KerasNames) -> Average:
    kept = keras.find(key)
    if kept is not None:
        return Average(key, kept.variable, optimizer=True)
    found = averaged_name(key, entries)
    if found is None:
        return Average(key, None, optimizer=False)
    own = not key.endswith(AVERAGED) and names_optimizer(found[0].rpartition("/")[2])
    return Average(key, found[1], own)


def _of_optimizers(graph: ObjectGraph, entries: Mapping[str, Described]) -> dict[str, str | None]:
    """Return the averages that optimizers keep, with their weights."""
    found: dict[str, str | None] = {}
    columns = graph.columns
    for at, name in enumerate(columns.slot_names):
        if name in AVERAGE_SLOTS:
            key = graph.key_of_node(columns.slot_nodes[at])
            if key is not None:
                found[key] = graph.key_of_node(columns.slot_variables[at])
    listed = [at for at, name in enumerate(columns.edge_names) if name == AVERAGES_LIST]
    if not listed:
        return found
    keys = _named_keys(graph, entries)
    full_names = {key: full for full, key in keys.items()}
    keras = KerasNames({full: entries[key] for full, key in keys.items()})
    for edge in listed:
        lists = dict(columns.children(columns.source(edge)))
        weights = dict(_members(graph, lists.get(WEIGHTS_LIST)))
        for position, key in _members(graph, lists[AVERAGES_LIST]):
            weight = weights.get(position)
            if weight is None and key in full_names:
                kept = keras.find(full_names[key])
                weight = keys[kept.variable] if kept is not None else None
            found[key] = weight if _alike(entries, key, weight) else None
    return found


def named_averages(graph: ObjectGraph, entries: Mapping[str, Described]) -> dict[str, str]:
    """Return the averages known only by their full names in the program, with their weights."""
    keys = _named_keys(graph, entries)
    described = {full: entries[key] for full, key in keys.items()}
    found = {}
    for full, key in keys.items():
        known = averaged_name(full, described) if full.endswith(f"/{AVERAGED}") else None
        if known is not None:
            found[key] = keys[known[1]]
    return found


def _named_keys(graph: ObjectGraph, entries: Mapping[str, Described]) -> dict[str, str]:
    """Return the keys of variables by their full names in the program.

    A full name that several variables share is left out.
    """
    found: dict[str, str] = {}
    several = set()
    columns = graph.columns
    for name, full, key in zip(
        columns.attribute_names, columns.full_names, columns.keys, strict=True
    ):
        named = name == VARIABLE_VALUE and full and key in entries
        if named and found.setdefault(full, key) != key:
            several.add(full)
    return {full: key for full, key in found.items() if full not in several}


def _members(graph: ObjectGraph, node_id: int | None) -> Iterator[tuple[str, str]]:
    """Yield the elements of a list, by their position in it, as keys."""
    for name, child in () if node_id is None else graph.columns.children(node_id):
        key = graph.key_of_node(child)
        if key is not None:
            yield name, key


def _alike(entries: Mapping[str, Described], key: str, other: str | None) -> bool:
    one, two = entries.get(key), entries.get(other or "")
    return one is not None and two is not None and (one.shape, one.dtype) == (two.shape, two.dtype)
