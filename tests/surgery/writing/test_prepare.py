"""Writing plans: what comes out, what is refused, what stays as it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.naming import find_shards
from ckpttool.errors import (
    DestinationError,
    MissingFileError,
    SurgeryError,
)
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import parse_move
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults.checkpoints import (
    MODES,
    NAMES,
    OBJECTS,
    change,
    copy_of,
    inode,
    names,
    stored,
    write,
)
from tests.support import encoder
from tests.support.conversions import write_v1
from tests.support.fixtures import BundleFixture, bundles
from tests.support.handmade import Bundle
from tests.support.refusals import refused
from tests.support.sweeps import each_bundle

# A shard without a tensor in it is left out.
WITH_EMPTY_SHARDS = {"v2/tf2.21/max_shard_size_lost/ckpt-1"}


@each_bundle
def test_a_plan_that_changes_nothing_gives_the_same(fixture: BundleFixture, tmp_path: Path) -> None:
    # A copy: the fixtures may be another's, or lie on another file system, and not be linkable.
    prefix = copy_of(fixture.name, tmp_path / "src")
    expected = stored(prefix)
    for options in (*(WriteOptions(mode) for mode in MODES), WriteOptions(compact=True)):
        target = str(tmp_path / f"{options.data}-{options.compact}")
        receipt = write(prefix, target, options)
        assert stored(target) == expected
        assert receipt.tensors == len({key for key, _ in expected})
        assert not options.compact or not receipt.bytes_dead
        with open_checkpoint(prefix) as source:
            same_count = len(receipt.shards) == source.bundle.header.num_shards
        assert same_count or fixture.name in WITH_EMPTY_SHARDS
        if same_count and not options.compact:
            assert Path(target + ".index").read_bytes() == fixture.index
        assert sorted(find_shards(target)) == sorted(shard.path for shard in receipt.shards)


def test_a_folder_is_made_but_not_a_path(small: str, tmp_path: Path) -> None:
    write(small, str(tmp_path / "new" / "q"))
    assert stored(str(tmp_path / "new" / "q")) == stored(small)
    with pytest.raises(MissingFileError):
        write(small, str(tmp_path / "no" / "such" / "q"))
    assert names(tmp_path) == ["new", "src"]


def test_the_folder_where_we_are(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    receipt = write("src/m", "q")
    assert receipt.prefix == "q"
    assert stored("q") == stored(small)
    assert names(tmp_path) == ["q.data-00000-of-00002", "q.data-00001-of-00002", "q.index", "src"]


@pytest.mark.parametrize("target", ["src", "src/", "new/"])
def test_a_destination_that_is_a_folder(small: str, tmp_path: Path, target: str) -> None:
    for options in (WriteOptions(), WriteOptions(force=True)):
        with pytest.raises(DestinationError, match="folder"):
            write(small, os.path.join(str(tmp_path), target), options)
    assert names(tmp_path) == ["src"]


@pytest.fixture
def elsewhere(small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make other ways to spell the source; go to the folder above it."""
    monkeypatch.chdir(tmp_path)
    os.symlink("src", "linked")
    os.mkdir("other")
    os.symlink("../src/m.index", "other/s.index")
    os.link("src/m.index", "other/h.index")
    os.symlink("../src/m.data-00000-of-00002", "other/d.data-00000-of-00002")
    yield small


SAME = ["src/m", "./src/m", "src/../src/m", "src//m", "linked/m", "other/../src/m"]


SHARING = ["other/s", "other/h", "other/d"]


@pytest.mark.parametrize("target", [*SAME, *SHARING, "absolute"])
@pytest.mark.parametrize("force", [False, True])
def test_a_destination_that_is_the_source(elsewhere: str, target: str, force: bool) -> None:
    before = {name: Path("src", name).read_bytes() for name in names("src")}
    others = names("other")
    given = elsewhere if target == "absolute" else target
    with pytest.raises(DestinationError, match="shares a file with the source"):
        write("src/m", given, WriteOptions(force=force))
    assert {name: Path("src", name).read_bytes() for name in names("src")} == before
    assert names("other") == others


def test_what_was_linked_before_can_be_replaced(small: str, tmp_path: Path) -> None:
    """A second try after a first one that was not what was wanted."""
    target = str(tmp_path / "q")
    write(small, target, WriteOptions("hardlink"), "a=first")
    with pytest.raises(DestinationError, match="already exists"):
        write(small, target, WriteOptions("hardlink"), "a=second")
    write(small, target, WriteOptions("hardlink", force=True), "a=second")
    assert stored(target)["second", ""] == stored(small)["a", ""]
    assert len(find_shards(target)) == len({inode(path) for path in find_shards(target)})
    assert len(stored(small)) == 4


