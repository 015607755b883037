from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ckpttool.errors import DestinationError, FileAccessError, MissingFileError
from ckpttool.storage.source import Permissions, RandomAccessFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.temporary import TEMPORARY_SUFFIX
from tests.support.fixtures import folder_contents
from tests.support.refusals import refused

NAMES = ("m.data-00000-of-00002", "m.data-00001-of-00002", "m.index")
FILES = {name: name.encode() * 3 for name in NAMES}


def write_all(staged: StagedFiles, folder: Path) -> None:
    for name, data in FILES.items():
        file = staged.create(str(folder / name))
        for at in range(0, len(data), 7):
            file.write(data[at : at + 7])
        assert file.size == len(data)


def test_nothing_is_visible_before_commit(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        lock, *visible = sorted(os.listdir(tmp_path), key=lambda name: name.endswith("-tmp"))
        assert lock.endswith(".ckpt-lock")
        assert len(visible) == 3
        assert all(n.startswith(".m.") and n.endswith(TEMPORARY_SUFFIX) for n in visible)
        staged.commit()
        assert folder_contents(tmp_path) == FILES
    assert folder_contents(tmp_path) == FILES


def test_without_commit_nothing_stays(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
    assert folder_contents(tmp_path) == {}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_after_an_exception_nothing_stays(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), StagedFiles() as staged:
        write_all(staged, tmp_path)
        raise error
    assert folder_contents(tmp_path) == {}


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
        assert len(list(tmp_path.glob(".a.*"))) == 2
        first.commit()
        assert len(list(tmp_path.glob(".a.*"))) == 1
        with pytest.raises(DestinationError):
            second.commit()
    assert folder_contents(tmp_path) == {"a": b"first"}


def test_an_empty_file_and_a_large_write(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        staged.create(str(tmp_path / "a"))
        staged.create(str(tmp_path / "b")).write(bytes(5_000_000))
        staged.commit()
    assert folder_contents(tmp_path) == {"a": b"", "b": bytes(5_000_000)}


def test_views_and_bytearrays_are_written(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        file = staged.create(str(tmp_path / "a"))
        file.write(bytearray(b"one"))
        file.write(memoryview(b"-two-")[1:4])
        file.write(b"")
        staged.commit()
    assert folder_contents(tmp_path) == {"a": b"onetwo"}


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: true_write(fd, data[:2]))
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    monkeypatch.undo()
    assert folder_contents(tmp_path) == FILES


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
        with refused(DestinationError, "exists") as caught:
            staged.commit()
        assert caught.value.path == str(tmp_path / taken)
    assert folder_contents(tmp_path) == {taken: b"precious"}


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


def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    """As root, `--force` would put a file in the place of /dev/null."""
    path = tmp_path / "m.index"
    os.mkfifo(path)
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        with pytest.raises(DestinationError, match="not a file"):
            staged.commit(replace_last=True)
    assert path.is_fifo() and sorted(os.listdir(tmp_path)) == ["m.index"]


def test_the_last_file_can_replace_another(tmp_path: Path) -> None:
    (tmp_path / NAMES[-1]).write_bytes(b"old")
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit(replace_last=True)
    assert folder_contents(tmp_path) == FILES


@pytest.mark.parametrize("taken", NAMES[:-1])
def test_the_others_never_replace_anything(tmp_path: Path, taken: str) -> None:
    (tmp_path / NAMES[-1]).write_bytes(b"old")
    (tmp_path / taken).write_bytes(b"precious")
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        with pytest.raises(DestinationError):
            staged.commit(replace_last=True)
    assert folder_contents(tmp_path) == {NAMES[-1]: b"old", taken: b"precious"}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "m.index")
    with StagedFiles() as staged, pytest.raises(MissingFileError) as caught:
        staged.create(path)
    assert caught.value.path == path


def test_a_name_at_the_limit_of_the_file_system_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with StagedFiles() as staged, refused(FileAccessError, "too long"):
        staged.create(str(tmp_path / ("n" * 256)))
    assert folder_contents(tmp_path) == {}


def test_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with StagedFiles() as staged:
        staged.create("a").write(b"1")
        staged.commit()
    assert folder_contents(tmp_path) == {"a": b"1"}


def test_a_second_commit_has_nothing_to_do(tmp_path: Path) -> None:
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    staged.abandon()
    assert folder_contents(tmp_path) == FILES


def test_what_is_called_before_the_last_name(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def look() -> None:
        seen.append(sorted(name for name in os.listdir(tmp_path) if not name.startswith(".")))

    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit(before_last=look)
    assert seen == [list(NAMES[:-1])]
    assert folder_contents(tmp_path) == FILES


def test_what_is_called_before_the_last_name_may_stop_it(tmp_path: Path) -> None:
    def stop() -> None:
        raise DestinationError("changed meanwhile")

    (tmp_path / NAMES[-1]).write_bytes(b"old")
    with refused(DestinationError, "changed"), StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit(replace_last=True, before_last=stop)
    assert folder_contents(tmp_path) == {NAMES[-1]: b"old"}


def test_a_link_to_a_file_that_is_there(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"shared")
    with StagedFiles() as staged:
        file = staged.link(RandomAccessFile(str(source)), str(tmp_path / "a"))
        assert file is not None
        assert file.size == 6
        staged.create(str(tmp_path / "b")).write(b"new")
        staged.commit()
    assert folder_contents(tmp_path) == {"source": b"shared", "a": b"shared", "b": b"new"}
    assert os.path.samefile(source, tmp_path / "a")


def test_a_link_that_is_given_up_leaves_its_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"shared")
    with StagedFiles() as staged:
        assert staged.link(RandomAccessFile(str(source)), str(tmp_path / "a")) is not None
    assert folder_contents(tmp_path) == {"source": b"shared"}


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP])
def test_where_no_link_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "source").write_bytes(b"")
    monkeypatch.setattr(os, "link", refuse)
    with StagedFiles() as staged:
        source = RandomAccessFile(str(tmp_path / "source"))
        assert staged.link(source, str(tmp_path / "a")) is None
        staged.create(str(tmp_path / "b"))
    assert folder_contents(tmp_path) == {"source": b""}


