"""Two file systems, files of other owners, a lock that somebody else has."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpttool.bundle.naming import find_shards, shard_path
from tests.faults.checkpoints import NAMES, OBJECTS, copy_of, names, stored
from tests.faults.oracle import snapshot
from tests.support.command import ckpt, environment

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may be somebody else")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """Make a folder on another file system."""
    with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as folder:
        if os.stat(folder).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("there is one file system only")
        yield Path(folder)


@pytest.mark.parametrize("data", ["auto", "copy", "reflink", "hardlink"])
def test_to_another_file_system(data: str, elsewhere: Path, tmp_path: Path) -> None:
    prefix = copy_of(NAMES, tmp_path / "src")
    before = snapshot(str(tmp_path))
    ended = ckpt("rename", prefix, "dense=layer", "-o", str(elsewhere / "q"), "--data", data)
    assert snapshot(str(tmp_path)) == before
    if data in ("auto", "copy"):
        assert ended.code == 0, ended.err
        found = {
            (key.replace("layer", "dense"), part): v
            for (key, part), v in stored(str(elsewhere / "q")).items()
        }
        assert found == stored(prefix)
    else:
        assert ended.code == 2
        assert names(elsewhere) == []


def test_shards_on_another_file_system_in_place(elsewhere: Path, tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "src")
    shard = shard_path(prefix, 0, 1)
    data = Path(shard).read_bytes()
    (elsewhere / "blob").write_bytes(data)
    os.unlink(shard)
    os.symlink(elsewhere / "blob", shard)
    ended = ckpt("rename", prefix, "net=model", "--in-place")
    assert ended.code == 0, ended.err
    assert (elsewhere / "blob").read_bytes() == data
    assert os.path.islink(find_shards(prefix)[0])
    assert stored(prefix)


@needs_root
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_files_of_somebody_else(mode: int, tmp_path: Path) -> None:
    """Root changes them and they stay theirs; somebody else may not, and nothing is changed."""
    prefix = copy_of(OBJECTS, tmp_path / "src")
    for name in names(tmp_path / "src"):
        os.chmod(tmp_path / "src" / name, mode)
    os.chmod(tmp_path, 0o755)
    before = snapshot(str(tmp_path))
    ended = as_nobody("rename", prefix, "net=model", "--in-place")
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("\n") == 1
    assert snapshot(str(tmp_path)) == before
    for name in names(tmp_path / "src"):
        os.chown(tmp_path / "src" / name, NOBODY, NOBODY)
    assert ckpt("rename", prefix, "net=model", "--in-place").code == 0
    for path in (tmp_path / "src" / name for name in names(tmp_path / "src")):
        status = path.stat()
        assert (status.st_uid, status.st_mode & 0o7777) == (NOBODY, mode), path


@needs_root
def test_into_a_folder_of_one_s_own(tmp_path: Path) -> None:
    """From files of root that all may read, which nobody may link to or write over."""
    prefix = copy_of(NAMES, tmp_path / "src")
    (tmp_path / "out").mkdir()
    os.chown(tmp_path / "out", NOBODY, NOBODY)
    os.chmod(tmp_path, 0o755)
    before = snapshot(str(tmp_path / "src"))
    ended = as_nobody("rename", prefix, "dense=layer", "-o", str(tmp_path / "out" / "q"))
    assert ended.returncode == 0, ended.stderr
    after = snapshot(str(tmp_path / "src"))
    assert {name: entry.data for name, entry in after.items()} == {
        name: entry.data for name, entry in before.items()
    }
    assert stored(str(tmp_path / "out" / "q")).keys()


def test_somebody_else_has_the_lock(tmp_path: Path) -> None:
    prefix = copy_of(NAMES, tmp_path / "src")
    before = snapshot(str(tmp_path))
    fd = os.open(tmp_path / "src", os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        begun = time.monotonic()
        ended = ckpt("rename", prefix, "dense=layer", "--in-place", "--lock-timeout", "1")
        assert time.monotonic() - begun > 1
        assert ended.code == 2
        assert "lock" in ended.err or "waited" in ended.err, ended.err
        assert snapshot(str(tmp_path)) == before
    finally:
        os.close(fd)
    assert ckpt("rename", prefix, "dense=layer", "--in-place").code == 0


# All is imported first: the interpreter may lie where nobody else may look.
_AS_NOBODY = """
import ctypes, difflib, importlib, os, pkgutil, sys
import ckpttool
for found in pkgutil.walk_packages(ckpttool.__path__, "ckpttool."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
from ckpttool.cli.main import main
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
sys.exit(main(sys.argv[2:]))
"""


def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(NOBODY), *words],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert "internal" not in done.stderr
    return done
