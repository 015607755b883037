"""What restoring a checkpoint would do to a program."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Any

from ckpttool.checkpoint.open import Checkpoint as StoredCheckpoint
from ckpttool.query.match.plan import MatchMode, RestorePlan
from ckpttool.query.match.restore import StoredTarget, checked_mode, open_source
from ckpttool.query.match.restore import restore_plan as plan_of_files
from ckpttool.storage.paths import StrPath
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.containers import node_of


def restore_plan(
    source: StrPath | StoredCheckpoint,
    target: StoredTarget | Any,
    *,
    mode: MatchMode = "restore",
    skip_slots: bool = False,
) -> RestorePlan:
    """Return what restoring a checkpoint into a program would do; nothing changes.

    Args:
        source: the checkpoint: its address, or an open one.
        target: the program: a `Checkpoint`, another tracked object, which counts as the root of
            one, or a weak reference to it; or what stands for a program in a file: the address of
            a checkpoint that it wrote or of its SavedModel, or a lock.
        mode: "restore", which makes a save counter too, or "read".
        skip_slots: leave out slot variables.

    Raises:
        CkptError: a file is missing or damaged.
    """
    if node_of(target) is None and not isinstance(target, weakref.ref):
        return plan_of_files(source, target, mode=mode, skip_slots=skip_slots)
    checked_mode(mode)
    program = target if isinstance(target, Checkpoint) else Checkpoint(target)
    opened = nullcontext(source) if isinstance(source, StoredCheckpoint) else open_source(source)
    with opened as ckpt:
        return program._plan(ckpt, mode, skip_slots=skip_slots)
