"""The index of a bundle: its header, and the entry of every tensor and slice."""

from __future__ import annotations

import os
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    ValuesView,
)
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import TypeVar

from ckpttool.bundle.columns import EntryColumns, decode_columns
from ckpttool.bundle.entry import BundleEntry, BundleHeader, EntryDecoder, EntryHead, decode_header
from ckpttool.bundle.naming import index_path
from ckpttool.coding.text import ESCAPE, decode_text, encode_text
from ckpttool.errors import ChangedError, CkptError, CorruptError, UnsupportedError
from ckpttool.storage.source import RandomAccessFile, identity_of
from ckpttool.table.reader import TableReader
from ckpttool.tensor.dtypes import DType, dtype_of_number
from ckpttool.tensor.shape import Shape
from ckpttool.tensor.slices import TensorSlice, decode_slice_key, encode_slice_key

# Some ten million tensors. An index is held in memory, and a sparse file costs its sender nothing.
MAX_INDEX_SIZE = 1 << 30
_BATCH = 16384  # entries that are decoded at once

_Records = dict[str, bytes]
T = TypeVar("T")


class EntryMap(Mapping[str, BundleEntry]):
    """The entries of a bundle by key, in the order of the key bytes; decoded when asked for.

    Keys are text: bytes that are not UTF-8 stand as surrogate escapes. Decoded entries are not
    kept: they would take three times the room of the index.
    """

    def __init__(self, records: _Records, decoder: EntryDecoder, path: str):
        self._records = records
        self._decoder = decoder
        self._path = path

    def without(self, keys: Collection[str]) -> EntryMap:
        """Return the entries but for those of some keys."""
        if not keys:
            return self
        records = {key: record for key, record in self._records.items() if key not in keys}
        return EntryMap(records, self._decoder, self._path)

    def __getitem__(self, key: str) -> BundleEntry:
        return self._decoded(key, self._decoder.decode)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def items(self) -> ItemsView[str, BundleEntry]:
        """Return keys and entries, which are decoded on the way."""
        return _Items(self)

    def values(self) -> ValuesView[BundleEntry]:
        """Return the entries, which are decoded on the way."""
        return _Values(self)

    def record(self, key: str) -> bytes:
        """Return the bytes of an entry as they are stored."""
        return self._records[key]

    def decoded(self) -> Iterator[BundleEntry]:
        """Yield all entries, quicker than by one key after another."""
        with self._placing():
            yield from map(self._decoder.decode, self._records.values())

    def columns(self) -> Iterator[EntryColumns]:
        """Yield all entries by columns, some thousands at a time: the quickest way."""
        records = iter(self._records.values())
        with self._placing():
            while batch := list(islice(records, _BATCH)):
                yield decode_columns(self._decoder, batch)

    def described(self) -> dict[str, EntryHead]:
        """Return dtype and shape of all, which takes less time and room than the entries.

        What cannot be made out of a damaged entry is a dtype that is not known, and no shape.
        """
        try:
            heads = self._decoder.decode_heads(self._records.values())
            return dict(zip(self._records, heads, strict=True))
        except CkptError:
            return {key: self._described(key) for key in self._records}

    def _described(self, key: str) -> EntryHead:
        try:
            return self._decoded(key, self._decoder.decode_head)
        except CkptError:
            return EntryHead(dtype_of_number(0), (), None, b"")

    def dtype_and_shape(self, key: str) -> tuple[DType, Shape]:
        """Return dtype and shape alone, which costs less than the whole entry."""
        return self._decoded(key, self._decoder.decode_head)[:2]

    def _decoded(self, key: str, decode: Callable[[bytes], T]) -> T:
        record = self._records[key]
        try:
            return decode(record)
        except CkptError as error:
            error.offset = None  # counts from the record, whose place in the block is lost
            error.locate(path=self._path, key=key)
            raise

    @contextmanager
    def _placing(self) -> Iterator[None]:
        """Name the key in an error of whoever decodes records without regard to their keys."""
        try:
            yield
        except CkptError:
            for key in self._records:
                self._decoded(key, self._decoder.decode)  # raises the same error with its place
            raise


class _Items(ItemsView[str, BundleEntry]):
    _mapping: EntryMap

    def __iter__(self) -> Iterator[tuple[str, BundleEntry]]:
        return zip(self._mapping, self._mapping.decoded(), strict=True)


class _Values(ValuesView[BundleEntry]):
    _mapping: EntryMap

    def __iter__(self) -> Iterator[BundleEntry]:
        return self._mapping.decoded()


