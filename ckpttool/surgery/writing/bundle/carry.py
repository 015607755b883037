"""Data shards carried from a source to a destination.

A shard is carried whole, so that every tensor keeps its place: as a clone that shares blocks with
the source, as a hard link, or as a copy. Copying checks the crc32c of every kept tensor; damaged
bytes are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ckpttool.bundle.entry import BundleEntry
from ckpttool.coding.checksum import unmask
from ckpttool.errors import ChecksumError, CkptError, DestinationError
from ckpttool.storage.source import RandomAccessFile, file_error
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.tensor.verifier import make_verifier

DataMode = Literal["auto", "reflink", "hardlink", "copy"]
DATA_MODES: tuple[DataMode, ...] = ("auto", "reflink", "hardlink", "copy")
Carried = Literal["reflink", "hardlink", "symlink", "copy", "rewritten", "new", "kept"]
# Called with the bytes copied since the last call.
OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SourceExtent:
    """The bytes of a tensor or slice in a shard of the source."""

    key: str
    entry: BundleEntry


def carry_shard(
    staged: StagedFiles,
    source: RandomAccessFile,
    destination: str,
    extents: Iterable[SourceExtent],
    *,
    mode: DataMode,
    big_endian: bool,
    on_bytes: OnBytes,
) -> tuple[StagedFile, Carried]:
    """Stage a data shard of the source under another name.

    Args:
        staged: the set of files to add to.
        source: the shard; it is not changed.
        destination: its final path.
        extents: the kept tensors in it.
        mode: how; `"auto"` takes the first of clone, link and copy that works.
        big_endian: byte order of the bundle.
        on_bytes: progress of a copy.

    Returns:
        The staged file, and how it was made.

    Raises:
        DestinationError: the file system cannot do what was requested.
        ChecksumError: a tensor to be copied is damaged.
    """
    if mode in ("auto", "reflink"):
        cloned = staged.clone(source, destination)
        if cloned is not None:
            return cloned, "reflink"
    if mode in ("auto", "hardlink"):
        linked = staged.link(source, destination)
        if linked is not None:
            return linked, "hardlink"
    if mode not in ("auto", "copy"):
        raise DestinationError(f"the file system cannot make a {mode} there", path=destination)
    check_space(destination, source.size)
    copy = staged.create(destination, mode=0o600)
    copy.take_permissions(source.permissions)
    _copy_whole(source, copy, extents, big_endian=big_endian, on_bytes=on_bytes)
    copy.sync()
    return copy, "copy"


def check_space(destination: str, size: int) -> None:
    """Raise `DestinationError` if the file system has less room than `size` bytes."""
    folder = os.path.dirname(destination) or os.curdir
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        raise file_error(error, folder) from error
    free = disk.f_bavail * disk.f_frsize
    if size > free:
        raise DestinationError(f"{size} bytes to copy, but only {free} are free", path=folder)


def copy_extent(
    file: RandomAccessFile,
    extent: SourceExtent,
    write: Callable[[memoryview], None],
    *,
    big_endian: bool,
    on_bytes: OnBytes,
) -> None:
    """Copy the bytes of one tensor through its crc32c.

    Raises:
        ChecksumError: they are damaged; they have been written, so what was staged is of no use.
    """
    entry = extent.entry
    verifier = make_verifier(entry.dtype, entry.elements, big_endian=big_endian)
    try:
        for chunk in file.chunks(entry.offset, entry.size):
            verifier.feed(chunk)
            write(chunk)
            on_bytes(len(chunk))
        computed = verifier.finish()
    except CkptError as error:
        error.offset = entry.offset + (error.offset or 0) if error.path is None else error.offset
        error.locate(path=file.path, key=extent.key)
        raise
    if computed != unmask(entry.crc32c):
        raise ChecksumError(
            "the stored bytes are damaged",
            stored=unmask(entry.crc32c),
            computed=computed,
            path=file.path,
            offset=entry.offset,
            key=extent.key,
        )


def verify_extent(file: RandomAccessFile, extent: SourceExtent, *, big_endian: bool) -> None:
    """Check the bytes of one tensor against its crc32c.

    Raises:
        CorruptError: they are damaged.
    """
    copy_extent(file, extent, _forget, big_endian=big_endian, on_bytes=_uncounted)


def _copy_whole(
    file: RandomAccessFile,
    copy: StagedFile,
    extents: Iterable[SourceExtent],
    *,
    big_endian: bool,
    on_bytes: OnBytes,
) -> None:
    """Copy a file byte for byte, and verify the tensors in it on the way."""
    overlapping = []
    for extent in sorted(extents, key=lambda each: each.entry.offset):
        if extent.entry.offset < copy.size:
            overlapping.append(extent)
            continue
        _copy_range(file, copy, copy.size, extent.entry.offset, on_bytes)
        copy_extent(file, extent, copy.write, big_endian=big_endian, on_bytes=on_bytes)
    _copy_range(file, copy, copy.size, file.size, on_bytes)
    for extent in overlapping:  # no known writer makes these, but the format allows them
        verify_extent(file, extent, big_endian=big_endian)


def _copy_range(
    file: RandomAccessFile, copy: StagedFile, start: int, end: int, on_bytes: OnBytes
) -> None:
    for chunk in file.chunks(start, end - start):
        copy.write(chunk)
        on_bytes(len(chunk))


def _forget(chunk: memoryview) -> None:
    """Take bytes that are only verified."""


def _uncounted(size: int) -> None:
    """Report no progress."""
