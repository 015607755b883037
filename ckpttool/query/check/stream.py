"""JSON read piece by piece: of a document of many values only one is in memory.

Hand-written, because the standard library only reads whole documents: a lock of 500,000 tensors
takes 424 MiB with `json.load` and 19 MiB here, and 2.3 s instead of 1.6 s. A value is decoded by
`json` as soon as all of it is read; an error near the end of the text read so far only means that
more is needed.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from ckpttool.coding.json_text import JsonError, repeated_member, strict_decoder

# The most characters of one value: an array element, or any other member.
MAX_VALUE = 256 << 20
_CHUNK = 1 << 20
_MAX_DIGITS = 19  # those of the largest dimension
_SPACE = re.compile(r"[ \t\n\r]*")
# An error so near the end may be caused by it: in "-Infinity", or an escaped surrogate pair.
_NEAR = 16
_MARK = codecs.BOM_UTF8


class NoUtf8Error(ValueError):
    """The document is not UTF-8 from the byte at `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__("it is not UTF-8")
        self.offset = offset


class TooLargeError(ValueError):
    """The document is larger than allowed."""


class JsonStream:
    """A JSON document that is read once, from its beginning to its end.

    Args:
        file: may be a pipe.
        limit: how many bytes it may have.

    Raises, as all methods do:
        JsonError: it is not JSON.
        NoUtf8Error, TooLargeError: see there.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file = file
        self._left = limit
        self._bytes = 0
        self._hash = hashlib.sha256()
        self._to_text = codecs.getincrementaldecoder("utf-8")()
        self._scan = strict_decoder(_integer).raw_decode
        self._text = ""
        self._start = self._at = 0  # the last value
        self._ended = False
        # Lines before the held text, and before `_counted` in it.
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def digest(self) -> bytes:
        """Return the SHA-256 of the bytes read, without a byte order mark."""
        return self._hash.digest()

    def next(self) -> str:
        """Return the next character that is no space, without passing it; "" at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, char: str, message: str) -> None:
        """Pass a character, which has to be the next one."""
        if self.next() != char:
            raise self.error(message, self._at)
        self._at += 1

    def value(self) -> object:
        """Pass a value and return it."""
        self.next()
        while True:
            try:
                found, end = self._scan(self._text, self._at)
            except json.JSONDecodeError as error:
                if not self._may_go_on(error):
                    raise self.error(error.msg, error.pos) from error
            except RecursionError as error:
                raise JsonError("it is nested too deeply") from error
            else:
                # A number may go on.
                if end < len(self._text) or self._ended:
                    self._start, self._at = self._at, end
                    return found
            if len(self._text) - self._at > MAX_VALUE:
                raise JsonError(f"a value of more than {MAX_VALUE} characters")
            self._more()

    def line(self) -> int:
        """Return the number of the line, from 1, in which the last value begins."""
        self._count(self._start)
        return self._line

    def last(self) -> str:
        """Return the text of the last value."""
        return self._text[self._start : self._at]

    def one_line(self) -> bool:
        """Tell whether the last value is all on one line."""
        return self._text.find("\n", self._start, self._at) < 0

    def members(self) -> Iterator[str]:
        """Pass an object and yield its names; the caller must pass each value."""
        self.take("{", "Expecting an object")
        seen: set[str] = set()
        if self.next() == "}":
            self._at += 1
            return
        while True:
            if self.next() != '"':
                raise self.error("Expecting property name enclosed in double quotes", self._at)
            name = str(self.value())
            if name in seen:
                raise repeated_member(name)
            seen.add(name)
            self.take(":", "Expecting ':' delimiter")
            yield name
            if not self._goes_on("}"):
                return

    def elements(self) -> Iterator[object]:
        """Pass an array and yield its elements."""
        self.take("[", "Expecting an array")
        if self.next() == "]":
            self._at += 1
            return
        while True:
            yield self.value()
            if not self._goes_on("]"):
                return

    def end(self) -> None:
        """Check that nothing follows."""
        if self.next():
            raise self.error("Extra data", self._at)

    def error(self, message: str, at: int) -> JsonError:
        """Return an error at a place in the held text."""
        self._count(at)
        place = f"line {self._line}, column {at - self._line_start + 1}"
        return JsonError(f"{place}: it is not JSON: {message}")

    def _goes_on(self, last: str) -> bool:
        char = self.next()
        if char not in (",", last) or not char:
            raise self.error("Expecting ',' delimiter", self._at)
        self._at += 1
        return char == ","

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        if self._ended:
            return False
        return error.pos > len(self._text) - _NEAR or error.msg.startswith("Unterminated string")

    def _count(self, at: int) -> None:
        """Count lines up to a place, which never goes back."""
        self._line += self._text.count("\n", self._counted, at)
        start = self._text.rfind("\n", self._counted, at) + 1
        self._line_start = start or self._line_start
        self._counted = at

    def _more(self) -> bool:
        """Read more and drop the passed text; False at the end."""
        if self._ended:
            return False
        # Double the held text: a long value is scanned only a few times.
        rest = self._text[self._at :]
        data = self._file.read(min(max(_CHUNK, len(rest)), self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise TooLargeError
        self._ended = not data
        if not self._bytes and data.startswith(_MARK):
            self._bytes = len(_MARK)
            data = data[self._bytes :]
        self._hash.update(data)
        try:
            waiting = len(self._to_text.getstate()[0])
            text = self._to_text.decode(data, final=self._ended)
        except UnicodeDecodeError as error:
            raise NoUtf8Error(self._bytes - waiting + error.start) from error
        self._bytes += len(data)
        self._count(self._at)
        self._line_start -= self._at
        self._counted = self._at = 0
        self._text = rest + text
        return True


def _integer(digits: str) -> int:
    # Converting digits takes more than linear time.
    if len(digits.lstrip("-")) > _MAX_DIGITS:
        raise JsonError(f"a number of {len(digits)} digits")
    return int(digits)
