"""How a run ends: exit codes, and errors in one line on stderr.

0     done, same, healthy
1     it ran and the answer is negative; a command returns this itself
2     it could not be done
130   interrupted
141   whoever read the output went away
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Callable
from typing import Protocol, TextIO

import click

from ckpttool.cli import pager
from ckpttool.errors import CkptError
from ckpttool.printable import printable

PROGRAM = "ckpt"
DONE = 0
NEGATIVE = 1
FAILED = 2
INTERRUPTED = 130
READER_GONE = 141
_SPELL = "ckpttool.spell"
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class Terminated(KeyboardInterrupt):
    """A signal asked the program to end; raised by handlers, so that clean-up is done."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Verbosity(Protocol):
    """Knows the verbosity, which may be known only after parsing."""

    @property
    def verbosity(self) -> int:
        """How often -v was given."""


def run(work: Callable[[], object], settings: Verbosity) -> int:
    """Do the work of the program; return its exit code. Nothing is raised.

    Args:
        work: returns the exit code; anything but a number counts as 0.
        settings: for the verbosity: with two or more, errors show the traceback.
    """
    prepare_streams()
    try:
        code = work()
        sys.stdout.flush()
    except BaseException as error:
        return _end(error, settings)
    return code if isinstance(code, int) else DONE


def prepare_streams() -> None:
    """Make the standard streams take any text; writing to a closed one raises an error.

    Characters that the encoding lacks are spelled as by `printable`.
    """
    codecs.register_error(_SPELL, _spell_unencodable)
    if sys.stdout is None:
        sys.stdout = _ClosedStream()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, OSError):
                stream.reconfigure(errors=_SPELL)


def complain(message: str) -> None:
    """Write one line to stderr, after the name of the program; never fails."""
    with contextlib.suppress(Exception):
        line = f"{PROGRAM}: {' '.join(message.split(chr(10)))}"
        if not pager.holds(line):
            print(line, file=sys.stderr, flush=True)


def _end(error: BaseException, settings: Verbosity) -> int:
    """Report an error, if it is one, and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return _flushed(error.exit_code, settings)
    if isinstance(error, SystemExit):
        code = FAILED if isinstance(error.code, str) else error.code or DONE
        return _flushed(code, settings)
    if isinstance(error, BrokenPipeError):
        _discard(sys.stdout)
        return READER_GONE
    # Earlier output goes out first; its failure is not reported too.
    try:
        sys.stdout.flush()
    except Exception:
        _discard(sys.stdout)
    if isinstance(error, (KeyboardInterrupt, click.exceptions.Abort)):
        complain("interrupted")
        return 128 + error.number if isinstance(error, Terminated) else INTERRUPTED
    _tell(error)
    if settings.verbosity >= 2:
        _show_traceback(error)
    if isinstance(error, OSError):
        _discard(sys.stdout)
    return FAILED


def _tell(error: BaseException) -> None:
    if isinstance(error, CkptError):
        complain(str(error))
    elif isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else PROGRAM
        message = error.format_message()
        if isinstance(error, click.MissingParameter):  # which lists choices on lines of their own
            message = " ".join(message.split())
        with contextlib.suppress(Exception):
            print(f"{command}: {printable(message)}", file=sys.stderr)
            print(f"Try '{command} --help'.", file=sys.stderr, flush=True)
    elif isinstance(error, click.ClickException):
        complain(printable(error.format_message()))
    elif isinstance(error, MemoryError):
        complain("out of memory")
    elif isinstance(error, OSError) and error.filename is not None:
        complain(f"{printable(os.fsdecode(error.filename))}: {error.strerror}")
    elif isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS:
        complain(f"cannot write the output: {error.strerror}")
    else:
        name = type(error).__name__
        text = printable(" ".join(str(error).split()))
        complain(f"internal error: {name}{': ' if text else ''}{text}; -vv shows where")


def _flushed(code: int, settings: Verbosity) -> int:
    try:
        sys.stdout.flush()
    except Exception as error:
        return _end(error, settings)
    return code


def _discard(stream: TextIO) -> None:
    """Drop the buffer of a stream that cannot be written to."""
    with contextlib.suppress(Exception):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _show_traceback(error: BaseException) -> None:
    with contextlib.suppress(Exception):
        for block in traceback.format_exception(error):
            for line in block.rstrip("\n").split("\n"):
                print(printable(line), file=sys.stderr)
        sys.stderr.flush()


def _spell_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_spell, error.object[error.start : error.end])), error.end


def _spell(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class _ClosedStream(io.TextIOBase):
    """Replaces a standard output that was closed before the program started."""

    @property
    def buffer(self) -> io.RawIOBase:
        """The stream of bytes, closed too."""
        return _ClosedBytes()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _ClosedBytes(io.RawIOBase):
    """The same for bytes."""

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
