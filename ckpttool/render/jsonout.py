"""Strict JSON in ASCII, written while it is made.

Numbers that JSON lacks are strings ("NaN", "Infinity", "-Infinity"). Bytes are text if they are
UTF-8, else {"base64": "..."}, and so is a string with surrogate escapes. Members keep their order.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import SupportsFloat, TextIO

from ckpttool.coding.text import encode_text
from ckpttool.query.source import Source

_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False)
_BATCH = 2048
MAX_DEPTH = 100


def encode(value: object) -> str:
    """Return a value as JSON on one line.

    Args:
        value: None, bool, int, float, str, bytes, and mappings and iterables of these; NumPy's
            scalars and arrays count as the Python values they hold.

    Raises:
        TypeError: the value is of another type.
        ValueError: it is nested deeper than `MAX_DEPTH`.
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return _ENCODER.encode(plain(value))
    # Only escaped surrogates have these characters; `plain` finds the unpaired ones.
    return _ENCODER.encode(plain(value)) if "\\ud" in text else text


def plain(value: object, _depth: int = 0) -> object:
    """Return a value built of dicts, lists and scalars that JSON has."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value))
    if _depth == MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        return {_member(name): plain(each, _depth + 1) for name, each in value.items()}
    listed = getattr(value, "tolist", None)  # NumPy, without importing it
    if callable(listed):
        return plain(listed(), _depth + 1)
    if isinstance(value, Iterable):
        return [plain(each, _depth + 1) for each in value]
    if isinstance(value, SupportsFloat):
        return _float(float(value))
    raise TypeError(f"no JSON for a {type(value).__name__}")


def write_json(document: Mapping[str, object], stream: TextIO) -> None:
    """Write an object: each member on a line of its own, and each element of its lists too.

    Args:
        document: the members. An iterator or a list may be as long as it likes: its elements are
            encoded and written as they come.
        stream: where to.
    """
    stream.write("{")
    for number, (name, value) in enumerate(document.items()):
        stream.write(f"{',' if number else ''}\n  {encode(name)}: ")
        if isinstance(value, (list, tuple, Iterator)):
            _write_list(value, stream)
        else:
            stream.write(encode(value))
    stream.write("\n}\n" if document else "}\n")


def write_jsonl(values: Iterable[object], stream: TextIO) -> None:
    """Write each value as JSON on a line of its own."""
    for lines in _batches(map(encode, values)):
        lines.append("")
        stream.write("\n".join(lines))


def _write_list(values: Iterable[object], stream: TextIO) -> None:
    start = "[\n    "
    for batch in _batches(map(encode, values)):
        stream.write(start + ",\n    ".join(batch))
        start = ",\n    "
    stream.write("[]" if start[0] == "[" else "\n  ]")


def _batches(texts: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(texts, _BATCH)):
        yield batch


def _member(name: object) -> str:
    """Return the name of a member: text, in which bytes that are no UTF-8 are spelled out."""
    if isinstance(name, bytes):
        return name.decode("utf-8", "backslashreplace")
    return _to_bytes(str(name)).decode("utf-8", "backslashreplace")


def _to_bytes(text: str) -> bytes:
    try:
        return encode_text(text)
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "surrogatepass")


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _string(value: str) -> object:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return _bytes(_to_bytes(value))
    return value


def _bytes(value: bytes) -> object:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def source_document(source: Source) -> dict[str, object]:
    """Return the `source` member of a JSON document."""
    return source.to_dict()
