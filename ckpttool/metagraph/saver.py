"""The Saver of a graph, brought up to date.

Old Savers put operations into the graph that read and write V1 checkpoints only:

    Restore, RestoreSlice   ->  RestoreV2, which takes a list of names instead of one
    Save, SaveSlices        ->  SaveV2, with the same inputs
    ShardedFilespec         ->  MergeV2Checkpoints, which merges the saved shards

All nodes keep their names, so only the version in the SaverDef changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ckpttool.coding.text import decode_text

if TYPE_CHECKING:
    from ckpttool import pb

_RESTORING = ("Restore", "RestoreSlice")
_SAVING = ("Save", "SaveSlices")
_STRING: Final = 7


def update_saver(metagraph: pb.MetaGraphDef) -> tuple[str, ...]:
    """Make the Saver of a graph, if any, restore and save format V2; in place.

    Returns:
        The keys that it restores, sorted, if they are constants of the graph.
    """
    from ckpttool import pb

    saver = metagraph.saver_def
    graph = _Graph(metagraph.graph_def)
    keys: set[str] = set()
    for node in graph.needed_for(saver.restore_op_name):
        if node.op in (*_RESTORING, "RestoreV2") and len(node.input) > 1:
            keys.update(graph.strings(node.input[1]))
        if node.op in _RESTORING:
            graph.update_restore(node)
    needed = graph.needed_for(saver.save_tensor_name)
    shards = [node for node in needed if node.op == "ShardedFilename"]
    # A pattern names all shards of V1; V2 ends with one checkpoint.
    patterns = [node for node in needed if node.op == "ShardedFilespec"]
    updated = [graph.update_save(node) for node in needed if node.op in _SAVING]
    if updated and all(updated):
        for node in patterns:
            graph.update_pattern(node, shards)
    if saver.restore_op_name:
        saver.version = pb.SaverDef.V2
    return tuple(sorted(keys))


class _Graph:
    def __init__(self, graph: pb.GraphDef) -> None:
        self._graph = graph
        self._nodes = {node.name: node for node in graph.node}

    def needed_for(self, name: str) -> list[pb.NodeDef]:
        """See `needed_nodes`."""
        return needed_nodes(self._nodes, name)

    def strings(self, name: str) -> list[str]:
        """See `constant_strings`."""
        return constant_strings(self._nodes, name)

    def update_restore(self, node: pb.NodeDef) -> None:
        inputs, controls = _split(node.input)
        if len(inputs) != (2 if node.op == "Restore" else 3):
            return  # malformed: left for TensorFlow to report
        prefix, name = inputs[:2]
        spec = inputs[2] if len(inputs) > 2 else self._constant(f"{node.name}/slice", [b""], node)
        names = self._vector(f"{node.name}/tensor_names", [name], node)
        specs = spec if len(inputs) < 3 else self._vector(f"{node.name}/slices", [spec], node)
        node.op = "RestoreV2"
        del node.input[:]
        node.input.extend([prefix, names, specs, *controls])
        dtype = node.attr["dt"].type
        for attribute in ("dt", "preferred_shard"):
            node.attr.pop(attribute, None)
        node.attr["dtypes"].list.type.append(dtype)

    def update_save(self, node: pb.NodeDef) -> bool:
        inputs, controls = _split(node.input)
        types = [*node.attr["T"].list.type]
        fixed = 2 if node.op == "Save" else 3
        if len(inputs) != fixed + len(types):
            return False
        if node.op == "Save":
            specs = self._constant(f"{node.name}/slices", [b""] * len(types), node)
            inputs.insert(2, specs)
        node.op = "SaveV2"
        del node.input[:]
        node.input.extend([*inputs, *controls])
        node.attr.pop("T", None)
        node.attr["dtypes"].list.type.extend(types)
        return True

    def update_pattern(self, node: pb.NodeDef, shards: list[pb.NodeDef]) -> None:
        inputs, controls = _split(node.input)
        if not inputs or not shards:
            return
        names = self._vector(f"{node.name}/prefixes", [shard.name for shard in shards], node)
        merge = self._node(f"{node.name}/merge", "MergeV2Checkpoints", node)
        merge.input.extend([names, inputs[0], *controls])
        # The shards are in the checkpoint's own folder.
        merge.attr["delete_old_dirs"].b = False
        node.op = "Identity"
        del node.input[:]
        node.input.extend([inputs[0], f"^{merge.name}"])
        node.attr["T"].type = _STRING

    def _vector(self, name: str, items: list[str], beside: pb.NodeDef) -> str:
        """Add a node that makes a vector of scalar strings; return its name."""
        pack = self._node(name, "Pack", beside)
        pack.input.extend(items)
        pack.attr["N"].i = len(items)
        pack.attr["T"].type = _STRING
        pack.attr["axis"].i = 0
        return pack.name

    def _constant(self, name: str, values: list[bytes], beside: pb.NodeDef) -> str:
        constant = self._node(name, "Const", beside)
        tensor = constant.attr["value"].tensor
        tensor.dtype = _STRING
        tensor.tensor_shape.dim.add(size=len(values))
        tensor.string_val.extend(values)
        constant.attr["dtype"].type = _STRING
        return constant.name

    def _node(self, name: str, op: str, beside: pb.NodeDef) -> pb.NodeDef:
        """Add a node on the device of another, under a free name."""
        number, free = 0, name
        while free in self._nodes:
            number += 1
            free = f"{name}_{number}"
        node = self._graph.node.add(name=free, op=op, device=beside.device)
        self._nodes[free] = node
        return node


def needed_nodes(nodes: Mapping[str, pb.NodeDef], name: str) -> list[pb.NodeDef]:
    """Return an operation (or that of a tensor) and all nodes it depends on, in graph order."""
    found: set[str] = set()
    stack = [name]
    while stack:
        node = nodes.get(node_name(stack.pop()))
        if node is not None and node.name not in found:
            found.add(node.name)
            stack += node.input
    return [node for name, node in nodes.items() if name in found]


def constant_strings(nodes: Mapping[str, pb.NodeDef], name: str) -> list[str]:
    """Return the strings of a constant; empty for another node."""
    node = nodes.get(node_name(name))
    if node is None or node.op != "Const" or "value" not in node.attr:
        return []
    values = node.attr["value"].tensor.string_val
    return [decode_text(value) for value in values]


def node_name(name: str) -> str:
    """Return the node in the name of a tensor (`node:0`) or of a control input (`^node`)."""
    return name.removeprefix("^").partition(":")[0]


def _split(inputs: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the tensors and the control inputs among the inputs of a node."""
    everything = list(inputs)
    return (
        [each for each in everything if not each.startswith("^")],
        [each for each in everything if each.startswith("^")],
    )
