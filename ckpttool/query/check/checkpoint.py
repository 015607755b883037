"""Checking a checkpoint against a lock, by the two lists of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Listed, N, SelectionRule, Selector
from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError, NotFoundError, SelectionError
from ckpttool.query.check.findings import PROBLEMS, LockFinding, LockReport, Problem
from ckpttool.query.check.lock import Lock
from ckpttool.query.listing import DamagedRow, damaged_rows, tensor_rows
from ckpttool.query.rows import BundleRows, MergedRows, RowsByKey, TensorRow, keys_of
from ckpttool.query.shards import require_apart, require_data
from ckpttool.query.source import Source
from ckpttool.storage.work import Progress

if TYPE_CHECKING:
    from ckpttool.query.check.finite import NonFinite
    from ckpttool.query.check.metagraph import GraphVariables


class _Part(Mapping[str, TensorRow]):
    """Some tensors of a lock; their rows are made only when they are looked at."""

    def __init__(self, tensors: Mapping[str, TensorRow], keys: Set[str]) -> None:
        self._tensors = tensors
        self._keys = keys
        self._number = sum(map(keys.__contains__, tensors))

    def __getitem__(self, key: str) -> TensorRow:
        if key not in self._keys:
            raise KeyError(key)
        return self._tensors[key]

    def __iter__(self) -> Iterator[str]:
        return filter(self._keys.__contains__, self._tensors)

    def __len__(self) -> int:
        return self._number

    def __contains__(self, key: object) -> bool:
        return key in self._keys and key in self._tensors


@dataclass(frozen=True)
class Scope:
    """The tensors to check.

    Attributes:
        found: those of the checkpoint, by key in the order of key bytes.
        locked: those of the lock, by key.
        ignored: how many `--ignore` left out.
        variables: those that only the MetaGraph has.
    """

    found: Mapping[str, TensorRow]
    locked: Mapping[str, TensorRow]
    ignored: int
    variables: tuple[TensorRow, ...] = ()

    @cached_property
    def compared(self) -> int:
        """How many are in both."""
        return sum(map(self.locked.__contains__, self.found))

    @property
    def tensors(self) -> Sequence[TensorRow]:
        """All of them, by key bytes, from the checkpoint, or else the lock or the graph."""
        if self.compared == len(self.locked) and not self.variables:
            return (
                self.found.rows() if isinstance(self.found, RowsByKey) else [*self.found.values()]
            )
        graph = {row.key: row for row in self.variables}
        return MergedRows(self.found, self.locked, graph)


def check_checkpoint(
    ckpt: Checkpoint,
    lock: Lock | None,
    selector: Selector | None = None,
    *,
    ignore: Iterable[str] = (),
    crc: bool = False,
    finite: bool = False,
    graph: bool = False,
    allow_extra: bool = False,
    on_progress: Progress | None = None,
) -> LockReport:
    """Check a checkpoint against a lock or its MetaGraph, and for numbers that are not finite.

    Args:
        ckpt: the checkpoint.
        lock: the lock; None to compare nothing.
        selector: which tensors, in the checkpoint and in the lock; all without one.
        ignore: patterns of tensors that are left out on both sides.
        crc: compare the stored crc32c.
        finite: read all numbers and refuse those that are not finite.
        graph: the variables of the MetaGraph must be the tensors.
        allow_extra: accept tensors that the lock, or the MetaGraph, does not have.
        on_progress: called with the bytes read, and their total.

    Raises:
        SelectionError: a pattern selects nothing, or nothing is left to check.
        NotFoundError: there is no crc32c, or no MetaGraph, to compare.
        CkptError: the checkpoint is damaged or incomplete.
    """
    variables: GraphVariables | None = None
    if graph:
        from ckpttool.query.check.metagraph import read_variables

        variables = read_variables(ckpt)
    source, scope = tensors_to_check(
        ckpt, lock, selector, ignore, variables.absent if variables else ()
    )
    findings: list[LockFinding] = []
    if lock is not None:
        if crc:
            _require_checksums(scope, source, lock)
        findings = compare_with_lock(scope, lock, crc=crc, allow_extra=allow_extra)
    if variables is not None:
        findings += variables.findings(scope.found, scope.variables, allow_extra=allow_extra)
    read = bytes_read = 0
    if finite:
        read, bytes_read, bad = _look_for_nonfinite(ckpt, scope, lock, on_progress)
        findings += bad
    return LockReport(
        source=source,
        lock=None if lock is None else lock.path,
        tensors=scope.tensors,
        compared=scope.compared,
        ignored=scope.ignored,
        findings=findings,
        variables=None if variables is None else variables.count,
        read=read,
        bytes_read=bytes_read,
        crc=crc,
        finite=finite,
        allow_extra=allow_extra,
    )


def tensors_to_check(
    ckpt: Checkpoint,
    lock: Lock | None,
    selector: Selector | None,
    ignore: Iterable[str],
    variables: Sequence[TensorRow] = (),
) -> tuple[Source, Scope]:
    """Return the checkpoint's summary, and the tensors to check.

    A tensor selected in the checkpoint or in the lock is checked in both. A pattern must select
    something in either, or among the variables that only the MetaGraph has.

    Raises:
        SelectionError: a pattern selects nothing, or nothing is left to check.
        CkptError: the checkpoint is damaged or incomplete.
    """
    rows = tensor_rows(ckpt)
    source = Source.of(ckpt, rows)
    require_data(source, rows)
    found: Mapping[str, TensorRow] = (
        rows.by_key if isinstance(rows, BundleRows) else {row.key: row for row in rows}
    )
    locked: Mapping[str, TensorRow] = {} if lock is None else lock.tensors
    damaged = damaged_rows(ckpt)
    rules = [SelectionRule(text, include=False) for text in ignore]
    if not rules and (selector is None or selector.selects_all):
        for each in damaged:
            raise each.error
        return source, Scope(found, locked, 0, tuple(variables))
    news = [] if lock is None else [locked[key] for key in lock.tensors.news(rows)]
    both: list[Listed[TensorRow | DamagedRow]] = [
        Listed([*rows, *damaged] if damaged else rows, ckpt),
        Listed([*news, *variables]),
    ]
    chosen = _chosen_keys(selector or Selector(), both)
    ignored: set[str] = set()
    if rules:
        ignored = chosen - _chosen_keys(Selector(rules), both)
        chosen -= ignored
    for each in damaged:
        if each.key in chosen:
            raise each.error
    if not chosen and any(part.rows for part in both):
        raise SelectionError("no tensor is selected")
    if isinstance(rows, BundleRows):
        found = rows.only(bytes(map(chosen.__contains__, rows.keys))).by_key
    else:
        found = {row.key: row for row in rows if row.key in chosen}
    return source, Scope(
        found,
        _Part(locked, chosen),
        len(ignored),
        tuple(row for row in variables if row.key in chosen),
    )


def _chosen_keys(selector: Selector, parts: Sequence[Listed[N]]) -> set[str]:
    return {key for rows in selector.choose(parts).by_part for key in keys_of(rows)}


def compare_with_lock(
    scope: Scope, lock: Lock, *, crc: bool, allow_extra: bool
) -> list[LockFinding]:
    """Return the differences between a checkpoint and a lock, problem by problem."""
    found, locked = scope.found, scope.locked
    doubtful: Iterable[str] = found
    if isinstance(found, RowsByKey):
        doubtful = lock.tensors.unlike(found.rows(), crc=crc)
    findings: list[LockFinding] = []
    for key in doubtful:
        row, other = found[key], locked.get(key)
        if other is not None:
            findings += _differences(other, row, lock, crc=crc)
        elif not allow_extra:
            findings.append(LockFinding("extra", None, row))
    if scope.compared < len(locked):
        absent = (row for key, row in locked.items() if key not in found)
        findings += (
            LockFinding("missing", row, None, lock.tensors.line(row.key)) for row in absent
        )
    findings.sort(key=lambda each: (PROBLEMS.index(each.problem), key_bytes(each.tensor)))
    return findings


def key_bytes(row: TensorRow) -> bytes:
    """Return the key of a tensor as bytes, for sorting."""
    return encode_text(row.key)


def checksums(row: TensorRow) -> dict[str, int | None]:
    """Return the crc32c of a tensor by slice, or under "" for a whole one."""
    if row.slices:
        return {part.spec: part.crc32c for part in row.slices}
    return {"": row.crc32c}


def _differences(
    locked: TensorRow, found: TensorRow, lock: Lock, *, crc: bool
) -> Iterator[LockFinding]:
    line = lock.tensors.line(locked.key)
    same = True
    if locked.dtype != found.dtype:
        same = False
        yield LockFinding("dtype", locked, found, line)
    if locked.shape != found.shape:
        same = False
        yield LockFinding("shape", locked, found, line)
    if crc and same:
        sums = checksums(found)
        # Without a stored checksum equality is unknown.
        if None in sums.values() or sums != checksums(locked):
            yield LockFinding("crc32c", locked, found, line)


def _require_checksums(scope: Scope, source: Source, lock: Lock) -> None:
    if not scope.compared:
        return
    if not any(
        None not in checksums(row).values()
        for key, row in scope.found.items()
        if key in scope.locked
    ):
        raise NotFoundError("the checkpoint stores no crc32c to compare", path=source.prefix)
    if not any(
        None not in checksums(row).values()
        for key, row in scope.locked.items()
        if key in scope.found
    ):
        raise NotFoundError(
            "the lock has no crc32c to compare; --update --crc puts them in", path=lock.path
        )


def _look_for_nonfinite(
    ckpt: Checkpoint, scope: Scope, lock: Lock | None, on_progress: Progress | None
) -> tuple[int, int, list[LockFinding]]:
    """Return how many tensors and bytes were read, and the findings."""
    from ckpttool.query.check.finite import find_nonfinite, may_hold_floats

    require_apart(ckpt, [row.key for row in scope.found.values() if may_hold_floats(row)])
    total = sum(row.bytes or 0 for row in scope.found.values() if may_hold_floats(row))
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if on_progress is not None:
            on_progress(done, total)

    read = 0
    bad: list[LockFinding] = []
    broken: list[LockFinding] = []
    for row in filter(may_hold_floats, scope.found.values()):
        try:
            nonfinite = find_nonfinite(ckpt, row.key, advance)
        except CkptError as error:
            broken.append(_about(row, lock, "unreadable", error=error))
            continue
        read += 1
        if nonfinite is not None:
            bad.append(_about(row, lock, "not-finite", nonfinite=nonfinite))
    return read, done, bad + broken


def _about(
    row: TensorRow,
    lock: Lock | None,
    problem: Problem,
    *,
    nonfinite: NonFinite | None = None,
    error: CkptError | None = None,
) -> LockFinding:
    """Return a finding about the values of a tensor, with its row and line in the lock."""
    locked = None if lock is None else lock.tensors.get(row.key)
    line = None if lock is None else lock.tensors.line(row.key)
    return LockFinding(problem, locked, row, line, nonfinite, error)
