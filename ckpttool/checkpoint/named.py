r"""Other meanings of a path in a state file that leads nowhere.

The folder may have been moved since, or the file may come from another system:

    /old/place/run/ckpt-3       the folder was moved
    C:\runs\ckpt-3              written on Windows
    run\ckpt-3                  likewise, relative to the folder
    /old/ckpt-3-?????-of-00002  a V1 checkpoint in several files
"""

from __future__ import annotations

import os
import re

from ckpttool.legacy.naming import split_shard_pattern

_WINDOWS_ROOT = re.compile(r"[A-Za-z]:[\\/]|\\")
_SEPARATORS = re.compile(r"[\\/]+")


def part_name(path: str) -> str:
    """Return the last part of a path, without the ending of a V1 pattern."""
    name = os.path.basename(path)
    pattern = split_shard_pattern(name)
    return pattern[0] if pattern else name


def checkpoint_name(path: str) -> str:
    """Return the name of the checkpoint in a path; a path that may be of Windows is read so."""
    return part_name(_SEPARATORS.split(path)[-1] if is_of_windows(path) else path)


def is_of_windows(path: str) -> bool:
    """Tell whether a path may be of Windows; such a path is also a plain file name here."""
    return "\\" in path or bool(_WINDOWS_ROOT.match(path))


def other_paths(path: str) -> tuple[str, ...]:
    """Return the paths to try, relative to the folder, if a path leads nowhere; best first."""
    found = []
    if is_of_windows(path):
        parts = [part for part in _SEPARATORS.split(path) if part != os.curdir]
        absolute = os.path.isabs(path) or _WINDOWS_ROOT.match(path)
        if not absolute and ".." not in parts:
            found.append("/".join(parts))
        found.append(parts[-1])
    elif os.path.isabs(path):
        found.append(os.path.basename(path))
    return tuple(filter(None, found))
