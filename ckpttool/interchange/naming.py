"""Which file is of which format."""

from __future__ import annotations

import os
from typing import Literal

from ckpttool.errors import CkptError
from ckpttool.storage.source import RandomAccessFile

ArrayFormat = Literal["safetensors", "npz", "npy", "h5"]
ARRAY_FORMATS: tuple[ArrayFormat, ...] = ("safetensors", "npz", "npy", "h5")
# Of a list of several files.
SHARD_LIST_SUFFIX = ".safetensors.index.json"
_ENDINGS: tuple[tuple[str, ArrayFormat], ...] = (
    (".safetensors", "safetensors"),
    (SHARD_LIST_SUFFIX, "safetensors"),
    (".npz", "npz"),
    (".npy", "npy"),
    (".h5", "h5"),
)


def format_by_name(path: str) -> ArrayFormat | None:
    """Tell by its name what a file with tensors is; None for anything else."""
    name = os.path.basename(path)
    return next((format for ending, format in _ENDINGS if name.endswith(ending)), None)


def format_by_content(path: str) -> ArrayFormat | None:
    """Tell what a file with tensors is by how it begins, whatever its name."""
    from ckpttool.coding.foreign import HEAD_SIZE, foreign_bytes

    try:
        with RandomAccessFile(path) as file:
            found = foreign_bytes(file.read_at(0, min(file.size, HEAD_SIZE)), file.size)
    except CkptError:
        return None
    kind = None if found is None else found.arrays
    return next((each for each in ARRAY_FORMATS if each == kind), None)


def array_files(folder: str) -> list[str]:
    """Return the names of what a folder offers as tensors: files that a list names are left out.

    Arrays of their own (.npy) are no model, and are left out as well; HDF5 (.h5) often lies beside
    the same model in another format, and may need a package that is missing.
    """
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except (OSError, ValueError):
        return []
    found = [
        name
        for name in names
        if format_by_name(name) not in (None, "npy", "h5")
        and os.path.isfile(os.path.join(folder, name))
    ]
    lists = [name for name in found if name.endswith(SHARD_LIST_SUFFIX)]
    stems = tuple(name.removesuffix(SHARD_LIST_SUFFIX) + "-" for name in lists)
    return [
        name
        for name in found
        if name in lists or not (name.endswith(".safetensors") and name.startswith(stems))
    ]
