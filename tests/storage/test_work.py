"""How many threads work."""

from __future__ import annotations

import os
import threading

import pytest

from ckpttool.storage.work import default_jobs, startable_threads


def test_jobs_are_the_work() -> None:
    assert 1 <= default_jobs() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(("most", "found"), [(0, 0), (2, 2), (9, 4)])
def test_no_more_threads_than_the_system_allows(
    most: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_start = threading.Thread.start
    started: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if len(started) == most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        true_start(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    assert startable_threads(4) == found
    assert not any(thread.is_alive() for thread in started)
