"""All that a report says about a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ckpttool.checkpoint.kinds.rules import OPTIMIZER_KINDS
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.errors import CkptError, MissingFileError
from ckpttool.query.drawing.build import Drawing, build_drawing
from ckpttool.query.listing import list_tensors
from ckpttool.query.report.layers import LayerMatrix, layer_matrix
from ckpttool.query.report.values import Measured, measure_tensors
from ckpttool.query.rows import TensorRow, short_name
from ckpttool.query.shards import missing_data, require_apart
from ckpttool.query.source import Source
from ckpttool.query.summary import Group, group_rows
from ckpttool.storage.work import Progress

# More tensors than these are not listed one by one, but for those that are not finite.
MOST_LISTED = 50_000
_LAYERED = frozenset({"weight", "ema"})
_UNREAD = Measured()


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """A checkpoint, as its report shows it.

    Attributes:
        source: the checkpoint.
        totals: over all selected tensors, and the object graph if it is among them.
        kinds: the same by kind, largest first.
        graph: whether the object graph is among them.
        step: the count of training steps, if there is one and values were read.
        values: whether values were read.
        nan: how many elements are not a number.
        inf: how many are infinite.
        not_finite: how many tensors have such elements.
        verified: how many tensors were compared with a checksum of theirs.
        rows: the tensors that are listed, in the order of their keys.
        measured: what their values are, one for each row.
        layers: the numbered layers among the listed tensors.
        drawing: of the objects; None if they cannot be read.
        problems: what could not be read, or is damaged, and why.
    """

    source: Source
    totals: Group
    kinds: tuple[Group, ...]
    graph: bool
    step: int | None
    values: bool
    nan: int
    inf: int
    not_finite: int
    verified: int
    rows: Sequence[TensorRow]
    measured: Sequence[Measured]
    layers: LayerMatrix | None
    drawing: Drawing | None
    problems: tuple[str, ...]

    @property
    def tensors(self) -> int:
        """How many tensors there are, the object graph left out."""
        return self.totals.tensors - self.graph

    @property
    def optimizer_share(self) -> float:
        """The share of the bytes that is state of optimizers."""
        state = sum(group.bytes for group in self.kinds if group.name in OPTIMIZER_KINDS)
        return state / self.totals.bytes if self.totals.bytes else 0.0

    @property
    def complete(self) -> bool:
        """Whether all that was asked for could be read, and is sound."""
        return not self.problems


def report_facts(
    ckpt: Checkpoint,
    selector: Selector | None = None,
    *,
    values: bool = True,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> ReportFacts:
    """Return the facts for a report. What is damaged is named in them and stops nothing.

    Args:
        ckpt: the checkpoint.
        selector: which tensors; all without one.
        values: whether to read the data shards; else only the index is read.
        jobs: how many threads may work.
        on_progress: called with how many bytes of values were read, and with all.

    Raises:
        CkptError: the index cannot be read.
        SelectionError: a pattern selects nothing.
    """
    listing = list_tensors(ckpt, selector)
    rows = listing.rows
    problems = [str(each.error) for each in listing.damaged]
    missing = {error.path: str(error) for error in missing_data(listing.source, rows)}
    problems += missing.values()
    try:
        drawing = build_drawing(ckpt, rows)
    except CkptError as error:
        drawing = None
        problems.append(str(error))
    if values:
        try:
            require_apart(ckpt, [row.key for row in rows])
        except CkptError as error:
            values = False
            problems.append(f"{error}; no values were read")
    measured = _measured(ckpt, rows, jobs, on_progress) if values else [_UNREAD] * len(rows)
    errors = [each.error for each in measured if each.error is not None]
    # A data shard that is missing is told once, not for each tensor in it.
    problems += [
        str(error)
        for error in errors
        if not (isinstance(error, MissingFileError) and error.path in missing)
    ]
    found = [each.statistics for each in measured if each.statistics is not None]
    listed = _listed(rows, measured)
    shown = [rows[at] for at in listed]
    return ReportFacts(
        # It may be asked for names when the checkpoint is closed.
        source=replace(listing.source, names=listing.source.names.settled()),
        totals=next(group_rows(rows, lambda _: ""), Group("", 0, 0, 0)),
        kinds=tuple(sorted(group_rows(rows, lambda row: row.kind), key=lambda one: -one.bytes)),
        graph=listing.graph,
        step=_step(rows, measured),
        values=values,
        nan=sum(each.nan for each in found),
        inf=sum(each.inf for each in found),
        not_finite=sum(bool(each.nan or each.inf) for each in found),
        verified=sum(each.verified and each.error is None for each in measured),
        rows=shown,
        measured=[measured[at] for at in listed],
        layers=layer_matrix([short_name(r) if r.kind in _LAYERED else None for r in shown])
        if values
        else None,
        drawing=drawing,
        problems=tuple(dict.fromkeys(problems)),
    )


def _measured(
    ckpt: Checkpoint, rows: Sequence[TensorRow], jobs: int | None, on_progress: Progress | None
) -> list[Measured]:
    return list(measure_tensors(ckpt, rows, jobs=jobs, on_progress=on_progress))


def _listed(rows: Sequence[TensorRow], measured: Sequence[Measured]) -> Iterable[int]:
    """Return the places of the tensors to list: the largest, and all that are not well."""
    if len(rows) <= MOST_LISTED:
        return range(len(rows))
    by_size = sorted(range(len(rows)), key=lambda at: -(rows[at].bytes or 0))
    return sorted({*by_size[:MOST_LISTED], *_unwell(measured)})


def _unwell(measured: Sequence[Measured]) -> Iterator[int]:
    for at, each in enumerate(measured):
        found = each.statistics
        if each.error is not None or (found is not None and (found.nan or found.inf)):
            yield at


def _step(rows: Sequence[TensorRow], measured: Sequence[Measured]) -> int | None:
    """Return the value of the only counter of steps, or the greatest of several."""
    steps = [
        each.statistics.max
        for row, each in zip(rows, measured, strict=True)
        if row.kind == "step" and row.elements == 1 and each.statistics is not None
    ]
    return max((step for step in steps if isinstance(step, int)), default=None)
