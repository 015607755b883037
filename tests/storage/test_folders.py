from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ckpttool.errors import CkptError, FileAccessError, MissingFileError
from ckpttool.storage.folders import make_folder, new_folder, sync_folder
from ckpttool.storage.locks import locked_folder
from tests.support.fixtures import ROOT
from tests.support.limits import TooSlowError, time_limit

HOLD = """
import sys
from ckpttool.storage.locks import locked_folder
with locked_folder(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


def is_free(folder: Path) -> bool:
    """Try for the lock without waiting, on a descriptor of its own."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def test_the_lock_is_held_within_the_block_only(tmp_path: Path) -> None:
    assert is_free(tmp_path)
    with locked_folder(str(tmp_path)):
        assert not is_free(tmp_path)
        assert os.listdir(tmp_path) == []
    assert is_free(tmp_path)


def test_an_exception_releases_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locked_folder(str(tmp_path)):
        raise KeyboardInterrupt
    assert is_free(tmp_path)


def test_two_folders_do_not_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with time_limit(5), locked_folder(str(tmp_path)), locked_folder(str(tmp_path / "a")):
        assert not is_free(tmp_path / "a")


def test_another_process_is_waited_for_and_its_death_is_enough(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": ROOT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert not is_free(tmp_path)
        with pytest.raises(TooSlowError), time_limit(0.2), locked_folder(str(tmp_path)):
            raise AssertionError("two processes hold the lock")
        other.kill()
        with time_limit(5), locked_folder(str(tmp_path)):
            assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked_folder(str(tmp_path)):
        (tmp_path / "written").touch()
    assert os.listdir(tmp_path) == ["written"]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with locked_folder(str(tmp_path)):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("name", "error"),
    [("missing", MissingFileError), ("file", FileAccessError), ("a\0b", CkptError)],
)
def test_what_is_no_folder(tmp_path: Path, name: str, error: type[CkptError]) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = os.path.join(str(tmp_path), name)
    with pytest.raises(error) as caught, locked_folder(path):
        pass
    assert caught.value.path == path


def test_making_a_folder(tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    make_folder(path)
    assert os.path.isdir(path)
    for there in (path, "", str(tmp_path)):
        make_folder(there)
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("not/there", MissingFileError),
        ("file", FileAccessError),
        ("file/below", FileAccessError),
        ("a\0b", FileAccessError),
        ("\ud800", FileAccessError),
    ],
    ids=["no parent", "a file", "below a file", "NUL", "no UTF-8"],
)
def test_a_folder_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, error: type[CkptError]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(error) as caught:
        make_folder(path)
    assert caught.value.path == path
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_folder_stays_if_all_goes_well(tmp_path: Path) -> None:
    with new_folder(str(tmp_path / "new")) as path:
        assert path == str(tmp_path / "new")
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_new_folder_goes_if_something_fails(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), new_folder(str(tmp_path / "new")):
        raise error
    assert os.listdir(tmp_path) == []


def test_a_folder_that_was_there_or_is_in_use_stays(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_folder(str(tmp_path)):
        raise RuntimeError
    with pytest.raises(RuntimeError), new_folder(str(tmp_path / "new")):
        (tmp_path / "new" / "precious").write_bytes(b"")
        raise RuntimeError
    assert os.listdir(tmp_path / "new") == ["precious"]


def test_no_folder_is_the_current_one() -> None:
    with new_folder("") as path:
        assert path == os.curdir


def test_sync_folder_of_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileAccessError):
        sync_folder(str(tmp_path / "file"))
    with pytest.raises(MissingFileError):
        sync_folder(str(tmp_path / "missing"))


def test_a_new_folder_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    true_fsync = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        true_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    make_folder(str(tmp_path / "new"))
    assert synced == [str(tmp_path)]
