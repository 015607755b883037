"""What a stream is to its reader: a terminal or not, in colour or not, and how wide."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    pass

ColorChoice = Literal["auto", "always", "never"]
COLOR_CHOICES: tuple[ColorChoice, ...] = ("auto", "always", "never")
_MAX_WIDTH = 10_000
_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


@dataclass(frozen=True, slots=True)
class Terminal:
    """What output to one stream may look like.

    Attributes:
        interactive: whether the stream is a terminal.
        color: whether to send colours and other styles.
        width: columns to fit lines into; None where nothing limits them.
        unicode: whether the stream takes more than ASCII.
    """

    interactive: bool = False
    color: bool = False
    width: int | None = None
    unicode: bool = True

    def style(self, text: str, style: str) -> str:
        """Return `text` in a style, or as it is where there is no colour.

        Args:
            text: what to show; it must be printable.
            style: words out of bold, dim, red, green, yellow, blue, magenta and cyan.
        """
        if not (self.color and style and text):
            return text
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"


def describe(
    stream: TextIO,
    color: ColorChoice = "auto",
    environ: Mapping[str, str] | None = None,
) -> Terminal:
    """Find out what output to `stream` may look like.

    Args:
        stream: where output goes.
        color: what the user asked for. With "auto" the first of these decides: NO_COLOR is not
            empty; FORCE_COLOR or CLICOLOR_FORCE is neither empty nor 0; TERM is "dumb"; the
            stream is a terminal or not.
        environ: the environment; that of the process by default.
    """
    env = os.environ if environ is None else environ
    interactive = _is_terminal(stream)
    return Terminal(
        interactive=interactive,
        color=_wants_color(interactive, color, env),
        width=_width(stream, interactive, env),
        unicode=_takes_unicode(stream),
    )


def _takes_unicode(stream: TextIO) -> bool:
    try:
        "━▁█→".encode(stream.encoding or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (ValueError, AttributeError):  # closed, or no real stream
        return False


def _wants_color(interactive: bool, color: ColorChoice, env: Mapping[str, str]) -> bool:
    if color != "auto":
        return color == "always"
    if env.get("NO_COLOR"):
        return False
    if any(env.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return interactive and env.get("TERM") != "dumb"


def _width(stream: TextIO, interactive: bool, env: Mapping[str, str]) -> int | None:
    columns = env.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and 0 < len(columns) < 6 and int(columns) > 0:
        return min(int(columns), _MAX_WIDTH)
    if not interactive:
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80
