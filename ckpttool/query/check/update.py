"""Writing a lock, without anything that differs from one save to the next."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from heapq import merge
from typing import TextIO, cast

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.coding.text import encode_text
from ckpttool.query.check.checkpoint import Scope, compare_with_lock, key_bytes, tensors_to_check
from ckpttool.query.check.findings import LockReport, LockUpdate
from ckpttool.query.check.lock import Lock
from ckpttool.query.rows import SliceRow, TensorRow
from ckpttool.query.source import Source
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.tensor.dtypes import dtype_of_name

Spell = Callable[[Source, Collection[TensorRow], TextIO], None]


def update_lock(
    ckpt: Checkpoint,
    path: str,
    lock: Lock | None,
    spell: Spell,
    selector: Selector | None = None,
    *,
    ignore: Iterable[str] = (),
    crc: bool = False,
) -> LockReport:
    """Create a lock, or update it to a checkpoint.

    Tensors that are not selected, or ignored, stay in the lock unchanged.

    Args:
        ckpt: the checkpoint.
        path: of the lock.
        lock: its present contents; None if there is none yet.
        spell: writes the text of a lock, from the checkpoint's summary and rows by key bytes.
        selector: which tensors; all without one.
        ignore: patterns of tensors that are left out.
        crc: store the crc32c of the tensors in the lock.

    Returns:
        The differences, and the effect on the lock. It is not touched if it would not change.

    Raises:
        SelectionError: a pattern selects nothing, or nothing is left to write.
        DestinationError: somebody created the lock meanwhile.
        CkptError: the checkpoint is damaged, or the lock cannot be written.
    """
    source, scope = tensors_to_check(ckpt, lock, selector, ignore)
    rows = _Merged(scope, lock, crc=crc)
    settled = _settled_source(source)
    findings = []
    update: LockUpdate = "created"
    if lock is not None:
        known = crc and lock.tensors.has_checksums()
        findings = compare_with_lock(scope, lock, crc=known, allow_extra=False)
        digest = sha256()
        _spell(spell, settled, rows, digest.update)
        update = "unchanged" if digest.digest() == lock.digest else "updated"
    if update != "unchanged":
        with _staged(path, replace_it=lock is not None) as write:
            _spell(spell, settled, rows, write)
    return LockReport(
        source=source,
        lock=path,
        tensors=scope.tensors,
        compared=scope.compared,
        ignored=scope.ignored,
        findings=findings,
        crc=crc,
        update=update,
    )


class _Merged(Collection[TensorRow]):
    """The rows of the new lock, by key bytes, made anew for each iteration.

    Args:
        scope: the tensors from the checkpoint.
        lock: the other tensors come from it.
        crc: keep the crc32c of the tensors from the checkpoint.
    """

    def __init__(self, scope: Scope, lock: Lock | None, *, crc: bool) -> None:
        self._found = scope.found
        self._crc = crc
        rest = () if lock is None else (key for key in lock.tensors if key not in scope.locked)
        self._rest = sorted(rest, key=encode_text)
        self._lock = lock

    def __len__(self) -> int:
        return len(self._found) + len(self._rest)

    def __contains__(self, row: object) -> bool:
        return any(row == each for each in self)

    def __iter__(self) -> Iterator[TensorRow]:
        new = (_settled(row, crc=self._crc) for row in self._found.values())
        if self._lock is None or not self._rest:
            return new
        tensors = self._lock.tensors
        old = (_settled(tensors[key], crc=True) for key in self._rest)
        return merge(new, old, key=key_bytes)


def _settled_source(source: Source) -> Source:
    return replace(source, path="", prefix="", shards=1, index_bytes=None, data_bytes=0)


def _settled(row: TensorRow, *, crc: bool) -> TensorRow:
    """Return a row without places, and without sizes that are not fixed."""
    try:
        size = dtype_of_name(row.dtype).size
    except KeyError:
        size = None
    return row._replace(
        bytes=None if size is None else row.elements * size,
        shard=None,
        offset=None,
        crc32c=row.crc32c if crc else None,
        slices=tuple(map(_settled_slice, row.slices)) if crc else (),
    )


def _settled_slice(part: SliceRow) -> SliceRow:
    return part._replace(shard=0, offset=None, bytes=None)


def _spell(
    spell: Spell,
    source: Source,
    rows: Collection[TensorRow],
    write: Callable[[bytes], object],
) -> None:
    """Write a lock piece by piece."""
    spell(source, rows, cast(TextIO, _Bytes(write)))


class _Bytes:
    """A stream that passes text on as bytes."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, text: str) -> int:
        """Pass text on."""
        self._write(text.encode("utf-8"))
        return len(text)


@contextmanager
def _staged(path: str, *, replace_it: bool) -> Iterator[Callable[[bytes], object]]:
    target = os.path.realpath(path)  # a link to a lock stays one
    with StagedFiles() as files:
        staged = files.create(target, mode=0o600 if replace_it else 0o666)
        if replace_it:
            with RandomAccessFile(target) as old:
                staged.take_permissions(old.permissions)
        yield staged.write
        files.commit(replace_last=replace_it)
