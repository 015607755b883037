"""Data shards carried over: links, copies, what is damaged, what is private."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.naming import find_shards
from ckpttool.errors import (
    ChecksumError,
    CkptError,
    DestinationError,
    MissingFileError,
    TruncatedError,
)
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults.checkpoints import (
    MODES,
    NAMES,
    OBJECTS,
    SHARDS,
    SLICES,
    change,
    copy_of,
    damage,
    drop,
    inode,
    names,
    stored,
    write,
)
from tests.support import encoder
from tests.support.faults import Call, Fault, System
from tests.support.handmade import Bundle, shard_path


@pytest.mark.parametrize("name", [OBJECTS, SHARDS, SLICES, NAMES])
@pytest.mark.parametrize("mode", ["auto", "hardlink"])
def test_links_are_links(name: str, mode: DataMode, tmp_path: Path) -> None:
    prefix = copy_of(name, tmp_path / "src")
    receipt = write(prefix, str(tmp_path / "q"), WriteOptions(mode))
    if mode == "auto" and any(shard.how == "reflink" for shard in receipt.shards):
        pytest.skip("this file system can clone")
    assert {shard.how for shard in receipt.shards} == {"hardlink"}
    for old, new in zip(find_shards(prefix), find_shards(str(tmp_path / "q")), strict=True):
        assert inode(old) == inode(new)
        assert os.stat(new).st_nlink == 2
    index = str(tmp_path / "q.index")
    assert os.stat(index).st_nlink == 1
    assert os.stat(prefix + ".index").st_nlink == 1
    assert receipt.bytes_written == os.path.getsize(index)


def test_a_copy_is_no_link(small: str, tmp_path: Path) -> None:
    receipt = write(small, str(tmp_path / "q"), WriteOptions("copy"))
    assert {shard.how for shard in receipt.shards} == {"copy"}
    for path in (*find_shards(small), *find_shards(str(tmp_path / "q"))):
        assert os.stat(path).st_nlink == 1
    written = sum(os.path.getsize(tmp_path / name) for name in names(tmp_path) if name != "src")
    assert receipt.bytes_written == written


# (key, shard, byte in it, part of the message)
DAMAGE = [
    ("a", 0, 3, "crc32c"),
    ("b", 1, 0, "crc32c"),
    ("s", 0, 12, "length"),
    ("s", 0, 20, "crc32c"),
]


@pytest.mark.parametrize("options", [WriteOptions("copy"), WriteOptions(compact=True)], ids=str)
@pytest.mark.parametrize(("key", "shard", "at", "message"), DAMAGE)
def test_damaged_bytes_are_not_copied(
    small: str, tmp_path: Path, options: WriteOptions, key: str, shard: int, at: int, message: str
) -> None:
    path = shard_path(small, shard, 2)
    damage(path, at)
    with pytest.raises(CkptError, match=message) as caught:
        write(small, str(tmp_path / "q"), options)
    assert caught.value.path == path
    assert caught.value.key == key
    assert caught.value.offset is not None
    assert names(tmp_path) == ["src"]


def test_where_the_damage_lies_is_told(small: str, tmp_path: Path) -> None:
    damage(shard_path(small, 0, 2), 9)
    with pytest.raises(ChecksumError) as caught:
        write(small, str(tmp_path / "q"), WriteOptions("copy"))
    assert (caught.value.key, caught.value.offset) == ("c", 8)


@pytest.mark.parametrize("options", [WriteOptions("copy"), WriteOptions(compact=True)], ids=str)
def test_what_is_damaged_can_be_dropped(small: str, tmp_path: Path, options: WriteOptions) -> None:
    damage(shard_path(small, 0, 2), 9)
    drop(small, str(tmp_path / "q"), "c", options=options)
    expected = stored(small)
    del expected["c", ""]
    assert stored(str(tmp_path / "q")) == expected


def test_links_carry_damage_as_it_is(small: str, tmp_path: Path) -> None:
    damage(shard_path(small, 0, 2), 9)
    write(small, str(tmp_path / "q"), WriteOptions("hardlink"), "c=other")
    found = stored(str(tmp_path / "q"))
    assert found["other", ""] == stored(small)["c", ""]
    with open_checkpoint(str(tmp_path / "q")) as ckpt:
        assert ckpt["a"].tobytes() == b"AAAAaaaa"
        with pytest.raises(ChecksumError):
            ckpt["other"]


@pytest.mark.parametrize("options", [WriteOptions(mode) for mode in MODES], ids=str)
def test_a_shard_that_is_too_short(small: str, tmp_path: Path, options: WriteOptions) -> None:
    path = shard_path(small, 1, 2)
    os.truncate(path, 3)
    os.utime(small + ".index")
    with pytest.raises(TruncatedError, match="the data shard has 3") as caught:
        write(small, str(tmp_path / "q"), options)
    assert (caught.value.path, caught.value.key) == (path, "b")
    assert names(tmp_path) == ["src"]


@pytest.mark.parametrize("options", [WriteOptions(mode) for mode in MODES], ids=str)
def test_a_shard_that_is_missing(small: str, tmp_path: Path, options: WriteOptions) -> None:
    path = shard_path(small, 1, 2)
    os.unlink(path)
    with pytest.raises(MissingFileError) as caught:
        write(small, str(tmp_path / "q"), options)
    assert (caught.value.path, caught.value.key) == (path, "b")
    assert names(tmp_path) == ["src"]
    # Without what was in it the rest is sound.
    receipt = drop(small, str(tmp_path / "q"), "b", options=options)
    assert len(receipt.shards) == 1
    with open_checkpoint(str(tmp_path / "q")) as ckpt:
        assert {key: ckpt[key].tobytes() for key in "ac"} == {"a": b"AAAAaaaa", "c": b"CCCC"}


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o640, 0o444])
@pytest.mark.parametrize(
    "options", [*(WriteOptions(mode) for mode in MODES), WriteOptions(compact=True)], ids=str
)
def test_permissions_stay(tmp_path: Path, mode: int, options: WriteOptions) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "src")
    for path in (prefix + ".index", *find_shards(prefix)):
        os.chmod(path, mode)
    receipt = write(prefix, str(tmp_path / "q"), options, "net=model")
    for path in (str(tmp_path / "q.index"), *(shard.path for shard in receipt.shards)):
        assert os.stat(path).st_mode & 0o7777 == mode, path
    change(prefix, "net=model")
    for path in (prefix + ".index", *find_shards(prefix)):
        assert os.stat(path).st_mode & 0o7777 == mode, path


@pytest.mark.parametrize("options", [WriteOptions("copy"), WriteOptions(compact=True)], ids=str)
def test_a_private_shard_beside_a_public_index(
    small: str, tmp_path: Path, options: WriteOptions
) -> None:
    for number, mode in enumerate((0o600, 0o640)):
        os.chmod(shard_path(small, number, 2), mode)
    os.chmod(small + ".index", 0o644)
    write(small, str(tmp_path / "q"), options)
    modes = [os.stat(path).st_mode & 0o777 for path in find_shards(str(tmp_path / "q"))]
    assert modes == [0o600, 0o640]
    assert os.stat(tmp_path / "q.index").st_mode & 0o777 == 0o644


def test_progress_of_what_is_copied(small: str, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with open_checkpoint(small) as ckpt:
        plan = Plan.of(ckpt)
        for options in (WriteOptions("copy"), WriteOptions(compact=True)):
            told.clear()
            target = str(tmp_path / f"{options.data}")
            prepare(plan, target, options).write(on_progress=lambda *numbers: told.append(numbers))
            total = sum(os.path.getsize(path) for path in find_shards(small))
            assert told[-1] == (total, total)
            assert told == sorted(told)
        told.clear()
        links = WriteOptions("hardlink")
        prepare(plan, str(tmp_path / "l"), links).write(on_progress=lambda *n: told.append(n))
    assert not told


def refusing(name: str, number: int) -> Callable[[Call], Fault | None]:
    """Return what makes all calls of a name fail."""
    return lambda call: Fault(number) if call.name == name else None


def test_clones_are_files_of_their_own(small: str, tmp_path: Path) -> None:
    os.chmod(shard_path(small, 0, 2), 0o600)
    for mode in ("auto", "reflink"):
        target = str(tmp_path / mode)
        with System(tmp_path, clones=True):
            receipt = write(small, target, WriteOptions(mode))
        assert {shard.how for shard in receipt.shards} == {"reflink"}
        assert stored(target) == stored(small)
        for old, new in zip(find_shards(small), find_shards(target), strict=True):
            assert inode(old) != inode(new)
            assert os.stat(new).st_mode == os.stat(old).st_mode
        assert receipt.bytes_written == os.path.getsize(target + ".index")


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_that_cannot_clone(small: str, tmp_path: Path, number: int) -> None:
    with System(tmp_path, before=refusing("ioctl", number)):
        with pytest.raises(DestinationError, match="reflink") as caught:
            write(small, str(tmp_path / "q"), WriteOptions("reflink"))
        assert caught.value.path == shard_path(str(tmp_path / "q"), 0, 2)
        assert names(tmp_path) == ["src"]
        receipt = write(small, str(tmp_path / "q"))
    assert {shard.how for shard in receipt.shards} == {"hardlink"}


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_link(small: str, tmp_path: Path, number: int) -> None:
    def before(call: Call) -> Fault | None:
        return Fault(number) if call.name == "link" and "src" in call.path else None

    with System(tmp_path, before=before):
        with pytest.raises(DestinationError, match="hardlink"):
            write(small, str(tmp_path / "q"), WriteOptions("hardlink"))
        assert names(tmp_path) == ["src"]
        receipt = write(small, str(tmp_path / "q"))
        assert {shard.how for shard in receipt.shards} <= {"copy", "reflink"}
        assert stored(str(tmp_path / "q")) == stored(small)
        damage(shard_path(small, 0, 2), 9)
        if {shard.how for shard in receipt.shards} == {"copy"}:
            with pytest.raises(ChecksumError):
                write(small, str(tmp_path / "r"))


def test_another_file_system(small: str, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=other_file_system(tmp_path)) as folder:
        target = os.path.join(folder, "q")
        with pytest.raises(DestinationError, match="hardlink"):
            write(small, target, WriteOptions("hardlink"))
        receipt = write(small, target)
        assert {shard.how for shard in receipt.shards} == {"copy"}
        assert stored(target) == stored(small)


def other_file_system(folder: Path) -> str:
    """Return a folder on another file system than this one."""
    here = os.stat(folder).st_dev
    for each in ("/dev/shm", tempfile.gettempdir(), os.path.expanduser("~")):
        if os.path.isdir(each) and os.access(each, os.W_OK) and os.stat(each).st_dev != here:
            return each
    pytest.skip("there is one file system only")


@pytest.mark.parametrize(
    "options", [*(WriteOptions(mode) for mode in MODES), WriteOptions(compact=True)], ids=str
)
def test_more_shards_than_a_process_may_have_files(tmp_path: Path, options: WriteOptions) -> None:
    (tmp_path / "src").mkdir()
    made = Bundle(header=encoder.header(150), shards=[b""] * 150)
    for at in range(150):
        made.add(b"k%03d" % at, 1, [1], b"%04d" % at, shard=at)
    prefix = made.write(tmp_path / "src" / "m")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 30, hard))
    try:
        write(prefix, str(tmp_path / "q"), options)
        change(prefix, "k000=first", options=WriteOptions(compact=options.compact))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each.data for each in stored(str(tmp_path / "q")).values()] == [
        b"%04d" % at for at in range(150)
    ]
    assert stored(prefix)["first", ""].data == b"0000"


def test_where_there_is_no_room(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(f_bavail=1, f_frsize=10)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    for options in (WriteOptions("copy"), WriteOptions(compact=True)):
        with pytest.raises(DestinationError, match="10 are free") as caught:
            write(small, str(tmp_path / "q"), options)
        assert caught.value.path == str(tmp_path)
        assert names(tmp_path) == ["src"]
    write(small, str(tmp_path / "q"), WriteOptions("hardlink"))


@pytest.mark.parametrize(
    "options", [WriteOptions("copy"), WriteOptions("reflink"), WriteOptions(compact=True)], ids=str
)
def test_nobody_else_can_read_it_while_it_is_written(
    small: str, tmp_path: Path, options: WriteOptions
) -> None:
    for path in (small + ".index", *find_shards(small)):
        os.chmod(path, 0o600)
    seen: set[int] = set()

    def look(call: Call) -> None:
        paths = [tmp_path / name for name in names(tmp_path) if name != "src"]
        seen.update(os.stat(path).st_mode & 0o777 for path in paths)

    with System(tmp_path, clones=True, after=look):
        write(small, str(tmp_path / "q"), options)
    assert seen == {0o600}
