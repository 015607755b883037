from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ckpttool.bundle.entry import BundleHeader
from ckpttool.bundle.index import BundleIndex
from ckpttool.errors import (
    CkptError,
    CorruptError,
    FileAccessError,
    MissingFileError,
    UnsupportedError,
)
from tests.support import encoder
from tests.support.encoder import entry, slice_key
from tests.support.handmade import Bundle
from tests.support.limits import memory_limit, run_python, time_limit
from tests.support.refusals import refused
from tests.support.slices import parse_slice

I32, U8, STRING = 3, 4, 7
ROWS = [((0, 2), (0, -1)), ((2, 1), (0, -1))]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(tmp_path / "m")


def simple() -> Bundle:
    made = Bundle().add(b"b", U8, (2,), b"xy").add(b"a", U8, (), b"z")
    return made.add_slices(b"p", I32, (3, 2), [(ROWS[0], bytes(16)), (ROWS[1], bytes(8))])


def test_what_an_index_tells(prefix: str) -> None:
    simple().write(prefix)
    index = BundleIndex(prefix)
    assert index.path == prefix + ".index"
    assert index.size == os.path.getsize(index.path)
    assert index.modified == os.stat(index.path).st_mtime
    assert index.header == BundleHeader()
    assert list(index.entries) == ["a", "b", "p"]
    assert len(index.entries) == 3
    assert "p" in index.entries
    assert "" not in index.entries
    assert index.entries["b"].shape == (2,)
    assert [entry.shape for entry in index.entries.values()] == [(), (2,), (3, 2)]
    assert index.entries.dtype_and_shape("p") == index.entries["p"][:2]
    with pytest.raises(KeyError):
        index.entries["c"]


def test_no_data_shard_is_touched(prefix: str) -> None:
    made = simple()
    made.shards = []
    made.write(prefix)
    assert list(BundleIndex(prefix).entries) == ["a", "b", "p"]


def test_slices(prefix: str) -> None:
    simple().write(prefix)
    index = BundleIndex(prefix)
    found = index.slice_entries("p")
    assert [part for part, _ in found] == [parse_slice("0,2:-"), parse_slice("2,1:-")]
    assert [stored.shape for _, stored in found] == [(2, 2), (1, 2)]
    assert [stored.offset for _, stored in found] == [3, 19]
    assert index.slice_entries("a") == []


def test_slices_are_told_in_the_order_of_the_entry(prefix: str) -> None:
    made = Bundle().add_slices(b"p", I32, (3, 2), [(ROWS[1], bytes(8)), (ROWS[0], bytes(16))])
    made.write(prefix)
    found = BundleIndex(prefix).slice_entries("p")
    assert [str(part) for part, _ in found] == ["2,1:-", "0,2:-"]


@pytest.mark.parametrize("name", [b"p", b"a\0b", b"\xff\xfe", b"\0odd", b"\0p\0\x01\x01\x01\x80"])
def test_names_of_partitioned_tensors_may_be_odd(prefix: str, name: bytes) -> None:
    parts = [(((0, 1),), b"x"), (((1, 1),), b"y")]
    Bundle().add_slices(name, U8, (2,), parts).add(b"q", U8, (), b"z").write(prefix)
    key = name.decode("utf-8", "surrogateescape")
    index = BundleIndex(prefix)
    assert sorted(index.entries) == sorted([key, "q"])
    assert [str(part) for part, _ in index.slice_entries(key)] == ["0,1", "1,1"]


ORPHANS = [
    ("no tensor of that name", slice_key(b"q", ((0, 1),))),
    ("not listed by its tensor", slice_key(b"p", ((0, 1), (0, 1)))),
    ("spelled out where the tensor says full", slice_key(b"p", ((0, 2), (0, 2)))),
    ("full in another form", slice_key(b"p", ((0, 2), (0, -2)))),
    ("no slice key at all", b"\0odd"),
    ("bytes after its end", slice_key(b"p", ROWS[0]) + b"\0"),
    ("of a tensor stored whole", slice_key(b"a", ())),
]


