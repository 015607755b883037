"""The form of each message in protobuf's JSON mapping, computed once per type.

    int64, uint64, fixed64      a string of digits        enums    a name, or the number
    NaN and the infinities      strings                   bytes    base64
    maps                        objects                   Any      an object with "@type"

Where the mapping has no answer there are members whose names begin with "ckpt:".
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

TYPE = "@type"
# Our own members.
BASE64 = "ckpt:base64"  # beside "@type": the value of an Any of an unknown type
ELIDED = "ckpt:elided"  # in a TensorProto: "bytes" and "sha256" of values that were left out

ANY = "google.protobuf.Any"
TENSOR = "tensorflow.TensorProto"
COLLECTIONS = "tensorflow.MetaGraphDef.collection_def"
PACKED = "tensorflow.CollectionDef.BytesList.value"
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

quote = encode_basestring_ascii  # a text as a string in JSON

# Protobuf's numbers of types.
DOUBLE, FLOAT, BOOL, STRING, BYTES = 1, 2, 8, 9, 12
INTEGERS = (3, 4, 5, 6, 7, 13, 15, 16, 17, 18)

FieldShape = Literal["one", "many", "map"]
_SINGLE = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_USUAL_NAN = _DOUBLE.pack(math.nan)
_EXACT = 1_000_000.0
FLOAT_LIMIT = 3.4028235677973366e38  # half a step above the largest float32; less rounds to that


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A field in JSON.

    Attributes:
        number: of the field.
        name: of the field in the message.
        json_name: of the member.
        full_name: with the message and package.
        shape: one value, a list, or a map.
        kind: protobuf's number of the type of its values.
        oneof: the group in which only one field may be set, if any.
        text: makes the JSON of a value that is no message.
        enum: name -> number; empty if it is no enum.
        enum_name: the full name of the enum.
        key: for a map, the plan of its keys.
        values: the type of its values, if they are messages.
    """

    number: int
    name: str
    json_name: str
    full_name: str
    shape: FieldShape
    kind: int
    oneof: str | None
    text: Callable[[Any], str]
    enum: Mapping[str, int]
    enum_name: str
    key: FieldPlan | None
    values: Descriptor | None

    @property
    def inner(self) -> MessagePlan | None:
        """The plan of the messages that are its values."""
        return None if self.values is None else _plan_of(self.values)


class MessagePlan:
    """A message in JSON.

    Attributes:
        full_name: with the package.
        fields: in the order of their numbers.
        numbers: the same, by number.
        wrapper: whether it is written as its only field, as `BoolValue`.
    """

    def __init__(self, full_name: str) -> None:
        self.full_name = full_name
        self.fields: dict[FieldDescriptor, FieldPlan] = {}
        self.numbers: dict[int, FieldPlan] = {}
        self.wrapper = full_name in _WRAPPERS

    @cached_property
    def maps(self) -> bool:
        """Whether there is a map in such a message, at any depth."""
        seen, stack = {self.full_name}, [self]
        while stack:
            for field in stack.pop().numbers.values():
                if field.shape == "map":
                    return True
                if field.inner is not None and field.inner.full_name not in seen:
                    seen.add(field.inner.full_name)
                    stack.append(field.inner)
        return False


_plans: dict[Descriptor, MessagePlan] = {}


def plan_of(message: Any) -> MessagePlan:
    """Return the plan of a message of this package."""
    return _plan_of(message.DESCRIPTOR)


def _plan_of(descriptor: Descriptor) -> MessagePlan:
    found = _plans.get(descriptor)
    if found is None:
        found = MessagePlan(descriptor.full_name)
        for field in sorted(descriptor.fields, key=lambda field: field.number):
            found.fields[field] = found.numbers[field.number] = _field_plan(field)
        _plans[descriptor] = found
    return found


def _field_plan(field: FieldDescriptor) -> FieldPlan:
    key, values = None, field
    shape: FieldShape = "many" if _is_repeated(field) else "one"
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        shape = "map"
        values = field.message_type.fields_by_name["value"]
        key = _field_plan(field.message_type.fields_by_name["key"])
    oneof, enum = field.containing_oneof, values.enum_type
    return FieldPlan(
        number=field.number,
        name=field.name,
        json_name=field.json_name,
        full_name=field.full_name,
        shape=shape,
        kind=values.type,
        oneof=oneof.name if oneof is not None else None,
        text=_text_of(values),
        enum={value.name: value.number for value in enum.values} if enum else {},
        enum_name=enum.full_name if enum else "",
        key=key,
        values=values.message_type,
    )


def _is_repeated(field: FieldDescriptor) -> bool:
    # Releases before 6.30 have no `is_repeated`, later ones warn about `label`.
    repeated: bool | None = getattr(field, "is_repeated", None)
    if repeated is None:
        repeated = getattr(field, "label", None) == field.LABEL_REPEATED
    return repeated


def _text_of(field: FieldDescriptor) -> Callable[[Any], str]:
    if field.enum_type is not None:
        names = {value.number: quote(value.name) for value in field.enum_type.values}
        return lambda number: names.get(number) or str(number)
    texts: dict[int, Callable[[Any], str]] = {
        DOUBLE: double_text,
        FLOAT: float_text,
        BOOL: lambda value: "true" if value else "false",
        STRING: quote,
        BYTES: lambda value: f'"{b64encode(value).decode("ascii")}"',
    }
    wide = (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
    number = '"{}"'.format if field.cpp_type in wide else str
    return texts.get(field.type, number)


def double_text(value: float) -> str:
    """Return the shortest JSON that reads back as the same double."""
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'


def is_odd(value: float) -> bool:
    """Tell whether a number is a NaN with other bits than "NaN" reads back as."""
    return value != value and _DOUBLE.pack(value) != _USUAL_NAN


def float_text(value: float) -> str:
    """Return the shortest JSON that reads back as the same value of 32 bits."""
    if -_EXACT < value < _EXACT and value == int(value):
        return repr(value)  # six digits say it all
    if not math.isfinite(value):
        return double_text(value)
    stored = _SINGLE.pack(value)
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if abs(short) < FLOAT_LIMIT and _SINGLE.pack(short) == stored:
            return repr(short)
    return repr(float(f"{value:.9g}"))


def step_text(step: Step) -> str:
    """Return a place in JSON as a path, such as `graphDef.node[3].attr.shape`."""
    parts = list(_parts(step))
    return "".join(reversed(parts)).lstrip(".")


# The place of a value: the place of its container, and its member name or list index there.
Step = tuple["Step", "str | int"] | None


def _parts(step: Step) -> Iterator[str]:
    while step is not None:
        step, at = step
        if isinstance(at, int):
            yield f"[{at}]"
        elif at.replace("_", "a").replace("@", "a").isalnum():
            yield f".{at}"
        else:
            yield f"[{quote(at)}]"


def steps(step: Step) -> list[str | int]:
    """Return the names and indices that lead to a place."""
    found = []
    while step is not None:
        step, at = step
        found.append(at)
    return found[::-1]
