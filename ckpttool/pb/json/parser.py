"""A message from JSON in protobuf's mapping, with the place of each fault.

Reads what `printer` and protobuf's own runtimes write: member names in either spelling, numbers as
numbers or strings, base64 of either alphabet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import getitem, setitem
from typing import TYPE_CHECKING, Any, TypeVar

from ckpttool.coding import json_text
from ckpttool.coding.json_text import JsonError, line_of
from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.pb.json.map_order import reproduced
from ckpttool.pb.json.mapping import (
    ANY,
    BASE64,
    ELIDED,
    PACKED,
    TYPE,
    FieldPlan,
    MessagePlan,
    Step,
    plan_of,
    step_text,
    steps,
)
from ckpttool.pb.json.scalars import (
    FaultError,
    bytes_value,
    key_value,
    misfit,
    name_of_value,
    scalar_value,
)
from ckpttool.pb.syntax import MAX_DEPTH
from ckpttool.printable import shortened

if TYPE_CHECKING:
    from google.protobuf.message import Message

_M = TypeVar("_M", bound="Message")


def load_object(text: str, *, path: str | None) -> dict[str, Any]:
    """Return the object of a JSON text; `path` is for errors.

    Raises:
        CorruptError: a syntax error, a name that an object has twice, or not an object.
    """
    try:
        document = json_text.load_json(text)
    except JsonError as error:
        syntax = "not JSON: " if error.column is not None else ""
        hint = "; the mapping has it in quotes" if error.word is not None else ""
        raise CorruptError(f"{error.place}: {syntax}{error.problem}{hint}", path=path) from error
    if not isinstance(document, dict):
        problem = f"line {line_of(text, ())}: expected an object, not {name_of_value(document)}"
        raise CorruptError(problem, path=path)
    return document


def message_from_json(
    message_class: type[_M], document: dict[str, Any], *, text: str, path: str | None
) -> _M:
    """Return the message of a JSON object.

    Args:
        message_class: its class, from this package.
        document: the object, as `load_object` returns it.
        text: the JSON text, for line numbers.
        path: the file it comes from, for errors.

    Raises:
        CorruptError: an unknown member or a value that does not fit; the message names its line
            and path.
        UnsupportedError: it has constants that were left out when it was written.
    """
    message = message_class()
    try:
        _Reader().message(message, document, None, 0)
    except FaultError as fault:
        line = line_of(text, steps(fault.step))
        place = step_text(fault.step)
        problem = f"line {line}: {f'{place}: ' if place else ''}{fault}"
        kind = UnsupportedError if fault.elided else CorruptError
        raise kind(problem, path=path) from None
    return message


class _Reader:
    def __init__(self) -> None:
        self._members: dict[str, dict[str, FieldPlan]] = {}

    def message(self, message: Any, value: object, step: Step, depth: int) -> None:
        plan = plan_of(message)
        if depth > MAX_DEPTH:
            raise FaultError(step, f"messages are nested more than {MAX_DEPTH} deep")
        if plan.wrapper:
            (field,) = plan.fields.values()
            setattr(message, field.name, scalar_value(field, value, step))
            return
        if not isinstance(value, dict):
            raise FaultError(
                step, f"expected an object, a {plan.full_name}, not {name_of_value(value)}"
            )
        if plan.full_name == ANY:
            self._any(message, value, step, depth)
        else:
            self._fields(message, plan, value, step, depth)

    def _fields(
        self, message: Any, plan: MessagePlan, members: dict[str, Any], step: Step, depth: int
    ) -> None:
        known = self._known(plan)
        seen: dict[str, str] = {}
        for name, value in members.items():
            field = known.get(name)
            inner = (step, name)
            if field is None:
                raise self._unknown(plan, known, name, inner)
            if value is None:
                continue
            for claim in (field.name, f"oneof {field.oneof}" if field.oneof else field.name):
                if seen.setdefault(claim, name) != name:
                    raise FaultError(
                        inner, f"it cannot be combined with '{seen[claim]}' in a {plan.full_name}"
                    )
            self._set(message, field, value, inner, depth)

    def _known(self, plan: MessagePlan) -> dict[str, FieldPlan]:
        known = self._members.get(plan.full_name)
        if known is None:
            known = {field.name: field for field in plan.fields.values()}
            known.update({field.json_name: field for field in plan.fields.values()})
            self._members[plan.full_name] = known
        return known

    def _unknown(
        self, plan: MessagePlan, known: dict[str, FieldPlan], name: str, step: Step
    ) -> FaultError:
        from difflib import get_close_matches

        if name == ELIDED:
            return FaultError(
                step[0] if step else None,
                "the values of this constant were left out when the JSON was written"
                " (--elide-constants), so there is no way back",
                elided=True,
            )
        near = get_close_matches(name[:100], [each.json_name for each in known.values()], 1)
        hint = f"; nearest: '{near[0]}'" if near else ""
        return FaultError(step, f"a {plan.full_name} has no such field{hint}")

    def _set(self, message: Any, field: FieldPlan, value: Any, step: Step, depth: int) -> None:
        if field.shape == "map":
            self._map(getattr(message, field.name), field, value, step, depth)
        elif field.shape == "many":
            if not isinstance(value, list):
                raise FaultError(step, f"expected a list, not {name_of_value(value)}")
            self._list(getattr(message, field.name), field, value, step, depth)
        elif field.values is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            self.message(inner, value, step, depth + 1)
        else:
            scalar = scalar_value(field, value, step)
            self._store(step, value, partial(setattr, message, field.name, scalar))

    def _list(self, into: Any, field: FieldPlan, values: list[Any], step: Step, depth: int) -> None:
        if field.values is not None:
            for index, value in enumerate(values):
                self.message(into.add(), value, (step, index), depth + 1)
            return
        packed = field.full_name == PACKED
        for index, value in enumerate(values):
            inner = (step, index)
            if packed and isinstance(value, dict):
                scalar: object = self._packed(value, inner, depth)
            else:
                scalar = scalar_value(field, value, inner)
            try:
                into.append(scalar)
            except (ValueError, TypeError):
                raise misfit(value, inner) from None

    def _map(self, into: Any, field: FieldPlan, value: Any, step: Step, depth: int) -> None:
        if not isinstance(value, dict):
            raise FaultError(step, f"expected an object, a map, not {name_of_value(value)}")
        assert isinstance(field.key, FieldPlan)
        for name, each in value.items():
            inner = (step, name)
            key: Any = key_value(field.key, name, inner)
            if field.values is not None:
                entry = self._store(inner, name, partial(getitem, into, key))
                self.message(entry, each, inner, depth + 1)
            else:
                scalar = scalar_value(field, each, inner)
                self._store(inner, each, partial(setitem, into, key, scalar))

    def _store(self, step: Step, value: object, store: Callable[[], Any]) -> Any:
        try:
            return store()
        except (ValueError, TypeError):  # out of range, or text with half a surrogate pair
            raise misfit(value, step) from None

    def _any(self, message: Any, value: dict[str, Any], step: Step, depth: int) -> None:
        if not value:
            return
        type_url = value.get(TYPE)
        if not isinstance(type_url, str):
            raise FaultError(step, f'an Any without a string "{TYPE}"')
        self._store(step, type_url, partial(setattr, message, "type_url", type_url))
        if BASE64 in value:
            inner = (step, BASE64)
            others = [name for name in value if name not in (TYPE, BASE64)]
            if others:
                raise FaultError((step, others[0]), f'it cannot be combined with "{BASE64}"')
            message.value = bytes_value(value[BASE64], inner)
        else:
            message.value = self._packed(value, step, depth)

    def _packed(self, value: dict[str, Any], step: Step, depth: int) -> bytes:
        """Return the bytes of the message in an object with "@type"."""
        from google.protobuf.message import EncodeError

        from ckpttool.pb.pool import message_class

        type_url = value.get(TYPE)
        if not isinstance(type_url, str):
            raise FaultError(step, f'an Any without a string "{TYPE}"')
        try:
            payload = message_class(type_url.rpartition("/")[2])()
        except KeyError:
            raise FaultError(
                (step, TYPE),
                f"the type '{shortened(type_url)}' is not known, so its value has to be"
                f' a "{BASE64}"',
            ) from None
        members = {name: each for name, each in value.items() if name != TYPE}
        plan = plan_of(payload)
        if plan.full_name == ANY or plan.wrapper:
            if set(members) - {"value"}:
                raise FaultError(step, f'only "value" can stand beside "{TYPE}" here')
            if members.get("value") is not None:
                self.message(payload, members["value"], (step, "value"), depth + 1)
        else:
            if depth >= MAX_DEPTH:
                raise FaultError(step, f"messages are nested more than {MAX_DEPTH} deep")
            self._fields(payload, plan, members, step, depth + 1)
        try:
            return reproduced(payload, members)
        except EncodeError:
            raise FaultError(step, "messages are nested too deep") from None
