"""The message in an Any, if it reproduces the bytes of the Any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpttool.errors import CorruptError
from ckpttool.pb.convert import parse
from ckpttool.pb.json.map_order import Order, order_of, reproduced
from ckpttool.pb.json.mapping import plan_of

if TYPE_CHECKING:
    from google.protobuf.message import Message

# A message, and the order of its maps.
Payload = tuple["Message", Order]


def payload_of(type_url: str, value: bytes, room: int) -> Payload:
    """Return the message in an Any.

    Args:
        type_url: ends with the type, after the last slash.
        value: its bytes.
        room: how deep its messages may be nested, itself included.

    Raises:
        ValueError: the type is unknown, or the message would not give the same bytes again; the
            text names the type and the reason.
    """
    from ckpttool.pb.pool import message_class

    try:
        payload = parse(message_class(type_url.rpartition("/")[2]), value, path=None)
    except KeyError:
        raise ValueError(f"the unknown type {type_url or '(empty)'}") from None
    except CorruptError:
        raise ValueError(f"the type {type_url} with bytes that are no such message") from None
    unknown, depth = _examine(payload)
    if unknown:
        raise ValueError(f"the type {type_url} with fields that are not in the schema")
    if depth > room:
        raise ValueError(f"the type {type_url} nested too deep")
    order = order_of(value, plan_of(payload))
    if reproduced(payload, order) == value:
        return payload, order
    raise ValueError(f"the type {type_url} in unusual bytes")


def _examine(message: Message) -> tuple[bool, int]:
    """Tell whether a message has unknown fields, and how deep messages are nested in it."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    stack, deepest = [(message, 1)], 0
    while stack:
        current, depth = stack.pop()
        deepest = max(deepest, depth)
        if len(UnknownFieldSet(current)):
            return True, deepest
        fields = plan_of(current).fields
        for field, value in current.ListFields():
            known = fields[field]
            if known.values is None:
                continue
            if known.shape == "one":
                stack.append((value, depth + 1))
            else:
                items = value.values() if known.shape == "map" else value
                stack += [(item, depth + 1) for item in items]
    return False, deepest
