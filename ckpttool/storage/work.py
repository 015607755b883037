"""Work that takes long: who is told how far it has come, and how many threads do it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence

# Called with what is done and with how much it will be, in bytes unless said otherwise.
Progress = Callable[[int, int], None]


def thread_count(jobs: int | None, most: int) -> int:
    """Return how many threads to work with.

    Args:
        jobs: how many are asked for; as many as there are processors by default.
        most: how many are of use.
    """
    return min(default_jobs() if jobs is None else jobs, most)


def default_jobs() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_threads(targets: Sequence[Callable[[], object]]) -> Iterator[threading.Thread]:
    """Start a thread for each target and yield it, up to where the system allows no more.

    A user may have used up the processes that the system allows: be ready for fewer than asked
    for, and for none.
    """
    for target in targets:
        thread = threading.Thread(target=target, daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            return
        yield thread


def startable_threads(wanted: int) -> int:
    """Return how many threads can be started now, `wanted` at most.

    For pools, which lose what they gave to a thread that never began.
    """
    enough = threading.Event()
    started = list(start_threads([enough.wait] * wanted))
    enough.set()
    for thread in started:
        thread.join()
    return len(started)
