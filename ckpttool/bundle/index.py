"""The index of a bundle: its header, and the entry of every tensor and slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ckpttool.bundle.entry import BundleEntry, BundleHeader, EntryDecoder, decode_header
from ckpttool.bundle.naming import index_path
from ckpttool.errors import CkptError, CorruptError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.reader import TableReader
from ckpttool.tensor.dtypes import DType
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slice_key import encode_slice_key
from ckpttool.tensor.slices import TensorSlice

# A record stays bytes until it is asked for.
_Records = dict[str, bytes | BundleEntry]


class EntryMap(Mapping[str, BundleEntry]):
    """The entries of a bundle by key, in the order of the key bytes; decoded when asked for.

    Keys are text: bytes that are not UTF-8 stand as surrogate escapes.
    """

    def __init__(self, records: _Records, decoder: EntryDecoder, path: str):
        self._records = records
        self._decoder = decoder
        self._path = path

    def __getitem__(self, key: str) -> BundleEntry:
        record = self._records[key]
        if isinstance(record, bytes):
            try:
                record = self._decoder.decode(record)
            except CkptError as error:
                error.offset = None  # counts from the record, whose place in the block is lost
                error.locate(path=self._path, key=key)
                raise
            self._records[key] = record
        return record

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def dtype_and_shape(self, key: str) -> tuple[DType, Shape]:
        """Return dtype and shape alone, which costs less than the whole entry."""
        record = self._records[key]
        if isinstance(record, bytes):
            try:
                return self._decoder.decode_shape(record)
            except CkptError as error:
                error.offset = None
                error.locate(path=self._path, key=key)
                raise
        return record.dtype, record.shape


class BundleIndex:
    """The index, read as a whole; no data shard is touched.

    Args:
        prefix: path of the bundle without `.index`.

    Attributes:
        path: of the index file.
        size: of the index file, in bytes.
        modified: when it was last written, in seconds since the epoch.
        header: what holds for the whole bundle.
        entries: every tensor, without the entries of slices.

    Raises:
        CorruptError: the index is damaged.
        MissingFileError: there is no index.
        UnsupportedError: the bundle is of a version that is not known.
    """

    def __init__(self, prefix: str) -> None:
        self.path = index_path(prefix)
        with RandomAccessFile(self.path) as file:
            records = dict(TableReader(file).items())
            self.size = file.size
            self.modified = file.modified
        if b"" not in records:
            raise CorruptError(
                "the index has no header: its first key is not empty", path=self.path
            )
        try:
            self.header: BundleHeader = decode_header(records.pop(b""))
        except CkptError as error:
            error.offset = None
            error.locate(path=self.path)
            raise
        decoder = EntryDecoder(self.header.num_shards)
        named: _Records = {
            key.decode("utf-8", "surrogateescape"): value for key, value in records.items()
        }
        self.entries = EntryMap(named, decoder, self.path)
        sliced = any(key[:1] == b"\0" for key in records)
        slices = self._take_slices(named) if sliced else {}
        self._slices = EntryMap(slices, decoder, self.path)

    def slice_entries(self, key: str) -> list[tuple[TensorSlice, BundleEntry]]:
        """Return the slices of a partitioned tensor and their entries; none for another tensor.

        Raises:
            CorruptError: a slice has no entry, or one of another dtype or shape.
        """
        entry = self.entries[key]
        out = []
        for part in entry.slices:
            slice_key = _slice_key(key, part)
            if slice_key not in self._slices:
                raise CorruptError(f"slice {part} has no entry", path=self.path, key=key)
            try:
                stored = self._slices[slice_key]
            except CkptError as error:
                error.key = key
                raise
            if stored.dtype != entry.dtype or stored.shape != part.shape(entry.shape):
                raise CorruptError(
                    f"slice {part} of {entry.dtype} {list(entry.shape)} is stored as "
                    f"{stored.dtype} {list(stored.shape)}",
                    path=self.path,
                    key=key,
                )
            out.append((part, stored))
        return out

    def _take_slices(self, named: _Records) -> _Records:
        """Move the records of slices out of `named`; what no tensor claims stays a tensor."""
        claimed = [
            _slice_key(key, part)
            for key in named
            if not key.startswith("\0") or self._is_partitioned(key)
            for part in self.entries[key].slices
        ]
        return {key: named.pop(key) for key in claimed if key in named}

    def _is_partitioned(self, key: str) -> bool:
        """Whether an odd key, one that starts like a slice's, is that of a partitioned tensor."""
        try:
            return bool(self.entries[key].slices)
        except CkptError:
            return False


def _slice_key(key: str, part: TensorSlice) -> str:
    """Return the key of a slice in the text form that keys have here."""
    encoded = encode_slice_key(key.encode("utf-8", "surrogateescape"), part)
    return encoded.decode("utf-8", "surrogateescape")
