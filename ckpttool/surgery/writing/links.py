"""Symbolic links on the way to the files of a checkpoint.

Reading follows them. Carrying a file over checks first where it lies, so that a link to somebody's
private file does not end up in the result.

Allowed are files in the checkpoint's own folder. If its index is a link into a store, as in the
caches of Hugging Face, DVC or git-annex, other files of that store are allowed too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ckpttool.errors import SurgeryError
from ckpttool.storage.source import RandomAccessFile

# A store names a file after its digest; DVC makes a folder of the first two digits.
_DIGEST = re.compile(r"[0-9a-fA-F]{30}")
# Stores spread their files over folders of such names, one or two deep.
_SPREAD = re.compile(r"[0-9a-zA-Z]{2,3}\Z")


def refuse_foreign(file: RandomAccessFile, index: str, *, follow: bool) -> None:
    """Refuse to carry over a file that lies neither with its checkpoint nor in its store.

    Args:
        file: the open file.
        index: path of the index.
        follow: allow any place.

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
        f"a link that leads out of the checkpoint's folder, to '{real}'; --follow-links accepts it",
        path=file.path,
    )


def replacement_notes(paths: Iterable[str]) -> list[str]:
    """Return a note for each path that is a link now and becomes a file."""
    return [
        f"'{path}' was a symbolic link to '{os.readlink(path)}'; it is a file of its own now, and"
        " what it led to is as it was"
        for path in paths
        if os.path.islink(path)
    ]


def _real_path(file: RandomAccessFile) -> str:
    """Return the real path of an open file, whatever its path leads to now."""
    try:
        return os.readlink(f"/proc/self/fd/{file.fileno()}")
    except OSError:
        return os.path.realpath(file.path)


def _is_below(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder


def _store(path: str) -> str:
    """Return the folder of a file, or of the whole store if the file is named by its digest."""
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
