"""The files that are written: compacted shards, object graphs, the index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.naming import find_shards
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import UnsupportedError
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults.checkpoints import (
    OBJECTS,
    SHARDS,
    change,
    copy_of,
    drop,
    inode,
    names,
    stored,
    write,
)
from tests.support import encoder
from tests.support.fixtures import BundleFixture, bundle, bundles
from tests.support.handmade import Bundle, shard_path
from tests.support.refusals import refused

PARTITIONED = [each for each in bundles() if "partitioned" in each.name]


def test_compacting_leaves_out_what_is_dropped(small: str, tmp_path: Path) -> None:
    receipt = drop(small, str(tmp_path / "q"), "a", options=WriteOptions(compact=True))
    assert {shard.how for shard in receipt.shards} == {"rewritten"}
    assert receipt.bytes_dead == 0
    expected = stored(small)
    del expected["a", ""]
    assert stored(str(tmp_path / "q")) == expected
    sizes = [shard.bytes for shard in receipt.shards]
    assert sizes == [len(expected["c", ""].data) + len(expected["s", ""].data), 4]
    kept = drop(small, str(tmp_path / "linked"), "a", options=WriteOptions("hardlink"))
    assert kept.bytes_dead == 8


def test_compacting_with_empty_tensors_between(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    made = Bundle()
    made.add(b"z", 1, [0], b"").add(b"a", 1, [2], b"AAAAaaaa").add(b"y", 1, [3, 0], b"")
    made.add(b"b", 1, [1], b"BBBB").add(b"x", 1, [0], b"")
    prefix = made.write(tmp_path / "src" / "m")
    write(prefix, str(tmp_path / "q"), WriteOptions(compact=True))
    assert stored(str(tmp_path / "q")) == stored(prefix)
    drop(prefix, str(tmp_path / "r"), "a", options=WriteOptions(compact=True))
    assert {key: each.data for (key, _), each in stored(str(tmp_path / "r")).items()} == {
        "b": b"BBBB",
        "x": b"",
        "y": b"",
        "z": b"",
    }


def test_compacting_tensors_that_share_bytes(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    made = Bundle().add(b"whole", 1, [2], b"AAAAaaaa")
    made.records[b"same"] = made.records[b"whole"]
    prefix = made.write(tmp_path / "src" / "m")
    for options in (WriteOptions(compact=True), WriteOptions("copy"), WriteOptions()):
        target = str(tmp_path / f"{options.data}-{options.compact}")
        write(prefix, target, options)
        assert stored(target) == stored(prefix)


def test_compacting_tensors_that_overlap_in_part(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    made = Bundle().add(b"whole", 1, [2], b"AAAAaaaa")
    made.records[b"head"] = encoder.entry(1, [1], size=4, crc=encoder.masked_crc(b"AAAA"))
    prefix = made.write(tmp_path / "src" / "m")
    with refused(UnsupportedError, "overlaps another tensor in part"):
        write(prefix, str(tmp_path / "q"), WriteOptions(compact=True))
    write(prefix, str(tmp_path / "q"), WriteOptions("copy"))
    assert stored(str(tmp_path / "q")) == stored(prefix)


def test_fields_that_are_not_known_stay(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    extra = encoder.bytes_field(99, b"from the future") + encoder.number_field(100, 7)
    made = Bundle(header=encoder.header(extra=extra)).add(b"a", 1, [1], b"AAAA", extra=extra)
    prefix = made.write(tmp_path / "src" / "m")
    for options in (WriteOptions(), WriteOptions("copy"), WriteOptions(compact=True)):
        target = str(tmp_path / f"{options.data}-{options.compact}")
        write(prefix, target, options)
        assert Path(target + ".index").read_bytes() == Path(prefix + ".index").read_bytes()
    write(prefix, str(tmp_path / "renamed"), None, "a=b")
    assert stored(str(tmp_path / "renamed"))["b", ""].unknown == extra


def _odd_entry() -> Bundle:
    made = Bundle().add(b"a", 1, [1], b"AAAA")
    shape = encoder.shape([1]) + encoder.bytes_field(9, b"unknown in the shape")
    record = encoder.number_field(1, 1) + encoder.bytes_field(2, shape)
    record += encoder.number_field(5, 4) + encoder.fixed32_field(6, encoder.masked_crc(b"AAAA"))
    made.records[b"a"] = record
    return made


def _odd_slice() -> Bundle:
    made = Bundle().add_slices(b"a", 1, [2], [([(0, 1)], b"AAAA"), ([(1, 1)], b"BBBB")])
    key = encoder.slice_key(b"a", [(0, 1)])
    shape = encoder.shape([1]) + encoder.bytes_field(9, b"unknown in the shape")
    record = encoder.number_field(1, 1) + encoder.bytes_field(2, shape)
    record += encoder.number_field(5, 4) + encoder.fixed32_field(6, encoder.masked_crc(b"AAAA"))
    made.records[key] = record
    return made


def _odd_header() -> Bundle:
    version = b"\x08\x01" + encoder.bytes_field(9, b"unknown in the version")
    return Bundle(header=encoder.header(version=version)).add(b"a", 1, [1], b"AAAA")


@pytest.mark.parametrize("make", [_odd_entry, _odd_slice, _odd_header])
def test_fields_that_would_be_lost(make: Callable[[], Bundle], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    prefix = make().write(tmp_path / "src" / "m")
    assert stored(prefix)
    for options in (WriteOptions(), WriteOptions(compact=True)):
        with pytest.raises(UnsupportedError, match="lost"):
            write(prefix, str(tmp_path / "q"), options)
    before = Path(prefix + ".index").read_bytes()
    with pytest.raises(UnsupportedError, match="lost"):
        change(prefix, "a=b")
    assert Path(prefix + ".index").read_bytes() == before
    assert names(tmp_path) == ["src"]
    assert names(tmp_path / "src") == ["m.data-00000-of-00001", "m.index"]


def test_a_new_graph_goes_into_a_shard_of_its_own(tmp_path: Path) -> None:
    prefix = copy_of(SHARDS, tmp_path / "src")
    old = find_shards(prefix)
    receipt = write(prefix, str(tmp_path / "q"), WriteOptions("hardlink"), "cube=box")
    *carried, new = receipt.shards
    assert [inode(shard.path) for shard in carried] == [inode(path) for path in old]
    assert new.how == "new"
    found, expected = stored(str(tmp_path / "q")), stored(prefix)
    assert len(found[GRAPH_KEY, ""].data) == new.bytes
    assert receipt.bytes_dead == len(expected[GRAPH_KEY, ""].data)
    box = "box/.ATTRIBUTES/VARIABLE_VALUE"
    assert found[box, ""] == expected["cube/.ATTRIBUTES/VARIABLE_VALUE", ""]


@pytest.mark.parametrize("compact", [False, True])
def test_an_object_graph_in_a_big_endian_checkpoint(tmp_path: Path, compact: bool) -> None:
    (tmp_path / "src").mkdir()
    with open_checkpoint(bundle("v2/tf2.21/write_no_counter/ckpt").prefix) as given:
        graph = bytes(given[GRAPH_KEY][()])
        keys = [key for key in given if key != GRAPH_KEY]
    made = Bundle(header=encoder.header(endianness=1))
    data, crc = encoder.string_data([graph], order=">")
    made.add(GRAPH_KEY.encode(), 7, [], data, crc=crc)
    for at, key in enumerate(keys):
        made.add(key.encode(), 1, [1], bytes((0x3F, 0x80, 0, at)))
    prefix = made.write(tmp_path / "src" / "m")
    name = keys[0].partition("/")[0]
    write(prefix, str(tmp_path / "q"), WriteOptions(compact=compact), f"{name}=moved")
    with open_checkpoint(str(tmp_path / "q")) as ckpt, open_checkpoint(prefix) as source:
        assert ckpt.object_graph is not None
        assert ckpt.object_graph.node_at("moved") is not None
        assert ckpt.bundle.header.big_endian
        assert len(ckpt) == len(source)
        assert [ckpt[key].tobytes() for key in ckpt if key != GRAPH_KEY]


def test_a_shard_of_which_nothing_is_kept_goes(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    made = Bundle(header=encoder.header(3), shards=[b""] * 3)
    for at, key in enumerate((b"a", b"b", b"c")):
        made.add(key, 1, [1], key * 4, shard=at)
    prefix = made.write(tmp_path / "src" / "m")
    for options in (WriteOptions(), WriteOptions("copy"), WriteOptions(compact=True)):
        target = str(tmp_path / f"{options.data}-{options.compact}")
        receipt = drop(prefix, target, "b", options=options)
        assert [shard.path for shard in receipt.shards] == [
            shard_path(target, number, 2) for number in range(2)
        ]
        found = {key: each.data for (key, _), each in stored(target).items()}
        assert found == {"a": b"aaaa", "c": b"cccc"}


@pytest.mark.parametrize("fixture", PARTITIONED, ids=lambda fixture: fixture.name)
def test_slices_follow_their_tensor(fixture: BundleFixture, tmp_path: Path) -> None:
    """Each tensor alone, under another name, with all its slices and nothing else."""
    expected = stored(fixture.prefix)
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        if plan.graph is not None:
            pytest.skip("its tensors cannot be renamed one by one")
        for at, tensor in enumerate(plan.tensors):
            alone = replace(plan, tensors=(replace(tensor, key="new/name"),))
            for compact in (False, True):
                target = str(tmp_path / f"{at}-{compact}")
                prepare(alone, target, WriteOptions(compact=compact)).write()
                own = {part: e for (key, part), e in expected.items() if key == tensor.key}
                assert stored(target) == {("new/name", part): e for part, e in own.items()}
                with open_checkpoint(target) as written:
                    slices = written.bundle.index.slice_entries("new/name")
                    used = {part.shard_id for _, part in slices} or {0}
                    assert written.bundle.entries["new/name"].shard_id in used
                    assert written.bundle.header.num_shards == len(used)


def by_offset(ckpt: Checkpoint) -> list[str]:
    return sorted(ckpt.entries, key=lambda key: ckpt.bundle.entries[key].offset)


def test_compacted_shards_have_tensors_in_the_order_of_the_source(tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "src")
    with open_checkpoint(prefix) as ckpt:
        before = by_offset(ckpt)
    write(prefix, str(tmp_path / "q"), WriteOptions(compact=True))
    with open_checkpoint(str(tmp_path / "q")) as ckpt:
        assert by_offset(ckpt) == before
    assert (
        Path(find_shards(str(tmp_path / "q"))[0]).read_bytes()
        == Path(find_shards(prefix)[0]).read_bytes()
    )


def test_a_compacted_checkpoint_has_its_new_graph_at_the_end(tmp_path: Path) -> None:
    prefix = copy_of(SHARDS, tmp_path / "src")
    receipt = write(prefix, str(tmp_path / "q"), WriteOptions(compact=True), "cube=box")
    assert {shard.how for shard in receipt.shards} == {"rewritten"}
    with open_checkpoint(str(tmp_path / "q")) as ckpt:
        entry = ckpt.bundle.entries[GRAPH_KEY]
        assert entry.offset + entry.size == receipt.shards[entry.shard_id].bytes
        assert ckpt.object_graph is not None
        assert ckpt.object_graph.node_at("box") is not None
    assert not receipt.bytes_dead
