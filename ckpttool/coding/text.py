"""Keys and other names: bytes in files, text in programs.

Names are UTF-8 by convention only. A byte that is not UTF-8 becomes a surrogate escape, as in
Python's file names, so every name survives the round trip.
"""

from __future__ import annotations

import re

# For loops over all keys of an index, where a call for each would cost too much.
ESCAPE = "surrogateescape"


def decode_text(raw: bytes | bytearray | memoryview) -> str:
    """Return bytes as text."""
    return str(raw, "utf-8", ESCAPE)


def encode_text(text: str) -> bytes:
    """Return the bytes of a text; sorting by them gives the order of keys in a table.

    Raises:
        UnicodeEncodeError: it has a surrogate that is no escaped byte.
    """
    return text.encode("utf-8", ESCAPE)


_DIGITS = re.compile(r"([0-9]+)")


def natural_key(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts `layer_9` before `layer_10`."""
    return [
        number_key(part) if at % 2 else (0, part) for at, part in enumerate(_DIGITS.split(text))
    ]


def number_key(digits: str) -> tuple[int, str]:
    """Return a sort key for whole numbers of any length."""
    # Longer digits are larger numbers once zeros are off, whatever the length int() would take.
    rest = digits.lstrip("0")
    return len(rest), rest
