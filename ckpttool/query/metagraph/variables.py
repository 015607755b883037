"""The variables of a MetaGraph held against the tensors of a checkpoint.

Those of a name-based checkpoint are known by the keys that the graph's Saver looks for, and by the
collections of the graph. A SavedModel of TensorFlow 2 has an object graph, whose objects are
brought together with those of the checkpoint along edges of the same name.
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
# In the order in which they are told.
DISAGREEMENTS: tuple[Disagreement, ...] = ("missing", "extra", "dtype", "shape")
_VALUE = "VARIABLE_VALUE"
_Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VariableRow:
    """A variable of the graph, or a tensor that none stands for.

    Attributes:
        key: of the tensor; of a variable without one, where it would be.
        name: of the variable in the graph, or its object path; None for what is no variable.
        dtype: in the graph; None where it does not say.
        shape: in the graph, -1 for a dimension that is not fixed; None where it does not say.
        stored_dtype: in the checkpoint; None if it is not there.
        stored_shape: likewise.
        restored: whether the graph's Saver restores it; None where it has none.
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
        """How graph and checkpoint differ about it; a variable that is not saved may be missing."""
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
    """What came of holding a graph against a checkpoint.

    Attributes:
        rows: the variables of the graph by key, then the tensors that it has none for.
        reason: why nothing was compared; None where it was.
    """

    rows: tuple[VariableRow, ...]
    reason: str | None = None

    def count(self, what: Disagreement) -> int:
        """Return about how many there is such a disagreement."""
        return sum(what in row.disagreements for row in self.rows)

    @property
    def agrees(self) -> bool:
        """Whether nothing disagrees, as far as was looked at."""
        return not any(row.disagreements for row in self.rows)

    @property
    def unsaved(self) -> tuple[VariableRow, ...]:
        """The variables that the Saver leaves alone and that are not in the checkpoint."""
        return tuple(row for row in self.rows if row.restored is False and row.stored_dtype is None)


def list_variables(facts: GraphFacts) -> tuple[VariableRow, ...]:
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
    """Hold the variables of a graph against a checkpoint.

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
        # What is no variable has no place in the graph of a SavedModel: tables, iterators.
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
        # What is restored and what merely has the name of it may differ.
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
            continue  # it is stored in a way of its own
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
    """Yield path and variable of each object that is one, with that of the checkpoint if any.

    Args:
        nodes: the objects of a SavedModel.
        graph: the object graph of the checkpoint; None to go without one.
    """
    twins = {} if graph is None else _twins(nodes, graph)
    for number, path in saved_paths(nodes).items():
        variable = nodes[number].variable
        if variable is not None:
            yield path, variable, twins.get(number)


def _twins(nodes: Sequence[SavedNode], graph: ObjectGraph) -> dict[int, Node]:
    """Return the object of the checkpoint for each of a SavedModel that has one, by number."""
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
