"""Writing a plan, as programs ask for it: to a destination, in place, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from ckpttool.errors import DestinationError, in_arguments
from ckpttool.storage.locks import LOCK_TIMEOUT, Patience
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.values import compute_values
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.companions import MetaMode
from ckpttool.surgery.writing.destination import destination_prefix, unused_place
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.receipt import Receipt

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Writing(TypedDict, total=False):
    """How and where a plan is written: the keywords of `write`, for functions that pass them on."""

    in_place: bool
    dry_run: bool
    data: DataMode
    compact: bool
    force: bool
    update_state: bool
    meta: MetaMode
    follow_links: bool
    lock_timeout: float
    on_wait: Callable[[str], None] | None
    on_progress: Progress | None


def write(
    plan: Plan,
    destination: StrPath | None = None,
    *,
    in_place: bool = False,
    dry_run: bool = False,
    data: DataMode = "auto",
    compact: bool = False,
    force: bool = False,
    update_state: bool = False,
    meta: MetaMode = "auto",
    follow_links: bool = False,
    lock_timeout: float = LOCK_TIMEOUT,
    on_wait: Callable[[str], None] | None = None,
    on_progress: Progress | None = None,
) -> Receipt:
    """Write a plan as a new checkpoint, or in place of its source.

    A new checkpoint appears at once, its index last. In place, the new index takes the place of
    the old one in one step.

    Args:
        plan: what to write. Its source must still be open.
        destination: prefix of the new checkpoint, such as "out/ckpt-1". Its folder is made if
            necessary, but none above it. None with `in_place` or `dry_run`.
        in_place: replace the source itself.
        dry_run: write nothing; the receipt has what is known before. New values are computed, so
            that what they are computed from is read and checked.
        data: how to carry data shards over: "reflink", "hardlink", "copy", or "auto" for the first
            of these that works.
        compact: rewrite data shards without unused bytes.
        force: replace an existing checkpoint at the destination.
        update_state: record the result as the latest in its folder's state file.
        meta: what to do with the `.meta` file; "auto" copies it if no key changed.
        follow_links: accept data shards that are links to files outside the checkpoint's folder.
        lock_timeout: seconds to wait for another writer in the folder.
        on_wait: called with a message when it has to wait.
        on_progress: called with the bytes copied and their total, if any are copied.

    Raises:
        DestinationError: there is something at the destination, it is the source itself, or
            nothing says where to write.
        SurgeryError: the plan cannot be written, or the source changed meanwhile.
        CkptError: a file could not be read or written. Nothing is left behind in any case.
    """
    how = options_to_write(
        destination,
        in_place=in_place,
        dry_run=dry_run,
        data=data,
        compact=compact,
        force=force,
        update_state=update_state,
        meta=meta,
        follow_links=follow_links,
        lock_timeout=lock_timeout,
        on_wait=on_wait,
    )
    place = None if destination is None else destination_prefix(path_text(destination))
    if destination is None and not in_place:
        place = unused_place(plan.source.prefix)
    prepared = prepare(plan, place, how)
    if dry_run:
        compute_values(plan.fresh, on_progress)
        return prepared.receipt()
    return prepared.write(on_progress=on_progress)


def options_to_write(destination: StrPath | None, **how: Unpack[Writing]) -> WriteOptions:
    """Return the arguments of `write` as options.

    Raises:
        DestinationError: they contradict each other.
    """
    misuse = write_misuse(destination, how)
    if misuse is not None:
        raise DestinationError(in_arguments(misuse))
    return WriteOptions(
        how.get("data", "auto"),
        how.get("compact", False),
        how.get("force", False),
        how.get("update_state", False),
        how.get("meta", "auto"),
        how.get("follow_links", False),
        Patience(how.get("lock_timeout", LOCK_TIMEOUT), how.get("on_wait")),
    )


def write_misuse(destination: StrPath | None, how: Writing) -> str | None:
    """Return why arguments of `write` do not go together, their names in braces."""
    in_place = how.get("in_place", False)
    if (destination is None) != in_place and (in_place or not how.get("dry_run")):
        return "give either {destination} or {in_place}"
    if in_place and (how.get("force") or how.get("data", "auto") != "auto"):
        return "{force} and {data} need {destination}"
    return None
