"""Every file system call of every writer is made to fail, in each way it may, once and for good."""

from __future__ import annotations

import errno
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpttool.errors import CkptError
from ckpttool.storage.temporary import TEMPORARY_SUFFIX
from tests.faults.counts import CALLS, count
from tests.faults.exports import ALL, FolderOracle, judge
from tests.faults.operations import Operation
from tests.faults.oracle import Oracle, Verdict
from tests.support.faults import PLAUSIBLE, REMOVALS, Call, Fault

# What such a call promises, nobody may go on without.
ESSENTIAL = frozenset(("create", "write", "fsync", "fsync_folder", "rename", "mkdir"))
# How a broken disk, a full one, and one that became read-only go on.
LASTING = (errno.EIO, errno.ENOSPC, errno.EROFS)
# How a folder is made durable.
SYNCS = ("open_folder", "fsync_folder")
# How it is found out what is in a folder that is to be removed.
LOOKS = ("open_folder", "fstat", "listdir", "stat")
SHORT = ("write", "pread", "preadv")
# The parts of a name that tell one file of a kind from another.
_KIND = re.compile(r"[0-9a-f]{16}|\d+-of-\d+")


def fails(call: Call, number: int) -> bool:
    return number in PLAUSIBLE.get(call.name, ())


class Faults:
    """Chooses how calls fail.

    Whatever a kind of call may say is tried at the first call of that kind on that kind of file;
    at the others one error, each in its turn, and one that lasts.

    Args:
        all_of_them: try everything at every call.
    """

    def __init__(self, *, all_of_them: bool) -> None:
        self._all = all_of_them
        self._seen: Counter[tuple[str, str]] = Counter()

    def of(self, call: Call) -> Iterator[tuple[Fault, bool]]:
        """Yield the faults that strike at a call, and whether they last."""
        kind = (call.name, _KIND.sub("", call.path))
        turn = self._seen[kind]
        self._seen[kind] += 1
        numbers = PLAUSIBLE.get(call.name, ())
        lasting = tuple(number for number in numbers if number in LASTING)
        if turn and not self._all:
            numbers = numbers[turn % len(numbers) :][:1] if numbers else ()
            lasting = lasting[turn % len(lasting) :][:1] if lasting else ()
        yield from ((Fault(number), False) for number in numbers)
        yield from ((Fault(number), True) for number in lasting)
        if call.name in SHORT:
            yield Fault(short=1), False
        if call.name == "write" and re.search(r"\.(index|data-\d+-of-\d+)\.", call.path):
            yield Fault(lost=True), False
        if call.name in ("pread", "preadv"):
            yield Fault(short=0), False


class Trouble:
    """One run in which a call fails, and perhaps all after it.

    Attributes:
        hard: whether an error was told, or something lost, that cannot be done without.
        struck: the calls that failed.
    """

    def __init__(self, at: int, fault: Fault, *, lasting: bool) -> None:
        self.hard = bool(fault.number or fault.lost)
        self.struck: list[Call] = []
        self._at = at
        self._fault = fault
        self._lasting = lasting

    def before(self, call: Call) -> Fault | None:
        lasts = self._lasting and call.number > self._at and fails(call, self._fault.number)
        if call.number != self._at and not lasts:
            return None
        self.struck.append(call)
        return self._fault

    @property
    def tolerated(self) -> bool:
        """Whether leftovers are no wonder.

        Removing failed, or the look before it; or the folder could never be synced, so that what
        was taken back may come again, and must not do so without its shards.
        """
        return any(
            call.name in REMOVALS
            or (call.name == "stat" and ".data-" in call.path)
            or (self._lasting and call.name in ("open_folder", "fsync_folder"))
            for call in self.struck
        )

    def __str__(self) -> str:
        cut = "lost" if self._fault.lost else f"short {self._fault.short}"
        name = errno.errorcode.get(self._fault.number, cut)
        first = self.struck[0]
        lasting = " for good" if self._lasting else ""
        return f"{first.number} {first.name} {first.path} {first.target} {name}{lasting}"


def retiring(operation: Operation, calls: list[Call]) -> float:
    """Return the number of the call with which an old V1 set begins to go; that it stays is told.

    By then the new one is there for good.
    """
    if not operation.old or operation.generation != "V1":
        return math.inf
    named = [each.number for each in calls if each.target.endswith("-00000-of-00003")]
    opened = (each.number for each in calls if each.name == "open_folder")
    return min((at for at in opened if named and at > named[-1]), default=math.inf)


def strike(oracle: Oracle, trouble: Trouble) -> Verdict:
    """Do the operation with one fault in it, and judge what came of it."""
    root = oracle.fresh()
    files = len(os.listdir("/proc/self/fd"))
    done, message = True, ""
    with oracle.operation.prepared(root) as write:
        try:
            with oracle.operation.system(root, before=trouble.before) as system:
                write(False)
        except CkptError as error:
            done = False
            message = str(error)
            assert error.path is not None or error.key is not None, f"no place: {error}"
        assert not system.open_files, f"open: {system.open_files}"
    assert len(os.listdir("/proc/self/fd")) <= files
    assert trouble.struck
    end = retiring(oracle.operation, system.calls)
    late = any(call.number >= end for call in trouble.struck)
    if isinstance(oracle, FolderOracle):
        late = any(call.name in LOOKS and TEMPORARY_SUFFIX in call.path for call in trouble.struck)
        # Put aside, and it cannot be put back: then it is told where it is.
        late = late or ".ckpt-tmp' now" in message
    verdict = oracle.check(done=done, tolerated=trouble.tolerated or late)
    assert verdict.state != "absent" or not oracle.operation.old or "what was there" in message
    syncs = all(call.name in SYNCS for call in trouble.struck)
    if syncs and not done and verdict.state == "new":
        assert "written" in message, message
    undone = verdict.state != "new" and syncs
    if undone and verdict.shards:
        assert any(os.path.basename(name) in message for name in verdict.shards), message
    hard = [call for call in trouble.struck if call.name in ESSENTIAL and trouble.hard]
    hard = [call for call in hard if call.number < end]
    assert not (done and hard), f"said to be done in spite of {hard}"
    return verdict


@pytest.mark.sweep(12)
@pytest.mark.parametrize("operation", ALL, ids=str)
def test_every_call_may_fail(operation: Operation, exhaustive: bool, tmp_path: Path) -> None:
    oracle = judge(operation, str(tmp_path))
    root = oracle.fresh()
    with operation.prepared(root) as write, operation.system(root) as system:
        write(False)
    assert len(system.calls) > 30
    problems = []
    tried = 0
    faults = Faults(all_of_them=exhaustive)
    for call in system.calls:
        for fault, lasting in faults.of(call):
            trouble = Trouble(call.number, fault, lasting=lasting)
            tried += 1
            try:
                verdict = strike(oracle, trouble)
                oracle.run_again(verdict)
            except Exception as error:
                problems.append(f"{trouble}: {type(error).__name__}: {error}")
    count(CALLS, tried)
    assert tried > len(system.calls) // 2
    assert not problems, f"{len(problems)} of {tried}:\n" + "\n".join(problems)
