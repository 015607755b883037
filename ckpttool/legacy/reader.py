"""Reading a V1 checkpoint.

Opening reads the index block of each file and the record that describes its tensors. A value is
returned only after the checksum of its block was checked, except part of a large tensor: that would
mean reading the whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpttool.coding.text import encode_text
from ckpttool.errors import (
    CkptError,
    CorruptError,
    MissingFileError,
    MissingKeyError,
    UnsupportedError,
    located,
)
from ckpttool.legacy.files import LegacyFiles
from ckpttool.legacy.records import UNKNOWN, LegacyEntry, LegacyPart, find_values
from ckpttool.storage.source import Identity, Permissions, ShardFile
from ckpttool.table.values import TableValue
from ckpttool.tensor.entries import EntriesByName
from ckpttool.tensor.shape import Shape, element_count
from ckpttool.tensor.slices import Bounds, TensorSlice, encode_slice_key, offset_slices

if TYPE_CHECKING:
    from ckpttool.tensor.region import Index
    from ckpttool.tensor.values import Array

# A block cannot be compressed better than this.
_MAX_RATIO = 22


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of one slice as they lie in a file: a TensorProto within a record."""

    key: str
    record: TableValue
    start: int
    stop: int

    def locate(self, error: CkptError) -> None:
        """Give an error of decoding its place."""
        offset = None if self.record.in_memory else error.offset
        error.offset = self.record.offset + (offset or 0)
        error.locate(path=self.record.path, key=self.key)


