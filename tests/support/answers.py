"""Everything that a bundle says, as values to compare, and what a refusal must be like."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from typing import Any

from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import CkptError

# An error is for people: whatever a file holds, it must not fill their screen.
_LONGEST_MESSAGE = 10_000


@dataclass(frozen=True)
class Answer:
    """What was said of a tensor: dtype, shape and bytes, or the error."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    value: bytes = b""
    error: CkptError | None = None


def value_bytes(array: Any) -> bytes:
    """Return the elements of an array as bytes that tell different arrays apart."""
    if array.dtype != object:
        return bytes(array.tobytes())
    parts = []
    for element in array.reshape(-1).tolist():
        raw = element if isinstance(element, bytes) else element.serialized
        parts.append(len(raw).to_bytes(8, "little") + raw)
    return b"".join(parts)


def everything(prefix: str) -> dict[str, Answer]:
    """Open a bundle and read all of it, tensor by tensor.

    Raises:
        CkptError: the index as a whole is refused. Every such error has been checked already.
    """
    try:
        reader = BundleReader(prefix)
    except CkptError as error:
        check_refusal(error, prefix)
        raise
    with reader:
        return {key: _answer(reader, key, prefix) for key in reader.entries}


def values(prefix: str) -> dict[str, Answer] | None:
    """Like `everything`, but None if anything at all was refused."""
    try:
        answers = everything(prefix)
    except CkptError:
        return None
    return None if any(answer.error for answer in answers.values()) else answers


def check_refusal(error: CkptError, prefix: str) -> None:
    """Check that an error names a file of the bundle and is one line fit to print."""
    assert error.path is not None, repr(error)
    folder, base = os.path.split(prefix)
    assert os.path.split(error.path)[0] == folder, error.path
    assert os.path.split(error.path)[1].startswith(base), error.path
    text = str(error)
    assert error.message
    assert len(text) < _LONGEST_MESSAGE
    assert not any(unicodedata.category(char).startswith("C") for char in text), repr(text)


def _answer(reader: BundleReader, key: str, prefix: str) -> Answer:
    try:
        entry = reader.entries[key]
        array = reader.read(key)
    except CkptError as error:
        check_refusal(error, prefix)
        return Answer(error=error)
    assert array.shape == entry.shape
    assert array.dtype == entry.dtype.numpy_dtype
    return Answer(entry.dtype.name, entry.shape, value_bytes(array))