# What may be in the way, and what it is that is named then.
IN_THE_WAY = ["q.index", "q.data-00000-of-00001", "q.data-00003-of-00007", "q.meta"]


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_what_is_there_stays(small: str, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"precious")
    with pytest.raises(DestinationError, match="already exists") as caught:
        write(small, str(tmp_path / "q"))
    assert caught.value.path == str(tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"precious"
    assert names(tmp_path) == sorted([name, "src"])


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_what_is_no_file_is_in_the_way_too(small: str, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "q.index"
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    with pytest.raises(DestinationError):
        write(small, str(tmp_path / "q"))
    assert names(tmp_path) == ["q.index", "src"]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [*(WriteOptions(mode) for mode in MODES), WriteOptions(compact=True)], ids=str
)
def test_with_force_the_old_one_is_gone(
    small: str, tmp_path: Path, options: WriteOptions, count: int
) -> None:
    old = Bundle(header=encoder.header(count), shards=[b""] * count).add(b"old", 1, [1], b"0000")
    old.write(tmp_path / "q")
    (tmp_path / "q.meta").write_bytes(b"graph of the old one")
    (tmp_path / "q.data-00004-of-00009").write_bytes(b"of one before that")
    (tmp_path / "q-2.index").write_bytes(b"another")
    receipt = write(small, str(tmp_path / "q"), replace(options, force=True))
    assert stored(str(tmp_path / "q")) == stored(small)
    shards = sorted(os.path.basename(shard.path) for shard in receipt.shards)
    assert names(tmp_path) == sorted(["q-2.index", "q.index", "src", *shards])
    assert not set(find_shards(str(tmp_path / "q"))) - {each.path for each in receipt.shards}


SAVED_MODELS = [each for each in bundles() if each.name.startswith("saved_model")]


@pytest.mark.parametrize("fixture", SAVED_MODELS, ids=lambda fixture: fixture.name)
def test_a_saved_model_is_not_changed_in_place(fixture: BundleFixture, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(os.path.dirname(os.path.dirname(fixture.prefix)), folder)
    before = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for address in (folder, folder / "variables" / "variables"):
        with open_checkpoint(address) as ckpt, pytest.raises(SurgeryError, match="SavedModel"):
            prepare(Plan.of(ckpt), None).write()
    assert {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_receipt_without_writing(small: str, tmp_path: Path) -> None:
    with open_checkpoint(small) as ckpt:
        plan = Plan.of(ckpt).with_notes("a note")
        receipt = prepare(plan, str(tmp_path / "new" / "q")).receipt()
        assert (receipt.tensors, receipt.bytes_written, receipt.notes) == (4, 0, ("a note",))
        assert prepare(plan, None).receipt().prefix == small
        with pytest.raises(DestinationError):
            prepare(plan, str(tmp_path / "src" / ".." / "src" / "m")).receipt()
    assert names(tmp_path) == ["src"]


def test_in_place_where_only_names_change(small: str, tmp_path: Path) -> None:
    shards = {path: os.stat(path) for path in find_shards(small)}
    expected = stored(small)
    receipt = change(small, "a=x", "b=z")
    assert {shard.how for shard in receipt.shards} == {"kept"}
    assert receipt.bytes_written == os.path.getsize(small + ".index")
    for path, before in shards.items():
        now = os.stat(path)
        assert (now.st_ino, now.st_mtime_ns, now.st_nlink) == (
            before.st_ino,
            before.st_mtime_ns,
            1,
        )
    found = stored(small)
    assert found["x", ""] == expected["a", ""]
    assert found["z", ""] == expected["b", ""]
    assert names(tmp_path / "src") == ["m.data-00000-of-00002", "m.data-00001-of-00002", "m.index"]


@pytest.mark.parametrize("name", [OBJECTS, NAMES, "v1"])
def test_who_comes_second_is_told_that_it_changed(name: str, tmp_path: Path) -> None:
    """Both had read the checkpoint before either changed it in place."""
    if name == "v1":
        prefix = str(tmp_path / "m")
        write_v1(tmp_path / "m", {"net": np.zeros(3), "dense": np.ones(2)})
    else:
        prefix = copy_of(name, tmp_path / "src")
    old = "dense" if name == NAMES else "net"
    with open_checkpoint(prefix) as first, open_checkpoint(prefix) as second:
        plans = [
            rename(Plan.of(ckpt), [parse_move(f"{old}={new}")])
            for ckpt, new in ((first, "one"), (second, "two"))
        ]
        prepare(plans[0], None).write()
        for place in (None, str(tmp_path / "q")):
            with refused(SurgeryError, "changed while it was read"):
                prepare(plans[1], place)
    assert not (tmp_path / "q.index").exists()
    with open_checkpoint(prefix) as found:
        assert any(key.startswith("one") for key in found)
        assert not any(key.startswith("two") for key in found)


def test_in_place_again_and_again(tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "src")
    expected = stored(prefix)
    at = "net"
    for new in ("model", "other", "net"):
        receipt = change(prefix, f"{at}={new}")
        at = new
        assert find_shards(prefix) == [shard.path for shard in receipt.shards]
        assert not [name for name in names(tmp_path / "src") if name.startswith(".")]
    found = stored(prefix)
    assert found.keys() == expected.keys()
    assert {k: v for k, v in found.items() if k[0] != GRAPH_KEY} == {
        k: v for k, v in expected.items() if k[0] != GRAPH_KEY
    }
    # The graphs of the steps between are gone with their shards; the first lies among tensors.
    assert receipt.bytes_dead == len(expected[GRAPH_KEY, ""].data)
    compacted = change(prefix, "net=net2", options=WriteOptions(compact=True))
    assert compacted.bytes_dead == 0
    assert find_shards(prefix) == [shard.path for shard in compacted.shards]


def test_a_name_in_use_by_a_link_to_the_checkpoint_is_followed(tmp_path: Path) -> None:
    """In place through a symbolic link to the folder: the same files."""
    prefix = copy_of(NAMES, tmp_path / "src")
    os.symlink("src", tmp_path / "link")
    change(str(tmp_path / "link" / os.path.basename(prefix)), "dense=layer")
    assert any(key.startswith("layer/") for key, _ in stored(prefix))
