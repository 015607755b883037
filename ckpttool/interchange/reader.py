"""Reading tensors from files of other programs.

Opening reads headers alone. There is no crc32c; members of an archive have a CRC-32, which is
checked before a value of the whole leaves.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ckpttool.errors import (
    ChecksumError,
    CorruptError,
    MissingFileError,
    MissingKeyError,
    UnsupportedError,
    located,
)
from ckpttool.interchange.contents import read_contents
from ckpttool.interchange.entry import UNKNOWN, ArrayEntry, Packing
from ckpttool.interchange.inflate import Inflated
from ckpttool.interchange.naming import ArrayFormat
from ckpttool.storage.source import CHUNK_SIZE, Identity, Permissions, RandomAccessFile, ShardFile
from ckpttool.tensor.dtypes import STRING
from ckpttool.tensor.entries import EntriesByName

if TYPE_CHECKING:
    from ckpttool.tensor.region import Index
    from ckpttool.tensor.slices import TensorSlice
    from ckpttool.tensor.values import Array

_MAX_OPEN_FILES = 32
_ANY_NUMPY = 32  # dimensions that an array of every NumPy may have
# Elements in Fortran order that are turned at once: each turn reads the whole.
_TURNED = 1 << 26
# Compressed elements in Fortran order are turned in memory.
_MOST_TURNED = 1 << 30


class ArrayReader:
    """Open files of arrays: safetensors, an archive of NumPy, or one array.

    Args:
        path: of the file, or of the list of several files.
        format: what it is.

    Attributes:
        format: what it is.
        entries: every tensor.
        damaged: name -> error, for tensors that the headers do not describe; all others can be
            read.
        metadata: text by name, of safetensors.
        num_shards: how many files with tensors there are.
        big_endian: byte order in which `chunks` gives elements: never.

    Raises:
        CkptError: the headers are damaged, or cannot be read.
    """

    def __init__(self, path: str, format: ArrayFormat) -> None:
        self.prefix = self.path = path
        self.format = format
        found = read_contents(path, format)
        self.damaged = found.damaged
        self.entries = EntriesByName(found.entries, found.damaged, UNKNOWN)
        self.metadata: Mapping[str, str] = found.metadata
        self.identities: dict[str, Identity] = found.identities
        self.index_bytes = found.index_bytes
        self.num_shards = len(found.paths)
        self.big_endian = False
        self.dtype_and_shape = self.entries.dtype_and_shape
        self._paths = found.paths
        self._sizes = found.sizes
        self._permissions = found.permissions
        self._files: dict[int, RandomAccessFile] = {}
        # Going on with a member is cheaper than beginning it anew.
        self._unpacked: tuple[str, Inflated] | None = None
        self._turned: tuple[str, Array] | None = None

    def __enter__(self) -> ArrayReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; arrays read before stay valid."""
        self._unpacked = self._turned = None
        while self._files:
            self._files.popitem()[1].close()

    @property
    def permissions(self) -> Permissions:
        """Permissions of the file, or of the list of files."""
        if self._permissions is None:
            raise MissingFileError("no file of it exists", path=self.path)
        return self._permissions

    @property
    def missing_files(self) -> tuple[str, ...]:
        """The paths of the missing files."""
        return tuple(file.path for file in self.shard_files() if file.size is None)

    def shard_files(self) -> list[ShardFile]:
        """Return the files with tensors, in the order of their numbers."""
        return [ShardFile(*each) for each in zip(self._paths, self._sizes, strict=True)]

    def read(self, key: str, *, copy: bool = True) -> Array:
        """Return the value of a tensor. Elements of text are bytes, in UTF-8.

        Args:
            key: the tensor's name.
            copy: False for a map of the file if the stored bytes allow that.

        Raises:
            MissingKeyError: there is no such tensor.
            CorruptError: a member does not have its CRC-32, or cannot be unpacked.
            UnsupportedError: its elements cannot be read.
        """
        from ckpttool.tensor import values

        entry = self.readable(key)
        layout = entry.layout
        if entry.dtype == STRING:
            return self._texts(key, entry)
        if layout is None and not copy:
            with located(key):
                data = self._open(entry.shard_id).mapped(entry.offset or 0, entry.size)
            return values.decode_array(entry.dtype, entry.shape, data, big_endian=False)
        shape = entry.shape[::-1] if _turns(entry) else entry.shape
        array = values.empty_array(entry.dtype, shape)
        data = values.plain_bytes(array)
        at = 0
        for piece in self._stored(key, entry):
            data[at : at + len(piece)] = piece
            at += len(piece)
        big_endian = layout is not None and layout.big_endian
        value = values.decode_array(entry.dtype, shape, data, big_endian=big_endian)
        return _turned(value) if _turns(entry) else value

    def read_many(self, keys: Iterable[str]) -> Iterator[tuple[str, Array]]:
        """Yield keys and values of tensors.

        Raises:
            CkptError: as for `read`.
        """
        for key in keys:
            yield key, self.read(key)

    def read_region(self, key: str, index: Index) -> Array:
        """Return part of a tensor, reading only the bytes it needs; no checksum is checked.

        Text is read as a whole. Compressed bytes before the part are unpacked and dropped.

        Args:
            key: the tensor's name.
            index: a number or a slice for each dimension, as `tensor.region.fit_index` gives.
        """
        from ckpttool.tensor.partial import read_part
        from ckpttool.tensor.values import array_part

        entry = self.readable(key)
        layout = entry.layout
        if entry.dtype == STRING:
            return array_part(self._texts(key, entry), index)
        if _turns(entry) and entry.offset is None:
            return array_part(self._whole_turned(key, entry), index)
        source, start = self._source(key, entry)
        big_endian = layout is not None and layout.big_endian
        with located(key, self._paths[entry.shard_id]):
            if not _turns(entry):
                return read_part(
                    entry.dtype, entry.shape, index, source, start, big_endian=big_endian
                )
            rows = read_part(
                entry.dtype, entry.shape[::-1], index[::-1], source, start, big_endian=big_endian
            )
            turned: Array = rows.transpose()
        return turned

    def read_slice(self, key: str, part: TensorSlice) -> Array:
        """Raise: no tensor here is partitioned."""
        raise MissingKeyError(f"it has no slice {part}", path=self.path, key=key)

    def chunks(self, key: str) -> Iterator[memoryview]:
        """Yield the elements of a tensor of fixed-size elements: little-endian, in C order.

        Pieces hold whole elements and may share one buffer. The CRC-32 of a member is checked
        after its last piece.

        Raises:
            CorruptError: the bytes just yielded are damaged.
        """
        from ckpttool.tensor.region import boxes
        from ckpttool.tensor.values import decode_array, encode_array

        entry = self.readable(key)
        layout, width = entry.layout, entry.dtype.size or 1
        if _turns(entry):
            for _ in self._stored(key, entry):
                pass  # boxes jump: the checksum is compared beforehand
            for bounds in boxes(entry.shape, _TURNED // width):
                index = tuple(slice(start, stop) for start, stop in bounds)
                yield encode_array(entry.dtype, self.read_region(key, index))[0]
        elif layout is not None and layout.big_endian:
            for piece in self._stored(key, entry):
                count = len(piece) // width
                swapped = decode_array(entry.dtype, (count,), piece, big_endian=True)
                yield encode_array(entry.dtype, swapped)[0]
        else:
            yield from self._stored(key, entry)

    def check(self, key: str) -> int:
        """Read all bytes of a tensor, and compare what checksum there is; return how many.

        Raises:
            CkptError: as for `read`.
        """
        entry = self.entries[key]
        return sum(map(len, self._stored(key, entry)))

    def readable(self, key: str) -> ArrayEntry:
        """Return the entry of a tensor whose elements can be read.

        Raises:
            CkptError: the entry shows that they cannot.
        """
        if key not in self.entries:
            raise MissingKeyError("no such tensor in the file", path=self.path, key=key)
        entry = self.entries[key]
        problem = entry.unreadable
        if len(entry.shape) > _ANY_NUMPY:
            from ckpttool.tensor.values import MAX_RANK

            if len(entry.shape) > MAX_RANK:
                rank = len(entry.shape)
                problem = f"an array of {rank} dimensions is more than the {MAX_RANK} of NumPy"
        if problem:
            raise UnsupportedError(problem, path=self._paths[entry.shard_id], key=key)
        return entry

    def _stored(self, key: str, entry: ArrayEntry) -> Iterator[memoryview]:
        """Yield the bytes of the elements as they lie in the file, unpacked and checked."""
        path = self._paths[entry.shard_id]
        # Opened for itself: others that are read meanwhile may push a file out.
        with located(key, path), RandomAccessFile(path) as file:
            if entry.packing is None:
                yield from file.chunks(entry.offset or 0, entry.size)
                return
            packing = entry.packing
            source = _member(file, packing)
            begin = 0 if packing.deflated else packing.offset
            start = packing.size - entry.size
            crc = zlib.crc32(source.read_at(begin, start))
            for piece in source.chunks(begin + start, entry.size, chunk_size=CHUNK_SIZE):
                crc = zlib.crc32(piece, crc)
                yield piece
            if crc != packing.crc:
                raise ChecksumError(
                    "the stored bytes are damaged",
                    stored=packing.crc,
                    computed=crc,
                    kind="CRC-32",
                    offset=packing.offset,
                )
            if isinstance(source, Inflated):
                source.check_end()

    def _source(self, key: str, entry: ArrayEntry) -> tuple[RandomAccessFile | Inflated, int]:
        """Return what has the elements, and where in it they begin."""
        with located(key):
            file = self._open(entry.shard_id)
        if entry.offset is not None or entry.packing is None:
            return file, entry.offset or 0
        if self._unpacked is None or self._unpacked[0] != key:
            opened = RandomAccessFile(file.path)
            source = _member(opened, entry.packing)
            self._unpacked = (key, source) if isinstance(source, Inflated) else None
        if self._unpacked is None:
            return file, 0
        return self._unpacked[1], entry.packing.size - entry.size

    def _whole_turned(self, key: str, entry: ArrayEntry) -> Array:
        """Return a compressed array in Fortran order, kept for the next call."""
        if entry.size > _MOST_TURNED:
            raise UnsupportedError(
                f"{entry.size} compressed bytes in Fortran order are more than {_MOST_TURNED}",
                path=self._paths[entry.shard_id],
                key=key,
            )
        if self._turned is None or self._turned[0] != key:
            self._turned = None
            self._turned = key, self.read(key)
        return self._turned[1]

    def _texts(self, key: str, entry: ArrayEntry) -> Array:
        """Return an array of text; NumPy fills its elements up with NULs."""
        from ckpttool.tensor.values import object_array

        data = b"".join(map(bytes, self._stored(key, entry)))
        layout = entry.layout
        width = layout.width if layout is not None else 1
        elements = [data[at : at + width].rstrip(b"\0") for at in range(0, len(data), width)]
        if layout is not None and layout.characters > 1:
            spelling = "utf-32-be" if layout.big_endian else "utf-32-le"
            try:
                texts = [str(data[at : at + width], spelling) for at in range(0, len(data), width)]
            except UnicodeDecodeError as error:
                path = self._paths[entry.shard_id]
                raise CorruptError("its text is not Unicode", path=path, key=key) from error
            elements = [text.rstrip("\0").encode() for text in texts]
        if _turns(entry):
            return _turned(object_array(elements, entry.shape[::-1]))
        return object_array(elements, entry.shape)

    def _open(self, shard_id: int) -> RandomAccessFile:
        file = self._files.get(shard_id)
        if file is None:
            while len(self._files) >= _MAX_OPEN_FILES:
                self._files.pop(next(iter(self._files))).close()
            file = self._files[shard_id] = RandomAccessFile(self._paths[shard_id])
        return file


def _member(file: RandomAccessFile, packing: Packing) -> RandomAccessFile | Inflated:
    if packing.deflated:
        return Inflated(file, packing.offset, packing.stored, packing.size)
    return file


def _turned(value: Array) -> Array:
    """Return an array with its axes in the other order, in C order."""
    turned: Array = value.transpose().copy()
    return turned


def _turns(entry: ArrayEntry) -> bool:
    return entry.layout is not None and entry.layout.fortran
