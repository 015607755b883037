"""The mean of several checkpoints of one program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypedDict

from ckpttool.api.outcome import Outcome, write_plan
from ckpttool.checkpoint.folder import stem_of
from ckpttool.checkpoint.locate import location_of
from ckpttool.checkpoint.nearest import quoted
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.errors import DestinationError, MissingFileError, SelectionError, in_arguments
from ckpttool.query.folder import list_by_step
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.surgery import averaging
from ckpttool.surgery.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from ckpttool.storage.work import Progress
    from ckpttool.surgery.writing.companions import MetaMode


class Averaging(TypedDict, total=False):
    """How a mean is written: keywords of `ckpttool.surgery.write`."""

    dry_run: bool
    force: bool
    update_state: bool
    meta: MetaMode
    follow_links: bool
    lock_timeout: float
    on_wait: Callable[[str], None] | None
    on_progress: Progress | None


def averaging_misuse(sources: int, last: int | None, output: bool, dry_run: bool) -> str | None:
    """Return why arguments of `average` do not go together, their names in braces.

    Args:
        sources: how many sources there are.
        last: how many checkpoints of a folder are meant.
        output: whether there is a destination.
        dry_run: whether nothing is written.
    """
    if not (output or dry_run):
        return "give {destination}"
    if last is not None and sources != 1:
        return "{last} takes one folder"
    if last is None and sources < 2:
        return "a mean needs at least two checkpoints; {last} takes those of a folder"
    return None


def average(
    sources: Sequence[StrPath | Checkpoint] | StrPath,
    destination: StrPath | None = None,
    *,
    last: int | None = None,
    weights: Sequence[float] = (),
    **how: Unpack[Averaging],
) -> Outcome:
    """Write the mean of several checkpoints, as `ckpt average` does.

    Floating-point and complex weights, and moving averages of such, are averaged in float64 and
    rounded once. Everything else is that of the last source: step, optimizer, object graph.

    Args:
        sources: what names the checkpoints, or open ones, the last one last; with `last` a folder.
        destination: prefix of the new checkpoint; None goes with `dry_run`.
        last: average so many checkpoints of a folder, those with the highest steps.
        weights: how much each source counts; all the same if there are none.
        how: how to write, as `ckpttool.surgery.write` takes it: `dry_run`, `force`,
            `update_state`, `meta`, `follow_links`, `lock_timeout`, `on_wait`, `on_progress`.

    Raises:
        SelectionError: there are too few checkpoints, or the weights do not fit.
        SurgeryError: the weights of the checkpoints differ in name, dtype or shape.
        DestinationError: there is something at the destination, or none is given.
        CkptError: something cannot be read or written.

    >>> done = ckpttool.average("tf_ckpts", "out/mean-1", last=3)
    >>> sorted({change.action for change in done.changes}), done.receipt.bytes_dead
    (['average'], 0)
    """
    each = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    misuse = averaging_misuse(len(each), last, destination is not None, how.get("dry_run", False))
    if misuse is not None:
        kind = DestinationError if "{destination}" in misuse else SelectionError
        raise kind(in_arguments(misuse))
    with ExitStack() as stack:
        *others, final = [
            stack.enter_context(found)
            for found in (map(opened, each) if last is None else last_of_folder(each[0], last))
        ]
        plan = averaging.average(Plan.of(final), others, weights=weights)
        return write_plan(plan, destination, "average", compact=True, **how)


def last_of_folder(folder: StrPath | Checkpoint, count: int) -> Iterator[Checkpoint]:
    """Yield the checkpoints of a folder with the highest steps, the highest last.

    Raises:
        SelectionError: fewer than two are asked for, or they are of several series.
        MissingFileError: there are fewer.
        TypeError: it is an open checkpoint.
    """
    if isinstance(folder, Checkpoint):
        raise TypeError("last=N takes the path of a folder, not an open checkpoint")
    path = path_text(folder)
    if count < 2:
        raise SelectionError(f"a mean needs at least two checkpoints, not {count}", path=path)
    if not os.path.isdir(path):
        raise MissingFileError("not a folder of checkpoints", path=path)
    found = [files for files in list_by_step(path) if not files.shadowed]
    if len(found) < count:
        raise MissingFileError(f"only {len(found)} checkpoints, not {count}", path=path)
    chosen = found[-count:]
    stems = {stem_of(files.name): None for files in chosen}
    if len(stems) > 1:
        raise SelectionError(
            f"the last {count} are not of one series: {quoted(stems)}; name them one by one",
            path=path,
        )
    for files in chosen:
        yield Checkpoint(location_of(files))
