"""Lines in a JSON text: of a value that a path leads to, of a name given twice, of a depth.

The text has been read by the time that one of these is asked for, and something was wrong with it.
So it is gone through once more, token by token, in time that is linear in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]|[^][{},:"\s]+', re.DOTALL)


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Return the line, counted from 1, of the value that a path leads to, or of its member.

    Args:
        text: valid JSON.
        path: names of members and indices in lists, outermost first; where it leads to nothing
            the line is that of the innermost value on the way.
    """
    best, found = -1, 0
    for stack, offset in _places(text):
        length = len(stack)
        if length > best and stack == list(path[:length]):
            best, found = length, offset
            if length == len(path):
                break
    return text.count("\n", 0, found) + 1


def repeated_name(text: str) -> tuple[str, int] | None:
    """Return the first name that an object has twice, and its line; None where there is none."""
    names: list[tuple[list[str | int], set[str | int]]] = []
    for stack, offset in _places(text):
        while names and names[-1][0] != stack[: len(names[-1][0])]:
            names.pop()
        if not stack or isinstance(stack[-1], int):
            continue
        if not names or len(names[-1][0]) != len(stack) - 1:
            names.append((stack[:-1], set()))
        if stack[-1] in names[-1][1]:
            return str(stack[-1]), text.count("\n", 0, offset) + 1
        names[-1][1].add(stack[-1])
    return None


def line_of_depth(text: str, depth: int) -> int:
    """Return the line where values are first nested deeper than `depth`."""
    level = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        level += (token in "[{") - (token in "]}")
        if level > depth:
            return text.count("\n", 0, match.start()) + 1
    return 1


def _places(text: str) -> Iterator[tuple[list[str | int], int]]:
    """Yield each value of a JSON text: the path to it, and where it, or its name, begins.

    The path is one list that changes from value to value.
    """
    stack: list[str | int] = []
    in_object: list[bool] = []
    expect_name = False
    yield stack, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "]}":
            in_object.pop()
            stack.pop()
            expect_name = False
        elif token == ",":
            if in_object[-1]:
                expect_name = True
            else:
                stack[-1] = int(stack[-1]) + 1
        elif expect_name:
            stack[-1] = json.loads(token)
            expect_name = False
            yield stack, match.start()
        else:
            if in_object and not in_object[-1]:
                yield stack, match.start()
            if token in "[{":
                in_object.append(token == "{")
                stack.append("" if token == "{" else 0)
                expect_name = token == "{"
