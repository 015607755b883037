"""The variables of a graph, and the keys under which its Saver looks for them in a checkpoint.

A Saver restores a variable by an operation that reads tensors by name and one that assigns:

    RestoreV2(prefix, names, slices)  ->  Identity, Reshape, Cast  ->  Assign(variable, value)

The names are a constant, which gives the key of each variable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.errors import CorruptError
from ckpttool.metagraph.saver import constant_strings, needed_nodes, node_name
from ckpttool.metagraph.updates import VARIABLE_OPS, source_variable
from ckpttool.objects.keys import escape, room_for_paths, slot_path
from ckpttool.tensor.dtypes import REFERENCE, dtype_of_number

if TYPE_CHECKING:
    from ckpttool import pb
    from ckpttool.metagraph.facts import Variable

RESTORING = frozenset({"Restore", "RestoreSlice", "RestoreV2"})
_ASSIGNING = frozenset({"Assign", "AssignVariableOp"})
_CARRIERS = frozenset({"Identity", "Reshape", "Cast"})
_LONGEST = 16
# The collection that a Saver saves by default, and those that it does not.
_SAVED = "variables"
_NOT_SAVED = frozenset({"local_variables", "metric_variables"})


@dataclass(frozen=True, slots=True)
class GraphVariable:
    """A variable, or something else that a graph restores from a checkpoint.

    Attributes:
        key: of its tensor in a checkpoint.
        name: of its node; None if it is not assigned to a variable, such as a table.
        dtype: TensorFlow's name; None if not stated.
        shape: of the whole tensor, -1 for a variable dimension; None if not stated.
        restored: whether the graph's Saver restores it; None without a Saver.
    """

    key: str
    name: str | None
    dtype: str | None
    shape: tuple[int, ...] | None
    restored: bool | None


@dataclass(frozen=True, slots=True)
class ObjectVariable:
    """A variable among the objects of a SavedModel."""

    dtype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class SavedNode:
    """An object of a SavedModel, as far as it leads to variables.

    Attributes:
        children: edge name and number of each object that it refers to.
        slots: of an optimizer: number of a variable, slot name, number of the slot variable.
        variable: None for another object.
        kind: "user_object", "variable", "function" and so on.
    """

    children: tuple[tuple[str, int], ...]
    slots: tuple[tuple[int, str, int], ...]
    variable: ObjectVariable | None
    kind: str = ""


def graph_variables(
    nodes: Mapping[str, pb.NodeDef],
    saver: pb.SaverDef,
    collections: Mapping[str, tuple[Variable, ...]],
) -> tuple[GraphVariable, ...]:
    """Return what a graph restores, and its other variables that are not local, by key."""
    found: dict[tuple[str, str | None], GraphVariable] = {}
    assigned = set()
    for each in _restored(nodes, saver):
        found.setdefault((each.key, each.name), each)
        assigned.add(each.name)
    restored = False if found else None
    # Local variables may be in other collections, which count only if this one is missing.
    chosen = {_SAVED} if _SAVED in collections else collections.keys() - _NOT_SAVED
    local = {each.name for key in _NOT_SAVED for each in collections.get(key, ())}
    for collection in sorted(chosen):
        for variable in collections[collection]:
            name = node_name(variable.name)
            if name not in assigned and (collection == _SAVED or variable.name not in local):
                dtype, shape = _described(nodes, name)
                if variable.part is not None:
                    shape = variable.part.full_shape
                key = variable.full_name
                found.setdefault((key, name), GraphVariable(key, name, dtype, shape, restored))
    return tuple(sorted(found.values(), key=lambda each: (each.key, each.name or "")))


def saved_nodes(graph: pb.SavedObjectGraph) -> tuple[SavedNode, ...]:
    """Return the objects of a SavedModel, by number."""
    return tuple(
        SavedNode(
            tuple((child.local_name, child.node_id) for child in node.children),
            tuple(
                (slot.original_variable_node_id, slot.slot_name, slot.slot_variable_node_id)
                for slot in node.slot_variables
            ),
            ObjectVariable(
                dtype_of_number(node.variable.dtype).name, known_shape(node.variable.shape)
            )
            if node.HasField("variable")
            else None,
            node.WhichOneof("kind") or "",
        )
        for node in graph.nodes
    )


def saved_paths(nodes: Sequence[SavedNode]) -> dict[int, str]:
    """Return the shortest path of each reachable object of a SavedModel, by number.

    A slot variable is named by its variable and its optimizer.

    Raises:
        CorruptError: the paths are too long for those of a program's objects.
    """
    paths = {0: ""} if nodes else {}
    queue = deque(paths)
    slots: list[tuple[int, int, str, int]] = []
    budget = room_for_paths(len(nodes))
    while queue:
        number = queue.popleft()
        for name, child in nodes[number].children:
            if child in paths or not 0 <= child < len(nodes):
                continue
            paths[child] = f"{paths[number]}/{escape(name)}" if number else escape(name)
            budget -= len(paths[child])
            if budget < 0:
                raise CorruptError("the paths of a SavedModel's objects are too long")
            queue.append(child)
        slots += [(number, *slot) for slot in nodes[number].slots]
    for optimizer, variable, name, slot in slots:
        if variable in paths and slot not in paths and 0 <= slot < len(nodes):
            paths[slot] = slot_path(paths[variable], paths[optimizer], name)
            budget -= len(paths[slot])
            if budget < 0:
                raise CorruptError("the paths of a SavedModel's objects are too long")
    return paths


def known_shape(shape: pb.TensorShapeProto) -> tuple[int, ...] | None:
    """Return a shape with -1 for variable dimensions; None for a variable rank."""
    return None if shape.unknown_rank else tuple(max(dim.size, -1) for dim in shape.dim)


def _restored(nodes: Mapping[str, pb.NodeDef], saver: pb.SaverDef) -> Iterator[GraphVariable]:
    keys: dict[tuple[str, int], tuple[str, str, int]] = {}
    used = set()
    needed = needed_nodes(nodes, saver.restore_op_name)
    for node in needed:
        if node.op in RESTORING:
            for index, (key, spec, dtype) in enumerate(_read_keys(nodes, node)):
                keys[node.name, index] = (key, spec, dtype)
    for node in needed:
        if node.op not in _ASSIGNING or len(node.input) < 2:
            continue
        name = source_variable(nodes, node.input[0])
        source = _source(nodes, node.input[1])
        if name is None or source not in keys:
            continue
        used.add(source)
        key, spec, _ = keys[source]
        dtype_name, shape = _described(nodes, name)
        yield GraphVariable(key, name, dtype_name, _full_shape(spec) or shape, True)
    for source, (key, spec, number) in keys.items():
        if source not in used:
            dtype_name = dtype_of_number(number).name if number else None
            yield GraphVariable(key, None, dtype_name, _full_shape(spec), True)


def _read_keys(nodes: Mapping[str, pb.NodeDef], node: pb.NodeDef) -> Iterable[tuple[str, str, int]]:
    """Return key, slice and number of the dtype of each tensor that a node reads."""
    if len(node.input) < 2:
        return ()
    names = constant_strings(nodes, node.input[1])
    specs = constant_strings(nodes, node.input[2]) if len(node.input) > 2 else []
    if "dtypes" in node.attr:
        types = list(node.attr["dtypes"].list.type)
    else:
        types = [node.attr["dt"].type] if "dt" in node.attr else []
    count = len(names)
    specs = (specs + [""] * count)[:count]
    types = (types + [0] * count)[:count]
    return zip(names, specs, types, strict=True)


def _source(nodes: Mapping[str, pb.NodeDef], name: str) -> tuple[str, int]:
    """Return the node, and the number of its output, that a value comes from."""
    for _ in range(_LONGEST):
        node = nodes.get(node_name(name))
        if node is None or node.op not in _CARRIERS or not node.input:
            break
        name = node.input[0]
    digits = name.partition(":")[2]
    return node_name(name), int(digits) if digits.isdecimal() and len(digits) < 10 else 0


def _described(
    nodes: Mapping[str, pb.NodeDef], name: str
) -> tuple[str | None, tuple[int, ...] | None]:
    node = nodes.get(name)
    if node is None or node.op not in VARIABLE_OPS or "dtype" not in node.attr:
        return None, None
    shape = known_shape(node.attr["shape"].shape) if "shape" in node.attr else None
    return dtype_of_number(node.attr["dtype"].type % REFERENCE).name, shape


def _full_shape(spec: str) -> tuple[int, ...] | None:
    """Return the full shape in the specification of a slice: [4, 2] for "4 2 0,2:-"."""
    dims = spec.split()[:-1]
    if not dims or not all(dim.isdecimal() and len(dim) < 20 for dim in dims):
        return None
    return tuple(map(int, dims))
