"""Files and folders of other programs, named for what they are in error messages."""

from __future__ import annotations

import os

from ckpttool.coding.foreign import HEAD_SIZE, Foreign, foreign_bytes
from ckpttool.errors import CkptError
from ckpttool.storage.source import RandomAccessFile

_MOST_LOOKED_AT = 50
_FOLDERS = (
    (
        ("_CHECKPOINT_METADATA", "manifest.ocdbt", "_METADATA"),
        Foreign("a checkpoint of Orbax", "orbax.checkpoint reads it"),
    ),
    ((".zarray", ".zgroup", "zarr.json"), Foreign("a zarr store", "the package zarr reads it")),
)


def foreign_file(path: str) -> Foreign | None:
    """Tell what a file is; None for what is unknown, or cannot be read."""
    try:
        with RandomAccessFile(path) as file:
            return foreign_bytes(file.read_at(0, min(file.size, HEAD_SIZE)), file.size)
    except CkptError:
        return None


def foreign_folder(folder: str) -> Foreign | None:
    """Tell what a folder without a checkpoint is, or name files of other programs in it."""
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except (OSError, ValueError):
        return None
    for marks, found in _FOLDERS:
        if any(mark in names for mark in marks):
            return found
    for name in names[:_MOST_LOOKED_AT]:
        file = foreign_file(os.path.join(folder, name))
        if file is not None:
            return Foreign(f"a folder with '{name}', which is {file}")
    return None