@pytest.mark.parametrize("key", [row[1] for row in ORPHANS], ids=[row[0] for row in ORPHANS])
def test_what_looks_like_a_slice_and_belongs_to_none_is_listed(prefix: str, key: bytes) -> None:
    """A reader that hides it would lose it when the checkpoint is written anew."""
    simple().add(key, U8, (), b"o").write(prefix)
    text = key.decode("utf-8", "surrogateescape")
    assert list(BundleIndex(prefix).entries) == [text, "a", "b", "p"]


def test_keys_that_are_not_utf8(prefix: str) -> None:
    Bundle().add(b"\xff\xfe", U8, (), b"1").add(b"caf\xc3\xa9", U8, (), b"2").write(prefix)
    assert list(BundleIndex(prefix).entries) == ["café", "\udcff\udcfe"]


def test_a_bundle_without_tensors(prefix: str) -> None:
    Bundle().write(prefix)
    assert dict(BundleIndex(prefix).entries) == {}


def test_a_damaged_entry_does_not_hide_the_others(prefix: str) -> None:
    made = simple()
    made.records[b"bad"] = b"\x08\x04\x0f"
    made.write(prefix)
    entries = BundleIndex(prefix).entries
    assert list(entries) == ["a", "b", "bad", "p"]
    assert entries["a"].shape == ()
    for _ in range(2):
        with pytest.raises(CorruptError) as caught:
            entries["bad"]
        assert (caught.value.path, caught.value.key) == (prefix + ".index", "bad")
        with pytest.raises(CorruptError):
            dict(entries.items())


def test_unsorted_keys_lose_no_tensor_silently(prefix: str) -> None:
    records = [(b"", encoder.header()), (b"b", entry(U8, (), size=1)), (b"a", entry(U8, ()))]
    Bundle().write(prefix, encoder.one_block_table(records))
    with refused(CorruptError, "rise") as caught:
        BundleIndex(prefix)
    assert caught.value.path == prefix + ".index"


def test_duplicate_keys_are_damage(prefix: str) -> None:
    records = [(b"", encoder.header()), (b"a", entry(U8, (), size=1)), (b"a", entry(I32, ()))]
    Bundle().write(prefix, encoder.one_block_table(records))
    with refused(CorruptError, "rise"):
        BundleIndex(prefix)


def test_snappy_index(prefix: str) -> None:
    import cramjam

    records = simple().sorted_records()
    block = bytes(cramjam.snappy.compress_raw(encoder.block(records)))
    simple().write(prefix, encoder.Table().add(block, b"\xff", kind=1).encode())
    assert list(BundleIndex(prefix).entries) == ["a", "b", "p"]


def test_index_of_many_blocks(prefix: str) -> None:
    made = Bundle()
    for at in range(300):
        made.add(b"layer%03d/kernel" % at, U8, (1,), b"x")
    made.write(prefix, encoder.table(made.sorted_records(), block_size=200))
    assert list(BundleIndex(prefix).entries) == [f"layer{at:03}/kernel" for at in range(300)]


# (id, header record or None for no such record, class, part of the message)
HEADERS: list[tuple[str, bytes | None, type[CkptError], str]] = [
    ("none", None, CorruptError, "no header"),
    ("empty", b"", CorruptError, "0 data shards"),
    ("malformed", b"\x08", CorruptError, "varint"),
    ("no shards", encoder.header(0), CorruptError, "0 data shards"),
    ("2**31 shards", encoder.header(2**31), CorruptError, "2147483648 data shards"),
    ("byte order 7", encoder.header(1, endianness=7), CorruptError, "byte order 7"),
    ("newer format", encoder.header(1, version=b"\x10\x02"), UnsupportedError, "version 2"),
    ("bars us", encoder.header(1, version=b"\x1a\x01\x01"), UnsupportedError, "bars"),
]


@pytest.mark.parametrize(
    ("header", "error", "message"), [row[1:] for row in HEADERS], ids=[row[0] for row in HEADERS]
)
def test_headers(prefix: str, header: bytes | None, error: type[CkptError], message: str) -> None:
    made = simple()
    made.header = header
    made.write(prefix)
    with refused(error, message) as caught:
        BundleIndex(prefix)
    assert caught.value.path == prefix + ".index"


def test_an_index_without_records(prefix: str) -> None:
    Bundle().write(prefix, encoder.table([]))
    with refused(CorruptError, "no header"):
        BundleIndex(prefix)


