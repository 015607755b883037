"""Messages from bytes and text and back; fields that the schema does not know.

Nothing here imports protobuf before it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ckpttool.errors import CorruptError, UnsupportedError
from ckpttool.pb.syntax import MAX_DEPTH, TextSyntaxError, octal, settle

if TYPE_CHECKING:
    from google.protobuf.message import Message

_M = TypeVar("_M", bound="Message")
_Step = tuple["_Step", str, object] | None

MAX_BYTES = (1 << 31) - 1  # protobuf's own limit for a message
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_SAFE_TYPE_URL = re.compile(r"[a-z]\w*(?:\.[a-z]\w*)*/[a-z][\w.]*", re.ASCII | re.IGNORECASE)
_WHERE = re.compile(r"(\d+):(\d+) : ")
_NOT_UTF8 = "a message has strings that are not UTF-8"
_NO_INDEX = object()
_LONGEST_QUOTE = 300


def check_size(size: int, *, path: str | None, offset: int | None = None) -> None:
    """Raise `UnsupportedError` for 2 GiB or more, too large for a message; call before reading."""
    if size > MAX_BYTES:
        raise UnsupportedError(
            f"a protobuf message of {size} bytes; the limit is {MAX_BYTES}",
            path=path,
            offset=offset,
        )


def parse(
    message_class: type[_M], data: bytes, *, path: str | None, offset: int | None = None
) -> _M:
    """Parse a serialized message.

    Args:
        message_class: its class, from this package.
        data: all of its bytes.
        path: the file they come from, for errors.
        offset: where they are in the file, for errors.

    Raises:
        CorruptError: the bytes are not such a message: cut off, nested more than 100 deep, text
            that is not UTF-8.
        UnsupportedError: they are 2 GiB or more.
    """
    check_size(len(data), path=path, offset=offset)
    try:
        return message_class.FromString(data)
    except _parse_errors() as error:
        name = message_class.DESCRIPTOR.full_name
        raise CorruptError(
            f"{len(data)} bytes that are not a {name}", path=path, offset=offset
        ) from error


def _parse_errors() -> tuple[type[Exception], ...]:
    # The pure-Python runtime lets UnicodeDecodeError through, old releases of it RecursionError.
    from google.protobuf.message import DecodeError

    return DecodeError, UnicodeDecodeError, RecursionError


def to_text(message: Message) -> str:
    r"""Return a message in protobuf's text form, as TensorFlow writes it.

    One field a line; doubles in the shortest form that reads back the same; in strings `\"`, `\'`,
    `\\`, `\n`, `\r`, `\t`, other control characters in octal and everything else raw; in bytes
    everything outside of printable ASCII in octal. An Any is spelled out if that loses only the
    order of map entries. Unknown fields are left out: `unknown_fields` finds them.

    Raises:
        CorruptError: strings in GraphDebugInfo are not UTF-8, or messages are nested too deep.
    """
    from google.protobuf import text_format

    from ckpttool.pb.pool import POOL

    try:
        text = text_format.MessageToString(
            message, as_utf8=True, descriptor_pool=POOL, message_formatter=_special_text
        )
    except RecursionError as error:
        raise CorruptError("a message is nested too deep to print it") from error
    except (UnicodeDecodeError, TypeError) as error:  # see _is_broken; bytes and text do not sort
        raise CorruptError(_NOT_UTF8) from error
    # Runtimes before 5.26 leave control characters raw. Line feeds in strings are always escaped.
    return _CONTROL.sub(lambda match: octal(match.group()), text)


def _special_text(message: Message, indent: int, as_one_line: bool) -> str | None:
    """Return the text of an Any that must not be spelled out, None for every other message."""
    del as_one_line
    name = message.DESCRIPTOR.full_name
    if name.startswith("tensorflow.GraphDebugInfo"):
        _require_utf8(message)
    if name != "google.protobuf.Any" or _can_spell_out(message, indent):
        return None
    from google.protobuf import text_format
    from google.protobuf.descriptor_pool import DescriptorPool

    text = text_format.MessageToString(
        message, as_utf8=True, indent=indent, descriptor_pool=DescriptorPool()
    )
    return text.strip(" \n")


def _require_utf8(message: Message) -> None:
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            strings = [value] if isinstance(value, str | bytes) else value
            if any(_is_broken(text) for text in strings):
                raise CorruptError(_NOT_UTF8)


def _can_spell_out(message: Message, indent: int) -> bool:
    from ckpttool.pb.pool import message_class

    type_url, value = message.type_url, message.value  # type: ignore[attr-defined]
    if not _SAFE_TYPE_URL.fullmatch(type_url) or indent > MAX_DEPTH:
        return False
    try:
        payload = parse(message_class(type_url.rpartition("/")[2]), value, path=None)
    except (KeyError, CorruptError):
        return False
    return not unknown_fields(payload)


def from_text(message_class: type[_M], text: str, *, path: str | None) -> _M:
    """Parse a message in protobuf's text form.

    Args:
        message_class: its class, from this package.
        text: all of it, with non-ASCII characters raw, escaped or both.
        path: the file it comes from, for errors.

    Raises:
        CorruptError: a syntax error, an unknown field, or a second value for a field that has one;
            the message tells the line.
    """
    from google.protobuf import text_format

    from ckpttool.pb.pool import POOL

    try:
        return text_format.Parse(settle(text), message_class(), descriptor_pool=POOL)
    except TextSyntaxError as error:
        problem = f"line {error.line}: {error}"
    except text_format.ParseError as error:
        # It may quote a token of any length.
        problem = _WHERE.sub(r"line \1, column \2: ", str(error), count=1)[:_LONGEST_QUOTE]
    except RecursionError:
        problem = "messages are nested too deep"
    name = message_class.DESCRIPTOR.full_name
    raise CorruptError(f"not the text of a {name}: {problem}", path=path)


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field in a file that the schema does not have.

    Args:
        path: of the message that holds it, such as `graph_def.node[3].attr['T']`; empty for the
            outermost.
        number: its field number.
        message: full name of the type of the message that holds it.
    """

    path: str
    number: int
    message: str


