"""Writing what a program is now as a checkpoint."""

from __future__ import annotations

import os

from ckpttool.bundle.writer import BundleWriter
from ckpttool.checkpoint.state import STATE_NAME, CheckpointState, write_state
from ckpttool.storage.folders import new_folder
from ckpttool.train.snapshot import Snapshot


def write_snapshot(prefix: str, snapshot: Snapshot) -> None:
    """Write a checkpoint; one of that name is replaced when all of the new one is there.

    Args:
        prefix: where; folders that are not there are made.
        snapshot: what to write.

    Raises:
        CkptError: it cannot be written. Then nothing is left behind.
    """
    with (
        new_folder(os.path.dirname(prefix), parents=True),
        BundleWriter(prefix, force=True) as writer,
    ):
        for key, value in snapshot.tensors:
            writer.add(key, value)


def write_latest(prefix: str) -> None:
    """Make the state file of a checkpoint's folder name it, and nothing else."""
    folder, name = os.path.split(prefix)
    write_state(os.path.join(folder, STATE_NAME), CheckpointState(name, (name,)))
