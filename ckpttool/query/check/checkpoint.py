"""Hold a checkpoint against a lock, from the two lists of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Listed, Rule, Selector
from ckpttool.coding.text import encode_text
from ckpttool.errors import CkptError, NotFoundError, SelectionError
from ckpttool.query.check.findings import PROBLEMS, Finding, Report
from ckpttool.query.check.lines import find_lines
from ckpttool.query.check.lock import Lock
from ckpttool.query.listing import DamagedRow, TensorRow, damaged_rows, tensor_rows
from ckpttool.query.shards import require_apart, require_data
from ckpttool.query.source import Source
from ckpttool.storage.work import Progress

if TYPE_CHECKING:
    from ckpttool.query.check.metagraph import GraphVariables


@dataclass(frozen=True, slots=True)
class Scope:
    """The tensors that a check is about.

    Attributes:
        found: those of the checkpoint, by key in the order of key bytes.
        locked: those of the lock, by key.
        ignored: how many were left out by `--ignore`.
        variables: those that only the MetaGraph has.
    """

    found: Mapping[str, TensorRow]
    locked: Mapping[str, TensorRow]
    ignored: int
    variables: tuple[TensorRow, ...] = ()

    @property
    def tensors(self) -> list[TensorRow]:
        """All of them, by key bytes, as the checkpoint or else the lock or the graph has them."""
        graph = {row.key: row for row in self.variables}
        return sorted({**graph, **self.locked, **self.found}.values(), key=key_bytes)


def check(
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
) -> Report:
    """Hold a checkpoint against a lock or its MetaGraph, look for numbers that are not finite.

    Args:
        ckpt: the checkpoint.
        lock: the lock; None to compare nothing.
        selector: which tensors, in the checkpoint and in the lock; all without one.
        ignore: patterns of tensors that are left out on both sides.
        crc: whether to compare what is stored as crc32c.
        finite: whether to read all numbers and to refuse those that are not finite.
        graph: whether the variables of the MetaGraph have to be the tensors.
        allow_extra: whether tensors are welcome that the lock, or the MetaGraph, does not have.
        on_progress: called with the bytes that were read, and how many it will be.

    Raises:
        SelectionError: a pattern selects nothing, or there is nothing left to look at.
        NotFoundError: there is no crc32c, or no MetaGraph, to compare.
        CkptError: the checkpoint is damaged or not all there.
    """
    variables: GraphVariables | None = None
    if graph:
        from ckpttool.query.check.metagraph import read_variables

        variables = read_variables(ckpt)
    source, scope = survey(ckpt, lock, selector, ignore, variables.absent if variables else ())
    findings: list[Finding] = []
    if lock is not None:
        if crc:
            _require_checksums(scope, source, lock)
        findings = compare(scope, lock, crc=crc, allow_extra=allow_extra)
    if variables is not None:
        findings += variables.findings(scope.found, scope.variables, allow_extra=allow_extra)
    read = bytes_read = 0
    if finite:
        read, bytes_read, bad = _look_for_nonfinite(ckpt, scope, lock, on_progress)
        findings += bad
    return Report(
        source=source,
        lock=None if lock is None else lock.path,
        tensors=scope.tensors,
        compared=len(scope.found.keys() & scope.locked.keys()),
        ignored=scope.ignored,
        findings=findings,
        variables=None if variables is None else variables.count,
        read=read,
        bytes_read=bytes_read,
        crc=crc,
        finite=finite,
        allow_extra=allow_extra,
    )


def survey(
    ckpt: Checkpoint,
    lock: Lock | None,
    selector: Selector | None,
    ignore: Iterable[str],
    variables: Sequence[TensorRow] = (),
) -> tuple[Source, Scope]:
    """Return the checkpoint in short, and the tensors to look at.

    A tensor that is selected in the checkpoint or in the lock is looked at in both. A pattern has
    to select something in either, or among the variables that only the MetaGraph has.

    Raises:
        SelectionError: a pattern selects nothing, or there is nothing left to look at.
        CkptError: the checkpoint is damaged or not all there.
    """
    rows = tensor_rows(ckpt)
    source = Source.of(ckpt)
    require_data(source, rows)
    found = {row.key: row for row in rows}
    locked = {} if lock is None else lock.tensors
    news = [row for row in locked.values() if _is_news(row, found.get(row.key))]
    damaged = damaged_rows(ckpt)
    both: list[Listed[TensorRow | DamagedRow]] = [
        Listed([*rows, *damaged], ckpt),
        Listed([*news, *variables]),
    ]
    chosen = {row.key for row in (selector or Selector()).choose(both).chosen}
    rules = [Rule(text, include=False) for text in ignore]
    left = {row.key for row in Selector(rules).choose(both).chosen}
    ignored = chosen - left
    chosen -= ignored
    for each in damaged:
        if each.key in chosen:
            raise each.error
    if not chosen and any(part.rows for part in both):
        raise SelectionError("nothing is left to check: no tensor is selected")
    return source, Scope(
        {key: row for key, row in found.items() if key in chosen},
        {key: row for key, row in locked.items() if key in chosen},
        len(ignored),
        tuple(row for row in variables if row.key in chosen),
    )


def _is_news(locked: TensorRow, found: TensorRow | None) -> bool:
    """Tell whether a tensor in the lock may be selected where the one in the checkpoint is not."""
    return found is None or (locked.kind, locked.object_path) != (found.kind, found.object_path)


def compare(scope: Scope, lock: Lock, *, crc: bool, allow_extra: bool) -> list[Finding]:
    """Return how the tensors of a checkpoint differ from those of a lock, problem by problem."""
    findings = []
    for row in scope.tensors:
        found, locked = scope.found.get(row.key), scope.locked.get(row.key)
        if found is None:
            if locked is not None:
                findings.append(Finding("missing", locked, None))
        elif locked is None:
            if not allow_extra:
                findings.append(Finding("extra", None, found))
        else:
            findings += _differences(locked, found, crc=crc)
    findings.sort(key=lambda each: PROBLEMS.index(each.problem))
    return _with_lines(findings, lock)


def key_bytes(row: TensorRow) -> bytes:
    """Return the key of a tensor as the file has it, by which tensors are sorted."""
    return encode_text(row.key)


def checksums(row: TensorRow) -> dict[str, int | None]:
    """Return the crc32c of each part of a tensor that has its own: by slice, or under ""."""
    if row.slices:
        return {part.spec: part.crc32c for part in row.slices}
    return {"": row.crc32c}


def _differences(locked: TensorRow, found: TensorRow, *, crc: bool) -> Iterator[Finding]:
    same = True
    if locked.dtype != found.dtype:
        same = False
        yield Finding("dtype", locked, found)
    if locked.shape != found.shape:
        same = False
        yield Finding("shape", locked, found)
    if crc and same:
        sums = checksums(found)
        # What is stored without a checksum cannot be said to be the same.
        if None in sums.values() or sums != checksums(locked):
            yield Finding("crc32c", locked, found)


def _with_lines(findings: Iterable[Finding], lock: Lock) -> list[Finding]:
    findings = list(findings)
    keys = {each.locked.key for each in findings if each.locked is not None}
    lines = find_lines(lock.text, keys) if keys else {}
    return [replace(each, line=lines.get(each.tensor.key)) for each in findings]


def _require_checksums(scope: Scope, source: Source, lock: Lock) -> None:
    pairs = [(scope.found[key], scope.locked[key]) for key in scope.found if key in scope.locked]
    if not pairs:
        return
    if not any(None not in checksums(found).values() for found, _ in pairs):
        raise NotFoundError("the checkpoint stores no crc32c to compare", path=source.prefix)
    if not any(None not in checksums(locked).values() for _, locked in pairs):
        raise NotFoundError(
            "the lock has no crc32c to compare; --update --crc puts them in", path=lock.path
        )


def _look_for_nonfinite(
    ckpt: Checkpoint, scope: Scope, lock: Lock | None, on_progress: Progress | None
) -> tuple[int, int, list[Finding]]:
    """Return how many tensors and bytes were read, and what is wrong with them."""
    from ckpttool.query.check.finite import find_nonfinite, may_hold_floats

    rows = [row for row in scope.found.values() if may_hold_floats(row)]
    require_apart(ckpt, [row.key for row in rows])
    total = sum(row.bytes or 0 for row in rows)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if on_progress is not None:
            on_progress(done, total)

    bad: list[Finding] = []
    broken: list[Finding] = []
    for row in rows:
        locked = scope.locked.get(row.key)
        try:
            nonfinite = find_nonfinite(ckpt, row.key, advance)
        except CkptError as error:
            broken.append(Finding("unreadable", locked, row, error=error))
            continue
        if nonfinite is not None:
            bad.append(Finding("not-finite", locked, row, nonfinite=nonfinite))
    findings = bad + broken
    return len(rows) - len(broken), done, findings if lock is None else _with_lines(findings, lock)
