"""Symbolic links on the way to the files of a checkpoint.

Reading follows them. What carries a file along as it is asks first whether the checkpoint may have
it: nothing else would hold a link to somebody's private file back from ending up in the result.
It may have what lies in its own folder. If its index is a link into a store, as in the caches of
Hugging Face, DVC or git-annex, it may have other files of that store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ckpttool.errors import SurgeryError
from ckpttool.storage.source import RandomAccessFile

# What a store calls a file after its contents; DVC makes a folder of the first two digits.
_DIGEST = re.compile(r"[0-9a-fA-F]{30}")
# Stores spread their files over folders of such names, one or two deep.
_SPREAD = re.compile(r"[0-9a-zA-Z]{2,3}\Z")


def refuse_foreign(file: RandomAccessFile, index: str, *, follow: bool) -> None:
    """Refuse to carry a file along that lies neither with its checkpoint nor in its store.

    Args:
        file: the file, which is open.
        index: path of the index.
        follow: let it be anywhere.

    Raises:
        SurgeryError: it lies elsewhere.
    """
    if follow:
        return
    real, real_index = _real_path(file), os.path.realpath(index)
    home = os.path.realpath(os.path.dirname(index))
    if _is_below(real, home):
        return
    if not _is_below(real_index, home) and _store(real) == _store(real_index):
        return
    raise SurgeryError(
        f"a link that leads out of the checkpoint's folder, to '{real}'; with --follow-links that"
        " file is carried along",
        path=file.path,
    )


def replacement_notes(paths: Iterable[str]) -> list[str]:
    """Return a note for each path that is a link now and is to be a file of its own."""
    return [
        f"'{path}' was a symbolic link to '{os.readlink(path)}'; it is a file of its own now, and"
        " what it led to is as it was"
        for path in paths
        if os.path.islink(path)
    ]


def _real_path(file: RandomAccessFile) -> str:
    """Return where a file lies that is open, whatever its path leads to by now."""
    try:
        return os.readlink(f"/proc/self/fd/{file.fileno()}")
    except OSError:
        return os.path.realpath(file.path)


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


def _store(path: str) -> str:
    """Return the folder of a file, or, if it is called by its digest, of the whole store."""
    folder, name = os.path.split(path)
    if not _DIGEST.search(name):
        return folder
    if os.path.basename(folder) == name:  # git-annex gives each file a folder of its own
        folder = os.path.dirname(folder)
    for _ in range(2):
        above, name = os.path.split(folder)
        if _SPREAD.match(name):
            folder = above
    return folder
