"""Values as they are typed: numbers, text, true and false, and lists of these.

Numbers are those of Python and JSON, `nan`, `inf` and complex ones such as `1+2j` included; text in
a list has the double quotes of JSON. For a string tensor, what begins with neither a quote nor a
bracket is the text itself.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ckpttool.errors import SelectionError
from ckpttool.printable import printable, shortened

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\s,\[\]\"]+")
_INTEGER = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*\Z")
_NAMES = {"true": True, "false": False}
# NumPy has no arrays of more dimensions.
_DEEPEST = 64
_MOST_DIGITS = 400


def parse_value(text: str, *, strings: bool) -> Any:
    """Return the value that a text stands for.

    Args:
        text: as it was typed.
        strings: whether it is for a string tensor.

    Raises:
        SelectionError: it is no such value.
    """
    stripped = text.strip()
    if strings and not stripped.startswith(("[", '"')):
        return text
    try:
        value, at = _value(stripped, 0, 0)
    except ValueError as error:
        raise SelectionError(f"'{shortened(printable(text))}' is no value: {error}") from error
    if at != len(stripped):
        raise SelectionError(
            f"'{shortened(printable(text))}' is no value: '{shortened(printable(stripped[at:]))}' "
            "follows it"
        )
    return value


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at a place, and where the text goes on behind it."""
    if text.startswith("[", at):
        return _list(text, at + 1, depth + 1)
    if text.startswith('"', at):
        value, end = json.JSONDecoder().raw_decode(text, at)
        return value, _skip(text, end)
    match = _WORD.match(text, at)
    if match is None:
        raise ValueError("something is missing" if at < len(text) else "it ends too early")
    return _number(match[0]), _skip(text, match.end())


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > _DEEPEST:
        raise ValueError("its lists are too deep")
    values: list[Any] = []
    at = _skip(text, at)
    while not text.startswith("]", at):
        value, at = _value(text, at, depth)
        values.append(value)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif not text.startswith("]", at):
            raise ValueError("a comma or ']' is missing")
    return values, _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _number(word: str) -> bool | int | float | complex:
    if word.lower() in _NAMES:
        return _NAMES[word.lower()]
    if len(word) > _MOST_DIGITS:
        raise ValueError("a number has too many digits")
    if _INTEGER.match(word):
        return int(word)
    for kind in (float, complex):
        try:
            return kind(word)
        except ValueError:
            continue
    raise ValueError(f"'{word}' is neither a number nor text in double quotes")