def unknown_fields(message: Message) -> list[UnknownField]:
    """Return every field of a message, at any depth, that the schema does not know.

    They survive being written as bytes again; text and JSON cannot hold them. The contents of an
    Any are not searched.
    """
    from google.protobuf.message import Message as MessageBase
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = []
    stack: list[tuple[Message, _Step]] = [(message, None)]
    while stack:
        current, step = stack.pop()
        unknown = UnknownFieldSet(current)
        for index in range(len(unknown)):
            name = current.DESCRIPTOR.full_name
            found.append(UnknownField(_path(step), unknown[index].field_number, name))
        children: list[tuple[Message, _Step]] = []
        for field, value in current.ListFields():
            if field.message_type is None:
                continue
            if isinstance(value, MessageBase):
                children.append((value, (step, field.name, _NO_INDEX)))
                continue
            items = _map_items(value) if isinstance(value, Mapping) else enumerate(value)
            children += [
                (item, (step, field.name, key))
                for key, item in items
                if isinstance(item, MessageBase)
            ]
        stack += reversed(children)
    return found


def _map_items(entries: Mapping[Any, object]) -> Iterator[tuple[object, object]]:
    for key in sorted(key for key in entries if not _is_broken(key)):
        yield key, entries[key]


def _is_broken(text: object) -> bool:
    # In a proto2 file (GraphDebugInfo) compiled runtimes accept strings that are not UTF-8 and
    # give them as bytes. As map keys these cannot be used to look up the value.
    return isinstance(text, bytes)


def _path(step: _Step) -> str:
    names = []
    while step is not None:
        step, name, index = step
        names.append(name if index is _NO_INDEX else f"{name}[{index!r}]")
    return ".".join(reversed(names))
