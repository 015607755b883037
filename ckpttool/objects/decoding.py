"""A serialized object graph -> its columns.

The message TrackableObjectGraph has one field, nodes=1, repeated. A node's id is its position.

node  children=1        repeated  node_id=1  local_name=2
      attributes=2      repeated  name=1  full_name=2  checkpoint_key=3  optional_restore=4
      slot_variables=3  repeated  variable's node=1  slot_name=2  slot's node=3
      registered_saver=4          name=1  object_name=2
      has_checkpoint_values=5     value=1

Nearly all nodes are variables that are laid out alike, and nearly all others have edges and slots
in the order and the spelling that TensorFlow writes. A regular expression takes those apart many
times as fast as protobuf hands out fields. It does not know lengths, so each is compared with what
was found; what does not agree to the byte, or is of another form, protobuf decodes.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby, islice, starmap
from typing import TYPE_CHECKING, Any

from ckpttool.coding.varint import decode_varint, decode_varint_columns
from ckpttool.errors import CorruptError
from ckpttool.objects.columns import GraphColumns
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.objects.nodes import Attribute, Edge, Node, RegisteredSaver, SlotVariable
from ckpttool.pb.convert import check_size, parse
from ckpttool.storage.work import collection_paused

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ckpttool.pb import TrackableObjectGraph

_NODE_TAG = 0x0A
_ATTRIBUTE_TAG = 0x12
_DISAGREED = 1 << 40  # no size of anything
_BATCH = 8192  # variables that are taken apart at once
_MOST_TEXTS = 1 << 16  # that are kept to be shared
_LONGEST_NAME = 200  # in a message for people
_SINGULAR = ("registered_saver", "has_checkpoint_values")
_Groups = tuple[bytes, ...]


def _usual(pattern: bytes) -> Any:
    """Compile a pattern in which a few letters stand for what recurs.

    A text may have what cannot be the tag of a field that comes behind it. `Any`, because a
    pattern's `scanner`, which finds match behind match without a gap, is in no stub.
    """
    for letter, meaning in {
        b"<size>": rb"[\x80-\xff]?[\x00-\x7f]",
        b"<node>": rb"[\x80-\xff]{0,3}[\x00-\x7f]",
        b"<text>": rb"[ !#-)+-~]*",
        b"<word>": rb"[!#-)+-~]*",
    }.items():
        pattern = pattern.replace(letter, meaning)
    return re.compile(pattern)


# A variable with its tag and size: a node with one attribute, of the usual name, and no more.
_VARIABLE = _usual(
    rb"(\x0a<size>\x12<size>)\x0a\x0eVARIABLE_VALUE(?:\x12(<size>)(<text>)|)\x1a(<size>)(<text>)"
    rb"(\x2a\x02\x08\x01|\x2a\x00|)"
)
_EDGE = _usual(rb"\x0a(<size>)(?:\x08(<node>)|)(?:\x12(<size>)(<text>)|)")
_ATTRIBUTE = _usual(
    rb"\x12(<size>)(?:\x0a(<size>)(<text>)|)(?:\x12(<size>)(<text>)|)(?:\x1a(<size>)(<word>)|)"
    rb"(\x20\x01|)"
)
_SLOT = _usual(rb"\x1a(<size>)(?:\x08(<node>)|)(?:\x12(<size>)(<text>)|)(?:\x18(<node>)|)")
_STATE_BYTES = {b"": 0, b"\x2a\x00": 1, b"\x2a\x02\x08\x01": 2}
_STATE = _STATE_BYTES.__getitem__


def decode_graph(
    data: bytes, *, path: str | None = None, shared: Mapping[str, str] | None = None
) -> tuple[GraphColumns, bytes]:
    """Decode a serialized graph and check it.

    Args:
        data: the graph.
        path: of the file, for errors.
        shared: strings to use for keys that equal them, so that each is held once.

    Returns:
        The nodes, and the unknown fields of the graph message.

    Raises:
        CorruptError: it is no such message, it has no root, a node id points outside of it, or two
            children of a node have the same name.
        UnsupportedError: it has 2 GiB or more.
    """
    check_size(len(data), path=path, offset=None)
    decoder = _Decoder(data, path, {} if shared is None else shared)
    with collection_paused():
        if not decoder.run():  # there is more than nodes
            nodes, unknown = _nodes_of(data, 0, path)
            decoder.columns = GraphColumns.of(nodes)
        else:
            unknown = b""
    _check(decoder.columns)
    return decoder.columns, unknown


class _Decoder:
    """Takes nodes apart, one behind another."""

    def __init__(self, data: bytes, path: str | None, shared: Mapping[str, str]) -> None:
        self.columns = GraphColumns()
        self._data = data
        self._path = path
        self._shared = shared
        self._texts = _Texts()
        self._variable_forms = _Forms(_measure_variable)
        self._edge_forms = _Forms(_measure_edge)
        self._slot_forms = _Forms(_measure_slot)
        self._targets = _Numbers(self.columns.edge_targets)
        self._variables = _Numbers(self.columns.slot_variables)
        self._slots = _Numbers(self.columns.slot_nodes)

    def run(self) -> bool:
        """Decode all; False if there is anything beside nodes."""
        data, end = self._data, len(self._data)
        pos = doubtful = 0
        while pos < end:
            try:
                size, start = decode_varint(data, pos + 1, end)
            except CorruptError:
                return False
            stop = start + size
            if data[pos] != _NODE_TAG or stop > end:
                return False
            if pos >= doubtful and size and data[start] == _ATTRIBUTE_TAG:
                before, (pos, doubtful) = pos, self._take_variables(pos)
                if pos > before:
                    continue
            if not self._take_node(start, stop):
                self._flush()
                self.columns.append(self._odd(pos, stop))
            pos = stop
        self._flush()
        return True

    def _flush(self) -> None:
        for numbers in (self._targets, self._variables, self._slots):
            numbers.flush()

    def _take_variables(self, pos: int) -> tuple[int, int]:
        """Take variables that follow one another.

        Returns:
            Where they end, and up to where nodes are better taken one by one.
        """
        scan = iter(_VARIABLE.scanner(self._data, pos).match, None)
        while matches := [*islice(scan, _BATCH)]:
            end: int = matches[-1].end()
            if not self._add_variables([match.groups(b"") for match in matches]):
                return pos, end
            pos = end
        return pos, pos

    def _add_variables(self, found: list[_Groups]) -> bool:
        """Add variables; False if any of their lengths does not agree."""
        heads, full_sizes, full_names, key_sizes, keys, tails = zip(*found, strict=True)
        forms = zip(
            heads, full_sizes, key_sizes, tails, map(len, full_names), map(len, keys), strict=True
        )
        if not all(map(self._variable_forms.__getitem__, forms)):
            return False
        columns, count = self.columns, len(found)
        first = len(columns.keys)
        columns.edge_starts.extend([len(columns.edge_names)] * count)
        columns.attribute_starts.extend(range(first + 1, first + count + 1))
        columns.attribute_names += [VARIABLE_VALUE] * count
        columns.full_names += map(self._texts.__getitem__, full_names)
        texts = [*map(bytes.decode, keys)]
        columns.keys += map(self._shared.get, texts, texts)
        columns.states += bytes(map(_STATE, tails))
        return True

    def _take_node(self, pos: int, end: int) -> bool:
        """Take any node of the usual form; False for another."""
        data, columns, text = self._data, self.columns, self._texts.__getitem__
        edges = _matches(_EDGE, data, pos, end) if data[pos : pos + 1] == b"\x0a" else ()
        if edges:
            sizes, targets, name_sizes, names = zip(*edges, strict=True)
            forms = zip(sizes, map(len, targets), name_sizes, map(len, names), strict=True)
            pos += _sum_of(map(self._edge_forms.__getitem__, forms), end)
        attributes = _matches(_ATTRIBUTE, data, pos, end)
        for size, *texts, optional in attributes:
            lengths = map(len, texts[1::2])
            pos += _sum_of([_measure_attribute((size, *texts[::2], *lengths, optional))], end)
        slots = _matches(_SLOT, data, pos, end)
        if slots:
            sizes, variables, name_sizes, slot_names, ids = zip(*slots, strict=True)
            variable_lengths, id_lengths = map(len, variables), map(len, ids)
            of_slots = zip(
                sizes, variable_lengths, name_sizes, map(len, slot_names), id_lengths, strict=True
            )
            pos += _sum_of(map(self._slot_forms.__getitem__, of_slots), end)
        state = _STATE_BYTES.get(data[pos:end]) if pos <= end else None
        if state is None:
            return False
        if edges:
            columns.edge_names += map(text, names)
            self._targets.add(targets)
        for _, _, name, _, full_name, _, key, optional in attributes:
            if optional:
                columns.optional.add(len(columns.keys))
            columns.attribute_names.append(text(name))
            columns.full_names.append(text(full_name))
            columns.keys.append(self._shared.get(key.decode(), key.decode()))
        first = len(columns.slot_names)
        if slots:
            columns.slot_names += map(text, slot_names)
            self._variables.add(variables)
            self._slots.add(ids)
        columns.close(first, state)
        return True

    def _odd(self, begin: int, end: int) -> Node:
        """Decode a node of whatever form."""
        from ckpttool.pb import TrackableObjectGraph

        try:
            return _nodes_of(self._data[begin:end], len(self.columns), self._path)[0][0]
        except CorruptError:
            parse(TrackableObjectGraph, self._data, path=self._path)  # says so of the whole
            raise


class _Texts(dict[bytes, str]):
    """Strings by their bytes: names recur, and each is held once."""

    def __missing__(self, data: bytes) -> str:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        text = VARIABLE_VALUE if data == b"VARIABLE_VALUE" else data.decode()
        self[data] = text
        return text


class _Forms(dict[tuple[Any, ...], int]):
    """The sizes of parts of a node by their forms, of which there are few: 0 if they disagree."""

    def __init__(self, measure: Callable[[tuple[Any, ...]], int]) -> None:
        super().__init__()
        self._measure = measure

    def __missing__(self, form: tuple[Any, ...]) -> int:
        if len(self) >= _MOST_TEXTS:
            self.clear()
        self[form] = size = self._measure(form)
        return size


def _size(data: bytes) -> int:
    return decode_varint(data, 0, len(data))[0] if data else 0


def _whole(stored: bytes, found: int) -> int:
    """Return the size of a part with its tag and its size; 0 if that is not the size stored."""
    return 1 + len(stored) + found if _size(stored) == found else 0


def _field(stored: bytes, found: int) -> int:
    """Return the size of a text with its tag and its size, 0 without; too much if they disagree."""
    if _size(stored) != found:
        return _DISAGREED
    return 1 + len(stored) + found if stored else 0


def _number(length: int) -> int:
    return 1 + length if length else 0


def _measure_variable(form: tuple[Any, ...]) -> int:
    head, full_size, key_size, tail, full_length, key_length = form
    start = decode_varint(head, 1, len(head))[1]
    inner = _whole(
        head[start + 1 :], 16 + _field(full_size, full_length) + _field(key_size, key_length)
    )
    return _whole(head[1:start], inner + len(tail)) if inner else 0


def _measure_edge(form: tuple[Any, ...]) -> int:
    size, target, name_size, name = form
    return _whole(size, _number(target) + _field(name_size, name))


def _measure_attribute(form: tuple[Any, ...]) -> int:
    size, name_size, full_size, key_size, name, full_name, key, optional = form
    texts = _field(name_size, name) + _field(full_size, full_name) + _field(key_size, key)
    return _whole(size, texts + len(optional))


def _measure_slot(form: tuple[Any, ...]) -> int:
    size, variable, name_size, name, slot = form
    return _whole(size, _number(variable) + _field(name_size, name) + _number(slot))


class _Numbers:
    """Numbers of nodes on the way into their column: decoded many at once."""

    def __init__(self, column: array[int]) -> None:
        self._column = column
        self._waiting: list[bytes] = []

    def add(self, found: Iterable[bytes]) -> None:
        """Add numbers; one that was not stored is 0."""
        self._waiting += found
        if len(self._waiting) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Decode what waits."""
        for length, run in groupby(self._waiting, len):
            if not length:
                self._column.extend([0 for _ in run])
                continue
            joined = b"".join(run)
            lanes = [joined[at::length] for at in range(length)]
            self._column.extend(decode_varint_columns(lanes) or ())
        self._waiting.clear()