def test_an_index_that_is_missing_or_a_folder(prefix: str) -> None:
    with pytest.raises(MissingFileError) as caught:
        BundleIndex(prefix)
    assert caught.value.path == prefix + ".index"
    os.mkdir(prefix + ".index")
    with refused(FileAccessError, "regular"):
        BundleIndex(prefix)


def test_an_index_that_is_empty(prefix: str) -> None:
    Bundle().write(prefix, b"")
    with refused(CorruptError, "not a table"):
        BundleIndex(prefix)


# (id, the record of the slice or None for none, part of the message)
BROKEN_SLICES = [
    ("no entry", None, "slice 0,2:- has no entry"),
    ("another dtype", entry(1, (2, 2), size=16), "stored as float32"),
    ("another shape", entry(I32, (4,), size=16), r"stored as int32 \[4\]"),
    ("shorter than it says", entry(I32, (1, 2), size=8), r"stored as int32 \[1, 2\]"),
    ("malformed", b"\x08", "varint"),
    ("too small for its shape", entry(I32, (2, 2), size=4), "4 bytes for 4"),
    ("in slices itself", entry(I32, (2, 2), slices=[((0, 1), (0, -1))]), "slice"),
    ("in another shard than there is", entry(I32, (2, 2), size=16, shard=1), "data shard 1"),
]


@pytest.mark.parametrize(
    ("record", "message"),
    [row[1:] for row in BROKEN_SLICES],
    ids=[row[0] for row in BROKEN_SLICES],
)
def test_broken_slices(prefix: str, record: bytes | None, message: str) -> None:
    made = simple()
    key = slice_key(b"p", ROWS[0])
    if record is None:
        del made.records[key]
    else:
        made.records[key] = record
    made.write(prefix)
    index = BundleIndex(prefix)
    assert list(index.entries) == ["a", "b", "p"]
    with refused(CorruptError, message) as caught:
        index.slice_entries("p")
    assert (caught.value.path, caught.value.key) == (prefix + ".index", "p")


LONG_NAME = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
from ckpttool.bundle.index import BundleIndex
from ckpttool.errors import CkptError
try:
    print(len(BundleIndex(sys.argv[1]).entries))
except CkptError as error:
    print("refused:", str(error)[:100])
"""


def test_a_long_name_with_many_slices(prefix: str) -> None:
    """A key for each slice, all of them at once, would take 10 GB."""
    made = Bundle()
    made.records[b"k" * 400_000] = entry(U8, (10**6,), slices=[((at, 1),) for at in range(25_000)])
    made.records[b"\0odd"] = entry(U8, (), size=1)
    made.write(prefix)
    assert os.path.getsize(prefix + ".index") < 1_000_000
    done = run_python(LONG_NAME, prefix)
    assert done.stderr == ""
    assert done.stdout.strip() == "2" or done.stdout.startswith("refused")


def test_a_sparse_index(prefix: str) -> None:
    simple().write(prefix)
    raw = Path(prefix + ".index").read_bytes()
    with open(prefix + ".index", "r+b") as file:
        file.truncate(0)
        file.seek(1 << 42)
        file.write(raw[-48:])
    with memory_limit(256 << 20), time_limit(5), pytest.raises(CkptError):
        BundleIndex(prefix)


def test_an_index_larger_than_any_is_refused_before_it_is_read(prefix: str) -> None:
    """All blocks are good and small, but what lies between them would be read by nobody."""
    simple().write(prefix)
    raw = Path(prefix + ".index").read_bytes()
    for size, fits in ((1 << 30, True), ((1 << 30) + 1, False)):
        with open(prefix + ".index", "wb") as file:
            file.write(raw[:-48])
            file.seek(size - 48)
            file.write(raw[-48:])
        if fits:
            assert list(BundleIndex(prefix).entries) == ["a", "b", "p"]
            continue
        with refused(UnsupportedError, f"an index of {size} bytes is more than {1 << 30}"):
            BundleIndex(prefix)


def test_the_index_may_be_replaced_while_it_is_open(prefix: str) -> None:
    simple().write(prefix)
    index = BundleIndex(prefix)
    os.unlink(index.path)
    assert index.entries["p"].shape == (3, 2)
    shutil.rmtree(os.path.dirname(prefix))
    assert len(index.slice_entries("p")) == 2
