"""The places of tensors in the data shards, and whether they are possible."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ckpttool.bundle.naming import shard_path
from ckpttool.coding.foreign import POINTER_SIZE
from ckpttool.errors import CkptError
from ckpttool.query.verify.findings import Finding, finding
from ckpttool.query.verify.index import IndexSurvey, Stored
from ckpttool.query.verify.names import FolderNames
from ckpttool.storage.source import file_error
from ckpttool.tensor.dtypes import DType

_MAX_NAMED = 3


@dataclass(slots=True, eq=False)
class Extent:
    """A run of bytes of a data shard.

    Attributes:
        offset: first byte.
        size: number of bytes.
        dtype: of the tensor; None for a hole between tensors.
        count: number of elements.
        claims: the tensors and slices with these bytes; several if they share them.
        overlaps: whether it begins before an earlier extent ends.
        cut: whether it goes beyond the end of the file; it is not read then.
        crc: computed, unmasked; None if it was not.
        error: why not.
        nonzero: the first byte of a hole that is not zero.
    """

    offset: int
    size: int
    dtype: DType | None
    count: int
    claims: list[Stored] = field(default_factory=list)
    overlaps: bool = False
    cut: bool = False
    crc: int | None = None
    error: CkptError | None = None
    nonzero: int | None = None

    @property
    def place(self) -> tuple[int, int, int, int]:
        """What entries have in common that are read as one."""
        number = 0 if self.dtype is None else self.dtype.number
        return self.offset, self.size, number, self.count

    @property
    def stop(self) -> int:
        """The byte after the last."""
        return self.offset + self.size


@dataclass(slots=True)
class Shard:
    """A data shard; its extents are in the order of the file, holes included."""

    number: int
    path: str
    size: int
    extents: list[Extent] = field(default_factory=list)

    @property
    def tensors(self) -> Iterator[Extent]:
        """The extents that are no holes."""
        return (extent for extent in self.extents if extent.dtype is not None)


@dataclass(slots=True)
class ShardLayout:
    """The data shards of a bundle.

    Attributes:
        shards: the existing ones with tensors, by number.
        missing: names of the missing ones with tensors.
        findings: about them.
    """

    shards: list[Shard] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def place_tensors(prefix: str, survey: IndexSurvey, names: FolderNames) -> ShardLayout:
    """Compare an index with the sizes of the data shards, without opening them."""
    layout = ShardLayout()
    num_shards = survey.header.num_shards if survey.header is not None else 0
    by_shard: dict[int, list[Stored]] = {}
    for stored in survey.stored:
        by_shard.setdefault(stored.entry.shard_id, []).append(stored)
    for number in sorted(by_shard):
        path = shard_path(prefix, number, num_shards)
        size = _size_of(path, by_shard[number], layout)
        if size is not None:
            shard = Shard(number, path, size)
            layout.shards.append(shard)
            _place(shard, by_shard[number], layout.findings, accounted=survey.complete)
    if survey.complete:
        _check_unused(prefix, num_shards, set(by_shard), layout, names)
    return layout


def _size_of(path: str, users: list[Stored], layout: ShardLayout) -> int | None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        _missing(path, "", users, layout)
        return None
    except OSError as error:
        message = file_error(error, path).message
        layout.findings.append(finding("unreadable", message, path))
        return None
    if not stat.S_ISREG(status.st_mode):
        layout.findings.append(finding("unreadable", "not a regular file", path))
        return None
    if status.st_size <= POINTER_SIZE and any(
        each.entry.offset + each.entry.size > status.st_size for each in users
    ):
        from ckpttool.storage.foreign import foreign_file

        pointer = foreign_file(path)
        if pointer is not None:
            _missing(path, f"; in its place is {pointer}", users, layout)
            return None
    return status.st_size


def _missing(path: str, instead: str, users: list[Stored], layout: ShardLayout) -> None:
    layout.missing.append(os.path.basename(path))
    keys = sorted({stored.key for stored in users})
    named = ", ".join(f"'{key}'" for key in keys[:_MAX_NAMED])
    more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
    message = f"the data shard is missing{instead}; it holds {named}{more}"
    layout.findings.append(finding("shard-missing", message, path))


def _place(
    shard: Shard, users: Iterable[Stored], findings: list[Finding], *, accounted: bool
) -> None:
    """Put the extents of stored tensors into a shard; add findings.

    If not all entries could be read (`accounted` is False), holes are not reported.
    """
    # By offset, which is a small key: an index can hold millions of entries. Few begin where
    # another does.
    first: dict[int, Extent] = {}
    others: dict[tuple[int, int, int, int], Extent] = {}
    for stored in users:
        entry = stored.entry
        # Two tensors with the same bytes and the same dtype are read once.
        same = (entry.offset, entry.size, entry.dtype.number, entry.elements)
        extent = first.get(entry.offset)
        if extent is not None and same != extent.place:
            extent = others.get(same)
        problem = None
        if extent is None:
            extent = Extent(entry.offset, entry.size, entry.dtype, same[3], [stored])
            extent.cut = extent.size > 0 and extent.stop > shard.size
            if first.setdefault(entry.offset, extent) is not extent:
                others[same] = extent
        else:
            extent.claims.append(stored)
            if entry.size:
                problem = ("extent-alias", f"it has the same bytes as '{extent.claims[0].key}'")
        if extent.stop > shard.size:
            code = "shard-short" if entry.size else "extent-outside"
            problem = (code, f"the data shard ends at byte {shard.size}")
        if problem is not None:
            findings.append(
                finding(
                    problem[0],
                    stored.what + problem[1],
                    shard.path,
                    offset=entry.offset,
                    size=entry.size,
                    key=stored.key,
                )
            )
    _find_holes(shard, sorted([*first.values(), *others.values()], key=_order), findings)
    if not accounted:
        shard.extents = list(shard.tensors)
        return
    end = max((extent.stop for extent in shard.extents if extent.size), default=0)
    if end < shard.size:
        size = shard.size - end
        message = f"{size} bytes after the last tensor belong to none"
        findings.append(finding("trailing-bytes", message, shard.path, offset=end, size=size))


def _order(extent: Extent) -> tuple[int, int]:
    return extent.offset, extent.size


def _find_holes(shard: Shard, extents: list[Extent], findings: list[Finding]) -> None:
    """Append extents in order, with the holes between them; report overlaps."""
    reached: Extent | None = None  # the extent that goes furthest so far
    for extent in extents:
        end = 0 if reached is None else reached.stop
        if extent.size and extent.offset < end and reached is not None:
            extent.overlaps = True
            claim, other = extent.claims[0], reached.claims[0]
            findings.append(
                finding(
                    "extent-overlap",
                    f"{claim.what}it shares bytes with '{other.key}'",
                    shard.path,
                    offset=extent.offset,
                    size=min(end, extent.stop) - extent.offset,
                    key=claim.key,
                )
            )
        elif extent.size and end < min(extent.offset, shard.size):
            shard.extents.append(Extent(end, min(extent.offset, shard.size) - end, None, 0))
        shard.extents.append(extent)
        if extent.size and extent.stop > end:
            reached = extent


def _check_unused(
    prefix: str, num_shards: int, used: set[int], layout: ShardLayout, names: FolderNames
) -> None:
    """Check the data shards without tensors."""
    shards = names.shards(os.path.basename(prefix))
    there = {number: path for path, number, count in shards if count == num_shards}
    unused = [number for number in range(num_shards) if number not in used]
    gone = [number for number in unused if number not in there]
    if gone:
        path = shard_path(prefix, gone[0], num_shards)
        more = f", nor are {len(gone) - 1} more of the same kind" if len(gone) > 1 else ""
        message = f"the header counts this data shard, which holds no tensor; it is not there{more}"
        layout.findings.append(finding("shard-unused", message, path))
    for number in unused:
        if number in there:
            _check_empty(there[number], layout.findings)


def _check_empty(path: str, findings: list[Finding]) -> None:
    try:
        size = os.stat(path).st_size
    except OSError as error:
        findings.append(finding("unreadable", file_error(error, path).message, path))
        return
    if size:
        message = f"{size} bytes belong to no tensor"
        findings.append(finding("trailing-bytes", message, path, offset=0, size=size))
