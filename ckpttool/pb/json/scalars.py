"""Single values from JSON in protobuf's mapping, and the errors for those that do not fit."""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from collections.abc import Callable

from ckpttool.coding.json_text import MAX_DIGITS
from ckpttool.pb.json.mapping import (
    BOOL,
    BYTES,
    DOUBLE,
    FLOAT,
    FLOAT_LIMIT,
    INTEGERS,
    STRING,
    FieldPlan,
    Step,
)
from ckpttool.printable import shortened

_SPACE = "\t\n\r\x20"
_STANDARD = bytes.maketrans(b"-_", b"+/")
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class FaultError(ValueError):
    """A value that does not fit its place.

    Args:
        step: its place.
        problem: what is wrong.
        elided: the value was left out on purpose.
    """

    def __init__(self, step: Step, problem: str, *, elided: bool = False) -> None:
        super().__init__(problem)
        self.step = step
        self.elided = elided


def scalar_value(field: FieldPlan, value: object, step: Step) -> object:
    """Return the value of a field that is no message.

    Raises:
        FaultError: it does not fit; a value out of range shows only when it is stored.
    """
    convert = _CONVERTERS.get(field.kind)
    return _enum(field, value, step) if convert is None else convert(value, step)


def key_value(field: FieldPlan, name: str, step: Step) -> object:
    """Return the key of a map entry."""
    if field.kind == STRING:
        return name
    if field.kind == BOOL:
        if name not in ("true", "false"):
            raise misfit(name, step)
        return name == "true"
    return _whole(name, step)


def _whole(value: object, step: Step) -> int:
    if isinstance(value, str):
        # int() takes more than JSON has: blanks, underscores, digits of other scripts.
        if value.isascii() and not set(value) & {*_SPACE, "_"} and len(value) < MAX_DIGITS:
            try:
                return int(value)
            except ValueError:
                value = _double(value, step)
        else:
            raise misfit(value, step)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise misfit(value, step)
    if isinstance(value, float) and not value.is_integer():
        raise misfit(value, step)
    return int(value)


def _double(value: object, step: Step) -> float:
    if isinstance(value, str):
        if value in _NON_FINITE:
            return _NON_FINITE[value]
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if value.isascii() and not set(value) & {*_SPACE, "_"} and math.isfinite(number):
            return number
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            if math.isfinite(number := float(value)):
                return number
        except OverflowError:
            pass
    raise misfit(value, step)


def _single(value: object, step: Step) -> float:
    number = _double(value, step)
    if math.isfinite(number) and abs(number) >= FLOAT_LIMIT:
        raise misfit(value, step)
    return number


def _truth(value: object, step: Step) -> bool:
    if not isinstance(value, bool):
        raise misfit(value, step)
    return value


def _string(value: object, step: Step) -> str:
    if not isinstance(value, str):
        raise misfit(value, step)
    return value


def bytes_value(value: object, step: Step) -> bytes:
    """Return the bytes of a base64 string."""
    if isinstance(value, str) and value.isascii():
        data = value.encode("ascii")
        if b"-" in data or b"_" in data:
            data = data.translate(_STANDARD)
        try:
            return b64decode(data + b"=" * (-len(data) % 4), validate=True)
        except binascii.Error:
            pass
    raise FaultError(step, f"expected bytes in base64, not {name_of_value(value)}")


def _enum(field: FieldPlan, value: object, step: Step) -> int:
    if isinstance(value, str) and value in field.enum:
        return field.enum[value]
    try:
        return _whole(value, step)
    except FaultError:
        raise FaultError(
            step, f"{name_of_value(value)} is not a value of the enum {field.enum_name}"
        ) from None


# By type; enums need their field too.
_CONVERTERS: dict[int, Callable[[object, Step], object]] = {
    DOUBLE: _double,
    FLOAT: _single,
    **dict.fromkeys(INTEGERS, _whole),
    BOOL: _truth,
    STRING: _string,
    BYTES: bytes_value,
}


def misfit(value: object, step: Step) -> FaultError:
    """Return the error for a value that does not fit."""
    return FaultError(step, f"{name_of_value(value)} does not fit here")


def name_of_value(value: object) -> str:
    """Describe a JSON value in a few words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return shortened(f"the number {value}")
    if isinstance(value, str):
        return f"the string '{shortened(value)}'"
    return "a list" if isinstance(value, list) else "an object"
