"""How tensors change from one checkpoint of a folder to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from ckpttool.checkpoint.locate import location_of
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.display import Displayed
from ckpttool.errors import CkptError, CorruptError, NotFoundError, UnsupportedError
from ckpttool.query.diff.index import choose_with_damaged, same_bytes, trusted
from ckpttool.query.folder import list_by_step
from ckpttool.query.listing import DamagedRow, damaged_rows, tensor_rows
from ckpttool.query.rows import TensorRow
from ckpttool.query.shards import missing_data, require_apart
from ckpttool.query.source import Source
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress

StepChange = Literal["first", "same", "changed", "reshaped", "gone", "unreadable"]
# Elements taken at once.
_PIECE = 1 << 15


@dataclass(frozen=True, slots=True)
class StepRow:
    """A tensor in one checkpoint of a folder.

    Attributes:
        checkpoint: name of the checkpoint.
        step: the number at the end of that.
        row: the tensor; where it is gone or its entry is damaged, as an earlier checkpoint has it.
        change: what became of it since the checkpoint before: "first" where that has none that
            could be compared, "reshaped" where dtype or shape are others.
        norm: square root of the sum of the squared magnitudes; None where there are no numbers.
        update: the norm of the difference to the checkpoint before.
        ratio: that, divided by the norm in the checkpoint before; None where that is zero.
    """

    checkpoint: str
    step: int | None
    row: TensorRow
    change: StepChange
    norm: float | None = None
    update: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Series(Displayed):
    """The checkpoints of a folder, one after the other.

    Attributes:
        folder: the folder.
        checkpoints: names of the checkpoints that were compared, the oldest first.
        rows: the tensors, by key and then by checkpoint.
        problems: what could not be read.
        damaged: tensors whose entries are damaged, each with the name of the checkpoint. Each is
            a problem as well, and a row only where an earlier checkpoint has it.
    """

    folder: str
    checkpoints: tuple[str, ...]
    rows: tuple[StepRow, ...]
    problems: tuple[CkptError, ...]
    damaged: tuple[tuple[str, DamagedRow], ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything is not the same throughout, beside what was there first."""
        begun = self.checkpoints[:1]
        return any(
            row.change != "same" and (row.change != "first" or row.checkpoint not in begun)
            for row in self.rows
        )


def diff_series(
    folder: StrPath,
    selector: Selector | None = None,
    *,
    on_progress: Progress | None = None,
) -> Series:
    """Tell how tensors change through the checkpoints of a folder.

    Args:
        folder: the folder.
        selector: which tensors, by their names in any of the checkpoints; all without one.
        on_progress: called with the number of checkpoints that are done, and of all.

    Raises:
        NotFoundError: there are no checkpoints.
        FileAccessError: the folder cannot be read.
        SelectionError: a pattern selects nothing in any of them.
    """
    path = path_text(folder)
    there = [files for files in list_by_step(path) if not files.shadowed]
    if not there:
        raise NotFoundError("no checkpoint in the folder", path=path)
    problems: list[CkptError] = []
    damaged: list[tuple[str, DamagedRow]] = []
    found: list[StepRow] = []
    names: list[str] = []
    with ExitStack() as stack:
        opened = []
        for each in there:
            try:
                ckpt = stack.enter_context(Checkpoint(location_of(each)))
                opened.append((each.name, each.step, ckpt, tensor_rows(ckpt)))
            except CkptError as error:
                problems.append(error)
        selected = _selected([(ckpt, rows) for *_, ckpt, rows in opened], selector)
        for (name, _, ckpt, rows), (kept, broken) in zip(opened, selected, strict=True):
            problems += missing_data(Source.of(ckpt, rows), kept)
            problems += [row.error for row in broken]
            damaged += [(name, row) for row in broken]
        before: _Step | None = None
        for number, ((name, at, ckpt, _), (kept, broken)) in enumerate(
            zip(opened, selected, strict=True)
        ):
            lost = {row.key for row in broken}
            now = _Step(name, at, ckpt, {row.key: row for row in kept}, lost)
            found += _advance(before, now, problems)
            names.append(name)
            if before is not None:
                before.ckpt.close()
            before = now
            if on_progress is not None:
                on_progress(number + 1, len(opened))
    order = {name: number for number, name in enumerate(names)}
    found.sort(key=lambda row: (row.row.key, order[row.checkpoint]))
    return Series(path, tuple(names), tuple(found), tuple(problems), tuple(damaged))


def _selected(
    listed: Sequence[tuple[Checkpoint, Sequence[TensorRow]]], selector: Selector | None
) -> Sequence[tuple[Sequence[TensorRow], list[DamagedRow]]]:
    """Return what is selected of each checkpoint; a pattern may hold in any of them."""
    if selector is None or selector.selects_all:
        return [(rows, damaged_rows(ckpt)) for ckpt, rows in listed]
    return choose_with_damaged(selector, [(*each, damaged_rows(each[0])) for each in listed])


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    step: int | None
    ckpt: Checkpoint
    rows: dict[str, TensorRow]
    damaged: Set[str]


