"""The asset files of a SessionBundle export: regular files in its folder `assets`, and no others.

The names come from a file that may be hostile. No link is followed, so nothing from outside of the
export can end up in a SavedModel.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ckpttool.errors import CkptError, CorruptError, FileAccessError, MissingFileError
from ckpttool.metagraph.session_bundle import SessionBundle
from ckpttool.storage.source import CHUNK_SIZE, Permissions, file_error
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.system import flags

ASSETS_FOLDER = "assets"
_FOLDER_FLAGS = flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_FILE_FLAGS = flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")


def asset_names(bundle: SessionBundle) -> tuple[str, ...]:
    """Return the names of the asset files, each once, in the order of the export.

    Raises:
        CorruptError: one is not the name of a file in a folder.
    """
    names = tuple(dict.fromkeys(asset.filename for asset in bundle.assets))
    for name in names:
        if not name or "\0" in name:
            raise CorruptError(f"'{name}' is not the name of an asset", path=bundle.path)
        if "/" in name or name in (os.curdir, os.pardir):
            raise CorruptError(
                f"asset '{name}' is not a file in the folder '{ASSETS_FOLDER}'", path=bundle.path
            )
    return names


@dataclass(frozen=True, slots=True)
class FoundAssets:
    """The asset files of an export.

    Attributes:
        present: names of the readable ones, in the order of the export.
        missing: names of the missing ones.
        others: other names in their folder, sorted.
    """

    present: tuple[str, ...]
    missing: tuple[str, ...]
    others: tuple[str, ...]


def find_assets(folder: str, names: tuple[str, ...], *, all_needed: bool = True) -> FoundAssets:
    """Check that each asset can be read.

    Args:
        folder: of the export.
        names: as `asset_names` returns them.
        all_needed: refuse an export that lacks some.

    Raises:
        MissingFileError: an asset is missing.
        FileAccessError: an asset, or the folder of all, is a link or no regular file, or cannot be
            read.
    """
    path = os.path.join(folder, ASSETS_FOLDER)
    if not names:
        try:
            return FoundAssets((), (), tuple(sorted(os.listdir(path))))
        except OSError:
            return FoundAssets((), (), ())
    missing = list(names)
    others: tuple[str, ...] = ()
    with suppress(MissingFileError), _opened(path, _FOLDER_FLAGS) as parent:
        missing = [name for name in names if not _is_readable(os.path.join(path, name), parent)]
        others = tuple(sorted(set(os.listdir(parent)) - set(names)))
    if missing and all_needed:
        raise MissingFileError(
            "an asset of the export is missing; --force converts without it",
            path=os.path.join(path, missing[0]),
        )
    present = tuple(name for name in names if name not in missing)
    return FoundAssets(present, tuple(missing), others)


def _is_readable(path: str, parent: int) -> bool:
    """Tell whether an asset exists; raise as `_opened` if it cannot be opened."""
    try:
        with _opened(path, _FILE_FLAGS, parent):
            return True
    except MissingFileError:
        return False


def copy_assets(folder: str, names: tuple[str, ...], destination: str, staged: StagedFiles) -> int:
    """Stage copies of the assets, in pieces; return how many bytes they have.

    Args:
        folder: of the export.
        names: of the existing ones.
        destination: the existing folder for the copies.
        staged: the set of files to add to.
    """
    total = 0
    with _opened(os.path.join(folder, ASSETS_FOLDER), _FOLDER_FLAGS) as parent:
        for name in names:
            path = os.path.join(folder, ASSETS_FOLDER, name)
            with _opened(path, _FILE_FLAGS, parent) as source:
                copy = staged.create(os.path.join(destination, name), mode=0o600)
                copy.take_permissions(Permissions.of(os.fstat(source)))
                for piece in _pieces(source):
                    copy.write(piece)
                copy.sync()  # closes it: there may be more assets than can be open
                total += copy.size
    return total


def _pieces(fd: int) -> Iterator[bytes]:
    while piece := os.read(fd, CHUNK_SIZE):
        yield piece


@contextmanager
def _opened(path: str, flags: int, parent: int | None = None) -> Iterator[int]:
    """Open a folder, or a regular file in an open folder, following no link.

    Errors of the operating system in the block are reported for it.
    """
    name = path if parent is None else os.path.basename(path)
    try:
        fd = os.open(name, flags, dir_fd=parent)
    except OSError as error:
        raise _open_error(error, path) from error
    try:
        if parent is not None and not stat.S_ISREG(os.fstat(fd).st_mode):
            raise FileAccessError("an asset that is not a regular file", path=path)
        yield fd
    except CkptError:
        raise
    except OSError as error:
        raise file_error(error, path) from error
    finally:
        with suppress(OSError):
            os.close(fd)


def _open_error(error: OSError, path: str) -> CkptError:
    if error.errno == errno.ENOENT:
        return _missing(path)
    if os.path.islink(path):
        return FileAccessError("a symbolic link, which may lead out of the export", path=path)
    return file_error(error, path)


def _missing(path: str) -> MissingFileError:
    return MissingFileError("an asset of the export is missing", path=path)
