"""A folder that appears whole, or not at all.

It is filled beside its destination under a temporary name,

    model  ->  .model.9f86d081884c7d65.ckpt-tmp

and gets its name in one step. Where a folder is to be replaced, the two names are exchanged, in one
step too. A file system that cannot do this takes two: the old folder is put aside under a temporary
name first, and who looks for it just then finds nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from types import TracebackType

from ckpttool.errors import CkptError, DestinationError, FileAccessError
from ckpttool.storage.folders import sync_folder
from ckpttool.storage.source import file_error
from ckpttool.storage.temporary import temporary_path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class StagedFolder:
    """A folder under its temporary name, which leaving the block removes unless it was published.

    Args:
        path: what it will be called.

    Attributes:
        path: likewise.
        temporary: what it is called now.

    Raises:
        CkptError: on entering, it cannot be made.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.temporary = temporary_path(path)
        self._published = False

    def __enter__(self) -> StagedFolder:
        try:
            os.mkdir(self.temporary)
        except OSError as error:
            raise file_error(error, self.path) from error
        except ValueError as error:  # a NUL, or text that no file system can spell
            raise FileAccessError(str(error), path=self.path) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._published:
            shutil.rmtree(self.temporary, ignore_errors=True)

    def publish(self, *, replace: bool) -> list[str]:
        """Give the folder its name; its files have to be durable.

        Args:
            replace: let it take the place of a folder that exists, with all that is in it. Without
                this only an empty one is replaced.

        Returns:
            Notes for the user.

        Raises:
            DestinationError: something is there.
            FileAccessError: the operating system refused.
        """
        sync_folder(self.temporary)
        old = None
        if replace and os.path.isdir(self.path):
            exchanged = _exchange(self.temporary, self.path)
            old = self.temporary if exchanged else self._replace_in_two_steps()
        else:
            self._rename()
        try:
            sync_folder(os.path.dirname(self.path) or os.curdir)
        except BaseException:
            self._put_back(old)
            raise
        self._published = True
        if old is None:
            return []
        shutil.rmtree(old, ignore_errors=True)
        return [f"'{old}' could not be removed"] if os.path.lexists(old) else []

    def _rename(self) -> None:
        try:
            os.rename(self.temporary, self.path)  # an empty folder there is replaced
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise DestinationError("it exists already", path=self.path) from error
            raise file_error(error, self.path) from error

    def _replace_in_two_steps(self) -> str:
        """Put the old folder aside and give this one its name; return where the old one is then."""
        old = temporary_path(self.path)
        try:
            os.rename(self.path, old)
            self._rename()
        except BaseException as error:
            if os.path.lexists(old) and not os.path.lexists(self.path):
                os.rename(old, self.path)
            if isinstance(error, OSError) and not isinstance(error, CkptError):
                raise file_error(error, self.path) from error
            raise
        return old

    def _put_back(self, old: str | None) -> None:
        """Undo the step that counts, so that leaving the block removes this folder.

        Args:
            old: where the folder is that was replaced; None if none was.
        """
        with contextlib.suppress(OSError):
            if old == self.temporary:
                _exchange(self.path, old)
                return
            os.rename(self.path, self.temporary)
            if old is not None:
                os.rename(old, self.path)


def _exchange(one: str, other: str) -> bool:
    """Exchange the names of two folders in one step; tell whether that was possible."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)
