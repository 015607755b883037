"""Every error that ckpttool raises on purpose.

An error says where it was found: the file, the byte offset in it and the key, as far as they are
known. Low levels know the offset, the middle knows the path, the top knows the key; each fills in
what is still empty with `CkptError.locate` and lets the error travel on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from ckpttool.printable import printable

_E = TypeVar("_E", bound="CkptError")
_MAX_PART = 1000


class CkptError(Exception):
    """Base of all errors of ckpttool; its `str()` is one printable line.

    Args:
        message: what is wrong, without the place.
        path: the file it was found in.
        offset: byte offset in that file.
        key: the tensor concerned.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.key = key

    def locate(
        self: _E,
        *,
        path: str | None = None,
        offset: int | None = None,
        key: str | None = None,
    ) -> _E:
        """Fill in the parts of the place that are not known yet; return the error itself."""
        if self.path is None:
            self.path = path
        if self.offset is None:
            self.offset = offset
        if self.key is None:
            self.key = key
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle rebuilds an exception from its positional arguments alone. Without this, an error
        # would not come back from a worker process.
        return _rebuild, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        parts = []
        if self.path is not None:
            at = "" if self.offset is None else f":{self.offset}"
            parts.append(f"{printable(self.path)}{at}")
        elif self.offset is not None:
            parts.append(f"offset {self.offset}")
        if self.key is not None:
            parts.append(f"key '{printable(self.key)}'")
        return ": ".join([*map(_shortened, parts), printable_line(self.message)])


def _rebuild(kind: type[_E], args: tuple[object, ...], state: dict[str, object]) -> _E:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def printable_line(text: str) -> str:
    """Return a message as one printable line of bounded length."""
    return _shortened(" ".join(printable(line) for line in text.splitlines()))


def _shortened(text: str) -> str:
    """Shorten a long text in the middle; names and lists in a file may be megabytes long."""
    if len(text) <= _MAX_PART:
        return text
    return f"{text[: _MAX_PART // 2]} … {text[-_MAX_PART // 2 :]}"


def in_arguments(message: str) -> str:
    """Return a message with the names of arguments, which stand in braces, as Python has them."""
    return message.replace("{", "").replace("}", "")


@contextmanager
def located(key: str, path: str | None = None) -> Iterator[None]:
    """Fill in the key and the path of errors raised in the block."""
    try:
        yield
    except CkptError as error:
        error.locate(path=path, key=key)
        raise


class CorruptError(CkptError):
    """Bytes contradict the format."""


class TruncatedError(CorruptError):
    """A file or a record is shorter than it says."""


class ChecksumError(CorruptError):
    """Bytes do not have the checksum that was stored for them.

    Args:
        stored: the crc32c in the file, unmasked.
        computed: the crc32c of the bytes as they are.
        kind: the checksum, if it is another one.
    """

    def __init__(
        self,
        message: str,
        *,
        stored: int,
        computed: int,
        kind: str = "crc32c",
        path: str | None = None,
        offset: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(
            f"{message}: {kind} {computed:#010x}, stored {stored:#010x}",
            path=path,
            offset=offset,
            key=key,
        )
        self.stored = stored
        self.computed = computed


class ChangedError(CkptError):
    """Files changed while they were read: somebody is writing the checkpoint."""


class UnsupportedError(CkptError):
    """Well-formed, but not supported: a dtype, a compression, a version."""


class NotFoundError(CkptError):
    """Something that was asked for does not exist."""


class MissingFileError(NotFoundError, FileNotFoundError):
    """A file or a checkpoint does not exist."""

    __str__ = CkptError.__str__


class MissingKeyError(NotFoundError, KeyError):
    """A checkpoint has no such key."""

    __str__ = CkptError.__str__


class FileAccessError(CkptError, OSError):
    """The operating system refused to open, read or write a file."""

    __str__ = CkptError.__str__


class SelectionError(CkptError, ValueError):
    """A pattern or an index cannot be parsed, or selects nothing."""


class DestinationError(CkptError):
    """The destination must not be written: it exists, or shares files with the source."""


class SurgeryError(CkptError):
    """The requested change must not be made."""


class KeyCollisionError(SurgeryError):
    """Two tensors or objects would have the same name."""


class InvalidTensorError(CkptError, ValueError):
    """A tensor given for writing cannot be stored as asked."""


class UntrackableError(CkptError, ValueError):
    """An object cannot be part of a checkpoint as asked."""


class ContainerChangedError(CkptError, ValueError):
    """A list, dict or tuple of a program was changed so that its elements have no lasting names."""


class MismatchError(CkptError, ValueError):
    """Tensors of a checkpoint do not fit the program that restores them.

    Attributes:
        mismatches: all of them: dicts of `path`, `key`, `dtype`, `shape`, and the `target_dtype`
            and `target_shape` of the program.
    """

    mismatches: list[dict[str, object]]


class UnrestoredError(CkptError, AssertionError):
    """A checkpoint and a program do not match as was asserted.

    Attributes:
        unmatched: paths of the program's objects that got nothing.
        unresolved: paths of the checkpoint's objects that nothing took.
        unused_attributes: attributes that their objects do not take, as `path:attribute`.
        hollow: paths of objects with values for which the checkpoint has an object without.
    """

    unmatched: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    unused_attributes: tuple[str, ...] = ()
    hollow: tuple[str, ...] = ()


class UnrestoredWarning(UserWarning):
    """The end of a restore left values of the checkpoint that nothing took.

    Attributes:
        paths: of these values.
    """

    paths: tuple[str, ...] = ()


class UnsavedWarning(UserWarning):
    """Something was assigned to an object that will not save it."""
