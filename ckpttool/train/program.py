"""A program made of what a checkpoint holds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.nearest import listed
from ckpttool.checkpoint.open import Checkpoint as OpenCheckpoint
from ckpttool.errors import UnsavedWarning, UnsupportedError
from ckpttool.objects.keys import VARIABLE_VALUE, attribute_key
from ckpttool.storage.paths import StrPath
from ckpttool.tensor.dtypes import VARIANT, dtype_of_array
from ckpttool.train.carried import Carried
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.module import Module
from ckpttool.train.slots import SlotOwner
from ckpttool.train.trackable import Trackable, tracking
from ckpttool.train.variable import Variable

if TYPE_CHECKING:
    from ckpttool.objects.graph import Node, ObjectGraph
    from ckpttool.tensor.values import Array

# By node and attribute: key and value of each tensor, in the order of their bytes.
_Tensors = Mapping[int, Mapping[str, Sequence[tuple[str, "Array"]]]]


def load_objects(path: StrPath) -> Checkpoint:
    """Make a program of a checkpoint's objects and values.

    Objects without values become a `Module`, variables a `Variable` with their full names, objects
    with slot variables a `SlotOwner`, all others a `Carried`, which is saved as it was. The
    attributes of the result are the objects under the root:

        ckpt = load_objects("tf_ckpts")
        ckpt.net.l1.kernel.assign(2 * ckpt.net.l1.kernel.numpy())
        ckpt.write("doubled")

    An object is no attribute if its name is that of a method; `TrackableView.children` has all.
    A root with values of its own is the attribute `root`. Objects that no path leads to are left
    out, as are tensors of no object, with an `UnsavedWarning`.

    Written again, a checkpoint that TensorFlow wrote as one shard is the same by the byte. What was
    in several shards, or a variable in slices, becomes whole.

    Args:
        path: the address of a checkpoint with an object graph.

    Raises:
        UnsupportedError: it has none.
        CkptError: it cannot be read, or is damaged.
    """
    with OpenCheckpoint(locate(path)) as source:
        graph = source.object_graph
        if graph is None:
            raise UnsupportedError(
                "no object graph, so no objects: it holds tensors by name. open_checkpoint reads "
                "them; 'ckpt convert-legacy --like REFERENCE' makes an object-based checkpoint",
                path=source.prefix,
            )
        tensors = _read(source, graph)
    return _program(graph, tensors)


def _read(source: OpenCheckpoint, graph: ObjectGraph) -> _Tensors:
    """Read all tensors that the graph names."""
    entries = source.bundle.entries
    claims = graph.claims(entries.keys())
    if claims.unclaimed:
        warnings.warn(
            f"{source.prefix}: tensors of no object, which will not be saved: "
            f"{listed(claims.unclaimed)}",
            UnsavedWarning,
            stacklevel=3,
        )
    owners = claims.owners
    values = dict(source.reader.read_many(owners))
    found: dict[int, dict[str, list[tuple[str, Array]]]] = {}
    placed = {key: (entries[key].shard_id, entries[key].offset) for key in owners}
    for key in sorted(owners, key=placed.__getitem__):
        node_id, attribute = owners[key]
        found.setdefault(node_id, {}).setdefault(attribute.name, []).append((key, values[key]))
    if claims.disputed:
        for node in graph.nodes:
            for one in node.attributes:
                if one.checkpoint_key in values:
                    held = [(one.checkpoint_key, values[one.checkpoint_key])]
                    found.setdefault(node.id, {}).setdefault(one.name, held)
    return found


def _program(graph: ObjectGraph, tensors: _Tensors) -> Checkpoint:
    nodes = [node for node in graph.nodes if graph.path(node.id) is not None]
    objects = {node.id: _object(node, graph.path(node.id) or "", tensors) for node in nodes}
    root = objects[0]
    if type(root) is Module:
        root = objects[0] = Checkpoint()
    for node in nodes:
        found = objects[node.id]
        for edge in node.children:
            _attach(found, edge.name, objects[edge.node_id])
        for slot in node.slots:
            assert isinstance(found, SlotOwner | Carried)
            of_name: dict[Any, Any] = found._slots().setdefault(slot.slot_name, {})
            if slot.variable_id in objects and slot.slot_id in objects:
                of_name[objects[slot.variable_id]] = objects[slot.slot_id]
    return Checkpoint._of_whole(root)


def _object(node: Node, path: str, tensors: _Tensors) -> Trackable:
    """Return what stands for a node, without its edges."""
    held = tensors.get(node.id, {})
    if not node.attributes and node.saver is None and not node.unknown:
        return SlotOwner() if node.slots else Module()
    if not node.children and not node.slots and node.saver is None and not node.unknown:
        variable = _variable(node, path, held)
        if variable is not None:
            return variable
    carried = Carried()
    carried.carry(
        node,
        path,
        {
            one.name: [
                (key.removeprefix(one.checkpoint_key), value)
                for key, value in held.get(one.name, ())
            ]
            for one in node.attributes
        },
    )
    return carried


def _variable(
    node: Node, path: str, held: Mapping[str, Sequence[tuple[str, Array]]]
) -> Variable | None:
    """Return a variable; None if it would not be saved as it was."""
    one = node.attributes[0]
    listed = held.get(VARIABLE_VALUE, ())
    if len(node.attributes) > 1 or len(listed) != 1 or one.optional_restore or one.unknown:
        return None
    ((key, value),) = listed
    if not one.checkpoint_key == key == attribute_key(path) or dtype_of_array(value) == VARIANT:
        return None
    # Small values are parts of larger arrays.
    variable = Variable(value, name=one.full_name, copy=value.base is not None)
    return variable if variable.full_name == one.full_name else None


def _attach(parent: Trackable, name: str, child: Trackable) -> None:
    tracking(parent).edges[name] = child
    # What a class has is not hidden, nor is the state of our own.
    if not hasattr(type(parent), name) and not name.startswith(("_ckpttool", "_carried")):
        parent.__dict__[name] = child