class BundleIndex:
    """The index, read as a whole; no data shard is touched.

    Args:
        prefix: path of the bundle without `.index`.

    Attributes:
        path: of the index file.
        size: of the index file, in bytes.
        modified: when it was last written, in seconds since 1970.
        identity: by which a later look can tell whether the file is still the same.
        permissions: who may do what with the file.
        header: what holds for the whole bundle.
        entries: every tensor, without the entries of slices.

    Raises:
        CorruptError: the index is damaged.
        MissingFileError: there is no index.
        UnsupportedError: the bundle is of a version that is not known.
    """

    def __init__(self, prefix: str) -> None:
        self.path = index_path(prefix)
        self._prefix = prefix
        with RandomAccessFile(self.path) as file:
            self.size = file.size
            self.modified = file.modified
            self.identity = file.identity
            self.permissions = file.permissions
            if file.size > MAX_INDEX_SIZE:
                raise UnsupportedError(
                    f"an index of {file.size} bytes is more than {MAX_INDEX_SIZE}", path=self.path
                )
            try:
                records = _read_records(TableReader(file))
            except CorruptError as error:
                self.refuse_changing(error)
                raise
        header = records.pop("", None)
        if header is None:
            raise CorruptError(
                "the index has no header: its first key is not empty", path=self.path
            )
        try:
            self.header: BundleHeader = decode_header(header)
        except CkptError as error:
            error.offset = None
            error.locate(path=self.path)
            raise
        self._raw_header = header
        self._decoder = EntryDecoder(self.header.num_shards)
        self.entries = EntryMap(records, self._decoder, self.path)
        self._slices = self._take_slices(records)
        self._damaged: dict[str, CkptError] | None = None
        # The keys of records that have no unknown fields, as far as anybody asked.
        self._understood: set[str] = set()

    def refuse_changing(self, error: CkptError) -> None:
        """Say that the checkpoint is being written, if so, rather than that it is damaged.

        TensorFlow writes the index over the old one, after the data shards, and keeps a folder
        beside it until it has done.

        Args:
            error: what was found wrong.

        Raises:
            ChangedError: the index is not the one any more that was opened, or it is being written.
        """
        # Looked for before the index: where it has gone by now, the index has been finished.
        writing = os.path.isdir(self._prefix + "_temp")
        try:
            same = identity_of(os.stat(self.path)) == self.identity
        except OSError:
            same = False
        if same and not writing:
            return
        problem = "it is being written, or damaged" if same else "it changed while it was read"
        raise ChangedError(
            f"{problem}: {error.message}", path=error.path, offset=error.offset, key=error.key
        ) from error

    def slice_entries(self, key: str) -> list[tuple[TensorSlice, BundleEntry]]:
        """Return the slices of a partitioned tensor and their entries; none for another tensor.

        Raises:
            CorruptError: a slice has no entry, or one of another dtype or shape.
        """
        entry = self.entries[key]
        out = []
        for part in entry.slices:
            record = self._slices.get(key, {}).get(part)
            if record is None:
                raise CorruptError(f"slice {part} has no entry", path=self.path, key=key)
            try:
                stored = self._decoder.decode(record)
            except CkptError as error:
                error.offset = None
                error.locate(path=self.path, key=key)
                raise
            if stored.slices or part.is_full:
                raise CorruptError(
                    f"slice {part} is not stored as a tensor of its own", path=self.path, key=key
                )
            if stored.dtype != entry.dtype or stored.shape != part.shape(entry.shape):
                raise CorruptError(
                    f"slice {part} of {entry.dtype} {list(entry.shape)} is stored as "
                    f"{stored.dtype} {list(stored.shape)}",
                    path=self.path,
                    key=key,
                )
            out.append((part, stored))
        return out

    @property
    def damaged(self) -> Mapping[str, CkptError]:
        """What is wrong with the entries of tensors and of their slices, by the tensor's key.

        Damage stays with its tensor: the others can be read.
        """
        if self._damaged is None:
            damaged = {}
            for key in self._doubtful_keys():
                try:
                    self.slice_entries(key)
                except CkptError as error:
                    damaged[key] = error
            self._damaged = damaged
        return self._damaged

    def _doubtful_keys(self) -> Iterable[str]:
        """Return the keys of partitioned tensors, or all keys if any entry is damaged."""
        keys = [*self.entries]
        found = []
        before = 0
        try:
            for columns in self.entries.columns():
                found += [keys[before + at] for at in sorted(columns.slices)]
                before += len(columns.shapes)
        except CkptError:
            return keys
        return found

    def refuse_unknown_fields(self, keys: Iterable[str]) -> None:
        """Refuse to write records anew where something in them would be lost.

        Args:
            keys: of the tensors that are kept; the header always is.

        Raises:
            UnsupportedError: a record has fields that are not known, or is not in today's spelling.
        """
        lossy = "" if self.header.encode() != self._raw_header else None
        for key in keys:
            if key in self._understood:
                continue
            entry, parts = self.entries[key], self._slices.get(key, {})
            if entry.encode() != self.entries.record(key) or any(
                self._decoder.decode(parts[part]).encode() != parts[part]
                for part in entry.slices
                if part in parts
            ):
                lossy = key
                break
            self._understood.add(key)
        if lossy is not None:
            raise UnsupportedError(
                "an index record has unknown fields, which would be lost",
                path=self.path,
                key=lossy,
            )

    def found_sound(self) -> None:
        """Take note that every entry has been looked at: none is damaged."""
        self._damaged = {}

    def _take_slices(self, named: _Records) -> dict[str, dict[TensorSlice, bytes]]:
        """Move the records of slices out of `named`; what no tensor lists stays a tensor."""
        taken: dict[str, dict[TensorSlice, bytes]] = {}
        listed: dict[str, frozenset[TensorSlice] | None] = {}
        # Keys are in the order of their bytes: these come first.
        for odd in list(takewhile(lambda key: key.startswith("\0"), named)):
            raw = encode_text(odd)
            try:
                name, part = decode_slice_key(raw)
            except CorruptError:
                continue
            key = decode_text(name)
            if key not in listed:
                listed[key] = self._listed_slices(key) if key in named else frozenset()
            owned = listed[key]
            if (owned is None or part in owned) and encode_slice_key(name, part) == raw:
                taken.setdefault(key, {})[part] = named.pop(odd)
        return taken

    def _listed_slices(self, key: str) -> frozenset[TensorSlice] | None:
        """Return the slices that a tensor lists; None where it is damaged, so any may be its."""
        try:
            return frozenset(self.entries[key].slices)
        except CkptError:
            return None


def _read_records(table: TableReader) -> _Records:
    """Return the records by key, the keys as text."""
    try:
        return {key.decode(): value for entries in table.blocks() for key, value in entries}
    except UnicodeDecodeError:  # rare, and asking for it costs time
        return {
            key.decode("utf-8", ESCAPE): value
            for entries in table.blocks()
            for key, value in entries
        }
