"""Paths as callers give them: text, or anything that stands for a path as text.

Every function of the public interface takes both, and turns them into text here: the rest of the
package knows paths as `str` only. A module of its own, so that writers need no reader for it.
"""

from __future__ import annotations

import os

StrPath = str | os.PathLike[str]


def path_text(path: StrPath) -> str:
    """Return a path as text.

    Raises:
        TypeError: it is bytes, or no path at all.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"a path must be str or os.PathLike[str], not {type(text).__name__}")
    return text


def lies_in(path: str, folder: str) -> bool:
    """Tell whether a path lies in a folder or below it, whatever links lead there."""
    home = os.path.realpath(folder or os.curdir)
    return os.path.commonpath([home, os.path.realpath(path or os.curdir)]) == home
