from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool.bundle.reader import BundleReader
from ckpttool.bundle.writer import BundleWriter
from ckpttool.errors import (
    CkptError,
    CorruptError,
    DestinationError,
    FileAccessError,
    MissingFileError,
)
from ckpttool.storage import staging
from tests.support import encoder
from tests.support.fixtures import folder_contents, read_bytes
from tests.support.handmade import Bundle, shard_path
from tests.support.refusals import refused

F32, I32, U8, STRING, BOOL, I16, VARIANT = 1, 3, 4, 7, 10, 5, 21


def assert_same_bytes(prefix: str, made: Bundle) -> None:
    """Compare with the second opinion, and that nothing else lies there."""
    count = len(made.shards)
    expected = {shard_path("m", at, count): data for at, data in enumerate(made.shards)}
    expected["m.index"] = encoder.table(made.sorted_records())
    assert folder_contents(os.path.dirname(prefix)) == expected


def test_nothing_is_visible_before_the_end(prefix: str) -> None:
    folder = os.path.dirname(prefix)
    with BundleWriter(prefix) as writer:
        writer.add("a", 1)
        assert all(name.startswith(".") for name in os.listdir(folder))
    assert sorted(os.listdir(folder)) == ["m.data-00000-of-00001", "m.index"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_nothing(prefix: str, error: type[BaseException]) -> None:
    with pytest.raises(error), BundleWriter(prefix, num_shards=3) as writer:
        writer.add("a", 1)
        raise error
    assert folder_contents(os.path.dirname(prefix)) == {}


def test_finish_may_be_called_by_hand(prefix: str) -> None:
    with BundleWriter(prefix) as writer:
        writer.add("a", 1)
        writer.finish()
        before = folder_contents(os.path.dirname(prefix))
        writer.finish()
    assert folder_contents(os.path.dirname(prefix)) == before
    assert BundleReader(prefix).read("a") == 1


def test_a_bundle_without_tensors(prefix: str) -> None:
    with BundleWriter(prefix):
        pass
    assert_same_bytes(prefix, Bundle())


def test_the_last_folder_is_made(tmp_path: Path) -> None:
    prefix = str(tmp_path / "new" / "m")
    with BundleWriter(prefix) as writer:
        writer.add("a", 1)
    assert BundleReader(prefix).read("a") == 1
    with pytest.raises(MissingFileError):
        BundleWriter(str(tmp_path / "not" / "there" / "m"))
    assert not (tmp_path / "not").exists()


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileAccessError):
        BundleWriter(str(tmp_path / "file" / "m"))


@pytest.mark.parametrize("prefix", ["a\0b", "a\0/b", "\ud800"])
def test_a_prefix_that_is_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CkptError):
        BundleWriter(prefix)
    assert os.listdir(tmp_path) == []


def test_a_relative_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with BundleWriter("m") as writer:
        writer.add("a", 1)
    assert BundleReader("m").read("a") == 1


@pytest.mark.parametrize("base", ["m[1]", "m*", "m?", "with space", "é", "x" * 200])
def test_odd_prefixes(tmp_path: Path, base: str) -> None:
    prefix = str(tmp_path / base)
    (tmp_path / "m1.index").write_bytes(b"somebody else's")
    with BundleWriter(prefix) as writer:
        writer.add("a", 1)
    assert BundleReader(prefix).read("a") == 1
    assert (tmp_path / "m1.index").read_bytes() == b"somebody else's"


TAKEN = ["m.index", "m.data-00000-of-00001", "m.data-00004-of-00007"]


@pytest.mark.parametrize("name", TAKEN)
def test_what_exists_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"precious")
    with refused(DestinationError, "exists") as caught:
        BundleWriter(str(tmp_path / "m"))
    assert caught.value.path == str(tmp_path / name)
    assert folder_contents(str(tmp_path)) == {name: b"precious"}


@pytest.mark.parametrize("name", ["m.index", "m.data-00000-of-00001"])
def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path, name: str) -> None:
    with pytest.raises(DestinationError), BundleWriter(str(tmp_path / "m")) as writer:
        writer.add("a", 1)
        (tmp_path / name).write_bytes(b"precious")
    assert folder_contents(str(tmp_path)) == {name: b"precious"}


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "m.index").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DestinationError):
        BundleWriter(str(tmp_path / "m"))
    assert not (tmp_path / "elsewhere").exists()


def write(prefix: str, value: int, num_shards: int = 1, *, force: bool = False) -> None:
    with BundleWriter(prefix, num_shards=num_shards, force=force) as writer:
        writer.add("a", np.uint8(value), shard_id=num_shards - 1)


@pytest.mark.parametrize(("old", "new"), [(1, 1), (2, 2), (2, 1), (1, 3), (3, 2)])
def test_force_replaces_all_of_the_old_one(prefix: str, old: int, new: int) -> None:
    write(prefix, 1, old)
    write(prefix, 2, new, force=True)
    with BundleReader(prefix) as reader:
        assert reader.read("a") == 2
        count = reader.header.num_shards
    assert sorted(os.listdir(os.path.dirname(prefix))) == sorted(
        [*(os.path.basename(shard_path(prefix, at, count)) for at in range(count)), "m.index"]
    )


