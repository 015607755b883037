"""Two MetaGraphs compared by meaning, not by bytes.

Ignored are the order of nodes, functions, map entries and control inputs, and whether a default
value is written or left out. Functions whose names differ only in the number at the end, which
changes at each save, count as the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ckpttool.metagraph.compare.attributes import (
    DERIVED,
    attribute_text,
    same_attribute,
    shape_text,
)
from ckpttool.metagraph.compare.changes import PARTS, GraphPart, MetaGraphChange, compared
from ckpttool.metagraph.compare.collections import compare_collections
from ckpttool.metagraph.facts import MetaGraph, graph_of, metagraph_of
from ckpttool.metagraph.signatures import SignatureTensor
from ckpttool.metagraph.variables import saved_nodes, saved_paths
from ckpttool.tensor.dtypes import dtype_of_number

if TYPE_CHECKING:
    from ckpttool import pb

_Defaults = Mapping[str, Mapping[str, "pb.AttrValue"]]


def compare_metagraphs(
    a: pb.MetaGraphDef, b: pb.MetaGraphDef, paths: tuple[str, str]
) -> tuple[MetaGraphChange, ...]:
    """Return the differences between two MetaGraphs, sorted by part and name.

    Raises:
        CorruptError: a message inside of one is malformed.
    """
    graphs = graph_of(a, paths[0]), graph_of(b, paths[1])
    found = [
        *_facts(metagraph_of(a, paths[0]), metagraph_of(b, paths[1]), a, b),
        *_versions(a, b, *graphs),
        *compare_collections(a, b, paths),
        *_Graphs(*graphs, _defaults(a, b), _defaults(b, a)).changes(),
        *_op_definitions(a, b),
        *_objects(a.object_graph_def, b.object_graph_def),
    ]
    return tuple(sorted(found, key=lambda each: (PARTS.index(each.part), each.name)))


def _versions(
    a: pb.MetaGraphDef, b: pb.MetaGraphDef, graph_a: pb.GraphDef, graph_b: pb.GraphDef
) -> Iterator[MetaGraphChange]:
    sides = [
        {
            "tensorflow_version": message.meta_info_def.tensorflow_version,
            "tensorflow_git_version": message.meta_info_def.tensorflow_git_version,
            "meta_graph_version": message.meta_info_def.meta_graph_version,
            "producer": str(graph.versions.producer or ""),
            "min_consumer": str(graph.versions.min_consumer or ""),
            "bad_consumers": ", ".join(map(str, sorted(graph.versions.bad_consumers))),
        }
        for message, graph in ((a, graph_a), (b, graph_b))
    ]
    for name, value in sides[0].items():
        if change := compared("version", name, None, value, sides[1][name]):
            yield change


def _facts(
    a: MetaGraph, b: MetaGraph, message_a: pb.MetaGraphDef, message_b: pb.MetaGraphDef
) -> Iterator[MetaGraphChange]:
    for tag in sorted({*a.tags} ^ {*b.tags}):
        yield MetaGraphChange("tag", "removed" if tag in a.tags else "added", tag)
    sides = []
    for facts, message in ((a, message_a), (b, message_b)):
        texts: dict[tuple[GraphPart, str], dict[str, str]] = {
            # Signatures of a SessionBundle export are compared as a collection.
            ("signature", each.key): {
                "method": each.method,
                **{f"input {one.key}": _tensor(one) for one in each.inputs},
                **{f"output {one.key}": _tensor(one) for one in each.outputs},
            }
            for each in facts.signatures
            if each.key in message.signature_def
        }
        saver = facts.saver
        if saver is not None:
            texts["saver", "saver"] = {
                "filename tensor": saver.filename_tensor,
                "save tensor": saver.save_tensor,
                "restore op": saver.restore_op,
                "max_to_keep": str(saver.max_to_keep),
                "keep_checkpoint_every_n_hours": f"{saver.keep_every_n_hours:g}",
                "sharded": str(saver.sharded),
                "version": saver.version,
            }
        for asset in facts.assets:
            texts["asset", asset.filename] = {"tensor": asset.tensor}
        sides.append(texts)
    one, other = sides
    for key in sorted({*one, *other}):
        part, name = key
        if key not in one or key not in other:
            yield MetaGraphChange(part, "removed" if key in one else "added", name)
            continue
        for what in dict.fromkeys((*one[key], *other[key])):
            change = compared(part, name, what, one[key].get(what), other[key].get(what))
            if change:
                yield change


def _tensor(tensor: SignatureTensor) -> str:
    shape = shape_text(tensor.shape)
    default = ", has a default" if tensor.has_default else ""
    return f"{tensor.dtype} {shape} {', '.join(tensor.tensors)}{default}"


class _Graphs:
    """Two graphs, with the default values of attributes."""

    def __init__(
        self, a: pb.GraphDef, b: pb.GraphDef, defaults_a: _Defaults, defaults_b: _Defaults
    ) -> None:
        self._a = a
        self._b = b
        self._defaults = defaults_a, defaults_b
        self._functions = function_pairs(a.library, b.library)

    def changes(self) -> Iterator[MetaGraphChange]:
        """Yield the differences in nodes and functions."""
        yield from self._nodes("", self._a.node, self._b.node)
        of_a = {each.signature.name: each for each in self._a.library.function}
        of_b = {each.signature.name: each for each in self._b.library.function}
        for name, one in of_a.items():
            other = of_b.get(self._functions.get(name, ""))
            if other is None:
                yield MetaGraphChange("function", "removed", name)
            else:
                yield from self._function(name, one, other)
        for name in of_b.keys() - self._functions.values():
            yield MetaGraphChange("function", "added", name)

    def _function(
        self, name: str, a: pb.FunctionDef, b: pb.FunctionDef
    ) -> Iterator[MetaGraphChange]:
        for what, arguments in (("input", "input_arg"), ("output", "output_arg")):
            sides = (
                ", ".join(f"{each.name} {_argument(each)}" for each in getattr(one, arguments))
                for one in (a.signature, b.signature)
            )
            if change := compared("function", name, what, *sides):
                yield change
        for what in ("ret", "control_ret"):
            sides = (
                ", ".join(f"{key} {value}" for key, value in sorted(getattr(one, what).items()))
                for one in (a, b)
            )
            if change := compared("function", name, what, *sides):
                yield change
        yield from self._attributes("function", name, a, b, ({}, {}))
        yield from self._nodes(name, a.node_def, b.node_def)

    def _nodes(
        self, function: str, a: Iterable[pb.NodeDef], b: Iterable[pb.NodeDef]
    ) -> Iterator[MetaGraphChange]:
        of_a, of_b = ({node.name: node for node in nodes} for nodes in (a, b))
        for name in dict.fromkeys((*of_a, *of_b)):
            full = f"{function}/{name}" if function else name
            one, other = of_a.get(name), of_b.get(name)
            if one is None or other is None:
                found = one if other is None else other
                op = None if found is None else found.op
                if other is None:
                    yield MetaGraphChange("node", "removed", full, a=op)
                else:
                    yield MetaGraphChange("node", "added", full, b=op)
            else:
                yield from self._node(full, one, other)

    def _node(self, name: str, a: pb.NodeDef, b: pb.NodeDef) -> Iterator[MetaGraphChange]:
        if a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True):
            return
        inputs, controls = zip(_inputs(a), _inputs(b), strict=True)
        for what, one, other in (
            ("op", self._functions.get(a.op, a.op), b.op),
            ("input", ", ".join(inputs[0]), ", ".join(inputs[1])),
            ("control input", ", ".join(controls[0]), ", ".join(controls[1])),
            ("device", a.device, b.device),
        ):
            if change := compared("node", name, what, one, other):
                yield change
        defaults = (self._defaults[0].get(a.op, {}), self._defaults[1].get(b.op, {}))
        yield from self._attributes("node", name, a, b, defaults)

    def _attributes(
        self,
        part: GraphPart,
        name: str,
        a: pb.NodeDef | pb.FunctionDef,
        b: pb.NodeDef | pb.FunctionDef,
        defaults: tuple[Mapping[str, pb.AttrValue], Mapping[str, pb.AttrValue]],
    ) -> Iterator[MetaGraphChange]:
        for key in sorted({*a.attr, *b.attr} - DERIVED):
            one, other = (
                side.attr[key] if key in side.attr else default.get(key)
                for side, default in zip((a, b), defaults, strict=True)
            )
            if one is None or other is None:
                texts = [None if side is None else attribute_text(side) for side in (one, other)]
            elif same_attribute(one, other, self._functions):
                continue
            else:
                texts = [attribute_text(one), attribute_text(other)]
            if texts[0] == texts[1]:
                texts[1] = f"{texts[1]}, with other values"
            yield MetaGraphChange(part, "changed", name, f"attr {key}", *texts)


def _argument(argument: pb.OpDef.ArgDef) -> str:
    named = argument.type_attr or argument.type_list_attr or argument.number_attr
    return named or dtype_of_number(argument.type).name


def _inputs(node: pb.NodeDef) -> tuple[list[str], list[str]]:
    """Return the input tensors of a node, in order, and its control inputs, sorted."""
    tensors = [each.removesuffix(":0") for each in node.input if not each.startswith("^")]
    return tensors, sorted({each for each in node.input if each.startswith("^")})


def _defaults(a: pb.MetaGraphDef, b: pb.MetaGraphDef) -> dict[str, dict[str, pb.AttrValue]]:
    """Return the default values of attributes by operation, from A, or else from B."""
    found: dict[str, dict[str, pb.AttrValue]] = {}
    for message in (a, b):
        for op in message.meta_info_def.stripped_op_list.op:
            found.setdefault(
                op.name,
                {
                    attr.name: attr.default_value
                    for attr in op.attr
                    if attr.HasField("default_value")
                },
            )
    return found


def _op_definitions(a: pb.MetaGraphDef, b: pb.MetaGraphDef) -> Iterator[MetaGraphChange]:
    """Yield the operations that both have with different definitions."""
    of_a, of_b = (
        {op.name: op for op in message.meta_info_def.stripped_op_list.op} for message in (a, b)
    )
    for name in sorted(of_a.keys() & of_b.keys()):
        one, other = (side[name].SerializeToString(deterministic=True) for side in (of_a, of_b))
        if one != other:
            yield MetaGraphChange("op", "changed", name)


def _objects(a: pb.SavedObjectGraph, b: pb.SavedObjectGraph) -> Iterator[MetaGraphChange]:
    sides = []
    for graph in (a, b):
        nodes = saved_nodes(graph)
        texts = {}
        for number, path in saved_paths(nodes).items():
            node = nodes[number]
            texts[path] = node.kind.replace("_", " ") or "nothing"
            if node.variable is not None:
                shape = node.variable.shape
                texts[path] += f" {node.variable.dtype} {'any' if shape is None else list(shape)}"
        sides.append(texts)
    for path in dict.fromkeys((*sides[0], *sides[1])):
        if change := compared("object", path, None, sides[0].get(path), sides[1].get(path)):
            yield change


_NUMBER = re.compile(r"_(\d{1,18})\Z")


def function_pairs(a: pb.FunctionDefLibrary, b: pb.FunctionDefLibrary) -> dict[str, str]:
    """Return name in A -> name in B for the functions in both.

    Functions of the same name are pairs. Of the others, those whose names differ only in the number
    at the end are paired in the order of these numbers.
    """
    names_a = {each.signature.name for each in a.function}
    names_b = {each.signature.name for each in b.function}
    pairs = {name: name for name in names_a & names_b}
    left_a, left_b = _by_stem(names_a - names_b), _by_stem(names_b - names_a)
    for stem, names in left_a.items():
        pairs.update(zip(names, left_b.get(stem, ()), strict=False))
    return pairs


def _by_stem(names: set[str]) -> dict[str, list[str]]:
    """Return stem without the number -> names in the order of their numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        number = _NUMBER.search(name)
        if number is not None:
            found.setdefault(name[: number.start()], []).append((int(number[1]), name))
    return {stem: [name for _, name in sorted(pairs)] for stem, pairs in found.items()}
