"""Long work: reporting progress, the number of threads, and a pause of the garbage collector."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

# Called with the work done and the total, in bytes unless said otherwise.
Progress = Callable[[int, int], None]


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: it would walk what is being made again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def thread_count(jobs: int | None, most: int) -> int:
    """Return how many threads to use: `jobs` (None: the number of processors), at most `most`."""
    return min(default_jobs() if jobs is None else jobs, most)


def default_jobs() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_threads(targets: Sequence[Callable[[], object]]) -> Iterator[threading.Thread]:
    """Start a thread for each target and yield it, until the system allows no more.

    Be ready for fewer threads than targets, and for none: the user's process limit may be reached.
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

    For pools: they lose the work given to a thread that never starts.
    """
    enough = threading.Event()
    started = list(start_threads([enough.wait] * wanted))
    enough.set()
    for thread in started:
        thread.join()
    return len(started)
