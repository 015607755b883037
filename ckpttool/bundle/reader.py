"""Reading a bundle.

Opening reads the index alone. A shard is opened when a value in it is asked for, and no value
leaves without its crc32c having been checked, except a part of a tensor, whose checksum would need
the whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from ckpttool.bundle.ahead import ReadAhead
from ckpttool.bundle.checked import read_checked, stored_crc
from ckpttool.bundle.entry import BundleEntry, BundleHeader
from ckpttool.bundle.index import BundleIndex, EntryMap
from ckpttool.bundle.naming import shard_path
from ckpttool.coding.checksum import crc32c, mask, unmask
from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    MissingFileError,
    MissingKeyError,
    UnsupportedError,
    located,
)
from ckpttool.storage.source import RandomAccessFile, ShardFile
from ckpttool.tensor.dtypes import STRING, VARIANT
from ckpttool.tensor.slices import Bounds, TensorSlice, offset_slices

if TYPE_CHECKING:
    from ckpttool.tensor.region import Index
    from ckpttool.tensor.strings import Strings
    from ckpttool.tensor.values import Array


_Elements = TypeVar("_Elements")

# A bundle may have more shards than a process may have open files.
_MAX_OPEN_SHARDS = 32
# Tensors up to `_SMALL` bytes with at most `_GAP` bytes between them are read at once.
_SMALL, _GAP, _RUN = 1 << 16, 1 << 12, 1 << 20
_ANY_NUMPY = 32  # dimensions that an array of every NumPy may have


class BundleReader:
    """An open bundle.

    Args:
        prefix: its path without `.index`.

    Attributes:
        index: the whole index.
        header: what holds for the whole bundle.
        entries: every tensor, without the entries of slices.
        path: of the index.
        permissions: those of the index.
        num_shards: how many data shards there are.
        big_endian: byte order of the elements.
        dtype_and_shape: returns dtype and shape for a key, at less cost than the whole entry.

    Raises:
        CorruptError: the index is damaged.
        MissingFileError: there is no index.
        UnsupportedError: the bundle is of a version that is not known.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.index = BundleIndex(prefix)
        self.header: BundleHeader = self.index.header
        self.entries: EntryMap = self.index.entries
        self.path = self.index.path
        self.permissions = self.index.permissions
        self.num_shards = self.header.num_shards
        self.big_endian = self.header.big_endian
        self.dtype_and_shape = self.entries.dtype_and_shape
        self._shards: dict[int, RandomAccessFile] = {}
        # A tensor's slices are read one after another, and there may be thousands.
        self._last_slices: tuple[str, dict[TensorSlice, BundleEntry]] | None = None

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the shards; arrays read before stay valid."""
        while self._shards:
            self._shards.popitem()[1].close()

    def shard_files(self, used: Iterable[int] | None = None) -> list[ShardFile]:
        """Return the shards in which tensors lie, without opening them.

        Args:
            used: their numbers, for who knows them; to find them takes a look at every entry.
        """
        if used is None:
            used = self._used_shards()
        out = []
        for shard_id in sorted(set(used)):
            path = shard_path(self.prefix, shard_id, self.header.num_shards)
            try:
                out.append(ShardFile(path, os.stat(path).st_size))
            except OSError:
                out.append(ShardFile(path, None))
        return out

    def _used_shards(self) -> set[int]:
        used: set[int] = set()
        for key, entry in self.entries.without(self.index.damaged).items():
            if entry.slices:
                used.update(part.shard_id for _, part in self.index.slice_entries(key))
            else:
                used.add(entry.shard_id)
        return used

    def read(self, key: str, *, copy: bool = True) -> Array:
        """Return the value of a tensor, the slices of a partitioned one joined.

        Writing to the array changes neither the file nor another array. Elements of strings are
        bytes, those of variants `VariantElement`.

        Args:
            key: the tensor's key.
            copy: False for a map of the data shard where that is possible; see
                `RandomAccessFile.mapped` for what that means.

        Raises:
            MissingKeyError: there is no such key.
            CorruptError: the stored bytes are damaged or do not fit the entry.
            ChangedError: somebody is writing the checkpoint.
            UnsupportedError: the dtype is not known.
        """
        entry = self._entry(key)
        try:
            if entry.slices:
                return self._join(key, entry, tuple((0, dim) for dim in entry.shape))
            return self._read_whole(key, entry, copy=copy)
        except (CorruptError, MissingFileError) as error:
            self.index.refuse_changing(error)
            raise

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Yield keys and values of tensors, in the order of their bytes; faster than one by one.

        Small tensors that lie side by side are read at once, and their arrays share that memory:
        keep copies.

        Raises:
            CkptError: as for `read`.
        """
        near: list[tuple[int, int, str, BundleEntry]] = []
        for key in keys:
            entry = self._entry(key)
            size = entry.dtype.size
            if size is None or entry.slices or entry.size > _SMALL or len(entry.shape) > _ANY_NUMPY:
                yield key, self.read(key)
            else:
                near.append((entry.shard_id, entry.offset, key, entry))
        near.sort(key=itemgetter(0, 1))
        first = 0
        while first < len(near):
            shard_id, start, _, _ = near[first]
            last, end = first, start
            while last < len(near) and near[last][0] == shard_id:
                _, offset, _, entry = near[last]
                if offset > end + _GAP or offset + entry.size > start + _RUN:
                    break
                end = max(end, offset + entry.size)
                last += 1
            yield from self._read_run(near[first:last], start, end)
            first = last

    def _read_run(
        self, run: Sequence[tuple[int, int, str, BundleEntry]], start: int, end: int
    ) -> Iterator[tuple[str, Array]]:
        from ckpttool.tensor.values import decode_array

        _, _, key, entry = run[0]
        try:
            with located(key):
                data = memoryview(self._shard(key, entry).read_at(start, end - start))
        except CkptError:  # one by one, so that it is told of the right one
            for _, _, key, _ in run:
                yield key, self.read(key)
            return
        big_endian = self.header.big_endian
        for _, offset, key, entry in run:
            piece = data[offset - start : offset - start + entry.size]
            if mask(crc32c(piece)) != entry.crc32c:
                yield key, self.read(key)  # raises what there is to say
            else:
                yield key, decode_array(entry.dtype, entry.shape, piece, big_endian=big_endian)

    def check(self, key: str) -> None:
        """Check that a tensor of fixed-size elements can be read, without keeping it.

        Raises:
            CkptError: as for `read`.
        """
        entry = self._entry(key)
        try:
            self._require_readable(key, entry)
            stored = self._sound_slices(key, entry) if entry.slices else [(None, entry)]
            for _, part in stored:
                with located(key):
                    crc = stored_crc(self._shard(key, part), part.offset, part.size)
                self._check_crc(key, part, crc)
        except (CorruptError, MissingFileError) as error:
            self.index.refuse_changing(error)
            raise

    def read_into(self, key: str, out: Array) -> None:
        """Read a tensor of fixed-size elements into memory of the caller; its crc32c is checked.

        Args:
            key: the tensor's key.
            out: a C-contiguous array of its dtype and shape. It is undefined after an error.

        Raises:
            CkptError: as for `read`.
        """
        entry = self._entry(key)
        try:
            self._require_readable(key, entry)
            if entry.slices:
                self._join(key, entry, tuple((0, dim) for dim in entry.shape), out)
            else:
                self._fill(key, entry, out)
        except (CorruptError, MissingFileError) as error:
            self.index.refuse_changing(error)
            raise

    def read_region(self, key: str, index: Index) -> Array:
        """Return part of a tensor, reading only the bytes it needs.

        The crc32c of a tensor covers all its bytes, so that of a part is not checked. String and
        variant tensors are read and checked as a whole.

        Args:
            key: the tensor's key.
            index: a number or a slice for each dimension, as `tensor.region.fit_index` gives.
        """
        from ckpttool.tensor.partial import string_part
        from ckpttool.tensor.region import bounding_box, within_box
        from ckpttool.tensor.values import array_part

        entry = self._entry(key)
        if entry.slices:
            box = bounding_box(index, entry.shape)
            joined = self._join(key, entry, box)
            part: Array = joined[within_box(index, entry.shape, box)]
            return part
        self._require_readable(key, entry)
        if entry.dtype == STRING:
            return string_part(self._read_strings(key, entry), entry.shape, index)
        if entry.dtype.size is None:
            return array_part(self._read_whole(key, entry), index)
        return self._read_part(key, entry, index)

    def read_strings(self, key: str) -> Strings:
        """Return the elements of a string tensor that is not partitioned, their crc32c checked.

        Raises:
            CkptError: as for `read`.
        """
        return self._read_strings(key, self._entry(key))

    def read_slice(self, key: str, part: TensorSlice) -> Array:
        """Return a slice of a partitioned tensor, its crc32c checked.

        Args:
            key: the tensor's key.
            part: one of the slices that the entry lists.

        Raises:
            CkptError: as for `read`.
        """
        if self._last_slices is None or self._last_slices[0] != key:
            self._entry(key)
            self._last_slices = key, dict(self.index.slice_entries(key))
        return self._read_whole(key, self._last_slices[1][part])

    def chunks(self, key: str) -> Iterator[memoryview]:
        """Yield the stored bytes of a tensor of fixed-size elements in pieces of whole elements.

        Slices come one after another, in the order the entry lists them. All pieces share one
        buffer. After the last piece of each slice its crc32c is checked.

        Raises:
            ChecksumError: the bytes just yielded are damaged.
        """
        entry = self._entry(key)
        for _, stored in self.index.slice_entries(key) if entry.slices else [(None, entry)]:
            crc = 0
            # Opened for itself: others that are read meanwhile may push a shard out.
            with located(key), RandomAccessFile(self._shard(key, stored).path) as shard:
                for chunk in shard.chunks(stored.offset, stored.size):
                    crc = crc32c(chunk, crc)
                    yield chunk
            self._check_crc(key, stored, crc)

    def stored_bytes(self, key: str, entry: BundleEntry) -> bytes:
        """Return the bytes of an entry as they lie in the shard, not checked."""
        with located(key):
            return self._shard(key, entry).read_at(entry.offset, entry.size)

    def read_ahead(self) -> ReadAhead:
        """Return what reads stored bytes of many small tensors, not checked."""
        return ReadAhead(self._open_shard)

    def _entry(self, key: str) -> BundleEntry:
        if key not in self.entries:
            raise MissingKeyError("no such key in the checkpoint", path=self.prefix, key=key)
        return self.entries[key]

    def _read_whole(self, key: str, entry: BundleEntry, *, copy: bool = True) -> Array:
        from ckpttool.tensor import values
        from ckpttool.tensor.partial import string_part
        from ckpttool.tensor.variants import decode_variants

        self._require_readable(key, entry)
        big_endian = self.header.big_endian
        if entry.dtype not in (STRING, VARIANT):
            if copy:
                with located(key):  # before memory is set aside
                    self._shard(key, entry).check_range(entry.offset, entry.size)
                data = values.plain_bytes(values.empty_array(entry.dtype, entry.shape))
                self._read_checked(key, entry, data)
            else:
                with located(key):
                    data = self._shard(key, entry).mapped(entry.offset, entry.size)
                self._check_crc(key, entry, crc32c(data))
            return values.decode_array(entry.dtype, entry.shape, data, big_endian=big_endian)
        if entry.dtype == STRING:
            every = (slice(None),) * len(entry.shape)
            return string_part(self._read_strings(key, entry), entry.shape, every)
        return values.object_array(
            self._decode_objects(key, entry, decode_variants) or [], entry.shape
        )

    def _read_strings(self, key: str, entry: BundleEntry) -> Strings:
        from ckpttool.tensor.strings import Strings, decode_strings

        self._require_readable(key, entry)
        strings = self._decode_objects(key, entry, decode_strings)
        return Strings(memoryview(b""), 0, []) if strings is None else strings

    def _decode_objects(
        self, key: str, entry: BundleEntry, decode: Callable[..., tuple[_Elements, int]]
    ) -> _Elements | None:
        """Return elements of no fixed size, checked; None where nothing is stored for none."""
        data = memoryview(self.stored_bytes(key, entry))
        if not entry.size and not entry.elements:
            return None
        try:
            elements, crc = decode(data, entry.elements, big_endian=self.big_endian)
        except CkptError as error:
            error.offset = entry.offset + (error.offset or 0)
            error.locate(path=self._shard(key, entry).path, key=key)
            raise
        self._check_crc(key, entry, crc)
        return elements

    def _read_checked(self, key: str, entry: BundleEntry, data: memoryview) -> None:
        """Read the bytes of an entry into a buffer of their size, and check them."""
        with located(key):
            crc = read_checked(self._shard(key, entry), entry.offset, data)
        self._check_crc(key, entry, crc)

    def _fill(self, key: str, entry: BundleEntry, out: Array) -> None:
        """Read the fixed-size elements of an entry into a C-contiguous array of its shape."""
        from ckpttool.tensor.values import decode_array, plain_bytes

        data = plain_bytes(out)
        self._read_checked(key, entry, data)
        decode_array(entry.dtype, entry.shape, data, big_endian=self.big_endian)  # in place

    def _read_part(self, key: str, entry: BundleEntry, index: Index) -> Array:
        from ckpttool.tensor.partial import read_part

        shard, big_endian = self._shard(key, entry), self.header.big_endian
        with located(key):
            shard.check_range(entry.offset, entry.size)
            return read_part(
                entry.dtype, entry.shape, index, shard, entry.offset, big_endian=big_endian
            )

    def _require_readable(self, key: str, entry: BundleEntry) -> None:
        problem = None
        if not entry.dtype.known:
            problem = f"values of dtype {entry.dtype} cannot be read"
        elif len(entry.shape) > _ANY_NUMPY:
            from ckpttool.tensor.values import MAX_RANK

            if len(entry.shape) > MAX_RANK:
                rank = len(entry.shape)
                problem = f"an array of {rank} dimensions is more than the {MAX_RANK} of NumPy"
        if problem is not None:
            raise UnsupportedError(problem, path=self.index.path, key=key)

    def _join(self, key: str, entry: BundleEntry, box: Bounds, out: Array | None = None) -> Array:
        """Return the part of a partitioned tensor that lies in `box`, in `out` if given."""
        from ckpttool.tensor.values import empty_array

        self._require_readable(key, entry)
        stored = self._sound_slices(key, entry)
        if out is None:
            out = empty_array(entry.dtype, tuple(stop - start for start, stop in box))
        for part, part_entry in stored:
            bounds = part.bounds(entry.shape)
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(bounds, box, strict=True)]
            if all(low < high for low, high in common):
                target = out[offset_slices(common, box)]
                if entry.dtype.size is None:
                    source = self._read_whole(key, part_entry)
                    target[...] = source[offset_slices(common, bounds)]
                elif tuple(common) != bounds:
                    target[...] = self._read_part(key, part_entry, offset_slices(common, bounds))
                elif target.flags.c_contiguous:
                    self._fill(key, part_entry, target)  # as slices mostly are cut
                else:
                    target[...] = self._read_whole(key, part_entry)
        return out

    def _sound_slices(self, key: str, entry: BundleEntry) -> list[tuple[TensorSlice, BundleEntry]]:
        """Return the slices of a partitioned tensor, which cover it and have bytes of their own."""
        from ckpttool.tensor.slices import check_coverage

        stored = self.index.slice_entries(key)
        # Slices that share their bytes could make a large tensor out of a small file.
        room = sum({e.shard_id: self._shard(key, e).size for _, e in stored}.values())
        if sum(part_entry.size for _, part_entry in stored) > room:
            raise CorruptError(
                f"its slices claim more bytes than the {room} of the data shards",
                path=self.index.path,
                key=key,
            )
        with located(key, self.index.path):
            check_coverage(entry.shape, entry.slices)
        return stored

    def _shard(self, key: str, entry: BundleEntry) -> RandomAccessFile:
        shard = self._shards.get(entry.shard_id)
        if shard is None:
            with located(key):
                shard = self._open_shard(entry.shard_id)
        return shard

    def _open_shard(self, shard_id: int) -> RandomAccessFile:
        shard = self._shards.get(shard_id)
        if shard is None:
            while len(self._shards) >= _MAX_OPEN_SHARDS:
                self._shards.pop(next(iter(self._shards))).close()
            path = shard_path(self.prefix, shard_id, self.header.num_shards)
            try:
                shard = RandomAccessFile(path)
            except MissingFileError as error:
                raise MissingFileError("the data shard is missing", path=path) from error
            self._shards[shard_id] = shard
        return shard

    def _check_crc(self, key: str, entry: BundleEntry, computed: int) -> None:
        stored = unmask(entry.crc32c)
        if stored != computed:
            raise ChecksumError(
                "the stored bytes are damaged",
                stored=stored,
                computed=computed,
                path=self._shard(key, entry).path,
                offset=entry.offset,
                key=key,
            )
