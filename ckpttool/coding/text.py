"""Keys and other names: bytes in the files, text in programs.

Names are UTF-8 by convention alone. A byte that is no UTF-8 becomes a surrogate escape, as in the
names of files in Python, so that every name can be held as text and written back as it was.
"""

from __future__ import annotations

# For loops over all keys of an index, where a call for each would cost too much.
ESCAPE = "surrogateescape"


def decode_text(raw: bytes | bytearray | memoryview) -> str:
    """Return bytes as text."""
    return str(raw, "utf-8", ESCAPE)


def encode_text(text: str) -> bytes:
    """Return the bytes that a text stands for; texts sort by them as keys do in a table.

    Raises:
        UnicodeEncodeError: it has a surrogate that stands for no byte.
    """
    return text.encode("utf-8", ESCAPE)
