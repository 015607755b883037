"""Tensors, or parts of them, in a file: `.npy`, `.npz`, `.safetensors` or `.csv`.

NumPy's format names only NumPy's own dtypes. As `.npy`, those of ml_dtypes (bfloat16, float8, int4
and such) are stored under a void dtype of their size: `numpy.load(path).view(ml_dtypes.bfloat16)`
is what was stored, bit by bit. A void can, unlike an integer of that size, not be taken for numbers
by mistake. Strings become bytes of one width, filled up with NULs.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ckpttool.checkpoint.nearest import quoted
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import DestinationError, SelectionError, UnsupportedError
from ckpttool.interchange.formats import FILE_FORMATS, NPY, NPZ
from ckpttool.interchange.npy_writing import npy_header
from ckpttool.interchange.npz_writing import same_member
from ckpttool.interchange.outgoing import Outgoing, Write
from ckpttool.query.diff.elements import numbers
from ckpttool.query.values.parts import ML_DTYPES, Part
from ckpttool.query.values.targets import Target, format_index
from ckpttool.storage.staging import StagedFiles
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.values import Array, encode_array

CSV = "csv"
VALUE_FORMATS = (*FILE_FORMATS, CSV)
# Strings may take this many bytes once they are all as wide as the widest, or this many times what
# they take now.
_MOST_PADDED = 1 << 30
_MOST_PADDING = 16


@dataclass(frozen=True, slots=True)
class WrittenValues:
    """A file that has been written.

    Attributes:
        bytes: its size.
        view: the dtype of ml_dtypes that the array in it must be viewed as; None if NumPy knows it.
        verified: whether all elements were checked against their crc32c.
    """

    bytes: int
    view: str | None
    verified: bool


def format_of_values(path: str) -> str:
    """Return the format that the ending of a file's name tells.

    Raises:
        SelectionError: it tells none.
    """
    for name in VALUE_FORMATS:
        if path.endswith(f".{name}"):
            return name
    endings = quoted(f".{name}" for name in VALUE_FORMATS)
    raise SelectionError(f"values go to a file that ends in {endings}, not '{path}'")


class ValueFile:
    """Tensors that can be written to a file.

    Args:
        ckpt: the checkpoint.
        targets: what to write, each tensor or part once.
        form: one of `VALUE_FORMATS`.
        by_key: whether they are called by their keys, not by their object paths.

    Raises:
        SelectionError: the format holds one tensor, and there are several.
        UnsupportedError: the format has nothing for a tensor.
    """

    def __init__(
        self, ckpt: Checkpoint, targets: Sequence[Target], form: str, *, by_key: bool = False
    ) -> None:
        self._ckpt = ckpt
        self._form = form
        self._parts = [Part(ckpt, target.key, target.index) for target in targets]
        if len(targets) != 1 and form in (NPY.name, CSV):
            raise SelectionError(
                f"a .{form} file holds one tensor, not {len(targets)}; .npz and .safetensors "
                "files hold several"
            )
        self.verified = all(part.verified for part in self._parts)
        self.view: str | None = None
        self._tensors: list[Outgoing] = []
        if form == CSV:
            self._check_table()
            return
        named = [_name(ckpt, target, by_key=by_key) for target in targets]
        for name, part in zip(named, self._parts, strict=True):
            self._tensors.append(_outgoing(name, part, FILE_FORMATS[form] in (NPY, NPZ)))
        self._check_tensors()

    def write(self, path: str, *, force: bool = False) -> WrittenValues:
        """Write the file, which appears when it is complete.

        A tensor that turns out to be damaged leaves none.

        Args:
            path: where to; the folder must exist. Nothing is appended to the name.
            force: replace a file that exists.

        Raises:
            DestinationError: the file exists, or is one of the checkpoint's own.
            CorruptError: stored bytes are damaged.
        """
        _check_destination(self._ckpt, path, force=force)
        with StagedFiles() as files:
            staged = files.create(path)
            self._write(staged.write)
            size = staged.size
            files.commit(replace_last=force)
        return WrittenValues(size, self.view, self.verified)

    def write_to(self, write: Write) -> None:
        """Write the bytes into a pipe, once all of them were read and checked.

        Raises:
            CorruptError: stored bytes are damaged; nothing was written.
        """
        for part in self._parts:
            for _ in part.blocks():
                pass  # the checksum is compared behind the last one
        self._write(write)

    def _write(self, write: Write) -> None:
        if self._form == CSV:
            _write_table(self._parts[0], write)
        elif self.view is not None:
            (tensor,) = self._tensors
            write(npy_header(f"'|V{tensor.dtype.size}'", tensor.shape))
            for chunk in tensor.chunks():
                write(chunk)
        else:
            FILE_FORMATS[self._form].write(self._tensors, write, {})

    def _check_tensors(self) -> None:
        form = FILE_FORMATS[self._form]
        for tensor, part in zip(self._tensors, self._parts, strict=True):
            problem = form.obstacle(tensor) or form.name_obstacle(tensor.name)
            if form is NPY and tensor.dtype.name in ML_DTYPES:
                self.view, problem = tensor.dtype.name, None
            if problem is not None:
                raise UnsupportedError(problem, path=self._ckpt.prefix, key=part.key)
        alike = same_member(tensor.name for tensor in self._tensors) if form is NPZ else None
        if alike is not None:
            raise UnsupportedError(f"NumPy would take {quoted(alike)} for one name")

    def _check_table(self) -> None:
        (part,) = self._parts
        problem = None
        if part.dtype.size is None and part.dtype != STRING:
            problem = f"a tensor of dtype {part.dtype} has no place in a .csv file"
        elif len(part.shape) > 2:
            problem = (
                f"a .csv file holds a vector or a matrix, not {len(part.shape)} dimensions; "
                "an index such as [0] selects a part"
            )
        if problem is not None:
            raise UnsupportedError(problem, path=self._ckpt.prefix, key=part.key)


def _name(ckpt: Checkpoint, target: Target, *, by_key: bool) -> str:
    path = None if by_key else ckpt.object_path(target.key)
    name = target.key if path is None else path
    return name if target.index is None else f"{name}[{format_index(target.index)}]"


def _outgoing(name: str, part: Part, strings: bool) -> Outgoing:
    if part.dtype == STRING and strings:
        elements: list[bytes] = part.read().reshape(-1).tolist()
        width = _width(part, elements)
        padded = partial(_padded, elements, width)
        return Outgoing(name, part.dtype, part.shape, padded, width)
    return Outgoing(name, part.dtype, part.shape, partial(_chunks, part))


def _chunks(part: Part) -> Iterator[memoryview]:
    for block in part.blocks():
        yield encode_array(part.dtype, block)[0]


def _padded(elements: Iterable[bytes], width: int) -> Iterator[bytes]:
    for element in elements:
        yield element.ljust(width, b"\0")


def _width(part: Part, elements: Sequence[bytes]) -> int:
    """Return the width of the longest string, at least 1."""
    for at, element in enumerate(elements):
        if element.endswith(b"\0"):
            raise UnsupportedError(
                f"string {at} ends in NUL, which NumPy's bytes cannot hold",
                path=part.ckpt.prefix,
                key=part.key,
            )
    width = max(map(len, elements), default=1) or 1
    padded = width * len(elements)
    if padded > max(_MOST_PADDED, _MOST_PADDING * sum(map(len, elements))):
        raise UnsupportedError(
            f"{len(elements)} strings would take {padded} bytes at the width of the longest",
            path=part.ckpt.prefix,
            key=part.key,
        )
    return width


def _write_table(part: Part, write: Write) -> None:
    """Write a matrix row by row, a vector with an element in each row."""
    width = part.shape[1] if len(part.shape) == 2 else 1
    row: list[str] = []
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for block in part.blocks():
        for element in _texts(part, block):
            row.append(element)
            if len(row) == width:
                rows.writerow(row)
                row.clear()
        write(text.getvalue().encode("utf-8", "surrogateescape"))
        text.seek(0)
        text.truncate()


def _texts(part: Part, block: Array) -> Iterator[str]:
    """Yield elements as text that reads back as the same."""
    if part.dtype == STRING:
        for element in block.tolist():
            yield element.decode("utf-8", "surrogateescape")
        return
    if part.dtype.name not in ("float16", "bool"):
        block = numbers(part.dtype, block)
    for number in block:
        yield str(number).strip("()")


def _check_destination(ckpt: Checkpoint, path: str, *, force: bool) -> None:
    location = ckpt.location
    own = [ckpt.reader.path, *(file.path for file in ckpt.reader.shard_files())]
    own += filter(None, (location.meta_path, location.state_path))
    for file in own:
        with suppress(OSError):
            if os.path.samefile(file, path):
                raise DestinationError("it is a file of the checkpoint itself", path=path)
    if os.path.lexists(path) and not force:
        raise DestinationError("already exists; use --force to replace it", path=path)
    if os.path.isdir(path):
        raise DestinationError("it is a folder", path=path)