def _matches(pattern: Any, data: bytes, pos: int, end: int) -> list[_Groups]:
    """Return what follows one another at a position."""
    return [match.groups(b"") for match in iter(pattern.scanner(data, pos, end).match, None)]


def _sum_of(sizes: Iterable[int], end: int) -> int:
    """Add sizes up; if one is 0, return more than there is."""
    found = [*sizes]
    return sum(found) if all(found) else end + 1


def _nodes_of(data: bytes, first: int, path: str | None) -> tuple[list[Node], bytes]:
    """Decode any graph, or some nodes of one.

    Args:
        data: the graph message.
        first: the number of its first node.
        path: of the file, for errors.

    Returns:
        The nodes, and the unknown fields of the message.
    """
    from ckpttool.pb import TrackableObjectGraph

    message = parse(TrackableObjectGraph, data, path=path)
    message.DiscardUnknownFields()
    nodes = [_node_of(node_id, node) for node_id, node in enumerate(message.nodes, first)]
    if message.ByteSize() == len(data):
        return nodes, b""
    message = parse(TrackableObjectGraph, data, path=path)
    return [*starmap(_with_unknown, zip(nodes, message.nodes, strict=True))], _unknown(message)


def _node_of(node_id: int, message: TrackableObjectGraph.TrackableObject) -> Node:
    saver = None
    if message.HasField("registered_saver"):
        found = message.registered_saver
        saver = RegisteredSaver(found.name, found.object_name)
    stated = message.HasField("has_checkpoint_values")
    return Node(
        node_id,
        tuple(Edge(one.local_name, one.node_id) for one in message.children),
        tuple(
            Attribute(one.name, one.full_name, one.checkpoint_key, one.optional_restore)
            for one in message.attributes
        ),
        tuple(
            SlotVariable(one.original_variable_node_id, one.slot_name, one.slot_variable_node_id)
            for one in message.slot_variables
        ),
        saver,
        message.has_checkpoint_values.value if stated else None,
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


def _check(columns: GraphColumns) -> None:
    """Refuse a graph that is none: see `decode_graph`."""
    total = len(columns)
    if not total:
        raise CorruptError("the object graph has no root")
    names, starts = columns.edge_names, columns.edge_starts
    numbers = (columns.edge_targets, columns.slot_variables, columns.slot_nodes)
    sound = all(
        not column or 0 <= min(column) <= max(column) < total for column in numbers
    ) and all(
        len(set(names[starts[at] : starts[at + 1]])) == starts[at + 1] - starts[at]
        for at in columns.parents_with_edges()
    )
    if not sound:
        for node_id in range(total):
            _check_node(columns.node(node_id), total)


def _check_node(node: Node, total: int) -> None:
    for edge in node.children:
        if not 0 <= edge.node_id < total:
            raise _out_of_range(
                node.id, f"child '{edge.name[:_LONGEST_NAME]}'", edge.node_id, total
            )
    for name, times in Counter(edge.name for edge in node.children).most_common(1):
        if times > 1:
            raise CorruptError(
                f"object graph: node {node.id} has two children named '{name[:_LONGEST_NAME]}'"
            )
    for slot in node.slots:
        for end in (slot.variable_id, slot.slot_id):
            if not 0 <= end < total:
                what = f"slot '{slot.slot_name[:_LONGEST_NAME]}'"
                raise _out_of_range(node.id, what, end, total)


def _out_of_range(node_id: int, what: str, found: int, total: int) -> CorruptError:
    return CorruptError(
        f"object graph: {what} of node {node_id} is node {found}, but there are {total} nodes"
    )
