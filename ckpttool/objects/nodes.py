"""The nodes of an object graph, to and from the bytes that TensorFlow writes.

The message TrackableObjectGraph has one field, nodes=1, repeated. A node's id is its position.

node  children=1        repeated  node_id=1  local_name=2
      attributes=2      repeated  name=1  full_name=2  checkpoint_key=3  optional_restore=4
      slot_variables=3  repeated  variable's node=1  slot_name=2  slot's node=3
      registered_saver=4          name=1  object_name=2
      has_checkpoint_values=5     value=1
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, NamedTuple

from ckpttool.coding import wire
from ckpttool.coding.varint import decode_varint
from ckpttool.errors import CorruptError
from ckpttool.objects.keys import VARIABLE_VALUE

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ckpttool.pb import TrackableObjectGraph

    _Object = TrackableObjectGraph.TrackableObject
    _EdgeMessage = _Object.ObjectReference
    _AttributeMessage = _Object.SerializedTensor
    _SlotMessage = _Object.SlotVariableReference

_NODE_TAG = 0x0A
_PIECE = 1 << 20  # bytes of a graph that are decoded at once
_LONGEST_NAME = 200  # in a message for people
_SINGULAR = ("registered_saver", "has_checkpoint_values")


class Edge(NamedTuple):
    """A named reference from an object to another; the name is unescaped."""

    name: str
    node_id: int
    unknown: bytes = b""


class Attribute(NamedTuple):
    """A value that an object saves.

    Attributes:
        name: its name in the object.
        full_name: a variable's name in its program; empty for other objects.
        checkpoint_key: key of the tensor, or the beginning of the keys of several.
        optional_restore: whether a program may do without it.
    """

    name: str
    full_name: str
    checkpoint_key: str
    optional_restore: bool = False
    unknown: bytes = b""


class SlotVariable(NamedTuple):
    """An optimizer's reference to a slot variable that it keeps for a variable of the model."""

    variable_id: int
    slot_name: str
    slot_id: int
    unknown: bytes = b""


class RegisteredSaver(NamedTuple):
    """The function, registered in the program, that saved the object instead of attributes."""

    name: str
    object_name: str


