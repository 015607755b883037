"""A message as JSON, in protobuf's mapping, written while it is walked.

Fields are in the order of their numbers and maps in that of their keys, so equal messages give
equal texts; maps in an Any keep the order of its bytes. What JSON cannot hold is listed.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ckpttool.pb.json.anys import Payload, payload_of
from ckpttool.pb.json.map_order import Order
from ckpttool.pb.json.mapping import (
    ANY,
    BASE64,
    BYTES,
    COLLECTIONS,
    DOUBLE,
    ELIDED,
    FLOAT,
    PACKED,
    TENSOR,
    TYPE,
    FieldPlan,
    MessagePlan,
    Step,
    is_odd,
    plan_of,
    quote,
    step_text,
)
from ckpttool.pb.syntax import MAX_DEPTH

if TYPE_CHECKING:
    from google.protobuf.message import Message

_PIECES = 4096  # pieces of text that are written together
_BATCH = 1024
_SLICE = 3 << 18  # bytes, whole groups of base64
_MAX_NESTED = 8
# The fields of a tensor that are shown even if its values are left out.
_FACTS = ("dtype", "tensor_shape", "version_number")


@dataclass(slots=True)
class JsonLoss:
    """Something that the JSON does not hold, or holds in an unusual form.

    Attributes:
        what: it is.
        place: its first place, as a path in JSON.
        count: the number of places.
        dropped: whether it is missing; otherwise it has another form.
    """

    what: str
    place: str
    count: int
    dropped: bool


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """How to write JSON.

    Attributes:
        indent: blanks for each level; None for a single line.
        elide: leave out the values of tensors of more bytes than this; None for none.
        packed: name of a collection -> full name of the messages in its list of bytes; these are
            shown as messages.
    """

    indent: int | None = 2
    elide: int | None = None
    packed: Mapping[str, str] | None = None


def write_message(
    message: Message, write: Callable[[str], object], style: JsonStyle
) -> tuple[JsonLoss, ...]:
    """Write a message as JSON in ASCII, without a line end after it.

    An Any of a known type is written as its message, with the maps in the order of its bytes; of an
    unknown type, or if the message would not give the same bytes, as "ckpt:base64".

    Args:
        message: of this package.
        write: takes each piece of text.
        style: of the text.

    Returns:
        What the text does not hold in the plain mapping.
    """
    printer = _Printer(write, style)
    printer.message(message, 0, None)
    printer.flush()
    return tuple(printer.losses.values())


class _Printer:
    def __init__(self, write: Callable[[str], object], style: JsonStyle) -> None:
        from google.protobuf.unknown_fields import UnknownFieldSet

        self.losses: dict[tuple[object, ...], JsonLoss] = {}
        self._write = write
        self._pieces: list[str] = []
        self._unknown = UnknownFieldSet
        self._elide = style.elide
        self._packed = style.packed or {}
        self._packed_type: str | None = None
        self._nested = 0
        indent = style.indent
        self._colon = ":" if indent is None else ": "
        # Each message may add two levels: a list, and a list or map in it.
        self._margins = [
            "" if indent is None else "\n" + " " * (indent * level)
            for level in range(2 * MAX_DEPTH + 8)
        ]

    def flush(self) -> None:
        self._write("".join(self._pieces))
        self._pieces.clear()

    def lose(self, step: Step, what: str, *, dropped: bool = True) -> None:
        loss = self.losses.get((what, dropped))
        if loss is None:
            self.losses[what, dropped] = JsonLoss(what, step_text(step), 1, dropped)
        else:
            loss.count += 1

    def message(self, message: Message, level: int, step: Step, order: Order | None = None) -> None:
        """Write a message; `order` is that of its maps, by their keys if None."""
        plan = plan_of(message)
        if plan.full_name == ANY:
            self._any(message, level, step)
        elif plan.wrapper:
            (field,) = plan.fields.values()
            self._scalar(field, getattr(message, field.name), step)
        elif plan.full_name == TENSOR and self._elide is not None:
            self._tensor(message, plan, level, step, self._elide)
        else:
            self._open(self._members(message, plan, level, step, "{", order=order), level)

    def _open(self, empty: bool, level: int) -> None:
        self._pieces.append("{}" if empty else self._margins[level] + "}")
        if len(self._pieces) > _PIECES:
            self.flush()

    def _members(
        self,
        message: Message,
        plan: MessagePlan,
        level: int,
        step: Step,
        start: str,
        only: tuple[str, ...] | None = None,
        order: Order | None = None,
    ) -> bool:
        """Write the members of an object; tell whether there is none.

        Args:
            message: has the fields.
            plan: of the message.
            level: of the object.
            step: its place.
            start: the text before the first member: a brace, or a comma after other members.
            only: the fields to write; all by default.
            order: of its maps.
        """
        unknown = self._unknown(message)
        for index in range(len(unknown)):
            number = unknown[index].field_number
            self.lose(step, f"field {number} of {plan.full_name}, which is not in the schema")
        margin = self._margins[level + 1]
        fields = plan.fields
        for field, value in message.ListFields():
            known = fields[field]
            if only is not None and known.name not in only:
                continue
            self._pieces.append(f'{start}{margin}"{known.json_name}"{self._colon}')
            start = ","
            inner = (step, known.json_name)
            below = None if order is None else order.get(known.json_name)
            if known.shape == "one":
                if known.values is not None:
                    self.message(value, level + 1, inner, below)
                else:
                    self._scalar(known, value, inner)
            elif known.shape == "map":
                self._map(known, value, level + 1, inner, below)
            else:
                self._list(known, value, level + 1, inner, below)
        return start == "{"

    def _scalar(self, field: FieldPlan, value: Any, step: Step) -> None:
        if field.kind == BYTES:
            self._base64(value)
            return
        if isinstance(value, bytes):  # see convert._is_broken
            self.lose(step, f"a string in {field.full_name} that is not UTF-8")
            value = value.decode("utf-8", "backslashreplace")
        elif field.kind in (DOUBLE, FLOAT) and is_odd(value):
            self.lose(step, f"the sign or bits of a NaN in {field.full_name}")
        self._pieces.append(field.text(value))

    def _base64(self, value: bytes) -> None:
        if len(value) <= _SLICE:
            self._pieces.append(f'"{b64encode(value).decode("ascii")}"')
            return
        view = memoryview(value)
        self._pieces.append('"')
        for start in range(0, len(value), _SLICE):
            self._pieces.append(b64encode(view[start : start + _SLICE]).decode("ascii"))
            self.flush()
        self._pieces.append('"')

    def _list(
        self, field: FieldPlan, values: Any, level: int, step: Step, orders: list[Order] | None
    ) -> None:
        margin = self._margins[level + 1]
        start, comma = "[" + margin, "," + margin
        if field.values is not None:
            for index, value in enumerate(values):
                self._pieces.append(start)
                below = orders[index] if orders else None
                self.message(value, level + 1, (step, index), below)
                start = comma
        elif field.kind == BYTES:
            name = self._packed_type if field.full_name == PACKED else None
            for index, value in enumerate(values):
                self._pieces.append(start)
                if name is None or not self._packed_message(name, value, level + 1, (step, index)):
                    self._base64(value)
                start = comma
        else:
            self._scalars(field, iter(values), start, comma, step)
        self._pieces.append(self._margins[level] + "]")

    def _scalars(self, field: FieldPlan, values: Any, start: str, comma: str, step: Step) -> None:
        done = 0
        while batch := list(islice(values, _BATCH)):
            try:
                texts = list(map(field.text, batch))
            except TypeError:  # bytes among strings
                texts = []
            if texts and '"NaN"' not in texts:
                self._pieces.append(start + comma.join(texts))
            else:
                for index, value in enumerate(batch, done):
                    self._pieces.append(start)
                    self._scalar(field, value, (step, index))
                    start = comma
            start = comma
            done += len(batch)
            self.flush()

    def _map(
        self, field: FieldPlan, entries: Any, level: int, step: Step, orders: Order | None
    ) -> None:
        margin = self._margins[level + 1]
        start, comma = "{" + margin, "," + margin
        broken = [key for key in entries if isinstance(key, bytes)]
        for _ in broken:
            self.lose(step, f"an entry of {field.full_name} whose key is not UTF-8")
        keys = sorted(key for key in entries if not isinstance(key, bytes))
        if orders is not None:
            place = {name: index for index, name in enumerate(orders)}
            keys.sort(key=lambda key: place[_member_name(key)])
        for key in keys:
            name = _member_name(key)
            self._pieces.append(f"{start}{quote(name)}{self._colon}")
            start = comma
            inner = (step, name)
            if field.full_name == COLLECTIONS:
                self._packed_type = self._packed.get(key)
            if field.values is not None:
                below = None if orders is None else orders[_member_name(key)]
                self.message(entries[key], level + 1, inner, below)
            else:
                self._scalar(field, entries[key], inner)
        self._pieces.append("{}" if start[0] == "{" else self._margins[level] + "}")

    def _tensor(
        self, message: Message, plan: MessagePlan, level: int, step: Step, limit: int
    ) -> None:
        values = _values(message) if message.ByteSize() > limit else b""
        if len(values) <= limit:
            self._open(self._members(message, plan, level, step, "{"), level)
            return
        empty = self._members(message, plan, level, step, "{", _FACTS)
        margin, inner, colon = self._margins[level + 1], self._margins[level + 2], self._colon
        self._pieces.append(
            f'{"{" if empty else ","}{margin}"{ELIDED}"{colon}{{'
            f'{inner}"bytes"{colon}{len(values)},'
            f'{inner}"sha256"{colon}"{hashlib.sha256(values).hexdigest()}"{margin}}}'
        )
        self._open(False, level)

    def _any(self, message: Any, level: int, step: Step) -> None:
        if not message.ListFields() and not len(self._unknown(message)):
            self._pieces.append("{}")
            return
        type_url, value = message.type_url, message.value
        unknown = self._unknown(message)
        for index in range(len(unknown)):
            number = unknown[index].field_number
            self.lose(step, f"field {number} of {ANY}, which is not in the schema")
        payload = self._payload(type_url, value, level, step)
        margin = self._margins[level + 1]
        self._pieces.append(f'{{{margin}"{TYPE}"{self._colon}{quote(type_url)}')
        if payload is None:
            self._pieces.append(f',{margin}"{BASE64}"{self._colon}')
            self._base64(value)
        else:
            self._unpacked(payload, level, step)
        self._open(False, level)

    def _unpacked(self, payload: Payload, level: int, step: Step) -> None:
        """Write the members of an Any after its type."""
        message, order = payload
        plan = plan_of(message)
        self._nested += 1
        if plan.full_name == ANY or plan.wrapper:
            self._pieces.append(f',{self._margins[level + 1]}"value"{self._colon}')
            self.message(message, level + 1, (step, "value"))
        elif plan.full_name == TENSOR and self._elide is not None:
            # The mark of left-out values needs a whole object.
            elide, self._elide = self._elide, None
            self._members(message, plan, level, step, ",", order=order)
            self._elide = elide
        else:
            self._members(message, plan, level, step, ",", order=order)
        self._nested -= 1

    def _packed_message(self, name: str, value: bytes, level: int, step: Step) -> bool:
        """Write bytes as a message; tell whether that was possible."""
        type_url = f"type.googleapis.com/{name}"
        payload = self._payload(type_url, value, level, step)
        if payload is None:
            return False
        self._pieces.append(f'{{{self._margins[level + 1]}"{TYPE}"{self._colon}{quote(type_url)}')
        self._unpacked(payload, level, step)
        self._open(False, level)
        return True

    def _payload(self, type_url: str, value: bytes, level: int, step: Step) -> Payload | None:
        """Return the message in an Any; None, with a loss noted, if it must stay bytes."""
        room = MAX_DEPTH - level if self._nested < _MAX_NESTED else 0
        try:
            return payload_of(type_url, value, room)
        except ValueError as error:
            self.lose(step, f"a message of {error}", dropped=False)
        return None


def _member_name(key: str | int) -> str:
    """Return the JSON form of a map key."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _values(tensor: Any) -> bytes:
    """Return the bytes of the values of a TensorProto, as they are stored."""
    content: bytes = tensor.tensor_content
    if content and {field.name for field, _ in tensor.ListFields()} <= {*_FACTS, "tensor_content"}:
        return content
    rest = type(tensor)()
    rest.CopyFrom(tensor)
    for name in _FACTS:
        rest.ClearField(name)
    data: bytes = rest.SerializeToString(deterministic=True)
    return data
