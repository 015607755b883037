"""The variables of an object-based checkpoint, as one side of a match between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ckpttool.checkpoint.kinds.averages import WEIGHTS_LIST
from ckpttool.checkpoint.kinds.rules import Described
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import VARIABLE_VALUE, attribute_key, object_path
from ckpttool.surgery.like.optimizers import KeptState, kept_states


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A tensor that an object holds.

    Attributes:
        key: of the tensor.
        node_id: the object.
        part: what of the object it is: empty for a variable's value, else the attribute and what
            continues it, such as `table-keys`.
        full_name: of the variable; empty for what has none.
        entry: dtype and shape.
        kind: what it is, in one word.
    """

    key: str
    node_id: int
    part: str
    full_name: str
    entry: Described
    kind: str

    def fits(self, other: Held) -> bool:
        """Tell whether a value of one can be restored into the other."""
        return (
            self.part == other.part
            and self.entry.dtype == other.entry.dtype
            and tuple(self.entry.shape) == tuple(other.entry.shape)
        )

    @property
    def told(self) -> str:
        """Its dtype and shape, in words."""
        return f"{self.entry.dtype.name} {list(self.entry.shape)}"


class MatchSide:
    """One of two object-based checkpoints whose tensors are matched.

    Args:
        graph: its object graph.
        entries: dtype and shape of each tensor.
        kinds: what each tensor is.

    Attributes:
        graph: the same.
        optimizers: what each optimizer keeps.
        held: the tensors that belong to objects, by key; those of optimizers too.
        own: the keys of those that no optimizer keeps.
    """

    def __init__(
        self, graph: ObjectGraph, entries: Mapping[str, Described], kinds: Mapping[str, str]
    ) -> None:
        self.graph = graph
        self.held: dict[str, Held] = {}
        self._of_node: dict[int, list[Held]] = {}
        columns = graph.columns
        for key, at in graph.claims(entries.keys()).at.items():
            node_id = columns.holder(at)
            if graph.places.owners[node_id] < 0:
                continue
            name, listed = columns.attribute_names[at], columns.keys[at]
            value = name == VARIABLE_VALUE and key == listed
            part = "" if value else name + key[len(listed) :]
            full_name = columns.full_names[at] if key == listed else ""
            found = Held(key, node_id, part, full_name, entries[key], kinds[key])
            self.held[key] = found
            self._of_node.setdefault(node_id, []).append(found)
        values = [each for each in self.held.values() if not each.part]
        keys = {each.node_id: each.key for each in values}
        shapes = {each.node_id: each.entry.shape for each in values}
        self.optimizers: tuple[KeptState, ...] = kept_states(graph, keys, shapes)
        kept = {key for each in self.optimizers for key in each.keys}
        self.own = {key: None for key in self.held if key not in kept}
        self._passed = {node_id for each in self.optimizers for node_id in each.nodes}

    def of_node(self, node_id: int) -> list[Held]:
        """Return the tensors of an object."""
        return self._of_node.get(node_id, [])

    def is_optimizers(self, node_id: int) -> bool:
        """Tell whether an object is an optimizer, or something within one."""
        return node_id in self._passed

    def is_own(self, key: str) -> bool:
        """Tell whether a tensor belongs to an object and no optimizer keeps it."""
        return key in self.own

    def has(self, name: str) -> bool:
        """Tell whether a name is that of a tensor, of an object, or a scope of full names."""
        if self.tensor_at(name) is not None or self.graph.node_at(name) is not None:
            return True
        return any(full.startswith(f"{name}/") for full in self.by_full_name)

    def children(self, node_id: int) -> dict[str, int]:
        """Return where the edges of an object lead, by their names and by their bare names."""
        edges = dict(self.graph.columns.children(node_id))
        return {bare(name): child for name, child in edges.items()} | edges

    def holders(self, node_id: int) -> dict[str, list[int]]:
        """Return the objects that lead to one, by the bare names; no optimizers, and no lists."""
        found: dict[str, list[int]] = {}
        for parent, name in self.graph.parents(node_id):
            if parent not in self._passed and not name.isdigit():
                found.setdefault(bare(name), []).append(parent)
        return found

    def words(self, held: Held) -> frozenset[str]:
        """Return what the objects that lead to a variable call it, or its own name if none do."""
        return frozenset(self.holders(held.node_id)) or frozenset({_leaf(held.full_name)})

    def name(self, key: str) -> str:
        """Return the object path of a tensor, or its key where it has none."""
        return object_path(key) or key

    def tensor_at(self, name: str) -> Held | None:
        """Return the tensor with a key, the only one of an object, or one with a full name."""
        found = self.held.get(name) or self.held.get(attribute_key(name))
        if found is not None:
            return found
        node_id = self.graph.node_at(name)
        held = self.of_node(node_id) if node_id is not None else []
        if len(held) == 1:
            return held[0]
        named = self.by_full_name.get(name, [])
        return named[0] if len(named) == 1 else None

    @cached_property
    def by_full_name(self) -> dict[str, list[Held]]:
        """All tensors by the full names of their variables."""
        found: dict[str, list[Held]] = {}
        for each in self.held.values():
            if each.full_name:
                found.setdefault(each.full_name, []).append(each)
        return found

    def in_order(self, keys: Sequence[str]) -> list[int] | None:
        """Return where variables stand in their program, if all stand in one order.

        That is the order in which objects lead to them; or, of those that only an optimizer of
        Keras 3 leads to, the order of its list.
        """
        nodes = [self.held[key].node_id for key in keys]
        for order in (self._walk, self._trained):
            if all(node_id in order for node_id in nodes):
                return [order[node_id] for node_id in nodes]
        return None

    @cached_property
    def _walk(self) -> dict[int, int]:
        """The objects in the order in which a walk in depth meets them; optimizers are passed."""
        seen: dict[int, int] = {}
        stack = [0]
        while stack:
            node_id = stack.pop()
            if node_id in seen or node_id in self._passed:
                continue
            seen[node_id] = len(seen)
            stack.extend(child for _, child in reversed([*self.graph.columns.children(node_id)]))
        return seen

    @cached_property
    def _trained(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for each in self.optimizers:
            lists = dict(self.graph.columns.children(each.node_id))
            if WEIGHTS_LIST in lists:
                members = [
                    (int(name), child)
                    for name, child in self.graph.columns.children(lists[WEIGHTS_LIST])
                    if name.isdecimal()
                ]
                for _, child in sorted(members):
                    found.setdefault(child, len(found))
        return found


def bare(name: str) -> str:
    """Return the name of an edge without what marks it as private.

    Keras 3 has `_kernel` where others have `kernel`.
    """
    return name.lstrip("_") or name


def _leaf(name: str) -> str:
    return name.rpartition("/")[2]
