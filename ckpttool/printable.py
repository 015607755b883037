r"""Text from files, made safe to print and to read back.

A name in a checkpoint may hold anything: terminal escape codes, newlines, marks that turn the
reading direction. Such characters are shown spelled out. The spelling is reversible: a name copied
from the screen selects the tensor.

    character                                  spelled
    backslash                                  \\
    tab, newline, carriage return              \t \n \r
    other ASCII control characters             \x1b
    a byte that is not UTF-8                   \xff (from the surrogate that stands for it)
    direction, zero-width and separator marks  \u202e
    such characters above U+FFFF               \U000e0001
"""

from __future__ import annotations

import re
import unicodedata

# Fast path: nearly every name is plain ASCII without a backslash.
_PLAIN = re.compile(r"[ -\[\]-~]*\Z")
_SHORT = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Cn"})
_SPELLED = re.compile(
    r"\\(?:x(?P<x>[0-9a-f]{2})|u(?P<u>[0-9a-f]{4})|U(?P<U>[0-9a-f]{8})|(?P<short>[\\tnr]))"
)
_FROM_SHORT = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def printable(text: str) -> str:
    """Spell out every character of `text` that a terminal might act on or hide."""
    if _PLAIN.match(text):
        return text
    return "".join(_spell(char) for char in text)


def unprintable(text: str) -> str:
    """Undo `printable`; text that holds no such spelling comes back unchanged."""
    return _SPELLED.sub(_unspell, text) if "\\" in text else text


def shortened(text: str, limit: int = 200) -> str:
    """Return a text for a message: of a long one the beginning."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _spell(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if unicodedata.category(char) not in _UNSAFE_CATEGORIES:
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _unspell(match: re.Match[str]) -> str:
    if match["short"]:
        return _FROM_SHORT[match["short"]]
    if match["x"]:
        code = int(match["x"], 16)
        return chr(code if code < 0x80 else 0xDC00 + code)
    code = int(match["u"] or match["U"], 16)
    return chr(code) if code < 0x110000 else match[0]