def _advance(before: _Step | None, now: _Step, problems: list[CkptError]) -> Iterator[StepRow]:
    """Yield what became of every tensor from one checkpoint to the next."""
    earlier = before.rows if before is not None else {}
    alike = before is not None and trusted(Source.of(before.ckpt), Source.of(now.ckpt))

    def reads_before(row: TensorRow) -> bool:
        old = earlier.get(row.key)
        comparable = old is not None and (old.dtype, old.shape) == (row.dtype, row.shape)
        return comparable and not (alike and old is not None and same_bytes(old, row))

    both = {key for key, row in now.rows.items() if reads_before(row)}
    read = {key for key, row in now.rows.items() if _has_numbers(row)}
    if not alike:
        read |= both  # where no checksums tell, the contents must
    refused = _refused(now.ckpt, read, problems)
    if before is not None and not refused:
        refused = _refused(before.ckpt, read & both, problems)
    for key, row in now.rows.items():
        old = earlier.get(key)
        comparable = old is not None and (old.dtype, old.shape) == (row.dtype, row.shape)
        same = comparable and key not in both
        earlier_ckpt = before.ckpt if before is not None and key in both else None
        if refused and key in read:
            yield StepRow(now.name, now.step, row, "unreadable")
            continue
        try:
            squares = _squares(earlier_ckpt, now.ckpt, row)
            told_apart = squares is not None or alike or earlier_ckpt is None
            content_same = not told_apart and _same_content(earlier_ckpt, now.ckpt, row)
        except CkptError as error:
            problems.append(error)
            yield StepRow(now.name, now.step, row, "unreadable")
            continue
        change: StepChange = "first" if old is None else "same" if same else "changed"
        if old is not None and not comparable:
            change = "reshaped"
        elif content_same or (earlier_ckpt is not None and squares and not squares.differing):
            change = "same"
        if squares is None:
            yield StepRow(now.name, now.step, row, change)
            continue
        norm = sqrt(squares.now)
        update = ratio = None
        if change in ("same", "changed"):
            update = sqrt(squares.difference)
            base = sqrt(squares.before) if change == "changed" else norm
            ratio = update / base if base else None
        yield StepRow(now.name, now.step, row, change, norm, update, ratio)
    for key in sorted(earlier.keys() - now.rows.keys()):
        change = "unreadable" if key in now.damaged else "gone"
        yield StepRow(now.name, now.step, earlier[key], change)


def _refused(ckpt: Checkpoint, keys: Iterable[str], problems: list[CkptError]) -> bool:
    """Tell whether tensors claim too many bytes to be read; that is noted once of a checkpoint."""
    try:
        require_apart(ckpt, keys)
    except CorruptError as error:
        if not any((error.path, error.message) == (each.path, each.message) for each in problems):
            problems.append(error)
        return True
    return False


def _has_numbers(row: TensorRow) -> bool:
    return row.dtype not in ("string", "variant", "bool") and bool(row.elements)


def _same_content(before: Checkpoint | None, now: Checkpoint, row: TensorRow) -> bool:
    """Tell whether a tensor without numbers is the same where checksums do not tell."""
    from ckpttool.query.diff.values import content_digest

    return before is not None and content_digest(before, row) == content_digest(now, row)


@dataclass(slots=True)
class _Squares:
    """Sums of squares: of a tensor in both checkpoints, and of its difference."""

    now: float = 0.0
    before: float = 0.0
    difference: float = 0.0
    differing: bool = False


def _squares(before: Checkpoint | None, now: Checkpoint, row: TensorRow) -> _Squares | None:
    """Read a tensor, and the same one in the checkpoint before; None if it has no numbers."""
    if not _has_numbers(row):
        return None
    import numpy as np

    from ckpttool.query.diff.elements import distances, magnitudes
    from ckpttool.query.diff.values import aligned_blocks
    from ckpttool.query.values.parts import Part

    out = _Squares()
    try:
        part = Part(now, row.key)
    except UnsupportedError:
        return None
    pairs = (
        aligned_blocks(Part(before, row.key), part)
        if before is not None
        else ((block, block) for block in part.blocks(ordered=False))
    )
    with np.errstate(all="ignore"):
        for old, new in pairs:
            for at in range(0, len(new), _PIECE):
                y = new[at : at + _PIECE]
                out.now += float(np.square(magnitudes(part.dtype, y)).sum())
                if before is not None:
                    x = old[at : at + _PIECE]
                    out.before += float(np.square(magnitudes(part.dtype, x)).sum())
                    out.differing = out.differing or bool((x != y).any())
                    out.difference += float(np.square(distances(part.dtype, x, y)).sum())
    return out
