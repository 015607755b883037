from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ckpttool.errors import CkptError, DestinationError, FileAccessError, MissingFileError
from ckpttool.storage import staging
from ckpttool.storage.staging import TEMPORARY_SUFFIX, StagedFiles, sync_folder

NAMES = ("m.data-00000-of-00002", "m.data-00001-of-00002", "m.index")
FILES = {name: name.encode() * 3 for name in NAMES}


def write_all(staged: StagedFiles, folder: Path) -> None:
    for name, data in FILES.items():
        file = staged.create(str(folder / name))
        for at in range(0, len(data), 7):
            file.write(data[at : at + 7])
        assert file.size == len(data)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_nothing_is_visible_before_commit(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        visible = os.listdir(tmp_path)
        assert len(visible) == 3
        assert all(n.startswith(".m.") and n.endswith(TEMPORARY_SUFFIX) for n in visible)
        staged.commit()
        assert contents(tmp_path) == FILES
    assert contents(tmp_path) == FILES


def test_without_commit_nothing_stays(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_after_an_exception_nothing_stays(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), StagedFiles() as staged:
        write_all(staged, tmp_path)
        raise error
    assert contents(tmp_path) == {}


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert len(os.listdir("/proc/self/fd")) == before


def test_two_sets_for_the_same_names_do_not_share_temporary_files(tmp_path: Path) -> None:
    with StagedFiles() as first, StagedFiles() as second:
        first.create(str(tmp_path / "a")).write(b"first")
        second.create(str(tmp_path / "a")).write(b"second")
        assert len(os.listdir(tmp_path)) == 2
        first.commit()
        with pytest.raises(DestinationError):
            second.commit()
    assert contents(tmp_path) == {"a": b"first"}


def test_an_empty_file_and_a_large_write(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        staged.create(str(tmp_path / "a"))
        staged.create(str(tmp_path / "b")).write(bytes(5_000_000))
        staged.commit()
    assert contents(tmp_path) == {"a": b"", "b": bytes(5_000_000)}


def test_views_and_bytearrays_are_written(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        file = staged.create(str(tmp_path / "a"))
        file.write(bytearray(b"one"))
        file.write(memoryview(b"-two-")[1:4])
        file.write(b"")
        staged.commit()
    assert contents(tmp_path) == {"a": b"onetwo"}


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_write = os.write
    monkeypatch.setattr(staging.os, "write", lambda fd, data: true_write(fd, data[:2]))
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    monkeypatch.undo()
    assert contents(tmp_path) == FILES


def test_the_usual_mode_of_new_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with StagedFiles() as staged:
            write_all(staged, tmp_path)
            staged.commit()
    finally:
        os.umask(before)
    assert {os.stat(tmp_path / name).st_mode & 0o777 for name in NAMES} == {0o640}


@pytest.mark.parametrize("taken", NAMES)
def test_an_existing_file_is_never_replaced(tmp_path: Path, taken: str) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        # Somebody is faster: the name was free when the set was begun.
        (tmp_path / taken).write_bytes(b"precious")
        with pytest.raises(DestinationError, match="exists") as caught:
            staged.commit()
        assert caught.value.path == str(tmp_path / taken)
    assert contents(tmp_path) == {taken: b"precious"}


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_what_is_no_file_is_not_replaced_either(tmp_path: Path, kind: str) -> None:
    target = tmp_path / NAMES[0]
    if kind == "folder":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        with pytest.raises(DestinationError):
            staged.commit()
    assert os.listdir(tmp_path) == [NAMES[0]]


def test_the_last_file_can_replace_another(tmp_path: Path) -> None:
    (tmp_path / NAMES[-1]).write_bytes(b"old")
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit(replace_last=True)
    assert contents(tmp_path) == FILES


@pytest.mark.parametrize("taken", NAMES[:-1])
def test_the_others_never_replace_anything(tmp_path: Path, taken: str) -> None:
    (tmp_path / NAMES[-1]).write_bytes(b"old")
    (tmp_path / taken).write_bytes(b"precious")
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        with pytest.raises(DestinationError):
            staged.commit(replace_last=True)
    assert contents(tmp_path) == {NAMES[-1]: b"old", taken: b"precious"}


class Calls:
    """The file system calls of a commit, in order; one of them may be made to fail."""

    NAMES = ("open", "write", "fsync", "close", "link", "rename", "unlink")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[str, str]] = []
        self.fail: Callable[[str, str, int], OSError | None] = lambda name, path, count: None
        self._paths: dict[int, str] = {}
        for name in self.NAMES:
            monkeypatch.setattr(staging.os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, true: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            first = arguments[0]
            path = self._paths.get(first, "?") if isinstance(first, int) else str(first)
            self.log.append((name, os.path.basename(path)))
            count = sum(1 for seen, _ in self.log if seen == name)
            error = self.fail(name, path, count)
            if error is not None:
                if name == "close":
                    true(*arguments, **more)
                raise error
            result = true(*arguments, **more)
            if name == "open" and isinstance(result, int):
                self._paths[result] = path
            return result

        return call

    def of(self, *names: str) -> list[tuple[str, str]]:
        return [(name, path) for name, path in self.log if name in names]


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
    assert contents(tmp_path) == {}


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
        visible = {n: d for n, d in contents(folder).items() if not n.startswith(".")}
        assert visible in ({}, FILES), (which, hit)
        if not failed:
            assert visible == FILES, (which, hit)
            assert hit in ([], ["unlink"], ["close"]), (which, hit)
        if hit != ["unlink"]:
            assert not [n for n in contents(folder) if n.startswith(".")], (which, hit)


def test_an_interrupt_between_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_link = os.link
    made: list[str] = []

    def link(source: str, target: str) -> None:
        if made:
            raise KeyboardInterrupt
        true_link(source, target)
        made.append(target)

    monkeypatch.setattr(staging.os, "link", link)
    with pytest.raises(KeyboardInterrupt), StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert contents(tmp_path) == {}


def test_an_interrupt_after_the_last_name_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_link = os.link

    def link(source: str, target: str) -> None:
        true_link(source, target)
        if target.endswith(".index"):
            raise KeyboardInterrupt

    monkeypatch.setattr(staging.os, "link", link)
    with pytest.raises(KeyboardInterrupt), StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert contents(tmp_path) == FILES


NO_LINKS = [errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK]


@pytest.mark.parametrize("number", NO_LINKS)
def test_a_file_system_without_links(tmp_path: Path, calls: Calls, number: int) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        return OSError(number, os.strerror(number)) if called == "link" else None

    calls.fail = fail
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert contents(tmp_path) == FILES


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
    assert contents(tmp_path) == {taken: b"precious"}


def test_without_links_a_failing_rename_leaves_no_empty_name(
    tmp_path: Path, calls: Calls
) -> None:
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
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_that_cannot_sync_folders(
    tmp_path: Path, calls: Calls, number: int
) -> None:
    def fail(called: str, path: str, count: int) -> OSError | None:
        if called == "fsync" and path == str(tmp_path):
            return OSError(number, os.strerror(number))
        return None

    calls.fail = fail
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert contents(tmp_path) == FILES


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
    assert contents(tmp_path) == FILES


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "m.index")
    with StagedFiles() as staged, pytest.raises(MissingFileError) as caught:
        staged.create(path)
    assert caught.value.path == path


def test_a_name_at_the_limit_of_the_file_system_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with StagedFiles() as staged, pytest.raises(FileAccessError, match="too long"):
        staged.create(str(tmp_path / ("n" * 256)))
    assert contents(tmp_path) == {}


def test_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with StagedFiles() as staged:
        staged.create("a").write(b"1")
        staged.commit()
    assert contents(tmp_path) == {"a": b"1"}


def test_a_second_commit_has_nothing_to_do(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    staged.abandon()
    assert contents(tmp_path) == FILES


def test_sync_folder_of_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileAccessError):
        sync_folder(str(tmp_path / "file"))
    with pytest.raises(MissingFileError):
        sync_folder(str(tmp_path / "missing"))
