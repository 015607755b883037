"""What an operating system has. Reading needs little; writing needs what Windows lacks.

A checkpoint is written with names relative to an open folder, and under locks that end with their
process. Without these a kill, or a second writer, could leave half a checkpoint.
"""

from __future__ import annotations

import os

from ckpttool.errors import UnsupportedError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["READ_FLAGS", "fcntl", "flags", "number_of_files", "require_writing"]


def flags(*names: str) -> int:
    """Return flags of `os.open` together; those that the system lacks are left out."""
    joined = 0
    for name in names:
        joined |= getattr(os, name, 0)
    return joined


# O_BINARY: without it Windows changes line ends and stops at a control character.
READ_FLAGS = flags("O_RDONLY", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY", "O_NOINHERIT")
_WRITES = (
    fcntl is not None
    and os.open in os.supports_dir_fd
    and all(hasattr(os, name) for name in ("O_DIRECTORY", "O_NOFOLLOW", "fchmod", "geteuid"))
)


def require_writing(path: str) -> None:
    """Refuse to write where the system lacks what that takes.

    Args:
        path: what was to be written.

    Raises:
        UnsupportedError: as on Windows.
    """
    if not _WRITES:
        raise UnsupportedError(
            "ckpt writes files on Linux and macOS only: this system has no locks or folder "
            "handles that keep a checkpoint whole if the program is killed",
            path=path,
        )


def number_of_files() -> int | None:
    """Return how many files the process may have open; None if there is no limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft
