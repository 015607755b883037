from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ckpttool.errors import CkptError, DestinationError, FileAccessError
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.temporary import TEMPORARY_SUFFIX
from tests.support.calls import Calls
from tests.support.fixtures import folder_contents

NAMES = ("m.data-00000-of-00002", "m.data-00001-of-00002", "m.index")
FILES = {name: name.encode() * 3 for name in NAMES}


def write_all(staged: StagedFiles, folder: Path) -> None:
    for name, data in FILES.items():
        file = staged.create(str(folder / name))
        for at in range(0, len(data), 7):
            file.write(data[at : at + 7])
        assert file.size == len(data)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


@pytest.mark.parametrize("replace_last", [False, True])
def test_order_of_a_commit(tmp_path: Path, calls: Calls, replace_last: bool) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        calls.log.clear()
        staged.commit(replace_last=replace_last)
    steps = calls.of("fsync", "link", "rename")
    folder = tmp_path.name
    # All bytes, then the shards' names and those made durable, then the index, then its name.
    assert [step for step, _ in steps[:3]] == ["fsync"] * 3
    assert [step for step, _ in steps[3:5]] == ["link"] * 2
    assert steps[5] == ("fsync", folder)
    assert steps[6][0] == ("rename" if replace_last else "link")
    assert ".m.index." in steps[6][1]
    assert steps[7:] == [("fsync", folder)]
    synced = [path for _, path in steps[:3]]
    assert [name for name in NAMES if any(name in path for path in synced)] == list(NAMES)


def test_bytes_are_on_disk_before_any_name(tmp_path: Path, calls: Calls) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    names = [name for name, _ in calls.log]
    last_write = len(names) - 1 - names[::-1].index("write")
    assert last_write < names.index("fsync")
    assert names.index("fsync") < names.index("link")


# (id, call, which one, errno)
FAILURES = [
    ("disk full while writing", "write", 5, errno.ENOSPC),
    ("quota", "write", 1, errno.EDQUOT),
    ("first file does not reach the disk", "fsync", 1, errno.EIO),
    ("last file does not reach the disk", "fsync", 3, errno.ENOSPC),
    ("names of the shards do not reach the disk", "fsync", 4, errno.EIO),
    ("close tells of lost bytes", "close", 2, errno.EIO),
    ("first name", "link", 1, errno.EACCES),
    ("second name", "link", 2, errno.EROFS),
    ("name of the index", "link", 3, errno.ENOSPC),
]


@pytest.mark.parametrize(
    ("name", "which", "number"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
def test_after_a_failure_nothing_stays(
    tmp_path: Path, calls: Calls, name: str, which: int, number: int
) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        if called == name and count == which:
            return OSError(number, os.strerror(number))
        return None

    calls.fail = fail
    with pytest.raises(FileAccessError) as caught, StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert os.strerror(number).lower() in str(caught.value)
    assert caught.value.path is not None
    assert TEMPORARY_SUFFIX not in caught.value.path
    assert folder_contents(tmp_path) == {}


def test_every_single_call_may_fail(tmp_path: Path, calls: Calls) -> None:
    """Whatever fails, the set is there as a whole or not at all, and no error is swallowed."""
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    total = len(calls.log)
    assert total > 20
    for which in range(total):
        folder = tmp_path / str(which)
        folder.mkdir()
        calls.log.clear()
        hit: list[str] = []

        def fail(
            called: str, path: str, count: int, which: int = which, hit: list[str] = hit
        ) -> OSError | None:
            if len(calls.log) - 1 == which:
                hit.append(called)
                return OSError(errno.EIO, "Input/output error")
            return None

        calls.fail = fail
        failed = False
        try:
            with StagedFiles() as staged:
                write_all(staged, folder)
                staged.commit()
        except CkptError:
            failed = True
        finally:
            calls.fail = lambda called, path, count: None
        visible = {n: d for n, d in folder_contents(folder).items() if not n.startswith(".")}
        assert visible in ({}, FILES), (which, hit)
        if not failed:
            assert visible == FILES, (which, hit)
            assert hit in ([], ["unlink"], ["close"]), (which, hit)
        if hit != ["unlink"]:
            assert not [n for n in folder_contents(folder) if n.startswith(".")], (which, hit)


def test_an_interrupt_between_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_link = os.link
    made: list[str] = []

    def link(source: str, target: str, **more: Any) -> None:
        if made:
            raise KeyboardInterrupt
        true_link(source, target, **more)
        made.append(target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(KeyboardInterrupt), StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert folder_contents(tmp_path) == {}


def test_an_interrupt_after_the_last_name_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_link = os.link

    def link(source: str, target: str, **more: Any) -> None:
        true_link(source, target, **more)
        if target.endswith(".index"):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(KeyboardInterrupt), StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert folder_contents(tmp_path) == FILES


NO_LINKS = [errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK]


@pytest.mark.parametrize("number", NO_LINKS)
def test_a_file_system_without_links(tmp_path: Path, calls: Calls, number: int) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        return OSError(number, os.strerror(number)) if called == "link" else None

    calls.fail = fail
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert folder_contents(tmp_path) == FILES


@pytest.mark.parametrize("taken", NAMES)
def test_without_links_an_existing_file_is_not_replaced_either(
    tmp_path: Path, calls: Calls, taken: str
) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        return PermissionError(errno.EPERM, "Operation not permitted") if called == "link" else None

    calls.fail = fail
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        (tmp_path / taken).write_bytes(b"precious")
        with pytest.raises(DestinationError):
            staged.commit()
    assert folder_contents(tmp_path) == {taken: b"precious"}


def test_without_links_a_failing_rename_leaves_no_empty_name(tmp_path: Path, calls: Calls) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        if called == "link":
            return PermissionError(errno.EPERM, "Operation not permitted")
        if called == "rename" and count == 2:
            return OSError(errno.EIO, "Input/output error")
        return None

    calls.fail = fail
    with pytest.raises(FileAccessError), StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert folder_contents(tmp_path) == {}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_that_cannot_sync_folders(tmp_path: Path, calls: Calls, number: int) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        if called == "fsync" and path == str(tmp_path):
            return OSError(number, os.strerror(number))
        return None

    calls.fail = fail
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert folder_contents(tmp_path) == FILES


def test_names_that_may_not_be_durable_are_told_and_kept(tmp_path: Path, calls: Calls) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        if called == "fsync" and count == 5:
            return OSError(errno.EIO, "Input/output error")
        return None

    calls.fail = fail
    with pytest.raises(FileAccessError) as caught, StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert caught.value.path == str(tmp_path)
    assert folder_contents(tmp_path) == FILES
