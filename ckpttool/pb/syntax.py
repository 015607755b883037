"""Escapes and nesting in protobuf text, where protobuf runtimes disagree.

Releases of the Python runtime read escapes differently and have different limits of nesting, or
none. `settle` turns a text into one that they all read alike, or refuses it.
"""

from __future__ import annotations

import re

MAX_DEPTH = 100  # as in binary messages

# A comment, a string (without its closing quote if the line ends first), or a brace. No alternative
# can fail late, so the time is linear for any text.
_TOKEN = re.compile(
    r"""
    \#[^\n]*
    | "[^"\\\n]*(?:\\.[^"\\\n]*)*"?
    | '[^'\\\n]*(?:\\.[^'\\\n]*)*'?
    | [{}<>]
    """,
    re.VERBOSE,
)
# A string whose escapes mean the same everywhere, as nearly always. Only the first digit of an
# octal escape counts as escape, so that there is one way to match.
_PLAIN = re.compile(
    r"""
    [^\\]*
    (?:\\(?: [abfnrtv"'\\0-3] | [4-7](?![0-7]{2}) | x[0-9a-fA-F] )[^\\]*)*
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"""
    \\(?:
        (?P<same> [abfnrtv"'\\] | x[0-9a-fA-F] )
        | (?P<octal> [0-7]{1,3} )
        | u(?P<short> [0-9a-fA-F]{4} )
        | U(?P<long> [0-9a-fA-F]{8} )
        | (?P<question> \? )
        | (?P<wrong> .? )
    )
    """,
    re.VERBOSE | re.DOTALL,
)


class TextSyntaxError(ValueError):
    """The text breaks a rule, in a line counted from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def settle(text: str) -> str:
    r"""Return the text with `\u`, `\U` and `\?` escapes replaced by ones that all runtimes read.

    Raises:
        TextSyntaxError: an escape that is not one, or messages nested more than `MAX_DEPTH` deep.
    """
    depth = 0

    def checked(match: re.Match[str]) -> str:
        nonlocal depth
        token = match.group()
        try:
            if token[0] in "\"'":
                return token if _PLAIN.fullmatch(token) else _ESCAPE.sub(_settled_escape, token)
            depth += {"{": 1, "<": 1, "}": -1, ">": -1}.get(token, 0)
            if depth > MAX_DEPTH:
                raise ValueError(f"messages are nested more than {MAX_DEPTH} deep")
        except ValueError as error:
            line = text.count("\n", 0, match.start()) + 1
            raise TextSyntaxError(str(error), line) from None
        return token

    return _TOKEN.sub(checked, text)


def _settled_escape(match: re.Match[str]) -> str:
    escape = match.group()
    if match["same"]:
        return escape
    if match["octal"]:
        if int(match["octal"], 8) > 0xFF:
            raise ValueError(f"the escape {escape} is not a byte")
        return escape
    if match["question"]:
        return "?"
    digits = match["short"] or match["long"]
    if not digits:
        raise ValueError(f"{escape} is not an escape")
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"the escape {escape} is not a character")
    return octal(chr(code))


def octal(text: str) -> str:
    """Return the UTF-8 bytes of a text, each as an octal escape."""
    return "".join(f"\\{byte:03o}" for byte in text.encode())
