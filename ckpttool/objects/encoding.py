"""The columns of an object graph -> the bytes that TensorFlow writes: see `decoding`.

Fields are in the order of their numbers, unknown ones last. Columns that were decoded from such
bytes give the same again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from ckpttool.coding.varint import encode_varint
from ckpttool.coding.wire import varint_field
from ckpttool.objects.columns import GraphColumns

_STATES = (b"", b"\x2a\x00", b"\x2a\x02\x08\x01")
_BATCH = 4096


def encode_graph(columns: GraphColumns, unknown: bytes = b"") -> bytes:
    """Return a serialized graph.

    Args:
        columns: its nodes.
        unknown: unknown fields of the graph message.
    """
    out = bytearray()
    nodes = _encoded_nodes(columns)
    while batch := [*islice(nodes, _BATCH)]:
        out += b"".join(batch)
    return bytes(out + unknown)


def _encoded_nodes(columns: GraphColumns) -> Iterator[bytes]:
    edge_starts, attribute_starts = columns.edge_starts, columns.attribute_starts
    field = lru_cache(1024)(_text_field)  # names recur
    unknown = columns.unknown
    for node_id, state in enumerate(columns.states):
        body = _STATES[state]
        first, last = attribute_starts[node_id], attribute_starts[node_id + 1]
        if first < last:
            attributes = b"".join(
                [
                    _part(
                        b"\x12",
                        field(b"\x0a", columns.attribute_names[at])
                        + field(b"\x12", columns.full_names[at])
                        + _text_field(b"\x1a", columns.keys[at])
                        + (b"\x20\x01" if at in columns.optional else b"")
                        + (unknown.get(("attribute", at), b"") if unknown else b""),
                    )
                    for at in range(first, last)
                ]
            )
            body = attributes + _rest(columns, node_id) + body
        elif node_id in columns.savers or node_id in columns.optimizers:
            body = _rest(columns, node_id) + body
        first, last = edge_starts[node_id], edge_starts[node_id + 1]
        if first < last:
            edges = [
                _part(
                    b"\x0a",
                    varint_field(1, columns.edge_targets[at])
                    + field(b"\x12", columns.edge_names[at])
                    + (unknown.get(("edge", at), b"") if unknown else b""),
                )
                for at in range(first, last)
            ]
            body = b"".join(edges) + body
        if unknown:
            body += unknown.get(("node", node_id), b"")
        yield _part(b"\x0a", body)


def _rest(columns: GraphColumns, node_id: int) -> bytes:
    """Return slots and saver of a node."""
    parts = [
        _part(
            b"\x1a",
            varint_field(1, columns.slot_variables[at])
            + _text_field(b"\x12", columns.slot_names[at])
            + varint_field(3, columns.slot_nodes[at])
            + columns.unknown.get(("slot", at), b""),
        )
        for at in columns.optimizers.get(node_id, ())
    ]
    saver = columns.savers.get(node_id)
    if saver is not None:
        name, object_name = (
            _text_field(b"\x0a", saver.name),
            _text_field(b"\x12", saver.object_name),
        )
        parts.append(_part(b"\x22", name + object_name))
    return b"".join(parts)


def _part(tag: bytes, body: bytes) -> bytes:
    return tag + encode_varint(len(body)) + body


def _text_field(tag: bytes, text: str) -> bytes:
    return _part(tag, text.encode()) if text else b""
