"""A checkpoint against a lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TextIO

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.errors import SelectionError, in_arguments
from ckpttool.query.check.checkpoint import check_checkpoint
from ckpttool.query.check.findings import LockReport
from ckpttool.query.check.lock import read_lock
from ckpttool.query.check.update import update_lock
from ckpttool.render.check.text import check_document, write_lock, write_report
from ckpttool.render.check.words import summary
from ckpttool.render.console import Terminal
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress


@dataclass(frozen=True, repr=False)
class Check(LockReport, Answer):
    """The result of a check; made by `ckpttool.check`.

    `verdict` is "ok", "failed", or "unknown" if something could not be read; `findings` are the
    problems. `str()` is the table of `ckpt check`.
    """

    def _document(self) -> Mapping[str, object]:
        return check_document(self)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        write_report(self, "table", stream, terminal)

    def __repr__(self) -> str:
        against = f" against {self.lock!r}" if self.lock is not None else ""
        verdict = self.update or self.verdict
        return f"<Check {self.source.prefix!r}{against}: {verdict}: {summary(self)}>"


def check(
    path: StrPath | Checkpoint,
    lock: StrPath | None = None,
    patterns: str | Iterable[str] | Selector = (),
    *,
    exclude: str | Iterable[str] = (),
    kinds: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
    update: bool = False,
    crc: bool = False,
    finite: bool = False,
    graph: bool = False,
    allow_extra: bool = False,
    on_progress: Progress | None = None,
) -> Check:
    """Check a checkpoint against a lock file, as `ckpt check` does.

    A lock is a list of keys, dtypes and shapes: the output of `ckpt ls --json`, or a file written
    by `update`.

    Args:
        path: anything that names a checkpoint, or an open one.
        lock: path of the lock; "-" is the standard input. None: there is no lock.
        patterns: which tensors, in the checkpoint and in the lock; all by default.
        exclude: patterns of tensors to leave out.
        kinds: which kinds of tensors, such as "weight"; all by default.
        ignore: patterns of tensors to leave out on both sides.
        update: write the lock instead of comparing with it.
        crc: compare the stored crc32c of each tensor; with `update`, record it in the lock.
        finite: read all values; fail on NaN and Inf.
        graph: compare with the variables of the MetaGraph.
        allow_extra: accept tensors that are not in the lock or the MetaGraph.
        on_progress: called with the bytes read, and their total.

    Raises:
        SelectionError: there is nothing to check, or a pattern selects nothing.
        NotFoundError: there is no crc32c, or no MetaGraph, to compare.
        CkptError: the checkpoint is damaged or incomplete, or the lock cannot be read.

    >>> made = ckpttool.check("tf_ckpts", "new.lock.json", update=True)
    >>> made.update, len(made.tensors)
    ('created', 15)
    >>> ckpttool.check("tf_ckpts/ckpt-8", "new.lock.json", finite=True).verdict
    'ok'
    """
    given = {"update": update, "crc": crc, "finite": finite, "graph": graph}
    misuse = check_misuse(lock, **given, allow_extra=allow_extra)
    if misuse is not None:
        raise SelectionError(in_arguments(misuse))
    selector = Selector.from_patterns(patterns, exclude=exclude, kinds=kinds)
    ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    file = None if lock is None else path_text(lock)
    with opened(path) as ckpt:
        if update and file is not None:
            known = read_lock(file) if os.path.lexists(file) else None
            found = update_lock(ckpt, file, known, write_lock, selector, ignore=ignore, crc=crc)
        else:
            found = check_checkpoint(
                ckpt,
                None if file is None else read_lock(file),
                selector,
                ignore=ignore,
                crc=crc,
                finite=finite,
                graph=graph,
                allow_extra=allow_extra,
                on_progress=on_progress,
            )
    return Check(*(getattr(found, each.name) for each in fields(found)))


def check_misuse(
    lock: StrPath | None, *, update: bool, crc: bool, finite: bool, graph: bool, allow_extra: bool
) -> str | None:
    """Return why arguments of `check` do not go together, their names in braces."""
    if lock is None and not (finite or graph):
        return "there is nothing to check: give {lock}, {graph}, or {finite}"
    if lock is None and (update or crc or (allow_extra and not graph)):
        return "{update}, {crc} and {allow_extra} need {lock}"
    if update and (finite or graph or allow_extra):
        return "{update} checks nothing: it takes no {finite}, no {graph} and no {allow_extra}"
    if update and lock == "-":
        return "{update} needs a file to write"
    return None
