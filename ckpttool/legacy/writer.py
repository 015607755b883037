"""Writing a V1 checkpoint.

For the same tensors in the same order the files equal, byte for byte, those that TensorFlow writes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from ckpttool.coding.text import encode_text
from ckpttool.errors import (
    CkptError,
    CorruptError,
    DestinationError,
    InvalidTensorError,
)
from ckpttool.legacy.naming import v1_shard_path
from ckpttool.legacy.reader import LegacyReader
from ckpttool.legacy.records import LegacyEntry, SliceMeta, encode_meta, slice_head
from ckpttool.storage.folders import make_folder
from ckpttool.storage.source import Permissions
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.table.builder import TableBuilder
from ckpttool.tensor.dtypes import STRING, DType
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.slices import FULL, TensorSlice, check_coverage, encode_slice_key

if TYPE_CHECKING:
    from ckpttool.tensor.values import Array

# TensorFlow's upper bound of bytes per element; it refuses a record of 2 GiB by it.
_MOST_BYTES = {
    "float32": 4,
    "float64": 8,
    "int32": 10,
    "uint8": 2,
    "int16": 10,
    "int8": 10,
    "string": 10,
    "complex64": 8,
    "int64": 10,
    "bool": 1,
    "qint8": 10,
    "quint8": 2,
    "qint32": 10,
    "uint16": 3,
    "complex128": 16,
    "float16": 3,
}
_MAX_RECORD = 1 << 31
_ROOM = 1024


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice to be written; `read` gives its elements."""

    key: str
    dtype: DType
    part: TensorSlice
    shape: Shape
    shard_id: int
    read: Callable[[], Array]


class LegacyWriter:
    """A V1 checkpoint being written; nothing is visible before `finish`.

    A file begins with the description of all its tensors, and its records are in key order. So
    values are read in `finish` only, one at a time, by a function for each.

    As a context manager it finishes the checkpoint, or removes what it wrote if the block raises.

    Args:
        prefix: the path of the file, or the common part of the names of several files. Its last
            folder is made if need be.
        num_shards: number of files; None for one with the name of the prefix.
        force: replace files of these names. One file is replaced in one step; several must not be a
            whole checkpoint, since for a moment neither the old nor the new one is whole.
        like: permissions for the files; those of other new files if None.

    Raises:
        DestinationError: a file of such a name exists.
    """

    def __init__(
        self,
        prefix: str,
        *,
        num_shards: int | None = None,
        force: bool = False,
        like: Permissions | None = None,
    ) -> None:
        if num_shards is not None and num_shards < 1:
            raise ValueError(f"a checkpoint has at least one file, not {num_shards}")
        self.prefix = prefix
        self._replace = force
        self._like = like
        self.paths = (
            (prefix,)
            if num_shards is None
            else tuple(v1_shard_path(prefix, number, num_shards) for number in range(num_shards))
        )
        for path in self.paths:
            if os.path.lexists(path) and not self._replace:
                raise DestinationError("already exists", path=path)
        self._tensors: dict[str, SliceMeta] = {}
        self._slices: dict[bytes, _Slice] = {}
        self._finished = False
        self._written: list[tuple[str, int]] = []
        folder = os.path.dirname(prefix)
        self._new_folder = bool(folder) and not os.path.isdir(folder)
        self._staged = StagedFiles()

    def __enter__(self) -> LegacyWriter:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self._staged.abandon()
            if self._new_folder and not self._finished:
                with contextlib.suppress(OSError, ValueError):
                    os.rmdir(os.path.dirname(self.prefix))

    def add(
        self, key: str, dtype: DType, shape: Shape, read: Callable[[], Array], *, shard_id: int = 0
    ) -> None:
        """Add a tensor.

        Args:
            key: its name; bytes that are not UTF-8 are given as surrogate escapes.
            dtype: of its elements.
            shape: of the tensor.
            read: gives the elements when they are written.
            shard_id: the file to write to.

        Raises:
            InvalidTensorError: the key is empty or taken, the format has no such dtype, or the
                tensor is too large for a record.
        """
        if key in self._tensors:
            raise InvalidTensorError("the key already exists", key=key)
        whole = TensorSlice((FULL,) * len(shape))
        self.add_slice(key, dtype, shape, whole, read, shard_id=shard_id)

    def add_slice(
        self,
        key: str,
        dtype: DType,
        shape: Shape,
        part: TensorSlice,
        read: Callable[[], Array],
        *,
        shard_id: int = 0,
    ) -> None:
        """Add a slice of a partitioned tensor.

        Args:
            key: name of the whole tensor.
            dtype: the same for all its slices.
            shape: of the whole tensor; the same for all its slices.
            part: the slice.
            read: gives its elements when they are written.
            shard_id: the file to write to.

        Raises:
            InvalidTensorError: as for `add`, or the slice does not agree with those before.
        """
        try:
            name = encode_text(key)
            part_shape = part.shape(shape)
        except UnicodeEncodeError as error:
            raise InvalidTensorError(f"the key is not Unicode: {error.reason}", key=key) from error
        except CorruptError as error:
            raise InvalidTensorError(error.message, key=key) from error
        if not key:
            raise InvalidTensorError("a tensor cannot have an empty key")
        _check_record(key, dtype, part_shape)
        raw = encode_slice_key(name, part)
        tensor = self._tensors.get(key, SliceMeta(key, dtype, shape, ()))
        if tensor[1:3] != (dtype, shape):
            raise InvalidTensorError(
                f"a slice of {dtype} {list(shape)} for a tensor of "
                f"{tensor.dtype} {list(tensor.shape)}",
                key=key,
            )
        if raw in self._slices:
            raise InvalidTensorError(f"slice {part} already exists", key=key)
        self._tensors[key] = tensor._replace(slices=(*tensor.slices, part))
        self._slices[raw] = _Slice(key, dtype, part, part_shape, shard_id, read)

    def finish(self, *, before_last: Callable[[], None] | None = None) -> list[tuple[str, int]]:
        """Write all files, make them visible and read them back; further calls do nothing.

        Args:
            before_last: called right before the last file gets its name; if it raises, nothing
                becomes visible.

        Returns:
            The path of each file and its size in bytes.

        Raises:
            InvalidTensorError: slices of a tensor leave a gap or overlap, or elements are not what
                was announced.
            DestinationError: somebody wrote files of that name meanwhile.
        """
        if self._finished:
            return self._written
        for key, tensor in self._tensors.items():
            try:
                check_coverage(tensor.shape, tensor.slices)
            except CorruptError as error:
                raise InvalidTensorError(error.message, key=key) from error
        make_folder(os.path.dirname(self.prefix))
        # The first file comes last: without it readers find nothing.
        numbers = reversed(range(len(self.paths)))
        written = [self._write(number, self.paths[number]) for number in numbers]
        self._written = [(file.path, file.size) for file in reversed(written)]
        if len(written) == 1:
            self._staged.commit(replace_last=self._replace, before_last=before_last)
        else:
            self._staged.commit_together(replace=self._replace, before_last=before_last)
        self._finished = True
        self._slices.clear()  # releases the sources of the values
        self._check_written()
        return self._written

    def _write(self, shard_id: int, path: str) -> StagedFile:
        if self._like is None:
            file = self._staged.create(path)
        else:
            file = self._staged.create(path, mode=0o600)
            file.take_permissions(self._like)
        builder = TableBuilder(file.write)
        own = {raw: each for raw, each in self._slices.items() if each.shard_id == shard_id}
        parts: dict[str, list[TensorSlice]] = {}
        for each in own.values():
            parts.setdefault(each.key, []).append(each.part)
        meta = encode_meta(
            self._tensors[key]._replace(slices=tuple(slices)) for key, slices in parts.items()
        )
        builder.add(b"", meta)
        for raw in sorted(own):
            _write_record(builder, raw, own[raw])
        builder.finish()
        return file

    def _check_written(self) -> None:
        with LegacyReader(self.prefix, self.paths) as reader:
            for file, (_, size) in zip(reader.shard_files(), self._written, strict=True):
                if file.size != size:
                    raise CorruptError(
                        "the file does not have the size that was written", path=file.path
                    )
            # One by one, so as not to have two descriptions of all tensors in memory.
            same = len(reader.entries) == len(self._tensors) and all(
                key in self._tensors and _ordered(self._tensors[key]) == _ordered(_meta(key, entry))
                for key, entry in reader.entries.items()
            )
        if not same:
            raise CorruptError("the checkpoint does not read back as written", path=self.prefix)


