r"""Globs over names whose segments are divided by `/`, turned into regular expressions.

    *        anything within one segment        **       anything, across segments
    ?        one character, not /               **/      any number of whole segments, none too
    [a-z]    one of these, not /                [!a-z]   one character that is none of these
    {a,b}    one of these, which may be globs and may hold braces themselves
    \*       a mark taken literally; \x1b and the like as `printable` spells characters

What follows a wildcard is matched at its first place and never reconsidered, which is enough for
globs and keeps the time linear: `.*a` seven times and `.*b` against 60 letters takes `re` 20 s.

Hand-written, because `fnmatch` has neither `**` nor braces; `glob.translate` (Python 3.13) has `**`
but not that bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count

from ckpttool.errors import SelectionError
from ckpttool.printable import shortened, unprintable

GLOB_MARKS = frozenset("*?[]{}")
MAX_ALTERNATIVES = 1000
_MAX_DEPTH = 32
_SPELLING = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[\\tnr])")

# A parsed glob is a list of regular expressions for one character each, and of these two.
STAR = "*"
GLOBSTAR = "**"


def is_glob(text: str) -> bool:
    """Tell whether `text` has a character with a meaning in globs."""
    return not GLOB_MARKS.isdisjoint(text)


def compile_glob(text: str) -> re.Pattern[str]:
    """Return the regular expression, for `fullmatch`, of a glob.

    Raises:
        SelectionError: brackets or braces do not pair, a range is reversed, or the braces stand
            for more than `MAX_ALTERNATIVES` globs.
    """
    names = count()
    alternatives = [_to_regex(tokens, names) for tokens in parse_glob(text)]
    try:
        return re.compile("|".join(dict.fromkeys(alternatives)), re.DOTALL)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        raise SelectionError(f"glob '{shortened(text)}': too large") from error


def parse_glob(text: str) -> list[list[str]]:
    """Expand the braces of a glob; return each glob as a list of tokens.

    A token is a regular expression that matches one character, or `STAR` or `GLOBSTAR`.

    Raises:
        SelectionError: as `compile_glob`.
    """
    return _Parser(text).parse()


def literal_tokens(text: str) -> list[str]:
    """Return the tokens of a literal name."""
    return list(map(re.escape, text))


class _Parser:
    """Parses a glob and expands its braces."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def parse(self) -> list[list[str]]:
        return self._sequence(0)

    def _error(self, problem: str) -> SelectionError:
        return SelectionError(
            f"glob '{shortened(self.text)}': {problem}; '=' before it makes it an exact name"
        )

    def _sequence(self, depth: int) -> list[list[str]]:
        done: list[list[str]] = [[]]
        while self.pos < len(self.text):
            char = self.text[self.pos]
            if depth and char in ",}":
                break
            if char == "{":
                choices = self._braces(depth + 1)
                if len(done) * len(choices) > MAX_ALTERNATIVES:
                    raise self._error(f"braces stand for more than {MAX_ALTERNATIVES} globs")
                done = [left + right for left in done for right in choices]
            else:
                token = self._token(char)
                for tokens in done:
                    tokens.append(token)
        return done

    def _braces(self, depth: int) -> list[list[str]]:
        if depth > _MAX_DEPTH:
            raise self._error(f"braces nest deeper than {_MAX_DEPTH}")
        choices: list[list[str]] = []
        while self.pos < len(self.text) and self.text[self.pos] in "{,":
            self.pos += 1
            choices += self._sequence(depth)
            if len(choices) > MAX_ALTERNATIVES:
                raise self._error(f"braces stand for more than {MAX_ALTERNATIVES} globs")
        if self.pos == len(self.text):
            raise self._error("'{' is never closed")
        self.pos += 1
        return choices

    def _token(self, char: str) -> str:
        if char == "*":
            stars = len(self.text) - self.pos - len(self.text[self.pos :].lstrip("*"))
            self.pos += stars
            return STAR if stars == 1 else GLOBSTAR
        if char == "[":
            return self._character_class()
        if char in "]}":
            raise self._error(f"'{char}' closes nothing")
        if char == "?":
            self.pos += 1
            return "[^/]"
        return re.escape(self._character())

    def _character(self) -> str:
        spelling = _SPELLING.match(self.text, self.pos)
        if spelling:
            self.pos = spelling.end()
            return unprintable(spelling[0])
        char = self.text[self.pos]
        self.pos += 1
        if char == "\\" and self.text[self.pos : self.pos + 1] in (*GLOB_MARKS, ",", "!", "-"):
            char = self.text[self.pos]
            self.pos += 1
        return char

    def _character_class(self) -> str:
        start = self.pos
        self.pos += 1
        negated = self.text[self.pos : self.pos + 1] in ("!", "^")
        self.pos += negated
        parts: list[str] = []
        first = True
        while first or self.text[self.pos : self.pos + 1] != "]":
            first = False
            if self.pos >= len(self.text):
                self.pos = start
                raise self._error("'[' is never closed")
            parts.append(self._range())
        self.pos += 1
        return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]"

    def _range(self) -> str:
        low = self._character()
        if self.text[self.pos : self.pos + 1] != "-" or self.text[self.pos + 1 :][:1] in ("", "]"):
            return re.escape(low)
        self.pos += 1
        high = self._character()
        if high < low:
            raise self._error(f"the range '{low}-{high}' is reversed")
        return f"{re.escape(low)}-{re.escape(high)}"


def _to_regex(tokens: Sequence[str], names: count[int]) -> str:
    """Join tokens so that only the last wildcard of each kind can be tried in several places."""
    chunks: list[list[str]] = [[]]
    for token in tokens:
        if token == GLOBSTAR:
            chunks.append([])
        else:
            chunks[-1].append(token)
    last = len(chunks) - 1
    out = _chunk_regex(chunks[0], names, final=last == 0)
    for at, chunk in enumerate(chunks[1:], 1):
        whole_segments = chunk[:1] == ["/"] and (not out or chunks[at - 1][-1:] == ["/"])
        body = _chunk_regex(chunk[1:] if whole_segments else chunk, names, final=at == last)
        if at == last:
            out += ("(?:.*/)?" if whole_segments else ".*") + body
        elif chunk:
            out += _first("(?:.*?/)??" if whole_segments else ".*?", body, names)
    return out


def _chunk_regex(tokens: list[str], names: count[int], *, final: bool) -> str:
    """Return the regular expression of tokens without `**`; a final one reaches the end."""
    runs: list[str] = [""]
    for token in tokens:
        if token == STAR:
            runs.append("")
        else:
            runs[-1] += token
    out = runs[0]
    for at, run in enumerate(runs[1:], 1):
        if final and at == len(runs) - 1:
            out += "[^/]*" + run
        elif run or at < len(runs) - 1:
            out += _first("[^/]*?", run, names)
    return out


def _first(gap: str, body: str, names: count[int]) -> str:
    """Match `gap` and `body` at their first place, without backtracking."""
    name = f"g{next(names)}"
    return f"(?=(?P<{name}>{gap}{body}))(?P={name})"
