"""A checkpoint with fewer tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ckpttool.api.outcome import Outcome, write_plan
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.storage.paths import StrPath
from ckpttool.surgery import pruning
from ckpttool.surgery.plan import Plan

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ckpttool.surgery.writing.write import Writing


def prune(
    source: StrPath | Checkpoint,
    destination: StrPath | None = None,
    *,
    drop: str | Iterable[str] = (),
    keep: str | Iterable[str] = (),
    slots: bool = False,
    optimizer: bool = False,
    weights_only: bool = False,
    kinds: str | Iterable[str] = (),
    **how: Unpack[Writing],
) -> Outcome:
    """Drop tensors, as `ckpt prune` does; TensorFlow restores what is left without complaint.

    Args:
        source: anything that names a checkpoint, or an open one.
        destination: prefix of the new checkpoint; None goes with `in_place` and `dry_run`.
        drop: patterns; what they select goes.
        keep: patterns; what they select stays in any case. Alone, all else goes.
        slots: drop the slot variables of optimizers.
        optimizer: drop all state of optimizers, slots too.
        weights_only: drop all but weights.
        kinds: of what `drop` selects, or of all tensors without it, those of these kinds go.
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
    with opened(source, within=how.get("in_place", False)) as ckpt:
        plan = Plan.of(ckpt)
        dropping = drop or keep or slots or optimizer or weights_only or kinds
        if dropping or not how.get("compact"):
            plan = pruning.prune(
                plan,
                drop=drop,
                keep=keep,
                slots=slots,
                optimizer=optimizer,
                weights_only=weights_only,
                kinds=kinds,
            )
        return write_plan(plan, destination, "prune", **how)
