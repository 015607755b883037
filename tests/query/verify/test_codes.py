"""Each code is what one kind of damage to a real checkpoint gives, with its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ckpttool.bundle.entry import BundleHeader
from ckpttool.coding.checksum import mask
from ckpttool.objects.graph import Attribute, Edge, ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.query.verify.findings import CODES, Finding
from ckpttool.tensor.dtypes import dtype_of_name, dtype_of_number
from tests.query.verify.victims import GUIDE, Victim, has
from tests.support import corruption, encoder, fixtures
from tests.support.fixtures import read_bytes
from tests.support.slices import parse_slice

OBJECTS = f"{GUIDE}/ckpt-5"
SAVER = "v2/tf1.15/saver/model.ckpt-3"
ROWS = "v2/tf2.21/partitioned_rows/model"
SHARDED = "v2/tf2.21/saver_sharded/model-7"
MANY = "v2/tf2.21/many_keys/many"
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
KERNEL = f"net/l1/kernel{VALUE}"
BIAS = f"net/l1/bias{VALUE}"
ITERATOR = "iterator/.ATTRIBUTES/ITERATOR_STATE"
W_SLICES = [((2, 3), (0, 4)), ((0, 2), (0, 4)), ((5, 1), (0, 4))]


@dataclass(frozen=True)
class Place:
    """Where a finding is expected; None as a key is a key, too."""

    path: str
    offset: int | None = None
    size: int | None = None
    key: str | None = None


Damage = Callable[[Victim], Place]


@dataclass(frozen=True)
class Case:
    """A kind of damage: what is done to which fixture, and what is told of it."""

    code: str
    fixture: str
    damage: Damage
    others: frozenset[str]

    def __str__(self) -> str:
        return f"{self.code} {self.damage.__name__}"


CASES: list[Case] = []


def case(code: str, fixture: str, *others: str) -> Callable[[Damage], Damage]:
    """Enter a kind of damage; `others` are the codes that come along."""

    def enter(damage: Damage) -> Damage:
        CASES.append(Case(code, fixture, damage, frozenset(others)))
        return damage

    return enter


def slice_key(name: str, part: str) -> bytes:
    return encoder.slice_key(name.encode(), parse_slice(part).extents)


@case("bad-table", SAVER)
def index_flipped(victim: Victim) -> Place:
    (block, *_) = corruption.spans(read_bytes(victim.index))
    victim.flip(victim.index, 40)
    return Place(victim.index, 0, block.stop + 5)


@case("bad-table", SAVER)
def index_cut(victim: Victim) -> Place:
    data = read_bytes(victim.index)[:-1]
    victim.write(victim.index, data)
    return Place(victim.index, len(data) - 48, 48)


@case("bad-table", SAVER)
def index_empty(victim: Victim) -> Place:
    victim.write(victim.index, b"")
    return Place(victim.index, 0, 0)


@case("bad-table", SAVER)
def metaindex_flipped(victim: Victim) -> Place:
    meta = corruption.spans(read_bytes(victim.index))[1]
    victim.flip(victim.index, meta.start)
    return Place(victim.index, meta.start, meta.stop - meta.start + 5)


@case("bad-table", SAVER)
def index_block_flipped(victim: Victim) -> Place:
    block = corruption.spans(read_bytes(victim.index))[2]
    victim.flip(victim.index, block.start + 3)
    return Place(victim.index, block.start, block.stop - block.start + 5)


@case("bad-table", MANY)
def second_block_flipped(victim: Victim) -> Place:
    block = corruption.spans(read_bytes(victim.index))[1]
    victim.flip(victim.index, block.start + 1000)
    return Place(victim.index, block.start, block.stop - block.start + 5)


@case("bad-table", SAVER)
def magic_number_flipped(victim: Victim) -> Place:
    size = os.path.getsize(victim.index)
    victim.flip(victim.index, size - 1)
    return Place(victim.index, size - 48, 48)


@case("bad-header", SAVER)
def header_lost(victim: Victim) -> Place:
    victim.change(lambda records: records.pop(b""))
    return Place(victim.index, 0)


@case("bad-header", SAVER)
def header_of_no_shards(victim: Victim) -> Place:
    victim.change(lambda records: records.update({b"": encoder.header(0)}))
    return block_place(victim)


@case("bad-entry", SAVER)
def entry_of_another_size(victim: Victim) -> Place:
    entry = victim.entry("dense/kernel")
    victim.change(
        lambda records: records.update({b"dense/kernel": entry._replace(size=20).encode()})
    )
    return block_place(victim, "dense/kernel")


@case("bad-entry", SAVER)
def entry_without_dtype(victim: Victim) -> Place:
    victim.change_entry("dense/kernel", dtype=dtype_of_number(0))
    return block_place(victim, "dense/kernel")


@case("bad-entry", ROWS)
def partitioned_with_bytes_of_its_own(victim: Victim) -> Place:
    victim.change_entry("w", crc32c=1)
    return block_place(victim, "w")


@case("bad-slice", ROWS)
def slice_of_another_dtype(victim: Victim) -> Place:
    victim.change_entry(slice_key("w", "0,2:0,4"), dtype=dtype_of_name("int32"))
    return block_place(victim, "w")


@case("bad-slice", ROWS, "slice-orphan", "slice-overlap")
def slice_that_is_everything(victim: Victim) -> Place:
    parts = (parse_slice("-:-"), *map(parse_slice, ("2,3:0,4", "0,2:0,4")))
    victim.change_entry("w", slices=parts)
    return block_place(victim, "w")


@case("slice-missing", ROWS, "gap-nonzero")
def slice_lost(victim: Victim) -> Place:
    victim.change(lambda records: records.pop(slice_key("w", "0,2:0,4")))
    return block_place(victim, "w")


@case("slice-gap", ROWS, "gap-nonzero")
def slice_not_stored(victim: Victim) -> Place:
    parts = tuple(map(parse_slice, ("2,3:0,4", "5,1:0,4")))
    victim.change_entry("w", slices=parts)
    victim.change(lambda records: records.pop(slice_key("w", "0,2:0,4")))
    return block_place(victim, "w")


@case("slice-overlap", ROWS, "slice-missing", "slice-orphan")
def slices_overlap(victim: Victim) -> Place:
    parts = tuple(map(parse_slice, ("2,3:0,4", "0,3:0,4", "5,1:0,4")))
    victim.change_entry("w", slices=parts)
    return block_place(victim, "w")


@case("slice-orphan", ROWS)
def partitioned_tensor_lost(victim: Victim) -> Place:
    key = slice_key("v", "0,2:0,4")
    record = victim.records()[slice_key("w", "0,2:0,4")]
    entry = victim.entry(slice_key("w", "0,2:0,4"))
    offset = victim.append(victim.shard(), bytes(entry.size))
    moved = replace_fields(victim, record, offset=offset, crc32c=mask(crc(bytes(entry.size))))
    victim.change(lambda records: records.update({key: moved}))
    return block_place(victim, "v")


@case("shard-missing", SHARDED)
def shard_removed(victim: Victim) -> Place:
    path = victim.shard(2)
    os.unlink(path)
    return Place(path)


@case("shard-short", SHARDED)
def shard_cut(victim: Victim) -> Place:
    path = victim.shard(2)
    os.truncate(path, 23)
    return Place(path, 0, 24, "b")


@case("extent-overlap", SAVER, "bad-crc")
def entry_moved(victim: Victim) -> Place:
    victim.change_entry("dense/kernel", offset=33)
    return Place(victim.shard(), 56, 1, "dense/kernel/Adam")


@case("bad-crc", SAVER)
def data_flipped(victim: Victim) -> Place:
    victim.flip(victim.shard(), 40)
    return Place(victim.shard(), 32, 24, "dense/kernel")


@case("bad-crc", ROWS)
def data_of_a_slice_flipped(victim: Victim) -> Place:
    entry = victim.entry(slice_key("w", "5,1:0,4"))
    victim.flip(victim.shard(), entry.offset)
    return Place(victim.shard(), entry.offset, 16, "w")


@case("bad-crc", "v2/tf2.21/strings/strings")
def text_flipped(victim: Victim) -> Place:
    victim.flip(victim.shard(), 21000)
    return Place(victim.shard(), 58, 21007, "long")


@case("bad-crc", "v2/tf2.21/dtypes/empty")
def crc_of_nothing_changed(victim: Victim) -> Place:
    victim.change_entry("empty/bool", crc32c=7)
    return Place(victim.shard(), 0, 0, "empty/bool")


@case("bad-strings", "v2/tf2.21/strings/strings")
def length_flipped(victim: Victim) -> Place:
    victim.flip(victim.shard(), 13)
    return Place(victim.shard(), 13, 45, "grid")


@case("bad-strings", OBJECTS)
def variant_flipped(victim: Victim) -> Place:
    victim.flip(victim.shard(), 500)
    return Place(victim.shard(), 0, 1044, ITERATOR)


@case("mixed-saves", OBJECTS, "bad-crc")
def data_of_another_save(victim: Victim) -> Place:
    source = fixtures.bundle(f"{GUIDE}/ckpt-3").prefix
    shutil.copy(f"{source}.data-00000-of-00001", victim.shard())
    return Place(victim.shard())


@case("graph-unreadable", OBJECTS, "gap-nonzero")
def graph_of_no_nodes(victim: Victim) -> Place:
    old = victim.entry(GRAPH_KEY)
    victim.replace_graph(b"")
    return Place(victim.shard(), old.offset + old.size, 5, GRAPH_KEY)


@case("graph-unreadable", OBJECTS)
def graph_of_another_dtype(victim: Victim) -> Place:
    old = victim.entry(GRAPH_KEY)
    raw = read_bytes(victim.shard())[old.offset : old.offset + old.size]
    uint8 = dtype_of_name("uint8")
    victim.change_entry(GRAPH_KEY, dtype=uint8, shape=(len(raw),), crc32c=mask(crc(raw)))
    return Place(victim.index, None, None, GRAPH_KEY)


@case("graph-key-missing", OBJECTS, "gap-nonzero")
def tensor_lost(victim: Victim) -> Place:
    victim.change(lambda records: records.pop(KERNEL.encode()))
    return Place(victim.index, None, None, KERNEL)


@case("graph-key-unclaimed", OBJECTS)
def tensor_of_no_object(victim: Victim) -> Place:
    offset = victim.append(victim.shard(), b"abcd")
    record = encoder.entry(1, (), offset=offset, size=4, crc=encoder.masked_crc(b"abcd"))
    victim.change(lambda records: records.update({b"stray": record}))
    return Place(victim.index, None, None, "stray")


@case("graph-key-disputed", OBJECTS, "gap-nonzero")
def tensor_of_two_objects(victim: Victim) -> Place:
    graph = graph_of(victim)
    child = len(graph.nodes)
    root = graph.nodes[0]._replace(children=(*graph.nodes[0].children, Edge("twin", child)))
    twin = graph.nodes[1]._replace(
        id=child,
        children=(),
        slots=(),
        attributes=(Attribute("VARIABLE_VALUE", "x", KERNEL),),
    )
    victim.replace_graph(ObjectGraph((root, *graph.nodes[1:], twin)).to_bytes())
    return Place(victim.index, None, None, KERNEL)


@case("unreadable", SHARDED)
def shard_is_a_folder(victim: Victim) -> Place:
    path = victim.shard(0)
    os.unlink(path)
    os.mkdir(path)
    return Place(path)


@case("unreadable", SHARDED)
def shard_is_a_pipe(victim: Victim) -> Place:
    path = victim.shard(0)
    os.unlink(path)
    os.mkfifo(path)
    return Place(path)


@case("unsupported", SAVER)
def newer_version(victim: Victim) -> Place:
    header = BundleHeader(min_consumer=2).encode()
    victim.change(lambda records: records.update({b"": header}))
    return block_place(victim)


@case("unsupported", SAVER)
def unknown_rank(victim: Victim) -> Place:
    record = encoder.number_field(1, 1) + encoder.bytes_field(2, encoder.number_field(3, 1))
    victim.change(lambda records: records.update({b"dense/bias": record}))
    return block_place(victim, "dense/bias")


@case("unknown-dtype", SAVER)
def dtype_of_the_future(victim: Victim) -> Place:
    victim.change_entry("dense/bias", dtype=dtype_of_number(99))
    return Place(victim.shard(), 8, 8, "dense/bias")


@case("not-read", SAVER, "extent-overlap", "trailing-bytes", "bad-crc")
def many_claims_to_the_same_bytes(victim: Victim) -> Place:
    size = 8 << 20
    os.truncate(victim.shard(), size)

    def claim_all(records: dict[bytes, bytes]) -> None:
        for at in range(100):
            key = f"claim/{at:03d}".encode()
            records[key] = encoder.entry(4, (size - 200 - at,), offset=at, size=size - 200 - at)

    victim.change(claim_all)
    return Place(victim.shard())


@case("being-written", SAVER, "leftover")
def index_not_yet_written(victim: Victim) -> Place:
    victim.write(victim.index, b"")
    os.mkdir(victim.prefix + "_temp")
    return Place(victim.index)


@case("table-slack", SAVER)
def footer_padding_flipped(victim: Victim) -> Place:
    size = os.path.getsize(victim.index)
    victim.flip(victim.index, size - 12)
    used = len(read_bytes(victim.index)[-48:-12].rstrip(b"\0"))
    return Place(victim.index, size - 48 + used, 40 - used)


@case("table-slack", SAVER)
def bytes_between_blocks(victim: Victim) -> Place:
    records = sorted(victim.records().items())
    block, at = encoder.block(records), 0
    out = block + encoder.trailer(block) + b"abc"
    meta_at, at = len(out), len(block)
    out += encoder.EMPTY_BLOCK + encoder.trailer(encoder.EMPTY_BLOCK)
    index = encoder.block([(b"\xff", encoder.handle(0, len(block)))], interval=1)
    place = (len(out), len(index))
    out += index + encoder.trailer(index)
    victim.write(victim.index, out + encoder.footer((meta_at, 8), place))
    return Place(victim.index, at + 5, 3)


@case("extent-alias", SAVER)
def two_tensors_in_the_same_bytes(victim: Victim) -> Place:
    record = victim.records()[b"dense/kernel"]
    victim.change(lambda records: records.update({b"dense/twin": record}))
    return Place(victim.shard(), 32, 24, "dense/twin")


@case("extent-outside", "v2/tf2.21/dtypes/empty")
def nothing_behind_the_end(victim: Victim) -> Place:
    victim.change_entry("empty/bool", offset=100)
    return Place(victim.shard(), 100, 0, "empty/bool")


@case("gap-nonzero", SAVER)
def tensor_dropped(victim: Victim) -> Place:
    victim.change(lambda records: records.pop(b"dense/kernel"))
    return Place(victim.shard(), 32, 24)


@case("trailing-bytes", SAVER)
def data_appended(victim: Victim) -> Place:
    at = victim.append(victim.shard(), bytes(12))
    return Place(victim.shard(), at, 12)


@case("trailing-bytes", SAVER)
def shard_of_no_tensor(victim: Victim) -> Place:
    old = victim.shard()
    victim.change(lambda records: records.update({b"": encoder.header(2)}))
    os.rename(old, victim.shard(0))
    victim.write(victim.shard(1), bytes(7))
    return Place(victim.shard(1), 0, 7)


@case("shard-unused", SAVER)
def shards_counted_too_many(victim: Victim) -> Place:
    old = victim.shard()
    victim.change(lambda records: records.update({b"": encoder.header(3)}))
    os.rename(old, victim.shard(0))
    return Place(victim.shard(1))


@case("foreign-shard", SAVER)
def shard_of_another_count(victim: Victim) -> Place:
    path = f"{victim.prefix}.data-00001-of-00002"
    victim.write(path, b"abc")
    return Place(path, None, 3)


@case("link-outside", SAVER)
def shard_elsewhere(victim: Victim) -> Place:
    path = victim.shard()
    elsewhere = os.path.join(os.path.dirname(path), "elsewhere")
    os.mkdir(elsewhere)
    shutil.move(path, os.path.join(elsewhere, "data"))
    os.symlink(os.path.join("elsewhere", "data"), path)
    return Place(path)


@case("leftover", SAVER)
def staged_file_of_our_own(victim: Victim) -> Place:
    folder, base = os.path.split(victim.prefix)
    path = os.path.join(folder, f".{base}.index.0123456789abcdef.ckpt-tmp")
    victim.write(path, b"abcde")
    return Place(path, None, 5)


@case("leftover", SAVER)
def temporary_file_of_tensorflow(victim: Victim) -> Place:
    path = f"{victim.shard()}.tempstate1234567890"
    victim.write(path, b"abcde")
    return Place(path, None, 5)


@case("leftover", SAVER)
def temporary_folder_of_tensorflow(victim: Victim) -> Place:
    path = f"{victim.prefix}_temp"
    os.mkdir(path)
    victim.write(f"{path}/part-00000-of-00001.index", b"abc")
    victim.write(f"{path}/part-00000-of-00001.data-00000-of-00001", b"abcde")
    return Place(path, None, 8)


def crc(data: bytes) -> int:
    return encoder.crc32c(data)


def graph_of(victim: Victim) -> ObjectGraph:
    entry = victim.entry(GRAPH_KEY)
    data = read_bytes(victim.shard(entry.shard_id))[entry.offset : entry.offset + entry.size]
    _, at = corruption.varint(data, 0)
    return ObjectGraph.from_bytes(data[at + 4 :])


def replace_fields(victim: Victim, record: bytes, **fields: int) -> bytes:
    victim.change(lambda records: records.update({b"scratch": record}))
    entry = victim.entry("scratch")._replace(**fields)  # type: ignore[arg-type]
    victim.change(lambda records: records.pop(b"scratch"))
    return entry.encode()


def block_place(victim: Victim, key: str | None = None) -> Place:
    """Return the place of a record: its block, which is the first."""
    block = corruption.spans(read_bytes(victim.index))[0]
    return Place(victim.index, block.start, block.stop - block.start, key)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_damage_is_told_with_its_place(case: Case, tmp_path: Path) -> None:
    victim = Victim(case.fixture, tmp_path)
    assert victim.findings() == []
    place = case.damage(victim)
    report = victim.verify()
    found = [each for each in report.findings if each.code == case.code]
    assert place in [Place(each.path, each.offset, each.size, each.key) for each in found]
    assert {each.code for each in report.findings} - {case.code} == case.others
    worst = {CODES[each.code] for each in report.findings}
    verdict = "damaged" if "damage" in worst else "unchecked" if "unchecked" in worst else "ok"
    assert report.verdict == verdict
    assert report.judged(strict=True) == ("damaged" if "warning" in worst else verdict)
    assert all(each.message.isprintable() and len(each.message) < 1200 for each in report.findings)


# What has to be done while reading, to a folder, or to a MetaGraph is tested elsewhere.
ELSEWHERE = {
    "asset-unread",
    "no-checksums",
    "asset-missing",
    "asset-outside",
    "graph-both-forms",
    "graph-constant",
    "graph-empty",
    "graph-input-missing",
    "graph-node-twice",
    "graph-tags-twice",
    "index-missing",
    "metagraph-not-read",
    "same-name",
    "state-damaged",
    "state-marked",
    "state-moved",
    "state-not-a-file",
    "graph-variable-differs",
    "graph-variable-missing",
    "graph-variable-unclaimed",
    "metagraph-unreadable",
    "shards-disagree",
    "changed-while-reading",
    "no-checkpoint",
    "orphan",
    "state-absolute",
    "state-gone",
    "state-outside",
    "state-stale",
    "state-unreadable",
}


def test_every_code_is_tested() -> None:
    assert {each.code for each in CASES} | ELSEWHERE == set(CODES)


def test_blocks_that_are_sound_are_looked_at_beside_a_damaged_one(tmp_path: Path) -> None:
    victim = Victim(MANY, tmp_path)
    first, second = corruption.spans(read_bytes(victim.index))[:2]
    victim.flip(victim.shard(), 3)
    victim.flip(victim.index, second.start + 1000)
    found = victim.findings()
    assert [each.code for each in found] == ["bad-table", "bad-crc"]
    assert "the block of keys between" in found[0].message
    assert (found[1].offset, found[1].size) == (3, 1)
    assert victim.verify().bytes_read > 0
    # And the other way round: without the first block the header is lost as well.
    victim = Victim(MANY, tmp_path)
    victim.flip(victim.shard(), 479)
    victim.flip(victim.index, first.start + 1000)
    found = victim.findings()
    assert [each.code for each in found] == ["bad-table", "bad-crc"]
    assert (found[1].offset, found[1].size) == (479, 1)


def test_a_damaged_index_block_hides_no_sound_data_block(tmp_path: Path) -> None:
    victim = Victim(SAVER, tmp_path)
    data_flipped(victim)
    index_block_flipped(victim)
    report = victim.verify()
    assert [each.code for each in report.findings] == ["bad-table", "bad-crc"]
    assert report.tensors == 11


def test_all_damage_is_told_not_the_first(tmp_path: Path) -> None:
    victim = Victim(OBJECTS, tmp_path)
    victim.flip(victim.shard(), 1085)
    victim.flip(victim.shard(), 1105)
    victim.change_entry(f"step{VALUE}", crc32c=1)
    stray = f"{victim.prefix}.data-00000-of-00002"
    victim.write(stray, b"")
    found = victim.findings()
    assert [(each.code, each.key) for each in found] == [
        ("bad-crc", f"step{VALUE}"),
        ("bad-crc", KERNEL),
        ("bad-crc", BIAS),
        ("foreign-shard", None),
    ]
    graph_lost = Victim(OBJECTS, tmp_path)
    graph_lost.flip(graph_lost.shard(), 2000)
    assert [each.key for each in graph_lost.findings() if each.code == "bad-crc"] == [GRAPH_KEY]


def test_mixed_saves_name_the_sibling_that_fits(tmp_path: Path) -> None:
    older, newer = Victim(f"{GUIDE}/ckpt-3", tmp_path), Victim(OBJECTS, tmp_path)
    kept = read_bytes(newer.shard())
    shutil.copy(older.shard(), newer.shard())
    assert "fits the data of" not in has(newer.findings(), "mixed-saves").message
    newer.write(older.shard(), kept)
    message = has(newer.findings(), "mixed-saves").message
    assert message.endswith("the index fits the data of 'ckpt-3'")
    assert "from different saves" in message


def test_a_few_wrong_checksums_are_no_mixed_saves(tmp_path: Path) -> None:
    victim = Victim(SAVER, tmp_path)
    for at in (0, 10, 20, 30, 40):
        victim.flip(victim.shard(), at)
    assert {each.code for each in victim.findings()} == {"bad-crc"}
    victim.flip(victim.shard(), 60)
    assert has(victim.findings(), "mixed-saves").path == victim.shard()


def test_a_damaged_graph_does_not_hide_damaged_tensors(tmp_path: Path) -> None:
    victim = Victim(OBJECTS, tmp_path)
    victim.flip(victim.shard(), 1085)
    graph_of_no_nodes(victim)
    codes = {each.code for each in victim.findings()}
    assert {"graph-unreadable", "bad-crc"} <= codes


def test_optional_attributes_may_be_missing(tmp_path: Path) -> None:
    victim = Victim(OBJECTS, tmp_path)
    graph = graph_of(victim)
    nodes = tuple(
        node._replace(
            attributes=tuple(
                each._replace(optional_restore=each.checkpoint_key == KERNEL)
                for each in node.attributes
            ),
        )
        for node in graph.nodes
    )
    victim.replace_graph(ObjectGraph(nodes).to_bytes())
    victim.change(lambda records: records.pop(KERNEL.encode()))
    assert {each.code for each in victim.findings()} == {"gap-nonzero"}


def test_fast_reads_no_data(tmp_path: Path) -> None:
    victim = Victim(SAVER, tmp_path)
    data_flipped(victim)
    report = victim.verify(fast=True)
    assert (report.verdict, report.bytes_read, report.findings) == ("structure-ok", 0, ())
    assert victim.verify().verdict == "damaged"
    # Only the sizes count: a shard full of holes is as good as any, one byte less is not.
    size = os.path.getsize(victim.shard())
    os.unlink(victim.shard())
    with open(victim.shard(), "wb") as file:
        file.truncate(size)
    assert victim.verify(fast=True).verdict == "structure-ok"
    os.truncate(victim.shard(), size - 1)
    short = has(victim.findings(fast=True), "shard-short")
    assert (short.offset, short.size, short.key) == (152, 8, "global_step")


def test_a_finding_tells_its_severity() -> None:
    assert Finding("bad-crc", "", "f").severity == "damage"
    assert Finding("leftover", "", "f").severity == "warning"
    assert Finding("unsupported", "", "f").severity == "unchecked"


@pytest.mark.parametrize("fixture", [SAVER, ROWS])
def test_a_record_that_stands_twice_is_named(fixture: str, tmp_path: Path) -> None:
    victim = Victim(fixture, tmp_path)
    records = sorted(victim.records().items())
    first = records[1]  # the one after the header; in ROWS that of a slice
    victim.write(victim.index, encoder.one_block_table([records[0], first, *records[1:]]))
    found = has([each for each in victim.findings() if "twice" in each.message], "bad-table")
    assert found.key == ("w" if fixture == ROWS else first[0].decode())