class LegacyReader:
    """An open V1 checkpoint.

    Args:
        prefix: the common part of its files' names.
        paths: of all its files in shard order, missing ones included. With none it is a checkpoint
            without tensors, such as that of a SavedModel without variables.

    Attributes:
        entries: every tensor that the present files describe.
        damaged: key -> error, for tensors with a damaged description; all others can be read.
        num_shards: number of files.
        big_endian: byte order in which `chunks` gives elements: that of this machine.

    Raises:
        CorruptError: a file is damaged.
        MissingFileError: there is no file at all.
        UnsupportedError: a file is of a version that is not known.
    """

    def __init__(self, prefix: str, paths: Sequence[str]) -> None:
        self.prefix = prefix
        self.num_shards = len(paths)
        self.big_endian = sys.byteorder == "big"
        self._files = LegacyFiles(paths)
        self._last: tuple[LegacyPart, str, Array] | None = None
        # A tensor's slices are read one after another, and there may be thousands.
        self._last_slices: tuple[str, dict[TensorSlice, LegacyPart]] | None = None
        self.damaged: dict[str, CkptError] = {}
        try:
            self.entries = self._describe()
        except BaseException:
            self.close()
            raise
        self.dtype_and_shape = self.entries.dtype_and_shape

    def __enter__(self) -> LegacyReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; arrays read before stay valid."""
        self._files.close()
        self._last = None

    @property
    def path(self) -> str:
        """The first present file, for errors that concern no file in particular."""
        return next(
            (file.path for file in self.shard_files() if file.size is not None), self.prefix
        )

    @property
    def permissions(self) -> Permissions:
        """Permissions of the first present file."""
        found = self._files.permissions
        if found is None:
            raise MissingFileError("no file of the checkpoint exists", path=self.prefix)
        return found

    @property
    def identities(self) -> dict[str, Identity]:
        """Identities of the files, to find out later whether they changed."""
        return {self._files.paths[at]: found for at, found in self._files.identities.items()}

    def shard_files(self) -> list[ShardFile]:
        """Return the files in shard order."""
        return [
            ShardFile(path, size)
            for path, size in zip(self._files.paths, self._files.sizes, strict=True)
        ]

    def read(self, key: str, *, copy: bool = True) -> Array:
        """Return the value of a tensor, its slices joined.

        The array is always a copy. Elements of strings are bytes.

        Args:
            key: the tensor's key.
            copy: ignored; present for the interface of bundles.

        Raises:
            MissingKeyError: there is no such key.
            MissingFileError: a file with part of it is missing.
            CorruptError: the stored bytes are damaged, or the slices leave a gap or overlap.
            UnsupportedError: the format has no such dtype.
        """
        entry = self._readable(key)
        if entry.whole:
            return self._decode(key, entry, entry.whole)
        return self._join(key, entry, tuple((0, dim) for dim in entry.shape))

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Yield keys and values of tensors.

        Raises:
            CkptError: as for `read`.
        """
        for key in keys:
            yield key, self.read(key)

    def read_region(self, key: str, index: Index) -> Array:
        """Return part of a tensor.

        Of floating-point and complex numbers in large blocks only the needed bytes are read, and no
        checksum is checked. Else the slices that the part touches are read as a whole.

        Args:
            key: the tensor's key.
            index: a number or a slice for each dimension, as `tensor.region.fit_index` gives.
        """
        from ckpttool.tensor.partial import read_part
        from ckpttool.tensor.proto_values import stored_run
        from ckpttool.tensor.region import bounding_box, within_box
        from ckpttool.tensor.values import array_part

        entry = self._readable(key)
        whole = entry.whole
        if whole is None:
            box = bounding_box(index, entry.shape)
            joined = self._join(key, entry, box)
            part: Array = joined[within_box(index, entry.shape, box)]
            return part
        values = self._find(key, whole, verify=False)
        run = stored_run(entry.dtype, values.record, values.start, values.stop)
        size = entry.size
        if run is None or run[1] - run[0] != size:
            return array_part(self._remembered(key, entry, whole), index)
        with located(key, values.record.path):
            return read_part(
                entry.dtype, entry.shape, index, values.record, run[0], big_endian=False
            )

    def read_slice(self, key: str, part: TensorSlice) -> Array:
        """Return a slice of a partitioned tensor, its bytes checked.

        Args:
            key: the tensor's key.
            part: one of the slices that the entry lists.

        Raises:
            CkptError: as for `read`.
        """
        if self._last_slices is None or self._last_slices[0] != key:
            parts = {each.part: each for each in self._readable(key).parts}
            self._last_slices = key, parts
        return self._decode(key, self.entries[key], self._last_slices[1][part])

    def chunks(self, key: str) -> Iterator[memoryview]:
        """Yield the elements of a tensor of fixed-size elements, as in memory, in pieces.

        Slices come in the order of the entry. Pieces may share one buffer.

        Raises:
            CorruptError: the stored bytes are damaged.
        """
        from ckpttool.tensor.proto_values import proto_pieces
        from ckpttool.tensor.values import encode_array

        entry = self._readable(key)
        for part in entry.parts:
            values = self._find(key, part)
            count = element_count(part.part.shape(entry.shape))
            try:
                for piece in proto_pieces(
                    entry.dtype, count, values.record, values.start, values.stop
                ):
                    yield encode_array(entry.dtype, piece)[0]
            except CkptError as error:
                values.locate(error)
                raise

    def _describe(self) -> EntriesByName[LegacyEntry]:
        found: dict[str, tuple[LegacyEntry, int]] = {}
        there = False
        for shard_id in range(self.num_shards):
            tensors = self._files.describe(shard_id, self.damaged)
            there = there or tensors is not None
            for key, dtype, shape, slices in tensors or ():
                parts = tuple(LegacyPart(part, shard_id) for part in slices)
                entry = LegacyEntry(dtype, shape, parts)
                if key in found:
                    before, first = found[key]
                    if before[:2] != entry[:2]:
                        problem = CorruptError(
                            f"{dtype} {list(shape)} here, but {before.dtype} {list(before.shape)} "
                            f"in '{self._files.paths[first]}'",
                            path=self._files.paths[shard_id],
                            key=key,
                        )
                        self.damaged.setdefault(key, problem)
                        continue
                    entry = LegacyEntry(dtype, shape, before.parts + parts)
                found[key] = entry, found.get(key, (entry, shard_id))[1]
        if self.num_shards and not there:
            raise MissingFileError("no file of the checkpoint exists", path=self.prefix)
        sound = {key: entry for key, (entry, _) in found.items()}
        return EntriesByName(sound, self.damaged, UNKNOWN)

    def _readable(self, key: str) -> LegacyEntry:
        """Return the entry of a tensor; raise if the entries show that it cannot be read."""
        from ckpttool.tensor.proto_values import value_field
        from ckpttool.tensor.slices import check_coverage
        from ckpttool.tensor.values import MAX_RANK

        if key not in self.entries:
            raise MissingKeyError("no such key in the checkpoint", path=self.prefix, key=key)
        entry = self.entries[key]
        try:
            value_field(entry.dtype)
            if len(entry.shape) > MAX_RANK:
                raise UnsupportedError(
                    f"an array of {len(entry.shape)} dimensions is more than the {MAX_RANK} of "
                    "NumPy"
                )
            if not entry.whole:
                check_coverage(entry.shape, entry.slices)
        except CorruptError as error:
            if self.missing_files:
                raise MissingFileError(
                    f"a file of the checkpoint is missing: {error.message}",
                    path=self.missing_files[0],
                    key=key,
                ) from error
            error.locate(path=self.path, key=key)
            raise
        except UnsupportedError as error:
            error.locate(path=self.path, key=key)
            raise
        return entry

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The paths of the missing files, which may have unknown tensors."""
        return tuple(file.path for file in self.shard_files() if file.size is None)

    def _find(self, key: str, part: LegacyPart, *, verify: bool = True) -> _Values:
        """Return where the values of a slice are."""
        path = self._files.paths[part.shard_id]
        raw = encode_slice_key(encode_text(key), part.part)
        try:
            record = self._files.lookup(part.shard_id).find(raw, verify=verify)
        except CkptError as error:
            error.locate(path=path, key=key)
            raise
        if record is None:
            what = f"slice {part.part} has" if part.part.extents else "it has"
            raise CorruptError(f"{what} no record", path=path, key=key)
        try:
            start, stop = find_values(record, key, part.part)
        except CkptError as error:
            _Values(key, record, 0, record.size).locate(error)
            raise
        return _Values(key, record, start, stop)

    def _decode(self, key: str, entry: LegacyEntry, part: LegacyPart) -> Array:
        from ckpttool.tensor.proto_values import decode_proto

        values = self._find(key, part)
        shape = part.part.shape(entry.shape)
        try:
            return decode_proto(entry.dtype, shape, values.record, values.start, values.stop)
        except CkptError as error:
            values.locate(error)
            raise

    def _remembered(self, key: str, entry: LegacyEntry, part: LegacyPart) -> Array:
        """Return the value of a slice, kept for the next call."""
        if self._last is None or self._last[:2] != (part, key):
            self._last = None
            self._last = part, key, self._decode(key, entry, part)
        return self._last[2]

    def _join(self, key: str, entry: LegacyEntry, box: Bounds) -> Array:
        """Return the part of a partitioned tensor that lies in `box`."""
        from ckpttool.tensor.values import empty_array

        shape = tuple(stop - start for start, stop in box)
        self._check_room(key, entry, shape)
        out = empty_array(entry.dtype, shape)
        whole_wanted = shape == entry.shape
        for part in entry.parts:
            bounds = part.part.bounds(entry.shape)
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(bounds, box, strict=True)]
            if all(low < high for low, high in common):
                read = self._decode if whole_wanted else self._remembered
                source = read(key, entry, part)
                out[offset_slices(common, box)] = source[offset_slices(common, bounds)]
        return out

    def _check_room(self, key: str, entry: LegacyEntry, shape: Shape) -> None:
        """Check that files as large as these can hold so many elements."""
        from ckpttool.tensor.proto_values import check_room

        room = sum(self._files.sizes[number] or 0 for number in {at for _, at in entry.parts})
        try:
            check_room(entry.dtype, element_count(shape), _MAX_RATIO * room)
        except CkptError as error:
            error.locate(path=self.path, key=key)
            raise
