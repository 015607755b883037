"""The bytes of the message in an Any, with the entries of its maps in a given order.

    Any      type_url   value: the bytes of a message
    map      an entry after the other, in any order: 2 length (1 key, 2 value)

Messages do not remember the order of their maps, and many writers write them in any order. Equal
Anys have equal bytes, so JSON keeps the order, as the order of an object's members. Real files need
this: the signatures and the serving graph of a SessionBundle export are Anys with maps in the order
of a hash table.

An `Order` is such JSON reduced to the maps and the members that lead to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ckpttool.coding.wire import BYTES, bytes_field, decode_fields
from ckpttool.pb.json.mapping import BOOL, STRING, FieldPlan, MessagePlan, plan_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

Order = Mapping[str, Any]


def order_of(data: bytes, plan: MessagePlan) -> dict[str, Any]:
    """Return the order of map entries in the bytes of a valid message."""
    found: dict[str, Any] = {}
    for number, wire, value, _ in decode_fields(data):
        field = plan.numbers.get(number)
        if field is None or wire != BYTES or not has_maps(field):
            continue
        assert isinstance(value, bytes)
        if field.shape == "map":
            name, inner = _entry(value, field)
            found.setdefault(field.json_name, {})[name] = inner
        elif field.inner is not None:
            inner = order_of(value, field.inner)
            if field.shape == "many":
                found.setdefault(field.json_name, []).append(inner)
            else:
                found[field.json_name] = inner
    return found


def _entry(data: bytes, field: FieldPlan) -> tuple[str, dict[str, Any]]:
    assert isinstance(field.key, FieldPlan)
    key: int | bytes = b"" if field.key.kind == STRING else 0
    inner: dict[str, Any] = {}
    for number, wire, value, _ in decode_fields(data):
        if number == 1:
            key = value
        elif number == 2 and wire == BYTES and field.inner is not None:
            assert isinstance(value, bytes)
            inner = order_of(value, field.inner)
    if isinstance(key, bytes):
        return key.decode("utf-8", "replace"), inner
    if field.key.kind == BOOL:
        return ("true" if key else "false"), inner
    return str(key), inner


def reproduced(message: Message, order: Order) -> bytes:
    """Return the bytes of a message with its maps in an order; entries not named are left out."""
    plan = plan_of(message)
    if not plan.maps:
        return message.SerializeToString(deterministic=True)
    out = bytearray()
    rest = type(message)()
    for descriptor, value in message.ListFields():
        field = plan.fields[descriptor]
        if not has_maps(field):
            _copy(rest, field, value)
            out += rest.SerializeToString(deterministic=True)
            rest.ClearField(field.name)
            continue
        inner: Any = order.get(field.json_name) or order.get(field.name) or {}
        if field.shape == "map":
            for name, below in inner.items():
                out += _entry_bytes(rest, field, value, name, below)
        elif field.shape == "many":
            for item, below in zip(value, inner, strict=False):
                out += bytes_field(field.number, reproduced(item, below))
        else:
            out += bytes_field(field.number, reproduced(value, inner))
    return bytes(out)


def _copy(into: Any, field: FieldPlan, value: Any) -> None:
    if field.shape == "many":
        getattr(into, field.name).extend(value)
    elif field.values is not None:
        getattr(into, field.name).CopyFrom(value)
    else:
        setattr(into, field.name, value)


def _entry_bytes(into: Any, field: FieldPlan, entries: Any, name: str, below: Any) -> bytes:
    """Return the bytes of one entry of a map, with the tag of its field.

    Args:
        into: a message with such a map, empty before and after.
        field: the map.
        entries: all of them.
        name: of the entry in JSON.
        below: the order of maps in its value.
    """
    key = _key(field, name)
    if key not in entries:
        return b""
    target = getattr(into, field.name)
    if field.inner is None:
        target[key] = entries[key]
    elif field.inner.maps:
        target[key].SetInParent()
    else:
        target[key].CopyFrom(entries[key])
    data: bytes = into.SerializeToString(deterministic=True)
    into.ClearField(field.name)
    if field.inner is None or not field.inner.maps:
        return data
    # Key and value are always present: drop the empty value at the end.
    ((number, _, entry, _),) = decode_fields(data)
    assert isinstance(entry, bytes)
    value = reproduced(entries[key], below if isinstance(below, Mapping) else {})
    return bytes_field(number, entry[:-2] + bytes_field(2, value))


def _key(field: FieldPlan, name: str) -> str | int | bool:
    assert isinstance(field.key, FieldPlan)
    if field.key.kind == STRING:
        return name
    return name == "true" if field.key.kind == BOOL else int(name)


def has_maps(field: FieldPlan) -> bool:
    """Tell whether a field is a map, or its messages have one somewhere."""
    return field.shape == "map" or (field.inner is not None and field.inner.maps)
