"""Folders of checkpoints with the files that a sweep looks at; nothing in them is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ckpttool.checkpoint.state import STATE_NAME
from tests.support.fixtures import FIXTURES

# A checkpoint that TensorFlow wrote.
SOURCE = Path(FIXTURES, "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5")
HOUR = 3600.0
# When the checkpoints of these folders were saved, at the earliest.
BEGIN = 1_700_000_000.0
SIZE = sum(path.stat().st_size for path in SOURCE.parent.glob("ckpt-5.*"))


def save(folder: Path, name: str, when: float | None = None) -> None:
    """Put a checkpoint into a folder."""
    for ending in (".data-00000-of-00001", ".index"):
        path = folder / (name + ending)
        shutil.copyfile(f"{SOURCE}{ending}", path)
        if when is not None:
            os.utime(path, (when, when))


def write_lines(folder: Path, times: Mapping[str, float], latest: str, preserved: float) -> None:
    """Write a state file as TensorFlow does."""
    lines = [f'model_checkpoint_path: "{latest}"']
    lines += [f'all_model_checkpoint_paths: "{path}"' for path in times]
    lines += [f"all_model_checkpoint_timestamps: {when}" for when in times.values()]
    lines += [f"last_preserved_timestamp: {preserved}"]
    (folder / STATE_NAME).write_text("\n".join([*lines, ""]), encoding="utf-8")


def managed(folder: Path, numbers: range, *, every: float = HOUR / 3, stem: str = "ckpt") -> Path:
    """Make a folder as a manager that keeps everything leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    times = {f"{stem}-{number}": BEGIN + number * every for number in numbers}
    for name, when in times.items():
        save(folder, name, when)
    write_lines(folder, times, f"{stem}-{numbers[-1]}", BEGIN + (numbers[0] - 1) * every)
    return folder


def names(folder: Path) -> list[str]:
    """Return the names of the checkpoints with an index, by number."""
    found = [path.name.removesuffix(".index") for path in folder.glob("*.index")]
    return sorted(found, key=lambda name: (len(name), name))
