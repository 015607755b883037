from __future__ import annotations

import io
import os
import pty

import pytest

from ckpttool.render.console import ColorChoice, Terminal, describe


class Screen(io.StringIO):
    """A stream that is a terminal of no known size."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "on_screen", "in_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": "0"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": ""}, True, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ({"TERM": "xterm-256color"}, True, False),
    ],
)
@pytest.mark.parametrize("choice", ["auto", "always", "never"])
def test_colour(
    environ: dict[str, str], on_screen: bool, in_pipe: bool, choice: ColorChoice
) -> None:
    fixed = {"always": True, "never": False}
    assert describe(Screen(), choice, environ).color == fixed.get(choice, on_screen)
    assert describe(io.StringIO(), choice, environ).color == fixed.get(choice, in_pipe)


@pytest.mark.parametrize(
    ("columns", "on_screen", "in_pipe"),
    [
        ("", 80, None),
        ("40", 40, 40),
        ("0", 80, None),
        ("-3", 80, None),
        ("wide", 80, None),
        ("²", 80, None),
        ("99999", 10_000, 10_000),
        ("1" * 5000, 80, None),
    ],
)
def test_width(columns: str, on_screen: int, in_pipe: int | None) -> None:
    assert describe(Screen(), environ={"COLUMNS": columns}).width == on_screen
    assert describe(io.StringIO(), environ={"COLUMNS": columns}).width == in_pipe


def test_the_size_of_a_real_terminal() -> None:
    import fcntl
    import struct
    import termios

    controller, device = pty.openpty()
    fcntl.ioctl(device, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 57, 0, 0))
    with os.fdopen(controller, "rb"), open(device, "w", encoding="utf-8") as stream:
        assert describe(stream, environ={}) == Terminal(interactive=True, color=True, width=57)


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert describe(stream, environ={}) == Terminal(interactive=False, color=False, width=None)


def test_styles() -> None:
    assert Terminal(color=True).style("a", "bold red") == "\x1b[1;31ma\x1b[0m"
    assert Terminal(color=True).style("a", "") == "a"
    assert Terminal(color=True).style("", "bold") == ""
    assert Terminal(color=False).style("a", "bold") == "a"
