from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ckpttool.errors import CkptError, FileAccessError, MissingFileError
from ckpttool.storage.folders import locked_folder
from tests.support.fixtures import ROOT
from tests.support.limits import TooSlowError, time_limit

HOLD = """
import sys
from ckpttool.storage.folders import locked_folder
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
        pass


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
