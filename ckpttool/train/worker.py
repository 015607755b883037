"""Writing in a thread: one for the whole process, in the order of the calls.

What goes wrong there is raised once: by the next thing that waits for it, or when the interpreter
ends.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from weakref import WeakKeyDictionary

from ckpttool.errors import CkptError
from ckpttool.train.trackable import Trackable


class _Job:
    """Something to write, and where."""

    def __init__(self, path: str, work: Callable[[], None]) -> None:
        self.path = path
        self._future: Future[None] = _pool().submit(work)

    def wait(self) -> None:
        """Wait until it is done.

        Raises:
            Exception: what went wrong. It is raised once.
        """
        _jobs.pop(id(self), None)
        future, self._future = self._future, _done()
        try:
            future.result()
        except CkptError as error:
            raise error.locate(path=self.path)  # noqa: B904  # the same error
        except Exception as error:
            if hasattr(error, "add_note"):  # from Python 3.11
                error.add_note(f"while '{self.path}' was saved in the background")
            raise


_executor: ThreadPoolExecutor | None = None
# By identity: all that nobody has waited for. The last one of each object that saves.
_jobs: dict[int, _Job] = {}
_last: WeakKeyDictionary[Trackable, _Job] = WeakKeyDictionary()


def start(owner: Trackable, path: str, work: Callable[[], None]) -> None:
    """Do something in the thread.

    Args:
        owner: what is saved; `wait_for` it waits for this.
        path: what is written, for errors.
        work: what to do.
    """
    job = _Job(path, work)
    _jobs[id(job)] = _last[owner] = job


def wait_for(owner: Trackable) -> None:
    """Wait until all is written that was started for an object.

    Raises:
        Exception: what went wrong. It is raised once.
    """
    job = _last.pop(owner, None)
    if job is not None:
        job.wait()


def _pool() -> ThreadPoolExecutor:
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(1, thread_name_prefix="ckpttool-save")
    return _executor


def _done() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


@atexit.register
def _wait_for_all() -> None:
    while _jobs:
        next(iter(_jobs.values())).wait()


def _forget() -> None:
    # The thread stays in the process that was forked, and so does what it has to do.
    global _executor
    _executor = None
    _jobs.clear()
    _last.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)
