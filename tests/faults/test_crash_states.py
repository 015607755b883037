"""The power goes at any moment: what the disk then holds is the old checkpoint or the new one."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from ckpttool.errors import CkptError, DestinationError
from tests.faults.counts import STATES, count
from tests.faults.crash import Disk, Disks
from tests.faults.operations import IN_PLACE, OPERATIONS, REPLACING, STATE, Operation
from tests.faults.oracle import make_way, snapshot, stored
from tests.support.answers import Answer
from tests.support.faults import Call, Fault

# What replaces something, and has to bring it back.
UNDONE = [
    each for each in (*REPLACING, *IN_PLACE) if "four" not in each.name and each.generation == "V2"
]
# How many states of one operation are gone on from, unless all are.
MOST = 40


class Recorded:
    """An operation that was done once, and what may be on the disk for it.

    Args:
        operation: what was done.
        scratch: a folder for it.
        failing: the number of a call that fails, if any.

    Attributes:
        start: what was on the disk before.
        log: the calls that were made and did not fail.
    """

    def __init__(self, operation: Operation, scratch: str, failing: int = 0) -> None:
        self.operation = operation
        self.root = os.path.join(scratch, "work")
        self.replayed = os.path.join(scratch, "replayed")
        shutil.rmtree(self.root, ignore_errors=True)
        operation.build(self.root)
        self.start = disk_of(self.root)
        self.new = operation.expected(self.root)
        has_old = operation.old or operation.destination is None
        self.old = stored(operation, self.root) if has_old else None
        self._known: dict[frozenset[tuple[str, bytes | None]], str] = {}
        self._prefix = os.path.relpath(operation.target_prefix(self.root), self.root)
        self._folder = os.path.dirname(self._prefix)

        def before(call: Call) -> Fault | None:
            return Fault(errno.EIO) if call.number == failing else None

        system = operation.system(self.root, before=before)
        with operation.prepared(self.root) as write, suppress(CkptError), system:
            write(False)
        self.log: list[Call] = [each for each in system.calls if each.number not in system.failed]
        self.end = disk_of(self.root)

    def read(self, disk: Disk) -> str:
        """Return what a reader finds at the destination: "absent", "old" or "new"."""
        own = frozenset((name, data) for name, data in disk.items() if self._is_own(name))
        if own not in self._known:
            lay(disk, self.replayed)
            found: dict[str, Answer] | None = {}
            if self.operation.present(self.replayed):
                found = stored(self.operation, self.replayed)
            self._known[own] = self._name(found)
        return self._known[own]

    def _name(self, found: dict[str, Answer] | None) -> str:
        if found == {}:
            return "absent" if self.old is None else "lost"
        if found is None:
            return "damaged"
        return "new" if found == self.new else "old" if found == self.old else "other"

    def _is_own(self, name: str) -> bool:
        beside = name.startswith((self._prefix + ".", self._prefix + "-0"))
        return beside or name in (self._prefix, self._folder)


def disk_of(root: str) -> Disk:
    return {
        name: entry.data if entry.kind == "file" else None for name, entry in snapshot(root).items()
    }


def lay(disk: Disk, root: str) -> None:
    """Make a folder look like that."""
    shutil.rmtree(root, ignore_errors=True)
    os.mkdir(root)
    for name in sorted(disk, key=len):
        data = disk[name]
        if data is None:
            os.mkdir(os.path.join(root, name))
    for name, data in disk.items():
        if data is not None:
            Path(root, name).write_bytes(data)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_the_power_goes(operation: Operation, tmp_path: Path) -> None:
    recorded = Recorded(operation, str(tmp_path))
    state_file = os.path.relpath(
        os.path.join(os.path.dirname(operation.target_prefix(recorded.root)), "checkpoint"),
        recorded.root,
    )
    target = os.path.relpath(operation.target_prefix(recorded.root), recorded.root)
    problems = []
    found = set()
    judged = 0
    for number, disk in Disks(recorded.start, recorded.log).states():
        judged += 1
        state = recorded.read(disk)
        found.add(state)
        if state not in ("absent", "old", "new"):
            shown = sorted(name for name in disk if name.startswith(target))
            problems.append(f"after {recorded.log[number - 1]}: {state}: {shown}")
        for name, data in recorded.start.items():
            own = name.startswith((target + ".", target + "-0")) or name in (target, state_file)
            if not own:
                assert disk.get(name, b"gone") == data, f"{name} changed"
        if operation.options.update_state:
            named = disk[state_file]
            assert named == STATE or (state == "new" and named == recorded.end[state_file])
    assert not problems, f"{len(problems)} of {judged}:\n" + "\n".join(problems[:20])
    assert "new" in found
    assert judged > 30
    count(STATES, judged)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_done_means_that_it_is_on_the_disk(operation: Operation, tmp_path: Path) -> None:
    recorded = Recorded(operation, str(tmp_path))
    target = os.path.relpath(operation.target_prefix(recorded.root), recorded.root)
    for disk in Disks(recorded.start, recorded.log).last():
        count(STATES)
        assert recorded.read(disk) == "new"
        for name in (f"{target}.meta", os.path.join(os.path.dirname(target), "checkpoint")):
            if operation.options.update_state or operation.options.meta == "copy":
                assert disk.get(name) == recorded.end.get(name)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_after_the_power_came_back(operation: Operation, exhaustive: bool, tmp_path: Path) -> None:
    """The same again works, whatever was left behind."""
    recorded = Recorded(operation, str(tmp_path))
    states = {
        frozenset(disk.items()): disk
        for _, disk in Disks(recorded.start, recorded.log).states()
        if recorded.read(disk) != "new" or operation.destination is not None
    }
    step = 1 if exhaustive else len(states) // MOST + 1
    for disk in list(states.values())[::step]:
        lay(disk, recorded.replayed)
        with operation.system(recorded.replayed):
            try:
                operation.run(recorded.replayed)
            except DestinationError as error:
                assert error.path is not None and os.path.lexists(error.path)
                make_way(operation, recorded.replayed)
                operation.run(recorded.replayed, force=True)
        assert stored(operation, recorded.replayed) == recorded.new


@pytest.mark.sweep(6)
@pytest.mark.parametrize("missing", ["fsync", "fsync_folder"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_writer_that_does_not_wait_would_be_found_out(
    operation: Operation, missing: str, tmp_path: Path
) -> None:
    recorded = Recorded(operation, str(tmp_path))
    log = [call for call in recorded.log if call.name != missing]
    found = {recorded.read(disk) for _, disk in Disks(recorded.start, log).states()}
    last = {recorded.read(disk) for disk in Disks(recorded.start, log).last()}
    assert found & {"damaged", "lost"} or last != {"new"}


@pytest.mark.sweep(12)
@pytest.mark.parametrize("operation", UNDONE, ids=str)
def test_the_power_goes_while_a_failure_is_made_good(operation: Operation, tmp_path: Path) -> None:
    log = Recorded(operation, str(tmp_path)).log
    index = os.path.basename(operation.target_prefix("")) + ".index"
    commit = max(call.number for call in log if os.path.basename(call.target) == index)
    failing = [call.number for call in log if call.number > commit]
    assert len(failing) > 5
    for number in failing:
        recorded = Recorded(operation, str(tmp_path), number)
        for after, disk in Disks(recorded.start, recorded.log).states():
            count(STATES)
            state = recorded.read(disk)
            assert state in ("old", "new"), (number, recorded.log[after - 1], state)
