"""No room: file size limits, quotas, disks of a few pages, folders that cannot be written to."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import CkptError, DestinationError, FileAccessError
from ckpttool.storage.temporary import TEMPORARY_SUFFIX
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults.counts import FULL, count
from tests.faults.exports import ALL, judge
from tests.faults.operations import Operation
from tests.faults.oracle import snapshot
from tests.faults.server import Server
from tests.support.command import environment
from tests.support.encoder import entry
from tests.support.faults import Call, Fault, System
from tests.support.handmade import Bundle, shard_path

BY_NAME = {operation.name: operation for operation in ALL}
# Of each kind of writer one.
WRITERS = [
    BY_NAME[name]
    for name in (
        "large copy",
        "copy",
        "over another, compact",
        "in place",
        "in place, linked index, compact",
        "arrays over another",
        "export of two shards",
        "export over another",
    )
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def sizes(largest: int) -> list[int]:
    """Return limits from nothing to enough: small steps first, then larger ones."""
    steps = list(range(0, 400, 40))
    while steps[-1] < largest:
        steps.append(steps[-1] * 5 // 4)
    return steps


@pytest.mark.sweep(4)
@pytest.mark.parametrize("operation", WRITERS, ids=str)
def test_files_may_not_grow(operation: Operation, server: Server, tmp_path: Path) -> None:
    oracle = judge(operation, str(tmp_path))
    folder = os.path.dirname(operation.target_prefix(oracle.root))
    largest = max(len(entry.data) for entry in snapshot(folder).values())
    failed = 0
    for limit in sizes(largest):
        ended = server.run(operation, oracle.fresh(), file_size=limit)
        verdict = oracle.check(done=ended.code == 0)
        if ended.code:
            failed += 1
            count(FULL)
            assert ended.code == 2
            assert ended.err.count("\n") == 1, ended.err
            assert "file too large" in ended.err
            assert operation.target_prefix(oracle.root) in ended.err or "checkpoint" in ended.err
            assert TEMPORARY_SUFFIX not in ended.err
            oracle.run_again(verdict)
    assert failed > 3
    assert not ended.code


@pytest.mark.sweep(4)
@pytest.mark.parametrize("number", [errno.EDQUOT, errno.ENOSPC])
@pytest.mark.parametrize("operation", WRITERS, ids=str)
def test_a_quota_is_used_up(operation: Operation, number: int, tmp_path: Path) -> None:
    oracle = judge(operation, str(tmp_path))
    for room in [*sizes(20_000), 1 << 20, 5 << 18, 1 << 30]:
        left = room

        def before(call: Call) -> Fault | None:
            nonlocal left
            if call.name != "write":
                return None
            if not left:
                return Fault(number)
            # A write that does not fit is cut short, the next one fails.
            size = min(left, len(call.data))
            left -= size
            return Fault(short=size)

        root = oracle.fresh()
        done = True
        try:
            with operation.prepared(root) as write, operation.system(root, before=before):
                write(False)
        except CkptError as error:
            done = False
            count(FULL)
            assert os.strerror(number).lower() in str(error)
        oracle.run_again(oracle.check(done=done))
    assert done


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    """Return the plan to copy a tensor that a disk says it has no room for.

    That takes no large file: a map of one with holes would fill the memory it is in.
    """
    size = 1 << 20
    made = Bundle()
    made.records[b"huge"] = entry(4, [size], size=size, crc=1)
    (tmp_path / "src").mkdir()
    prefix = str(tmp_path / "src" / "ckpt")
    made.write(prefix)
    os.truncate(shard_path(prefix), size)
    os.utime(prefix + ".index")
    true = os.statvfs

    def nearly_full(path: str) -> os.statvfs_result:
        values = list(true(path))
        # Blocks of 4096 bytes; the last ones are for the superuser alone.
        values[0:5] = [4096, 4096, 1 << 20, size // 4096 + 1, size // 4096 - 1]
        return os.statvfs_result(values)

    monkeypatch.setattr(os, "statvfs", nearly_full)
    with open_checkpoint(prefix) as ckpt:
        yield Plan.of(ckpt)


@pytest.mark.parametrize("compact", [False, True])
def test_a_copy_that_cannot_fit_is_refused_at_once(
    tmp_path: Path, large: Plan, compact: bool
) -> None:
    message = f"{1 << 20} bytes to copy, but only {(1 << 20) - 4096} are free"
    with System(tmp_path) as system, pytest.raises(DestinationError, match=message) as caught:
        prepare(large, str(tmp_path / "out"), WriteOptions("copy", compact=compact)).write()
    # Not a byte of the source has been read, and none written.
    assert not {"pread", "preadv", "mmap", "write"} & {
        call.name for call in system.calls if ".data-" in call.path
    }
    assert caught.value.path is not None
    assert sorted(os.listdir(tmp_path)) == ["src"]


def test_a_link_needs_no_room(tmp_path: Path, large: Plan) -> None:
    receipt = prepare(large, str(tmp_path / "out"), WriteOptions("hardlink")).write()
    assert [shard.how for shard in receipt.shards] == ["hardlink"]
    assert receipt.bytes_written < 10_000


def test_none_of_these_tests_can_fill_the_disk(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    with pytest.raises(OSError) as caught:
        os.truncate(path, 1 << 30)
    assert caught.value.errno == errno.EFBIG
    with open(f"/proc/{server.pid}/limits", encoding="ascii") as file:
        (limit,) = [line.split()[3] for line in file if line.startswith("Max file size")]
    assert int(limit) < 1 << 30


def mounting() -> list[str]:
    """Return the words that run a command where it may mount what it likes."""
    unshare = shutil.which("unshare")
    for flags in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        words = [unshare or "unshare", *flags]
        if unshare and not subprocess.run([*words, "true"], capture_output=True).returncode:
            return words
    pytest.skip("nothing can be mounted here; limits of file sizes are tested all the same")


def in_own_mounts(*words: str) -> list[str]:
    """Run `tests.faults.mounts` where it may mount what it likes; return the lines it prints."""
    done = subprocess.run(
        [*mounting(), sys.executable, "-m", "tests.faults.mounts", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.mark.sweep(4)
@pytest.mark.parametrize("operation", WRITERS, ids=str)
def test_a_disk_of_a_few_pages(operation: Operation, tmp_path: Path) -> None:
    lines = in_own_mounts("small", str(tmp_path), operation.name)
    assert lines[-1] == "done"
    assert len(lines) > 2
    count(FULL, len(lines) - 1)
    assert all("no space left on device" in line or "are free" in line for line in lines[:-1])


@pytest.mark.parametrize(
    "name",
    [
        "new checkpoint",
        "new folder",
        "copy",
        "in place",
        "in place, index only",
        "in place, all linked",
        "arrays",
        "export over another",
    ],
)
def test_a_file_system_that_is_read_only(name: str, tmp_path: Path) -> None:
    (line,) = in_own_mounts("read-only", str(tmp_path), name)
    assert "read-only file system" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
@pytest.mark.parametrize("name", ["new checkpoint", "new folder", "copy", "in place", "arrays"])
def test_a_folder_that_may_not_be_written_to(name: str, tmp_path: Path) -> None:
    oracle = judge(BY_NAME[name], str(tmp_path))
    folder = os.path.join(oracle.fresh(), "out" if BY_NAME[name].destination else "src")
    os.chmod(folder, 0o555)
    oracle.before = snapshot(oracle.root)
    try:
        with pytest.raises(FileAccessError, match="permission denied"):
            BY_NAME[name].run(oracle.root)
        oracle.check(done=False)
    finally:
        os.chmod(folder, 0o755)