class Node(NamedTuple):
    """An object of the program.

    Attributes:
        id: its position in the graph.
        has_values: whether it or anything below holds values; None if not stored, as by
            TensorFlow 1.15.
        unknown: unknown fields, serialized.
    """

    id: int
    children: tuple[Edge, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    slots: tuple[SlotVariable, ...] = ()
    saver: RegisteredSaver | None = None
    has_values: bool | None = None
    unknown: bytes = b""


# Faster than the constructors.
_new_edge: Callable[[tuple[str, int, bytes]], Edge] = partial(tuple.__new__, Edge)
_new_attribute: Callable[[tuple[str, str, str, bool, bytes]], Attribute] = partial(
    tuple.__new__, Attribute
)
_new_node: Callable[[tuple[object, ...]], Node] = partial(tuple.__new__, Node)


def decode_nodes(data: bytes, *, path: str | None = None) -> tuple[tuple[Node, ...], bytes]:
    """Decode a serialized graph and check it.

    Returns:
        The nodes, and the unknown fields of the graph message.

    Raises:
        CorruptError: it is no such message, it has no root, a node id points outside of it, or two
            children of a node have the same name.
    """
    from ckpttool.pb import TrackableObjectGraph
    from ckpttool.pb.convert import check_size, parse

    check_size(len(data), path=path, offset=None)
    cuts, total = _cut_between_nodes(data)
    nodes: list[Node] = []
    unknown = b""
    with _collection_paused():
        for begin, end in pairwise((0, *cuts)):
            piece = data[begin:end]
            try:
                message = parse(TrackableObjectGraph, piece, path=path)
            except CorruptError:
                parse(TrackableObjectGraph, data, path=path)  # says so of the whole
                raise
            message.DiscardUnknownFields()
            found = _decode_nodes(message, len(nodes), total or len(message.nodes))
            if message.ByteSize() != len(piece):  # rare; a copy would cost all graphs
                message = parse(TrackableObjectGraph, piece, path=path)
                found = list(starmap(_with_unknown, zip(found, message.nodes, strict=True)))
                unknown += _unknown(message)
            nodes += found
    if not nodes:
        raise CorruptError("the object graph has no root")
    return tuple(nodes), unknown


def _cut_between_nodes(data: bytes) -> tuple[list[int], int]:
    """Cut a serialized graph into pieces that are graphs, and count its nodes.

    Messages take several times the room of their bytes, and protobuf lets go of all or none.

    Returns:
        Where each piece ends. One that is not nodes alone is not cut, and the count is 0.
    """
    cuts: list[int] = []
    total = pos = 0
    end, cut = len(data), _PIECE
    while pos < end and data[pos] == _NODE_TAG:
        try:
            length, at = decode_varint(data, pos + 1, end)
        except CorruptError:
            break
        pos = at + length
        total += 1
        if cut <= pos < end:
            cuts.append(pos)
            cut = pos + _PIECE
    return ([*cuts, end], total) if pos == end else ([end], 0)


def encode_nodes(nodes: tuple[Node, ...], unknown: bytes = b"") -> bytes:
    """Return a serialized graph; of an unchanged graph, the bytes that were read.

    Fields are in the order of their numbers, unknown ones last, as TensorFlow writes them.
    """
    return b"".join([wire.bytes_field(1, _encode_node(node)) for node in nodes]) + unknown


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: it would walk all nodes again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _decode_nodes(message: TrackableObjectGraph, first: int, total: int) -> list[Node]:
    """Decode some nodes of a graph.

    Args:
        message: the nodes.
        first: the number of the first of them.
        total: how many the whole graph has.
    """
    # A graph has at least one node per variable, so this loop is kept fast: testing for an empty
    # list takes less time than a loop over it.
    nodes = []
    for node_id, node in enumerate(message.nodes, first):
        saver = None
        if node.HasField("registered_saver"):
            found = node.registered_saver
            saver = RegisteredSaver(found.name, found.object_name)
        children, attributes, slots = node.children, node.attributes, node.slot_variables
        nodes.append(
            _new_node(
                (
                    node_id,
                    _decode_children(node_id, children, total) if children else (),
                    tuple([_decode_attribute(one) for one in attributes]) if attributes else (),
                    _decode_slots(node_id, slots, total) if slots else (),
                    saver,
                    node.has_checkpoint_values.value
                    if node.HasField("has_checkpoint_values")
                    else None,
                    b"",
                )
            )
        )
    return nodes


def _decode_attribute(one: _AttributeMessage) -> Attribute:
    # Nearly all have the same name: share the string.
    name = one.name
    return _new_attribute(
        (
            VARIABLE_VALUE if name == VARIABLE_VALUE else name,
            one.full_name,
            one.checkpoint_key,
            one.optional_restore,
            b"",
        )
    )


def _decode_children(node_id: int, listed: Iterable[_EdgeMessage], total: int) -> tuple[Edge, ...]:
    children = tuple([_new_edge((one.local_name, one.node_id, b"")) for one in listed])
    for edge in children:
        if not 0 <= edge.node_id < total:
            raise _out_of_range(
                node_id, f"child '{edge.name[:_LONGEST_NAME]}'", edge.node_id, total
            )
    if len(children) > 1 and len({edge.name for edge in children}) < len(children):
        name, _ = Counter(edge.name for edge in children).most_common(1)[0]
        raise CorruptError(
            f"object graph: node {node_id} has two children named '{name[:_LONGEST_NAME]}'"
        )
    return children


def _decode_slots(
    node_id: int, listed: Iterable[_SlotMessage], total: int
) -> tuple[SlotVariable, ...]:
    slots = tuple(
        [
            SlotVariable(one.original_variable_node_id, one.slot_name, one.slot_variable_node_id)
            for one in listed
        ]
    )
    for slot in slots:
        for end in (slot.variable_id, slot.slot_id):
            if not 0 <= end < total:
                raise _out_of_range(node_id, f"slot '{slot.slot_name[:_LONGEST_NAME]}'", end, total)
    return slots


def _out_of_range(node_id: int, what: str, found: int, total: int) -> CorruptError:
    return CorruptError(
        f"object graph: {what} of node {node_id} is node {found}, but there are {total} nodes"
    )


def _with_unknown(node: Node, message: TrackableObjectGraph.TrackableObject) -> Node:
    """Return the node with the unknown fields of its message and of all parts of it."""
    return node._replace(
        children=tuple(
            edge._replace(unknown=_unknown(part))
            for edge, part in zip(node.children, message.children, strict=True)
        ),
        attributes=tuple(
            attribute._replace(unknown=_unknown(part))
            for attribute, part in zip(node.attributes, message.attributes, strict=True)
        ),
        slots=tuple(
            slot._replace(unknown=_unknown(part))
            for slot, part in zip(node.slots, message.slot_variables, strict=True)
        ),
        unknown=_unknown(message),
    )


def _unknown(message: Message) -> bytes:
    """Return the unknown fields of a message, those of its singular messages inside these.

    They may follow the known fields: protobuf merges a singular message that comes twice.
    """
    rest = type(message)()
    rest.CopyFrom(message)
    for field, value in message.ListFields():
        rest.ClearField(field.name)
        inner = _unknown(value) if field.name in _SINGULAR else b""
        if inner:
            getattr(rest, field.name).MergeFromString(inner)
    return rest.SerializeToString()


def _encode_node(node: Node) -> bytes:
    field, number, text = wire.bytes_field, wire.varint_field, _text_field
    parts = [
        field(1, number(1, edge.node_id) + text(2, edge.name) + edge.unknown)
        for edge in node.children
    ]
    parts += [
        field(
            2,
            text(1, one.name)
            + text(2, one.full_name)
            + text(3, one.checkpoint_key)
            + number(4, one.optional_restore)
            + one.unknown,
        )
        for one in node.attributes
    ]
    parts += [
        field(
            3,
            number(1, slot.variable_id)
            + text(2, slot.slot_name)
            + number(3, slot.slot_id)
            + slot.unknown,
        )
        for slot in node.slots
    ]
    if node.saver is not None:
        parts.append(field(4, text(1, node.saver.name) + text(2, node.saver.object_name)))
    if node.has_values is not None:
        parts.append(field(5, number(1, node.has_values)))
    return b"".join(parts) + node.unknown


def _text_field(number: int, value: str) -> bytes:
    return wire.bytes_field(number, value.encode()) if value else b""
