"""A lock written anew, with nothing in it that differs from one save to the next."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.query.check.checkpoint import Scope, compare, key_bytes, survey
from ckpttool.query.check.findings import Report, Update
from ckpttool.query.check.lock import Lock
from ckpttool.query.listing import SliceRow, TensorRow
from ckpttool.query.source import Source
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.tensor.dtypes import dtype_of_name

Spell = Callable[[Source, list[TensorRow]], str]


def update_lock(
    ckpt: Checkpoint,
    path: str,
    lock: Lock | None,
    spell: Spell,
    selector: Selector | None = None,
    *,
    ignore: Iterable[str] = (),
    crc: bool = False,
) -> Report:
    """Make a lock say what a checkpoint has, or make one.

    Tensors that are not selected, or ignored, stay in the lock as they are.

    Args:
        ckpt: the checkpoint.
        path: of the lock.
        lock: what it says now; None where there is none yet.
        spell: returns the text of a lock for a checkpoint in short and rows by key bytes.
        selector: which tensors; all without one.
        ignore: patterns of tensors that are left out.
        crc: whether the lock is to hold the crc32c of its tensors.

    Returns:
        What was different, and what became of the lock. It is not touched if it would not change.

    Raises:
        SelectionError: a pattern selects nothing, or there is nothing left to write.
        DestinationError: somebody else has made the lock meanwhile.
        CkptError: the checkpoint is damaged, or the lock cannot be written.
    """
    source, scope = survey(ckpt, lock, selector, ignore)
    rows = _merged(scope, lock, crc=crc)
    text = spell(_settled_source(source), rows)
    findings = []
    update: Update = "created"
    if lock is not None:
        known = crc and any(row.crc32c is not None or row.slices for row in lock.tensors.values())
        findings = compare(scope, lock, crc=known, allow_extra=False)
        update = "unchanged" if text == lock.text else "updated"
    if update != "unchanged":
        _write(path, text.encode("utf-8"), replace_it=lock is not None)
    return Report(
        source=source,
        lock=path,
        tensors=scope.tensors,
        compared=len(scope.found.keys() & scope.locked.keys()),
        ignored=scope.ignored,
        findings=findings,
        crc=crc,
        update=update,
    )


def _merged(scope: Scope, lock: Lock | None, *, crc: bool) -> list[TensorRow]:
    """Return the rows of the new lock, by key bytes."""
    rows = [_settled(row, crc=crc) for row in scope.found.values()]
    if lock is not None:
        rest = (row for key, row in lock.tensors.items() if key not in scope.locked)
        rows += [_settled(row, crc=True) for row in rest]
    return sorted(rows, key=key_bytes)


def _settled_source(source: Source) -> Source:
    return replace(source, path="", prefix="", shards=1, index_bytes=None, data_bytes=0)


def _settled(row: TensorRow, *, crc: bool) -> TensorRow:
    """Return a row without places, and without the size of what has no fixed size."""
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


def _write(path: str, data: bytes, *, replace_it: bool) -> None:
    target = os.path.realpath(path)  # a link to a lock stays one
    with StagedFiles() as files:
        staged = files.create(target, mode=0o600 if replace_it else 0o666)
        if replace_it:
            with RandomAccessFile(target) as old:
                staged.take_permissions(old.permissions)
        staged.write(data)
        files.commit(replace_last=replace_it)
