"""The rows of a listing, held by columns.

An index can list millions of tensors, and an object for each would take several times the memory of
the index itself. Tensors share a few dtypes, shapes and sizes, so for each only its key, references
to those, and three numbers are held; rows are made on demand.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from functools import cached_property, partial
from heapq import merge
from itertools import compress, repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol, overload

from ckpttool.coding.checksum import unmask
from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError
from ckpttool.objects.keys import OPTIMIZER_SLOT, object_path
from ckpttool.tensor.shape import Shape, element_count

if TYPE_CHECKING:
    from ckpttool.bundle.columns import EntryColumns
    from ckpttool.bundle.index import EntryMap
    from ckpttool.bundle.reader import BundleReader
    from ckpttool.checkpoint.selection.select import Named


# What TensorFlow calls a variable that the program gives no name.
_MADE_UP = re.compile(r"Variable(?:_\d+)?")
_SLOT = f"/{OPTIMIZER_SLOT}/"


class SliceRow(NamedTuple):
    """A slice of a partitioned tensor; the attributes are those of `TensorRow`."""

    spec: str
    shard: int
    offset: int | None
    bytes: int | None
    crc32c: int | None


class TensorRow(NamedTuple):
    """A tensor, as the index describes it.

    Attributes:
        key: its name in the file.
        object_path: its short name, if any.
        dtype: name of the dtype.
        shape: of the whole tensor.
        kind: weight, slot, optimizer, step, ema, iterator, table, graph or other.
        elements: how many it has.
        bytes: stored bytes, of all slices together. For V1, where they are unknown before reading,
            the size of the elements in memory; None for strings.
        shard: number of the data shard, or of the file of V1; None for a partitioned tensor.
        offset: first byte in that shard; None for a partitioned tensor and for V1.
        crc32c: of the stored bytes, not masked; None for a partitioned tensor and for V1.
        slices: of a partitioned tensor.
        name: full name of the variable in its program, if the object graph records it.
    """

    key: str
    object_path: str | None
    dtype: str
    shape: tuple[int, ...]
    kind: str
    elements: int
    bytes: int | None
    shard: int | None
    offset: int | None
    crc32c: int | None
    slices: tuple[SliceRow, ...] = ()
    name: str | None = None


class NamedRow(Protocol):
    """Anything with the names of a tensor."""

    @property
    def key(self) -> str:
        """The name in the file."""

    @property
    def object_path(self) -> str | None:
        """The short name in an object-based checkpoint."""

    @property
    def name(self) -> str | None:
        """The full name of the variable in its program, if known."""


def short_name(row: NamedRow) -> str:
    """Return the object path where there is one, else the key."""
    return row.key if row.object_path is None else row.object_path


def telling_name(path: str, name: str | None) -> str | None:
    """Return the full name of a variable if it says what its object path does not.

    It says nothing where the path ends in it, where TensorFlow made it up, as `Variable_1`, and
    for a slot variable whose path is that of its variable.
    """
    if not name or path == name or path.endswith("/" + name) or _MADE_UP.fullmatch(name):
        return None
    return None if _SLOT in path else name


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over tensors; unknown bytes are left out."""

    tensors: int
    elements: int
    bytes: int

    @classmethod
    def of(cls, rows: Collection[TensorRow]) -> Totals:
        """Add rows up."""
        if isinstance(rows, BundleRows):
            return cls(len(rows), sum(rows.elements()), sum(rows.sizes))
        elements = size = 0
        for row in rows:
            elements += row.elements
            size += row.bytes or 0
        return cls(len(rows), elements, size)


# Dtypes, shapes, kinds and bytes of tensors.
Descriptions = tuple[Sequence[str], Sequence[Shape], Sequence[str], Sequence[int | None]]
# Faster than the constructor.
_new_row: Callable[[tuple[object, ...]], TensorRow] = partial(tuple.__new__, TensorRow)
_Part = tuple[SliceRow, ...]


