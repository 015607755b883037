"""Writing a bundle.

For the same tensors in the same order the files equal, byte for byte, those that TensorFlow writes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ckpttool.bundle.entry import BundleEntry, BundleHeader
from ckpttool.bundle.index import BundleIndex
from ckpttool.bundle.naming import (
    find_shards,
    index_path,
    shard_path,
    split_shard_path,
)
from ckpttool.coding.checksum import crc32c, mask
from ckpttool.coding.text import decode_text, encode_text
from ckpttool.errors import (
    CorruptError,
    DestinationError,
    InvalidTensorError,
)
from ckpttool.storage.folders import OpenFolder, make_folder
from ckpttool.storage.source import Identity, RandomAccessFile, file_error, identity_of
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.table.builder import TableBuilder
from ckpttool.tensor.dtypes import DType, dtype_of_array
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import TensorSlice, check_coverage, encode_slice_key

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ckpttool.tensor.values import Array

# Small enough that a piece is still in the processor's cache when it is written.
_PIECE_SIZE = 1 << 20


class BundleWriter:
    """A bundle being written; nothing is visible before `finish`.

    As a context manager it removes what it wrote if the block ends in an exception, and finishes
    the bundle otherwise.

    Args:
        prefix: path of the bundle without `.index`. The last folder in it is made if need be.
        num_shards: how many data shards to write.
        force: replace a checkpoint of that name. A reader finds the old or the new one at any
            instant: the new shards get names of another count than the old, if need be by adding
            empty ones, and the old ones go when the new index is in place.

    Raises:
        DestinationError: files of that name exist and `force` is not given.
    """

    def __init__(self, prefix: str, *, num_shards: int = 1, force: bool = False) -> None:
        if num_shards < 1:
            raise ValueError(f"a bundle has at least one data shard, not {num_shards}")
        self.prefix = prefix
        self._replace = False
        old_shards: list[str] = []
        if force:
            self._replace = os.path.lexists(index_path(prefix))
            old_shards = find_shards(prefix)
        else:
            self._refuse_existing()
        taken = {split[2] for split in map(split_shard_path, old_shards) if split}
        while num_shards in taken:
            num_shards += 1
        self._header = BundleHeader(num_shards=num_shards)
        self._entries: dict[bytes, BundleEntry] = {}
        self._partitioned: dict[bytes, BundleEntry] = {}
        self._finished = False
        folder = os.path.dirname(prefix)
        self._new_folder = bool(folder) and not os.path.isdir(folder)
        self._staged = StagedFiles()
        self._shards: list[StagedFile] = []
        # Held open: what is found in it now goes from there, wherever its path leads by then.
        self._folder: OpenFolder | None = None
        self._old_shards: dict[str, Identity] = {}
        try:
            make_folder(folder)
            if old_shards:
                self._look_at(folder, map(os.path.basename, old_shards))
            for shard_id in range(num_shards):
                path = shard_path(prefix, shard_id, num_shards)
                self._shards.append(self._staged.create(path))
        except BaseException:
            self._clean_up()
            raise

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        self._staged.abandon()
        if self._folder is not None:
            self._folder.close()
        if self._new_folder and not self._finished:
            with contextlib.suppress(OSError, ValueError):
                os.rmdir(os.path.dirname(self.prefix))

    @property
    def emptiest_shard(self) -> int:
        """The number of the data shard that has the fewest bytes so far."""
        sizes = [shard.size for shard in self._shards]
        return sizes.index(min(sizes))

    def add(self, key: str, value: ArrayLike, *, shard_id: int = 0) -> None:
        """Append a tensor.

        Args:
            key: its name; bytes that are not UTF-8 are given as surrogate escapes.
            value: an array, or what NumPy makes one of. Text is stored as UTF-8 strings.
            shard_id: the data shard to write to.

        Raises:
            InvalidTensorError: the key is empty or taken, or the value has no TensorFlow dtype.
        """
        raw = self._new_key(key)
        array, dtype = _as_tensor(value, key)
        self._entries[raw] = self._write(dtype, array, shard_id, key)

    def add_slice(
        self, key: str, shape: Shape, part: TensorSlice, value: ArrayLike, *, shard_id: int = 0
    ) -> None:
        """Append a slice of a partitioned tensor.

        A slice that covers the whole tensor is stored as an ordinary one. TensorFlow can join
        slices of dtypes that are `joinable` only; this package joins all.

        Args:
            key: name of the whole tensor.
            shape: of the whole tensor; the same for all its slices.
            part: which slice this is.
            value: its elements.
            shard_id: the data shard to write to.

        Raises:
            InvalidTensorError: the slice already exists, or does not agree with the others.
        """
        try:
            part_shape = part.shape(shape)
        except CorruptError as error:
            raise InvalidTensorError(error.message, key=key) from error
        if part.is_full or part.covers(shape):
            self.add(key, value, shard_id=shard_id)
            return
        raw = _encode_key(key)
        array, dtype = _as_tensor(value, key)
        whole = self._partitioned.get(raw)
        if whole is None:
            self._new_key(key)
            whole = BundleEntry(dtype, shape, shard_id)
        if (whole.dtype, whole.shape) != (dtype, shape):
            raise InvalidTensorError(
                f"a slice of {dtype} {list(shape)} for a tensor of "
                f"{whole.dtype} {list(whole.shape)}",
                key=key,
            )
        if array.shape != part_shape:
            raise InvalidTensorError(
                f"slice {part} has shape {list(part_shape)}, not {list(array.shape)}", key=key
            )
        slice_key = encode_slice_key(raw, part)
        if slice_key in self._entries:
            raise InvalidTensorError(f"slice {part} already exists", key=key)
        self._entries[slice_key] = self._write(dtype, array, shard_id, key)
        # Merging shards, TensorFlow gives this entry the first shard that has a slice.
        whole = whole._replace(slices=(*whole.slices, part), shard_id=min(whole.shard_id, shard_id))
        self._entries[raw] = self._partitioned[raw] = whole

    def finish(self) -> None:
        """Write the index, make all files visible and check what is there now.

        Further calls do nothing.

        Raises:
            InvalidTensorError: slices of a tensor leave a gap or overlap.
            DestinationError: somebody wrote files of that name meanwhile.
        """
        if self._finished:
            return
        for raw, entry in self._partitioned.items():
            try:
                check_coverage(entry.shape, entry.slices)
            except CorruptError as error:
                key = decode_text(raw)
                raise InvalidTensorError(error.message, key=key) from error
        index = self._staged.create(index_path(self.prefix))
        builder = TableBuilder(index.write)
        builder.add(b"", self._header.encode())
        for raw in sorted(self._entries):
            builder.add(raw, self._entries[raw].encode())
        builder.finish()
        self._staged.commit(replace_last=self._replace)
        self._finished = True
        self._check_written()
        self._remove_old_shards()

    def _look_at(self, folder: str, names: Iterable[str]) -> None:
        """Open the folder, and remember which files have some names in it."""
        try:
            self._folder = OpenFolder(folder)
            for name in names:
                status = self._folder.status(name)
                if status is not None:
                    self._old_shards[name] = identity_of(status)
        except OSError as error:
            raise file_error(error, folder or os.curdir) from error

    def _remove_old_shards(self) -> None:
        """Remove what is still what it was; what cannot be removed stays."""
        if self._folder is not None:
            for name, identity in self._old_shards.items():
                with contextlib.suppress(OSError):
                    status = self._folder.status(name)
                    if status is not None and identity_of(status) == identity:
                        self._folder.unlink(name)

    def _new_key(self, key: str) -> bytes:
        raw = _encode_key(key)
        if not raw:
            raise InvalidTensorError("a tensor cannot have an empty key")
        if raw in self._entries:
            raise InvalidTensorError("the key already exists", key=key)
        return raw

    def _write(self, dtype: DType, array: Array, shard_id: int, key: str) -> BundleEntry:
        from ckpttool.tensor.values import encode_array

        shard = self._shards[shard_id]
        offset = shard.size
        try:
            data, crc = encode_array(dtype, array)
        except InvalidTensorError as error:
            error.locate(key=key)
            raise
        running = 0
        for at in range(0, len(data), _PIECE_SIZE):
            piece = data[at : at + _PIECE_SIZE]
            running = crc32c(piece, running)
            shard.write(piece)
        stored = mask(running if crc is None else crc)
        return BundleEntry(dtype, array.shape, shard_id, offset, len(data), stored)

    def _refuse_existing(self) -> None:
        for path in (index_path(self.prefix), *find_shards(self.prefix)):
            if os.path.lexists(path):
                raise DestinationError("already exists", path=path)

    def _check_written(self) -> None:
        written = BundleIndex(self.prefix)
        expected = {decode_text(key): entry for key, entry in self._entries.items()}
        found = dict(written.entries.items())
        slices = {
            encode_slice_key(encode_text(key), part)
            for key, entry in found.items()
            if entry.slices
            for part, _ in written.slice_entries(key)
        }
        if written.header != self._header or len(found) + len(slices) != len(expected):
            raise CorruptError("the index does not read back as written", path=written.path)
        for key, entry in found.items():
            if entry != expected[key]:
                raise CorruptError(
                    "the index does not read back as written", path=written.path, key=key
                )
        for shard in self._shards:
            with RandomAccessFile(shard.path) as file:
                if file.size != shard.size:
                    raise CorruptError("the data shard has the wrong size", path=shard.path)


def _encode_key(key: str) -> bytes:
    try:
        return encode_text(key)
    except UnicodeEncodeError as error:
        raise InvalidTensorError(f"the key is not Unicode: {error.reason}", key=key) from error


def _as_tensor(value: ArrayLike, key: str) -> tuple[Array, DType]:
    from ckpttool.tensor.values import to_array

    try:
        array = to_array(value)
        return array, dtype_of_array(array)
    except (TypeError, ValueError) as error:
        raise InvalidTensorError(str(error), key=key) from error
