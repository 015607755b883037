"""Lines fitted to a terminal: broken between words, never inside a word, a name or a number.

A path that is wider than the terminal is broken after a slash. A word that is wider is left as it
is: the terminal itself continues it, so it can still be copied in one piece. Continuation lines are
indented.

Hand-written: `textwrap` breaks at hyphens, which names have, and measures characters, not columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TextIO

from ckpttool.render.console import Terminal

INDENT = "  "
Piece = tuple[str, str]  # text, and the words for its style

# Not between a number and its unit, and not after the mark that a line starts with.
_SPACE = re.compile(r"(?<!^\S)(?<!×) (?!(?<=\d )(?:(?:[KMGTPE]i)?B\b|%)|×)")
_LABEL = 12  # columns of a label
_ROOMY = 60  # columns of a line that has room under its value
_SEGMENT = re.compile(r"[^/]*/+|[^/]+")


def text_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fold(text: str, width: int, *, indent: str = "") -> list[str]:
    """Break text into lines of at most `width` columns, as far as that can be done.

    Args:
        text: what to break; spaces at which it is broken are dropped.
        width: of a line.
        indent: put before all lines but the first.
    """
    if text_width(text) <= width:
        return [text]
    body = text.lstrip(" ")
    lines, line = [], text[: len(text) - len(body)]
    for word in _SPACE.split(body):
        joined = f"{line} {word}" if line.strip() else line + word
        if text_width(joined) <= width:
            line = joined
            continue
        if line.strip():
            lines.append(line.rstrip())
            line = indent
        for segment in _SEGMENT.findall(word):
            if line.strip() and text_width(line + segment) > width:
                lines.append(line)
                line = indent
            line += segment
    return [*lines, line.rstrip()]


def longest_word(text: str) -> int:
    """Return the width of the longest part of a text that is not broken at spaces."""
    return max(map(text_width, _SPACE.split(text)))


def words(text: str, style: str = "") -> Iterator[Piece]:
    """Yield the words of a text as pieces."""
    return ((word, style) for word in _SPACE.split(text))


def flow(
    pieces: Iterable[Piece], terminal: Terminal, *, gap: str = " ", indent: str = INDENT
) -> Iterator[str]:
    """Yield lines of pieces, broken between pieces where the terminal ends.

    Args:
        pieces: printable texts with their styles; one is broken only if it is wider than a line.
        terminal: its width, and whether it shows styles.
        gap: what is between two pieces on a line.
        indent: put before all lines but the first.
    """
    limit = terminal.width
    line: list[Piece] = []
    used, lead = 0, ""
    for text, style in pieces:
        wide = text_width(text)
        if line and limit is not None and used + len(gap) + wide > limit:
            yield lead + _styled(line, gap, terminal)
            line, lead = [], indent
        if not line:
            used = len(lead)
            if limit is not None and used + wide > limit:
                *full, text = fold(lead + text, limit, indent=indent)
                for each in full:
                    yield terminal.style(each, style)
                lead, text = (indent, text[len(indent) :]) if full else (lead, text[len(lead) :])
                used, wide = len(lead), text_width(text)
        used += len(gap) * bool(line) + wide
        line.append((text, style))
    if line:
        yield lead + _styled(line, gap, terminal)


def prose(text: str, terminal: Terminal, *, style: str = "") -> Iterator[str]:
    """Yield the lines of a sentence; those after the first are indented more than that one."""
    if terminal.width is None:
        yield terminal.style(text, style)
        return
    lead = text[: len(text) - len(text.lstrip(" "))]
    for line in fold(text, terminal.width, indent=lead + INDENT):
        yield terminal.style(line, style)


def write_prose(text: str, stream: TextIO, terminal: Terminal, *, style: str = "") -> None:
    """Write a sentence."""
    stream.write("".join(f"{line}\n" for line in prose(text, terminal, style=style)))


def write_flow(
    pieces: Iterable[Piece], stream: TextIO, terminal: Terminal, *, indent: str = INDENT
) -> None:
    """Write pieces on a line, or on as many as they take."""
    stream.write("".join(f"{line}\n" for line in flow(pieces, terminal, indent=indent)))


def write_fact(
    label: str, value: str, stream: TextIO, terminal: Terminal, *, style: str = ""
) -> None:
    """Write a fact behind its label; what continues it stands under it, where there is room."""
    narrow = terminal.width is not None and terminal.width < _ROOMY
    indent = INDENT if narrow else " " * _LABEL
    pieces = [(f"{label:<{_LABEL - 1}}", "cyan"), *words(value, style)]
    write_flow(pieces, stream, terminal, indent=indent)


def _styled(line: list[Piece], gap: str, terminal: Terminal) -> str:
    """Return pieces as a line; neighbours of one style are styled together."""
    if not terminal.color:
        return gap.join(text for text, _ in line)
    runs: list[list[str]] = []
    for text, style in line:
        if runs and runs[-1][1] == style:
            runs[-1][0] += gap + text
        else:
            runs.append([text, style])
    return gap.join(terminal.style(text, style) for text, style in runs)