class BundleRows(Sequence[TensorRow]):
    """The row of every tensor of a bundle, by key bytes, but for those that are damaged.

    Every entry is decoded and checked when this is made.

    Args:
        reader: the bundle.
        kinds: called for the kind of each key, when that is first asked for.
        names: the same for the full names of variables.
        object_based: whether keys have object paths.

    Attributes:
        keys: of all tensors.
        dtypes: their names.
        shapes: of the whole tensors.
        sizes: stored bytes, of all slices together.
    """

    def __init__(
        self,
        reader: BundleReader,
        kinds: Callable[[], Mapping[str, str]],
        names: Callable[[], Mapping[str, str]],
        *,
        object_based: bool,
    ) -> None:
        self._find_kinds = kinds
        self._find_names = names
        self._object_based = object_based
        try:
            self._take(reader, reader.entries)
            reader.index.found_sound()
        except CkptError:
            self._take(reader, reader.entries.without(reader.index.damaged))

    def __reduce__(self) -> tuple[object, ...]:
        # A copy is plain rows: no file is opened where it arrives.
        return list, (list(self),)

    def _take(self, reader: BundleReader, sound: EntryMap) -> None:
        self.keys = list(sound)
        self.dtypes: list[str] = []
        self.shapes: list[Shape] = []
        self.sizes = array("q")
        self._shards = array("i")
        self._offsets = array("q")
        self._crcs = array("I")
        # By position, the slices of partitioned tensors.
        self._parts: dict[int, _Part] = {}
        # Many tensors share a few shapes.
        self._counts: dict[Shape, int] = {}
        for columns in sound.columns():
            self._extend(columns, reader)

    def _extend(self, columns: EntryColumns, reader: BundleReader) -> None:
        dtypes, shapes, shards, offsets, sizes, crcs, slices = columns
        start = len(self.shapes)
        self.dtypes += [dtype.name for dtype in dtypes]
        self.shapes += shapes
        self.sizes.extend(sizes)
        self._shards.extend(shards)
        self._offsets.extend(offsets)
        self._crcs.extend(crcs)
        for shape in set(shapes).difference(self._counts):
            self._counts[shape] = element_count(shape)
        for at in sorted(start + each for each in slices):
            self._parts[at] = part = _slice_rows(reader, self.keys[at])
            self.sizes[at] = sum(each.bytes or 0 for each in part)

    def only(self, flags: Sequence[int]) -> BundleRows:
        """Return some of the rows: those with a flag that is not zero."""
        some = BundleRows.__new__(BundleRows)
        some.keys = [*compress(self.keys, flags)]
        some.dtypes = [*compress(self.dtypes, flags)]
        some.shapes = [*compress(self.shapes, flags)]
        some.sizes = array("q", compress(self.sizes, flags))
        some._shards = array("i", compress(self._shards, flags))
        some._offsets = array("q", compress(self._offsets, flags))
        some._crcs = array("I", compress(self._crcs, flags))
        some._object_based = self._object_based
        some._find_kinds = self._find_kinds
        some._find_names = self._find_names
        places = enumerate(compress(range(len(self)), flags)) if self._parts else ()
        some._parts = {to: self._parts[at] for to, at in places if at in self._parts}
        some._counts = self._counts
        return some

    @cached_property
    def by_key(self) -> RowsByKey:
        """The rows by key."""
        return RowsByKey(self)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each tensor by key."""
        return self._find_kinds()

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The full names of variables by key, as far as they are known."""
        return self._find_names()

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> TensorRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[TensorRow]: ...
    def __getitem__(self, at: int | slice) -> TensorRow | list[TensorRow]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        key, shape = self.keys[at], self.shapes[at]
        path = object_path(key) if self._object_based else None
        part = self._parts.get(at, ())
        return TensorRow(
            key,
            path,
            self.dtypes[at],
            shape,
            self.kinds[key],
            self._counts[shape],
            self.sizes[at],
            None if part else self._shards[at],
            None if part else self._offsets[at],
            None if part else unmask(self._crcs[at]),
            part,
            self.variables.get(key),
        )

    def __iter__(self) -> Iterator[TensorRow]:
        rows = map(
            _new_row,
            zip(
                self.keys,
                self.paths(),
                self.dtypes,
                self.shapes,
                self.every_kind(),
                self.elements(),
                self.sizes,
                self._shards,
                self._offsets,
                self.checksums(),
                repeat(()),
                map(self.variables.get, self.keys),
            ),
        )
        if not self._parts:
            return rows
        parts = self._parts
        return (self[at] if at in parts else row for at, row in enumerate(rows))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def paths(self) -> Iterable[str | None]:
        """Return the object path of each tensor."""
        return map(object_path, self.keys) if self._object_based else repeat(None, len(self))

    def telling_names(self) -> list[str | None] | None:
        """Return the full names that say what the object paths do not; None if none does."""
        names = self.variables
        if not names:
            return None
        paths = zip(self.keys, self.paths(), strict=True)
        found = [telling_name(key if path is None else path, names.get(key)) for key, path in paths]
        return found if any(found) else None

    def every_kind(self) -> Iterable[str]:
        """Return the kind of each tensor."""
        return map(self.kinds.__getitem__, self.keys)

    def shards(self) -> list[int]:
        """Return the numbers of the data shards in which tensors lie."""
        used = set(self._shards)
        if self._parts:
            whole = (number for at, number in enumerate(self._shards) if at not in self._parts)
            used = {each.shard for part in self._parts.values() for each in part}.union(whole)
        return sorted(used)

    def comparer(self, other: BundleRows) -> Callable[[int, int], bool]:
        """Return a function that compares tensors here and there, by position, by their entries.

        Offset and shard do not count. For a partitioned tensor it always says no.
        """
        of_a = self.dtypes, self.shapes, self.sizes, self._crcs, self._parts
        of_b = other.dtypes, other.shapes, other.sizes, other._crcs, other._parts
        dtypes_a, shapes_a, sizes_a, crcs_a, parts_a = of_a
        dtypes_b, shapes_b, sizes_b, crcs_b, parts_b = of_b

        def alike(at: int, to: int) -> bool:
            return (
                crcs_a[at] == crcs_b[to]
                and sizes_a[at] == sizes_b[to]
                and dtypes_a[at] == dtypes_b[to]
                and shapes_a[at] == shapes_b[to]
                and at not in parts_a
                and to not in parts_b
            )

        return alike

    def extents(self) -> tuple[array[int], array[int], array[int], array[int]]:
        """Return shard, offset, size and masked crc32c of each, meaningless if partitioned."""
        return self._shards, self._offsets, self.sizes, self._crcs

    def claims(self, places: Iterable[int]) -> tuple[int, set[int]]:
        """Return how many bytes some tensors have, and the numbers of their data shards."""
        claimed = 0
        used: set[int] = set()
        for at in places:
            claimed += self.sizes[at]
            if at in self._parts:
                used.update(part.shard for part in self._parts[at])
            else:
                used.add(self._shards[at])
        return claimed, used

    def ends(self) -> dict[int, tuple[int, str]]:
        """Return for each shard the end of its last tensor, and that tensor's key."""
        out: dict[int, tuple[int, str]] = {}
        last: dict[int, int] = {}
        for at, (shard, offset) in enumerate(zip(self._shards, self._offsets, strict=True)):
            stop = offset + self.sizes[at]
            if stop >= last.get(shard, 0) and stop > offset and at not in self._parts:
                last[shard] = stop
                out[shard] = max(out.get(shard, (0, "")), (stop, self.keys[at]))
        rows = (self[at] for at in self._parts)
        for shard, end in _ends(rows).items():
            out[shard] = max(out.get(shard, end), end)
        return out

    def checksums(self) -> Iterator[int]:
        """Return the unmasked crc32c of each tensor; of a partitioned one it is meaningless."""
        return map(unmask, self._crcs)

    def elements(self) -> Iterator[int]:
        """Return the number of elements of each tensor."""
        return map(self._counts.__getitem__, self.shapes)

    def columns(self) -> Descriptions:
        """Return dtypes, shapes, kinds and bytes, each of all tensors."""
        return self.dtypes, self.shapes, list(self.every_kind()), self.sizes

    def short_names(self) -> Sequence[str]:
        """Return the object path of each tensor that has one, else its key; made when asked for."""
        return _ShortNames(self.keys) if self._object_based else self.keys


