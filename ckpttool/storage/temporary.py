"""The temporary name of a file or folder while it is being written.

    ckpt-3.index  ->  .ckpt-3.index.9f86d081884c7d65.ckpt-tmp

A name longer than 96 bytes is cut to its first 87, `~` and 8 digits of its SHA-256, so that the
temporary name stays below the file system's limit.
"""

from __future__ import annotations

import os
import re

TEMPORARY_SUFFIX = ".ckpt-tmp"

_TEMPORARY = re.compile(rf"\.(.+)\.([0-9a-f]{{16}}){re.escape(TEMPORARY_SUFFIX)}\Z", re.DOTALL)

_LONGEST_STEM = 96  # bytes


def new_tag() -> str:
    """Return 16 hexadecimal digits that nobody else uses."""
    # `secrets` does the same, but importing it takes 5 ms, of every command.
    return os.urandom(8).hex()


def temporary_path(path: str, tag: str | None = None) -> str:
    """Return the temporary name for `path`.

    Args:
        path: the final name.
        tag: 16 hexadecimal digits that nobody else uses; new ones if None.
    """
    folder, name = os.path.split(path)
    tag = tag or new_tag()
    return os.path.join(folder, f".{temporary_stem(name)}.{tag}{TEMPORARY_SUFFIX}")


def temporary_stem(name: str) -> str:
    """Return the stem: the part of a temporary name that stands for the final name."""
    raw = os.fsencode(name)
    if len(raw) <= _LONGEST_STEM:
        return name
    from hashlib import sha256  # names are hardly ever that long

    digest = sha256(raw).hexdigest()[:8]
    return os.fsdecode(raw[: _LONGEST_STEM - 9]) + "~" + digest


def split_temporary(name: str) -> tuple[str, str] | None:
    """Return the stem and the tag of a temporary name; None for another name."""
    match = _TEMPORARY.match(name)
    return (match[1], match[2]) if match else None


def stands_for_part(stem: str, destination: str) -> bool:
    """Tell whether a stem may be the shortened name of a file of a destination."""
    raw, wanted = os.fsencode(stem), os.fsencode(destination)
    if len(raw) != _LONGEST_STEM or raw[-9:-8] != b"~":
        return False
    return wanted.startswith(raw[:-9]) or raw[: len(wanted) + 1] in (wanted + b".", wanted + b"-")
