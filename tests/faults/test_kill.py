"""Processes that write are killed, interrupted or asked to end at every call they make."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.faults.counts import INTERRUPTS, KILLS, count
from tests.faults.exports import ALL, judge
from tests.faults.operations import Operation
from tests.faults.oracle import Oracle
from tests.faults.server import Server
from tests.support.faults import CHANGES

# Between them they make every kind of file.
NAMES = (
    "copy",
    "new folder",
    "over another, compact",
    "in place, four shards",
    "in place, all linked",
    "export over another",
)
LOOKS = frozenset(("stat", "lstat", "fstat", "statvfs", "listdir", "pread", "preadv", "chown"))
INTERRUPTED = [operation for operation in ALL if operation.name in NAMES]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def calls_of(server: Server, oracle: Oracle) -> list[str]:
    """Return the calls of an undisturbed run, which must come out right."""
    ended = server.run(oracle.operation, oracle.fresh())
    assert not ended.code, ended.err
    oracle.check(done=True)
    return ended.calls


def moments(calls: list[str]) -> list[int]:
    """Return the calls after which to interrupt: all but most of those that only look."""
    looks = itertools.count()
    return [
        at
        for at, name in enumerate(calls, 1)
        if name not in LOOKS or name != calls[at - 2] or next(looks) % 3 == 0
    ]


@pytest.mark.sweep(12)
@pytest.mark.parametrize("operation", ALL, ids=str)
def test_killed_before_every_change(operation: Operation, server: Server, tmp_path: Path) -> None:
    oracle = judge(operation, str(tmp_path))
    calls = calls_of(server, oracle)
    # Between two changes a file system looks the same all the time.
    steps = [at for at, name in enumerate(calls, 1) if name in CHANGES]
    assert len(steps) > 5
    problems = []
    states = set()
    for at in [*steps, len(calls)]:
        count(KILLS)
        ended = server.run(operation, oracle.fresh(), number=signal.SIGKILL, at=at)
        assert ended.code == -signal.SIGKILL
        try:
            verdict = oracle.check(done=False, tolerated=True)
            states.add(verdict.state)
            oracle.run_again(verdict)
        except Exception as error:
            problems.append(f"{at} {calls[at - 1]}: {type(error).__name__}: {error}")
    assert not problems, "\n".join(problems)
    assert "new" in states
    # Where two names cannot be exchanged there is an instant without either.
    assert len(states) == (2 if getattr(operation, "exchanges", True) else 3)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("operation", INTERRUPTED, ids=str)
def test_interrupted_after_every_call(
    operation: Operation, server: Server, exhaustive: bool, tmp_path: Path
) -> None:
    oracle = judge(operation, str(tmp_path))
    calls = calls_of(server, oracle)
    interrupt(server, oracle, signal.SIGINT, moments(calls)[:: 1 if exhaustive else 3], calls)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("operation", INTERRUPTED, ids=str)
def test_asked_to_end_before_every_change(
    operation: Operation, server: Server, tmp_path: Path
) -> None:
    oracle = judge(operation, str(tmp_path))
    calls = calls_of(server, oracle)
    steps = [at for at, name in enumerate(calls, 1) if name in CHANGES]
    interrupt(server, oracle, signal.SIGTERM, steps, calls)
    # Before anything is written nothing has to be cleaned up, and nobody listens.
    ended = server.run(operation, oracle.fresh(), number=signal.SIGTERM, at=1)
    assert ended.code in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert oracle.check(done=False).state != "new"


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["arrays", "arrays over another"])
def test_interrupted_while_saving_arrays(name: str, server: Server, tmp_path: Path) -> None:
    (operation,) = (each for each in ALL if each.name == name)
    oracle = judge(operation, str(tmp_path))
    calls = calls_of(server, oracle)
    interrupt(server, oracle, signal.SIGINT, moments(calls), calls)


def interrupt(
    server: Server, oracle: Oracle, number: signal.Signals, steps: Iterable[int], calls: list[str]
) -> None:
    """Send a signal at each step: SIGINT right after the call, others right before it."""
    problems = []
    for at in steps:
        count(INTERRUPTS)
        root = oracle.fresh()
        after = number == signal.SIGINT
        ended = server.run(oracle.operation, root, number=number, at=at, after=after)
        try:
            assert ended.code == 128 + number, f"exit status {ended.code}: {ended.err}"
            verdict = oracle.check(done=False)
            *before, last = ended.err.splitlines()
            assert last == "ckpt: interrupted"
            # What was done before may have been told before.
            assert not before or verdict.state == "new", ended.err
            assert all(line.startswith("ckpt: ") for line in before), ended.err
            oracle.run_again(verdict)
        except Exception as error:
            problems.append(f"{at} {calls[at - 1]}: {type(error).__name__}: {error}")
    assert not problems, "\n".join(problems)
