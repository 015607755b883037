"""A checkpoint with fewer tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, overload

from ckpttool.api.outcome import Outcome, Outcomes, finds_nothing, write_plan, write_plans
from ckpttool.checkpoint.open import Checkpoint, opened, require_checkpoint
from ckpttool.errors import SelectionError, in_arguments
from ckpttool.storage.paths import StrPath
from ckpttool.surgery import pruning
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.write import options_to_write

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ckpttool.surgery.writing.write import Writing

NOTHING_TO_DROP = (
    "nothing to drop: give {drop}, {keep}, {kinds}, {slots}, {optimizer}, {weights_only}, or "
    "{compact} alone"
)


@overload
def prune(
    source: StrPath | Checkpoint,
    destination: StrPath | None = None,
    *,
    all: Literal[False] = False,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    slots: bool = False,
    optimizer: bool = False,
    weights_only: bool = False,
    kinds: str | Iterable[str] = (),
    **how: Unpack[Writing],
) -> Outcome: ...
@overload
def prune(
    source: StrPath,
    destination: StrPath | None = None,
    *,
    all: Literal[True],
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    slots: bool = False,
    optimizer: bool = False,
    weights_only: bool = False,
    kinds: str | Iterable[str] = (),
    on_done: Callable[[Outcome], None] | None = None,
    **how: Unpack[Writing],
) -> Outcomes: ...
def prune(
    source: StrPath | Checkpoint,
    destination: StrPath | None = None,
    *,
    all: bool = False,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    slots: bool = False,
    optimizer: bool = False,
    weights_only: bool = False,
    kinds: str | Iterable[str] = (),
    on_done: Callable[[Outcome], None] | None = None,
    **how: Unpack[Writing],
) -> Outcome | Outcomes:
    """Drop tensors, as `ckpt prune` does; TensorFlow restores the rest.

    Args:
        source: anything that names a checkpoint, or an open one.
        destination: prefix of the new checkpoint, with `all` a folder; None goes with `in_place`
            and `dry_run`.
        all: prune every checkpoint of the folder `source`, and carry its state file over. One in
            which there is nothing to drop stays as it is.
        drop: patterns of tensors to drop.
        keep: patterns of tensors to keep in any case; alone, all others are dropped.
        slots: drop the slot variables of optimizers.
        optimizer: drop all optimizer state, slots included.
        weights_only: drop everything but weights.
        kinds: drop tensors of these kinds, of all or of those that `drop` selects.
        on_done: with `all`, called with each checkpoint when it is written.
        how: how to write, as `ckpttool.surgery.write` takes it: `in_place`, `dry_run`, `data`,
            `compact`, `force`, `update_state`, `meta`, `follow_links`, `lock_timeout`,
            `on_progress`.

    Raises:
        SelectionError: there is nothing to drop and `compact` is not set, or a pattern selects
            nothing.
        SurgeryError: nothing would be left.
        DestinationError: there is something at the destination.
        CkptError: something cannot be read or written.

    >>> done = ckpttool.prune("tf_ckpts", "out/pruned-1", optimizer=True, compact=True)
    >>> len(done.changes), done.receipt.bytes_dead
    (9, 0)
    >>> with ckpttool.open_checkpoint("out/pruned-1") as ckpt:
    ...     sorted(set(ckpt.kinds.values()))
    ['graph', 'iterator', 'step', 'weight']
    """
    drop = (drop,) if isinstance(drop, str) else tuple(drop)
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)

    others = bool(keep or slots or optimizer or weights_only or kinds)
    if not (drop or others or how.get("compact")):
        raise SelectionError(in_arguments(NOTHING_TO_DROP))

    def plan_of(ckpt: Checkpoint, patterns: tuple[str, ...] = drop) -> Plan:
        plan = Plan.of(ckpt)
        if not (patterns or others):
            return plan
        return pruning.prune(
            plan,
            drop=patterns,
            keep=keep,
            slots=slots,
            optimizer=optimizer,
            weights_only=weights_only,
            kinds=kinds,
        )

    def touches(ckpt: Checkpoint) -> bool:
        if slots or optimizer or weights_only or kinds:
            if plan_of(ckpt, ()).changes:
                return True
        elif not drop:
            return True
        return any(not finds_nothing(plan_of, ckpt, (each,)) for each in drop)

    if all:
        return write_plans(source, destination, "prune", plan_of, touches, on_done, **how)
    options_to_write(destination, **how)  # refuses what contradicts itself, before a path is read
    with opened(source, within=how.get("in_place", False)) as ckpt:
        require_checkpoint(ckpt)
        return write_plan(plan_of(ckpt), destination, "prune", **how)
