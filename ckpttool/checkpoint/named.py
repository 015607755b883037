r"""What the paths in a state file mean where they lead nowhere.

A state file may be older than the place of its folder, or come from another system:

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
    """Return the last part of a path, without what a pattern of V1 files ends in."""
    name = os.path.basename(path)
    pattern = split_shard_pattern(name)
    return pattern[0] if pattern else name


def checkpoint_name(path: str) -> str:
    """Return the name of the checkpoint that a path in a state file speaks of.

    Where it may be a path of Windows, it is taken for one.
    """
    return part_name(_SEPARATORS.split(path)[-1] if is_of_windows(path) else path)


def is_of_windows(path: str) -> bool:
    """Tell whether a path may be one of Windows; here it is the plain name of a file."""
    return "\\" in path or bool(_WINDOWS_ROOT.match(path))


def is_absolute(path: str) -> bool:
    """Tell whether a path begins at a root, here or on Windows."""
    return os.path.isabs(path) or bool(_WINDOWS_ROOT.match(path))


def other_paths(path: str) -> tuple[str, ...]:
    """Return what to look for, relative to the folder, if a path leads nowhere; best first."""
    found = []
    if is_of_windows(path):
        parts = [part for part in _SEPARATORS.split(path) if part != os.curdir]
        if not is_absolute(path) and ".." not in parts:
            found.append("/".join(parts))
        found.append(parts[-1])
    elif os.path.isabs(path):
        found.append(os.path.basename(path))
    return tuple(filter(None, found))
