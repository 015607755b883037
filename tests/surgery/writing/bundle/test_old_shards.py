"""Data shards that no index names: litter goes, what somebody is about to name stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ckpttool.bundle.naming import find_shards, shard_path
from ckpttool.errors import CkptError
from ckpttool.surgery.writing.bundle.old_shards import OldShards
from ckpttool.surgery.writing.prepare import WriteOptions
from tests.faults.checkpoints import NAMES, OBJECTS, SHARDS, change, copy_of, inode, stored

TICK = 0.05  # longer than file systems take for one moment


def left(receipt_paths: list[str], prefix: str) -> list[str]:
    return [path for path in find_shards(prefix) if path not in receipt_paths]


def written(prefix: str, *moves: str, compact: bool = False) -> list[str]:
    receipt = change(prefix, *moves, options=WriteOptions(compact=compact))
    return [shard.path for shard in receipt.shards]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("source", [OBJECTS, NAMES])
def test_what_was_named_before_its_index_stays(source: str, compact: bool, tmp_path: Path) -> None:
    """A trainer with another number of shards, in the moment before its index."""
    prefix = copy_of(source, tmp_path / "src")
    time.sleep(TICK)
    theirs = shard_path(prefix, 0, 7)
    Path(theirs).write_bytes(b"what was trained")
    move = "net=model" if source == OBJECTS else "dense=layer"
    shards = written(prefix, move, compact=compact)
    assert left(shards, prefix) == [theirs]
    assert Path(theirs).read_bytes() == b"what was trained"


def test_what_was_written_before_the_index_and_named_after_it_stays(tmp_path: Path) -> None:
    """A rename leaves the time alone at which the bytes were written."""
    part = tmp_path / "part"
    part.write_bytes(b"what was trained")
    time.sleep(TICK)
    prefix = copy_of(OBJECTS, tmp_path / "src")
    time.sleep(TICK)
    theirs = shard_path(prefix, 0, 7)
    os.rename(part, theirs)
    assert left(written(prefix, "net=model"), prefix) == [theirs]


@pytest.mark.parametrize("name", ["ckpt-5_temp", "ckpt-5_temp_0123456789abcdef0123456789abcdef"])
def test_while_somebody_is_saving_age_tells_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "src" / name).mkdir(parents=True)
    theirs = shard_path(str(tmp_path / "src" / "ckpt-5"), 0, 7)
    Path(theirs).write_bytes(b"what was trained")
    time.sleep(TICK)
    prefix = copy_of(OBJECTS, tmp_path / "src")
    assert left(written(prefix, "net=model"), prefix) == [theirs]


def test_what_is_older_than_the_index_goes(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for count in (2, 7):
        Path(shard_path(str(tmp_path / "src" / "ckpt-5"), 0, count)).write_bytes(b"litter")
    time.sleep(TICK)
    prefix = copy_of(OBJECTS, tmp_path / "src")
    assert left(written(prefix, "net=model"), prefix) == []
    assert stored(prefix)


@pytest.mark.parametrize("how", ["link", "symlink"])
def test_a_second_name_goes(how: str, tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "src")
    own, other = shard_path(prefix, 0, 1), shard_path(prefix, 0, 7)
    if how == "link":
        os.link(own, other)
    else:
        os.rename(own, tmp_path / "blob")
        for name in (own, other):
            os.symlink("../blob", name)
    time.sleep(TICK)
    assert left(written(prefix, "net=model"), prefix) == []
    assert stored(prefix)


def test_what_a_link_of_the_set_leads_to_stays(tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "src")
    own, other = shard_path(prefix, 0, 1), shard_path(prefix, 0, 7)
    os.rename(own, other)
    os.symlink(os.path.basename(other), own)
    values = stored(prefix)
    shards = written(prefix, "net=model")
    assert left(shards, prefix) == [other]
    assert {v.data for v in values.values()} - {v.data for v in stored(prefix).values()} == {
        values["_CHECKPOINTABLE_OBJECT_GRAPH", ""].data
    }


@pytest.mark.parametrize("count", [7, 17])
def test_only_what_was_found_is_removed(count: int, tmp_path: Path) -> None:
    """Another file of the same name came later."""
    prefix = copy_of(SHARDS, tmp_path / "src")
    assert find_shards(prefix)[0] == shard_path(prefix, 0, 17)
    Path(shard_path(prefix, 0, 7)).write_bytes(b"1")
    with OldShards(prefix) as old:
        first = shard_path(prefix, 0, count)
        number = inode(first)
        Path(first + ".new").write_bytes(b"theirs")
        os.rename(first + ".new", first)
        assert inode(first) != number
        before = find_shards(prefix)
        assert old.remove(old.all) == []
    assert find_shards(prefix) == [first]
    assert len(before) > 1


def test_removed_in_the_folder_that_was_looked_at(tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "src")
    with OldShards(prefix) as old:
        os.rename(tmp_path / "src", tmp_path / "moved")
        os.rename(tmp_path / "moved", tmp_path / "gone")
        copy_of(OBJECTS, tmp_path / "src")
        assert old.remove(old.all) == []
    assert find_shards(prefix)
    assert not find_shards(str(tmp_path / "gone" / "ckpt-5"))


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CkptError):
        OldShards(str(tmp_path / "none" / "m"))