def _meta(key: str, entry: LegacyEntry) -> SliceMeta:
    return SliceMeta(key, entry.dtype, entry.shape, tuple(part for part, _ in entry.parts))


def _write_record(builder: TableBuilder, raw: bytes, each: _Slice) -> None:
    from ckpttool.tensor.proto_writing import encode_proto, encoded_size

    array = each.read()
    if array.shape != each.shape:
        raise InvalidTensorError(
            f"slice {each.part} has shape {list(each.shape)}, not {list(array.shape)}",
            key=each.key,
        )
    if each.dtype != STRING and array.dtype != each.dtype.numpy_dtype:
        raise InvalidTensorError(
            f"elements of {array.dtype} for a tensor of {each.dtype}", key=each.key
        )
    try:
        size = encoded_size(each.dtype, array)
        if each.dtype == STRING:
            _check_record(each.key, each.dtype, each.shape, size)
        head = slice_head(each.key, each.part, size)
        pieces = chain((head,), encode_proto(each.dtype, array))
        builder.add_pieces(raw, len(head) + size, pieces)
    except CkptError as error:
        error.locate(key=each.key)
        raise


def _check_record(key: str, dtype: DType, shape: Shape, more: int = 0) -> None:
    """Check what TensorFlow's own writer checks: the dtype, and a bound of the record's size."""
    most = _MOST_BYTES.get(dtype.name)
    if most is None:
        raise InvalidTensorError(f"format V1 has no dtype {dtype}", key=key)
    bound = _ROOM + most * element_count(shape) + more
    if bound > _MAX_RECORD:
        raise InvalidTensorError(
            f"its record may take {bound} bytes, more than the {_MAX_RECORD} of format V1: it has "
            "to be partitioned",
            key=key,
        )


def _ordered(tensor: SliceMeta) -> SliceMeta:
    return tensor._replace(slices=tuple(sorted(tensor.slices, key=lambda part: part.extents)))
