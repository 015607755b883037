"""How many threads may read at once."""

from __future__ import annotations

import os
import threading


def default_jobs() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def startable_threads(wanted: int) -> int:
    """Return how many threads can be started now, `wanted` at most.

    A user may have used up the processes that the system allows. To find that out in the middle of
    work would lose what was given to a thread that never began.
    """
    enough = threading.Event()
    started: list[threading.Thread] = []
    try:
        while len(started) < wanted:
            thread = threading.Thread(target=enough.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError):
        pass
    enough.set()
    for thread in started:
        thread.join()
    return len(started)
