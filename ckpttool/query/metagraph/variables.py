"""The variables of a MetaGraph compared with the tensors of a checkpoint.

In a name-based checkpoint they are found by the keys that the graph's Saver looks for, and by the
graph's collections. A SavedModel of TensorFlow 2 has an object graph; its objects are matched with
those of the checkpoint along edges of the same name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ckpttool.checkpoint.kinds.rules import Described
from ckpttool.metagraph.report import GraphFacts
from ckpttool.metagraph.variables import GraphVariable, ObjectVariable, SavedNode, saved_paths
from ckpttool.objects.graph import Node, ObjectGraph

Disagreement = Literal["missing", "extra", "dtype", "shape"]
# In the order in which they are shown.
DISAGREEMENTS: tuple[Disagreement, ...] = ("missing", "extra", "dtype", "shape")
_VALUE = "VARIABLE_VALUE"
_Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VariableRow:
    """A variable of the graph, or a tensor without one.

    Attributes:
        key: of the tensor; of a variable without a tensor, the key that it would have.
        name: of the variable in the graph, or its object path; None for a tensor without one.
        dtype: in the graph; None if not stated.
        shape: in the graph, -1 for a variable dimension; None if not stated.
        stored_dtype: in the checkpoint; None if it is not there.
        stored_shape: likewise.
        restored: whether the graph's Saver restores it; None without a Saver.
    """

    key: str
    name: str | None
    dtype: str | None
    shape: _Shape | None
    stored_dtype: str | None
    stored_shape: _Shape | None
    restored: bool | None

    @property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """The differences between graph and checkpoint; an unsaved variable may be missing."""
        if self.stored_dtype is None:
            return () if self.restored is False else ("missing",)
        if self.restored is None and self.name is None:
            return ("extra",)
        found: list[Disagreement] = []
        if self.dtype is not None and self.dtype != self.stored_dtype:
            found.append("dtype")
        if not _fits(self.shape, self.stored_shape):
            found.append("shape")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class VariableComparison:
    """The comparison of a graph with a checkpoint.

    Attributes:
        rows: the variables of the graph by key, then the tensors without one.
        reason: why nothing was compared; None if it was.
    """

    rows: tuple[VariableRow, ...]
    reason: str | None = None

    def count(self, what: Disagreement) -> int:
        """Return how many rows have such a disagreement."""
        return sum(what in row.disagreements for row in self.rows)

    @property
    def agrees(self) -> bool:
        """Whether nothing compared disagrees."""
        return not any(row.disagreements for row in self.rows)

    @property
    def unsaved(self) -> tuple[VariableRow, ...]:
        """The variables that the Saver does not save and the checkpoint does not have."""
        return tuple(row for row in self.rows if row.restored is False and row.stored_dtype is None)


def variable_rows(facts: GraphFacts) -> tuple[VariableRow, ...]:
    """Return the variables of a graph without a checkpoint."""
    if facts.objects:
        return tuple(
            VariableRow(path, path, variable.dtype, variable.shape, None, None, None)
            for path, variable, _ in _walk(facts.objects, None)
        )
    return tuple(_merged(facts.variables, {}))


def compare_variables(
    facts: GraphFacts,
    entries: Mapping[str, Described],
    graph: ObjectGraph | None,
    *,
    others: Iterable[GraphFacts] = (),
) -> VariableComparison:
    """Compare the variables of a graph with a checkpoint.

    Args:
        facts: the graph.
        entries: the tensors of the checkpoint by key.
        graph: the object graph of the checkpoint; None in a name-based one.
        others: MetaGraphs of the same file; their variables are in the checkpoint too.
    """
    if graph is None and facts.objects:
        return VariableComparison((), "the checkpoint has no object graph, the MetaGraph has one")
    if graph is not None and not facts.objects:
        return VariableComparison((), "the checkpoint has an object graph, the MetaGraph has none")
    if graph is None:
        if not facts.variables:
            return VariableComparison((), "the MetaGraph names no variables")
        rows = list(_merged(facts.variables, entries))
        known = {row.key for row in rows}
        known |= {variable.key for other in others for variable in other.variables}
        candidates = entries.keys() - known
    else:
        rows = _matched(facts.objects, graph, entries)
        known = {row.key for row in rows}
        for other in others:
            known |= {row.key for row in _matched(other.objects, graph, entries)}
        # Tables, iterators and the like are not variables in the graph of a SavedModel.
        candidates = {key for key in entries.keys() - known if key.endswith(f"/{_VALUE}")}
    extra = [
        VariableRow(key, None, None, None, entry.dtype.name, tuple(entry.shape), None)
        for key, entry in entries.items()
        if key in candidates
    ]
    return VariableComparison((*rows, *extra))


def _merged(
    variables: Iterable[GraphVariable], entries: Mapping[str, Described]
) -> Iterator[VariableRow]:
    """Yield a row for each variable, one for all parts of a partitioned one."""
    groups: dict[str, list[GraphVariable]] = {}
    for variable in variables:
        groups.setdefault(variable.key, []).append(variable)
    for key, parts in groups.items():
        # Prefer the restored variable over one that only has its name.
        restored = [part for part in parts if part.restored] or parts
        first = restored[0]
        entry = entries.get(key)
        yield VariableRow(
            key,
            first.name if len(restored) == 1 else key,
            first.dtype,
            first.shape,
            None if entry is None else entry.dtype.name,
            None if entry is None else tuple(entry.shape),
            first.restored,
        )


def _matched(
    nodes: Sequence[SavedNode], graph: ObjectGraph, entries: Mapping[str, Described]
) -> list[VariableRow]:
    """Return a row for each variable among the objects of a SavedModel, by key."""
    rows = []
    for path, variable, node in _walk(nodes, graph):
        keys = () if node is None else _value_keys(node)
        if node is not None and node.saver is not None:
            continue  # a registered saver stores it
        key = next(iter(keys), path)
        entry = entries.get(key)
        rows.append(
            VariableRow(
                key,
                path,
                variable.dtype,
                variable.shape,
                None if entry is None else entry.dtype.name,
                None if entry is None else tuple(entry.shape),
                True,
            )
        )
    return sorted(rows, key=lambda row: row.key)


def _walk(
    nodes: Sequence[SavedNode], graph: ObjectGraph | None
) -> Iterator[tuple[str, ObjectVariable, Node | None]]:
    """Yield the path of each variable of a SavedModel, the variable, and its node in `graph`."""
    twins = {} if graph is None else _twins(nodes, graph)
    for number, path in saved_paths(nodes).items():
        variable = nodes[number].variable
        if variable is not None:
            yield path, variable, twins.get(number)


def _twins(nodes: Sequence[SavedNode], graph: ObjectGraph) -> dict[int, Node]:
    """Return number of an object of a SavedModel -> its object in the checkpoint."""
    twins = {0: graph.nodes[0]} if nodes else {}
    queue = deque(twins)
    slots: list[tuple[int, int, str, int]] = []
    while queue:
        number = queue.popleft()
        children = {edge.name: edge.node_id for edge in twins[number].children}
        for name, child in nodes[number].children:
            if name in children and child not in twins and 0 <= child < len(nodes):
                twins[child] = graph.nodes[children[name]]
                queue.append(child)
        slots += [(number, *slot) for slot in nodes[number].slots]
    links = {
        (link.optimizer_id, link.variable_id, link.slot_name): link.slot_id for link in graph.slots
    }
    for optimizer, variable, name, slot in slots:
        if variable in twins and 0 <= slot < len(nodes):
            twin = links.get((twins[optimizer].id, twins[variable].id, name))
            if twin is not None:
                twins.setdefault(slot, graph.nodes[twin])
    return twins


def _value_keys(node: Node) -> tuple[str, ...]:
    return tuple(
        attribute.checkpoint_key for attribute in node.attributes if attribute.name == _VALUE
    )


def _fits(shape: _Shape | None, stored: _Shape | None) -> bool:
    """Tell whether a stored shape is one that the graph allows."""
    if shape is None or stored is None:
        return True
    return len(shape) == len(stored) and all(
        dim in (-1, other) for dim, other in zip(shape, stored, strict=True)
    )