def test_a_clone_is_a_file_of_its_own(tmp_path: Path) -> None:
    """Where the file system cannot clone, there is none, and nothing is left of the attempt."""
    source = tmp_path / "source"
    source.write_bytes(bytes(10_000))
    with StagedFiles() as staged:
        file = staged.clone(RandomAccessFile(str(source)), str(tmp_path / "a"))
        if file is None:
            assert list(tmp_path.glob(".a.*")) == []
            staged.create(str(tmp_path / "a")).write(bytes(10_000))
        else:
            assert file.size == 10_000
        staged.commit()
    assert folder_contents(tmp_path) == {"source": bytes(10_000), "a": bytes(10_000)}
    assert not os.path.samefile(source, tmp_path / "a")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_permissions_of_another_file(tmp_path: Path, mode: int) -> None:
    like = tmp_path / "like"
    like.write_bytes(b"")
    like.chmod(mode)
    with StagedFiles() as staged:
        file = staged.create(str(tmp_path / "a"))
        file.take_permissions(Permissions.of(os.stat(like)))
        file.write(b"x")
        staged.commit()
    status = os.stat(tmp_path / "a")
    assert status.st_mode & 0o777 == mode
    assert (status.st_uid, status.st_gid) == (os.stat(like).st_uid, os.stat(like).st_gid)


def test_a_file_that_would_be_seen_by_more_people_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    like = tmp_path / "like"
    like.write_bytes(b"")
    like.chmod(0o600)
    permissions = Permissions.of(os.stat(like))
    with StagedFiles() as staged:
        narrow = staged.create(str(tmp_path / "narrow"), mode=0o600)
        wide = staged.create(str(tmp_path / "wide"), mode=0o644)
        monkeypatch.setattr(os, "fchmod", refuse)
        narrow.take_permissions(permissions)
        if os.stat(wide.temporary).st_mode & 0o044:
            with pytest.raises(FileAccessError) as caught:
                wide.take_permissions(permissions)
            assert caught.value.path == str(tmp_path / "wide")
        monkeypatch.undo()


def test_what_a_dead_run_left_goes_with_the_next_success(tmp_path: Path) -> None:
    tag = "0123456789abcdef"
    for name in (f".{tag}.ckpt-lock", f".m.index.{tag}.ckpt-tmp", f".m.meta.{tag}.ckpt-tmp"):
        (tmp_path / name).touch()
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
    assert len(os.listdir(tmp_path)) == 3
    with StagedFiles() as staged:
        write_all(staged, tmp_path)
        staged.commit()
    assert folder_contents(tmp_path) == FILES


def test_what_is_kept_to_undo_is_that_of_a_living_run(tmp_path: Path) -> None:
    with StagedFiles() as first, StagedFiles() as second:
        kept = Path(first.spare_name(str(tmp_path / "m.index.old")))
        write_all(first, tmp_path)
        kept.touch()
        first.commit()
        second.create(str(tmp_path / "m.index")).write(b"later")
        second.commit(replace_last=True)
        assert kept.exists()
    assert folder_contents(tmp_path) == {**FILES, "m.index": b"later"}
