"""One pattern, as typed.

    net/l1            exactly this key or object path; else the whole scope of this name
    net/l1/           the whole scope
    net/*/kernel      a glob, where the text has one of * ? [ ] { }
    re:bias$          a regular expression, found anywhere in the name
    =a*b              exactly this key or object path, whatever it contains
    @FILE             the patterns in FILE, one a line; empty lines and lines with # are left out

A word with glob characters that is also a literal name selects that name. Literal names may be
spelled as `printable` does.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ckpttool.checkpoint.selection.globs import compile_glob, is_glob
from ckpttool.coding.text import decode_text
from ckpttool.errors import SelectionError
from ckpttool.printable import shortened
from ckpttool.storage.source import file_error

PatternForm = Literal["word", "glob", "regex", "exact"]
MAX_FILE_DEPTH = 16
MAX_FILE_SIZE = 256 << 20


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern.

    Attributes:
        text: the pattern as typed.
        form: what it is.
        body: the text without its mark.
    """

    text: str
    form: PatternForm
    body: str
    _regex: re.Pattern[str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Read a pattern other than `@FILE`.

        Raises:
            SelectionError: the pattern is empty or its regular expression is malformed. A
                malformed glob is reported by `regex` only, since it may be the name of a tensor.
        """
        if text.startswith("re:"):
            return cls(text, "regex", text[3:], _compile_regex(text))
        if text.startswith("="):
            return cls(text, "exact", text[1:])
        if not text:
            raise SelectionError("an empty pattern; '**' selects everything")
        return cls(text, "glob" if is_glob(text) else "word", text)

    @property
    def regex(self) -> re.Pattern[str]:
        """The regular expression, for `search` with `re:`, for `fullmatch` with a glob.

        Raises:
            SelectionError: the glob is malformed.
        """
        return self._regex or compile_glob(self.body)


def expand_files(text: str) -> Iterator[str]:
    """Yield `text`, or the patterns in the file that it names with `@`.

    A pattern in a file may be `@OTHER`, relative to the folder of that file.

    Raises:
        MissingFileError, FileAccessError: a file cannot be read.
        SelectionError: files include themselves or each other in a circle.
    """
    return _expand(text, "", ())


def _expand(text: str, folder: str, open_files: tuple[str, ...]) -> Iterator[str]:
    if not text.startswith("@"):
        yield text
        return
    path = os.path.join(folder, text[1:])
    identity = _real_path(path)
    if identity in open_files or len(open_files) >= MAX_FILE_DEPTH:
        raise SelectionError("pattern files that include each other in a circle", path=path)
    for line in _read_lines(path):
        if line.strip() and not line.startswith("#"):
            yield from _expand(line, os.path.dirname(path), (*open_files, identity))


def _real_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError) as error:  # a NUL
        raise SelectionError(str(error), path=path) from error


def _read_lines(path: str) -> list[str]:
    # The user names this file, so a pipe is welcome here: `-i @<(...)`.
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_SIZE + 1)
    except OSError as error:
        raise file_error(error, path) from error
    if len(data) > MAX_FILE_SIZE:
        raise SelectionError(f"a pattern file of more than {MAX_FILE_SIZE} bytes", path=path)
    text = decode_text(data).removeprefix("\ufeff")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _compile_regex(text: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `re` warns about syntax that may change
            return re.compile(text[3:])
    except (re.error, OverflowError, RecursionError) as error:
        raise SelectionError(f"'{shortened(text)}' is not a regular expression: {error}") from error