class _ShortNames(Sequence[str]):
    """Object paths of keys, where they have any: a million would take as much room as the keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [object_path(key) or key for key in self._keys[at]]
        return object_path(self._keys[at]) or self._keys[at]


class RowsByKey(Mapping[str, TensorRow]):
    """The rows of a bundle by key."""

    def __init__(self, rows: BundleRows) -> None:
        self._rows = rows

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {key: at for at, key in enumerate(self._rows.keys)}

    def __getitem__(self, key: str) -> TensorRow:
        return self._rows[self._positions[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows.keys)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._positions

    def values(self) -> ValuesView[TensorRow]:
        """Return the rows, faster than key by key."""
        return _Values(self)

    def rows(self) -> BundleRows:
        """Return the rows by position."""
        return self._rows


class MergedRows(Sequence[TensorRow]):
    """The rows of several mappings together, by key bytes; made only when they are looked at.

    Args:
        rows: by key in the order of key bytes; of two rows of one key the first counts.

    Attributes:
        keys: of all rows.
    """

    def __init__(self, *rows: Mapping[str, TensorRow]) -> None:
        self._rows = rows
        self.keys = [*rows[0]]
        for at, each in enumerate(rows[1:], 1):
            before = rows[:at]
            more = [key for key in each if not any(key in other for other in before)]
            self.keys = [*merge(self.keys, sorted(more, key=encode_text), key=encode_text)]

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> TensorRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[TensorRow]: ...
    def __getitem__(self, at: int | slice) -> TensorRow | list[TensorRow]:
        if isinstance(at, slice):
            return [*map(self._row, self.keys[at])]
        return self._row(self.keys[at])

    def __iter__(self) -> Iterator[TensorRow]:
        return map(self._row, self.keys)

    def _row(self, key: str) -> TensorRow:
        return next(rows[key] for rows in self._rows if key in rows)


class _Values(ValuesView[TensorRow]):
    _mapping: RowsByKey

    def __iter__(self) -> Iterator[TensorRow]:
        return iter(self._mapping.rows())


def descriptions_of(rows: Sequence[TensorRow]) -> Descriptions:
    """Return dtypes, shapes, kinds and bytes, each of all tensors."""
    if isinstance(rows, BundleRows):
        return rows.columns()
    return (
        [row.dtype for row in rows],
        [row.shape for row in rows],
        [row.kind for row in rows],
        [row.bytes for row in rows],
    )


def forms_of(rows: Sequence[TensorRow]) -> tuple[Sequence[str], Sequence[Shape]]:
    """Return dtypes and shapes, each of all tensors."""
    if isinstance(rows, BundleRows):
        return rows.dtypes, rows.shapes
    return [row.dtype for row in rows], [row.shape for row in rows]


def sizes_of(rows: Sequence[TensorRow]) -> Sequence[int | None]:
    """Return the bytes of each tensor."""
    return rows.sizes if isinstance(rows, BundleRows) else [row.bytes for row in rows]


def keys_of(rows: Sequence[Named]) -> list[str]:
    """Return the keys of tensors."""
    return rows.keys if isinstance(rows, BundleRows | MergedRows) else [row.key for row in rows]


def ends(rows: Iterable[TensorRow]) -> dict[int, tuple[int, str]]:
    """Return for each shard the end of the last of some tensors (not empty ones), and its key."""
    return rows.ends() if isinstance(rows, BundleRows) else _ends(rows)


def _ends(rows: Iterable[TensorRow]) -> dict[int, tuple[int, str]]:
    out: dict[int, tuple[int, str]] = {}
    for row in rows:
        for place in row.slices or (row,):
            if place.shard is not None and place.offset is not None and place.bytes:
                end = (place.offset + place.bytes, row.key)
                out[place.shard] = max(out.get(place.shard, end), end)
    return out


def _slice_rows(reader: BundleReader, key: str) -> _Part:
    return tuple(
        SliceRow(str(part), stored.shard_id, stored.offset, stored.size, unmask(stored.crc32c))
        for part, stored in reader.index.slice_entries(key)
    )