def test_force_where_nothing_is(prefix: str) -> None:
    write(prefix, 5, force=True)
    made = Bundle().add(b"a", U8, (), b"\5")
    assert_same_bytes(prefix, made)


def test_force_over_shards_without_an_index(prefix: str) -> None:
    write(prefix, 1)
    os.unlink(prefix + ".index")
    write(prefix, 2, force=True)
    assert BundleReader(prefix).read("a") == 2


def test_force_touches_nobody_elses_files(tmp_path: Path) -> None:
    others = ["m1.index", "m.meta", "m-1.data-00000-of-00001", "m.data-0-of-1", "checkpoint"]
    for name in others:
        (tmp_path / name).write_bytes(b"precious")
    prefix = str(tmp_path / "m")
    write(prefix, 1)
    write(prefix, 2, force=True)
    assert {name: (tmp_path / name).read_bytes() for name in others} == dict.fromkeys(
        others, b"precious"
    )


class Stop(BaseException):
    """Stands for a process that is killed."""


@pytest.mark.parametrize("old_shards", [1, 2])
def test_a_reader_finds_the_old_or_the_new_one_at_any_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old_shards: int
) -> None:
    """Stop before the n-th change of a name, for every n, without any clean-up after it."""
    names = ("link", "rename", "unlink")
    true = {name: getattr(os, name) for name in names}
    left = -1
    seen = set()

    def changing(name: str) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            nonlocal left
            if left == 0:
                raise Stop
            left -= 1
            return true[name](*arguments, **more)

        return call

    for name in names:
        monkeypatch.setattr(os, name, changing(name))
    for steps in range(40):
        prefix = str(tmp_path / str(steps) / "m")
        left = -1
        write(prefix, 1, old_shards)
        left = steps
        try:
            write(prefix, 2, force=True)
        except Stop:
            stopped = True
        else:
            stopped = False
        left = -1
        with BundleReader(prefix) as reader:
            seen.add(int(reader.read("a")))
        if not stopped:
            break
    assert seen == {1, 2}
    assert not stopped


FAILURES = [
    ("no room for data", "write", errno.ENOSPC),
    ("data do not reach the disk", "fsync", errno.EIO),
    ("names cannot be made", "link", errno.EACCES),
]


@pytest.mark.parametrize(
    ("name", "number"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES]
)
@pytest.mark.parametrize("force", [False, True])
def test_a_failing_disk_leaves_what_was_there(
    prefix: str, monkeypatch: pytest.MonkeyPatch, name: str, number: int, force: bool
) -> None:
    if force:
        write(prefix, 1)
    before = folder_contents(os.path.dirname(prefix))

    def fail(*arguments: object, **more: object) -> object:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(FileAccessError) as caught:
        write(prefix, 2, force=force)
    monkeypatch.undo()
    assert caught.value.path is not None
    assert caught.value.path.startswith(prefix)
    assert folder_contents(os.path.dirname(prefix)) == before


def test_what_was_written_is_read_back(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true_commit = staging.StagedFiles.commit

    def spoil(self: staging.StagedFiles, **flags: Any) -> None:
        true_commit(self, **flags)
        raw = read_bytes(prefix + ".index")
        Path(prefix + ".index").write_bytes(raw[:20] + b"\xff" + raw[21:])

    monkeypatch.setattr(staging.StagedFiles, "commit", spoil)
    with pytest.raises(CorruptError) as caught:
        write(prefix, 1)
    assert caught.value.path == prefix + ".index"


def test_a_shard_that_lost_bytes_is_noticed(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true_commit = staging.StagedFiles.commit

    def spoil(self: staging.StagedFiles, **flags: Any) -> None:
        true_commit(self, **flags)
        os.truncate(shard_path(prefix), 0)

    monkeypatch.setattr(staging.StagedFiles, "commit", spoil)
    with refused(CorruptError, "wrong size") as caught:
        write(prefix, 1)
    assert caught.value.path == shard_path(prefix)


def test_no_descriptor_is_left_open(prefix: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    write(prefix, 1, 5)
    with pytest.raises(DestinationError):
        BundleWriter(prefix)
    assert len(os.listdir("/proc/self/fd")) == before


def test_old_shards_go_from_the_folder_that_they_were_found_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a shard that somebody put there meanwhile."""
    folder, moved, other = tmp_path / "in", tmp_path / "moved", tmp_path / "other"
    write(str(folder / "m"), 1, 2)
    other.mkdir()
    theirs = [other / f"m.data-0000{at}-of-00002" for at in range(2)]
    for path in theirs:
        path.write_bytes(b"theirs")

    def exchange(writer: BundleWriter) -> None:
        (folder / theirs[1].name).write_bytes(b"younger")
        folder.rename(moved)
        folder.symlink_to(other)

    monkeypatch.setattr(BundleWriter, "_check_written", exchange)
    write(str(folder / "m"), 2, force=True)
    assert [path.read_bytes() for path in theirs] == [b"theirs"] * 2
    assert sorted(os.listdir(moved)) == [
        "m.data-00000-of-00001",
        "m.data-00001-of-00002",
        "m.index",
    ]
