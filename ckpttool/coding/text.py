"""Keys and other names: bytes in files, text in programs.

Names are UTF-8 by convention only. A byte that is not UTF-8 becomes a surrogate escape, as in
Python's file names, so every name survives the round trip.
"""

from __future__ import annotations

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
