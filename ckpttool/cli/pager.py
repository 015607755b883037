"""A pager for answers that are longer than the screen, as `git` has one.

What a command prints on a terminal is kept until it is complete, or until something must be seen at
once; then it is printed. As soon as it is longer than the screen it goes to the pager instead.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from subprocess import Popen

    from _typeshed import ReadableBuffer

_DEFAULT = "less"
# As git sets it: end if all fits on the screen, pass colours on, leave the text on the screen.
_LESS = "FRX"
_FOR_SHELL = re.compile(r"[|&;<>()$`\\\"'*?\[#~=%]")
_STYLE = re.compile(rb"\x1b\[[0-9;]*m")

_screen: _Screen | None = None


@contextmanager
def paged(wanted: bool) -> Iterator[None]:
    """Page standard output in the block, if it is a terminal and a pager is wanted."""
    global _screen
    stdout = sys.stdout
    command = pager_command(os.environ) if wanted and _has_size(stdout) else None
    if command is None or not isinstance(stdout, io.TextIOWrapper):
        yield
        return
    _screen = screen = _Screen(stdout, command)
    sys.stdout = screen.text
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the error of the command is the one to report
            screen.text.flush()
        raise
    else:
        screen.text.flush()
    finally:
        sys.stdout, _screen = stdout, None
        screen.end()


def is_running() -> bool:
    """Tell whether a pager has the screen, so that nothing else may be drawn there."""
    return _screen is not None and _screen.process is not None


def holds(message: str) -> bool:
    """Take a message for stderr if a pager has the screen, and print it when the pager has ended.

    Otherwise the output before the message is printed, and the message is left to the caller.
    """
    if _screen is None:
        return False
    if _screen.process is not None:
        _screen.messages.append(message)
        return True
    _screen.text.flush()
    return False


def pager_command(environ: Mapping[str, str]) -> str | None:
    """Return the pager of the environment: CKPT_PAGER, PAGER or less; None for none."""
    command = next(
        (environ[name] for name in ("CKPT_PAGER", "PAGER") if name in environ), _DEFAULT
    ).strip()
    off = command in ("", "cat") or environ.get("TERM", "dumb") == "dumb"
    return None if off else command


def _has_size(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal of a known size."""
    with suppress(OSError, ValueError):
        return stream.isatty() and all(os.get_terminal_size(stream.fileno()))
    return False


class _Screen(io.BufferedIOBase):
    """The bytes for a terminal, which are kept, printed, or passed to a pager."""

    name = "<stdout>"

    def __init__(self, stdout: io.TextIOWrapper, command: str) -> None:
        self._out = stdout.buffer
        self._write: Callable[[bytes], object] = self._out.write
        self._command = command
        self._kept: list[bytes] | None = []
        self._rows = 0
        self.process: Popen[bytes] | None = None
        self.messages: list[str] = []
        self._columns, lines = os.get_terminal_size(stdout.fileno())
        self._most = lines - 1  # the prompt takes one
        self.text = io.TextIOWrapper(self, encoding=stdout.encoding, errors=stdout.errors)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._out.fileno()

    def write(self, data: ReadableBuffer, /) -> int:
        text = bytes(data)
        if self._kept is None:
            self._write(text)
        else:
            self._kept.append(text)
            self._rows += sum(
                max(len(_STYLE.sub(b"", line)) - 1, 0) // self._columns
                for line in text.split(b"\n")
            ) + text.count(b"\n")
            if self._rows > self._most:
                self.process = _start(self._command, self._out.fileno())
                if self.process is not None:
                    self._write = self._pass_on
                self._print()
        return len(text)

    def flush(self) -> None:
        """Print what was kept; from then on everything is printed as it comes."""
        if self._kept:
            self._print()
        if self.process is None:
            self._out.flush()

    def end(self) -> None:
        """Wait until the user has ended the pager; then print the messages that were held."""
        if self.process is None:
            return
        main = threading.current_thread() is threading.main_thread()
        # The pager takes an interrupt as the end of a search, and goes on.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
        try:
            self.process.communicate()  # closes its end of the pipe first
        finally:
            if main:
                signal.signal(signal.SIGINT, before)
        for message in self.messages:
            print(message, file=sys.stderr, flush=True)

    def _pass_on(self, text: bytes) -> None:
        pipe = None if self.process is None else self.process.stdin
        if pipe is None:
            return
        try:
            pipe.write(text)
            pipe.flush()
        except BrokenPipeError:
            self._write = len  # what is left goes nowhere
            raise

    def _print(self) -> None:
        kept, self._kept = self._kept or (), None
        for text in kept:
            self._write(text)


def _start(command: str, terminal: int) -> Popen[bytes] | None:
    """Start a pager that reads a pipe; None if there is none."""
    import shlex
    import shutil
    import subprocess

    # As git does, words without any character that means something to a shell are run without one.
    words = command.split()
    if _FOR_SHELL.search(command):
        with suppress(ValueError):
            parts = shlex.shlex(command, posix=True, punctuation_chars=True)
            words = [word for word in parts if "=" not in word]
        if not words or shutil.which(words[0]) is None:
            return None
        words = ["/bin/sh", "-c", command]
    try:
        return subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=terminal, env=pager_environment(os.environ)
        )
    except OSError:
        return None


def pager_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a pager, with options where the user has set none."""
    less = environ.get("LESS", _LESS)
    if "r" not in less.lower():
        less += " -R"  # without it colours are shown as codes
    return {"LV": "-c", **environ, "LESS": less}
