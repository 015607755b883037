from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import (
    ChecksumError,
    CkptError,
    CorruptError,
    TruncatedError,
    UnsupportedError,
)
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.reader import TableReader
from tests.support import corruption, encoder
from tests.support.limits import memory_limit, time_limit
from tests.support.refusals import refused

Records = list[tuple[bytes, bytes]]
MIB = 1 << 20

RECORDS: Records = [(b"", b"h")] + [(b"key%02d" % at, b"value%d" % at) for at in range(40)]
SMALL_BLOCKS = encoder.table(RECORDS, block_size=120)


def read(path: Path, raw: bytes) -> Records:
    path.write_bytes(raw)
    with RandomAccessFile(str(path)) as file:
        return list(TableReader(file).items())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.index"


@pytest.mark.parametrize("block_size", [1, 64, 120, 1000, 262144])
def test_reads_tables_of_many_and_of_few_blocks(path: Path, block_size: int) -> None:
    assert read(path, encoder.table(RECORDS, block_size=block_size)) == RECORDS


def test_a_table_without_entries(path: Path) -> None:
    assert read(path, encoder.table([])) == []


def test_an_empty_data_block_is_no_reason_to_stop(path: Path) -> None:
    made = encoder.Table()
    made.add(encoder.block([(b"a", b"1")]), b"a")
    made.add(encoder.EMPTY_BLOCK, b"b")
    made.add(encoder.block([(b"c", b"2")]), b"c")
    assert read(path, made.encode()) == [(b"a", b"1"), (b"c", b"2")]


@pytest.mark.parametrize("interval", [1, 2, 16])
def test_an_index_block_may_share_key_starts(path: Path, interval: int) -> None:
    made = encoder.Table()
    for at in range(20):
        made.add(encoder.block([(b"same/%02d" % at, b"v")]), b"same/%02d" % at)
    found = read(path, made.encode(index_interval=interval))
    assert found == [(b"same/%02d" % at, b"v") for at in range(20)]


def test_separators_need_not_be_the_shortest(path: Path) -> None:
    made = encoder.Table()
    made.add(encoder.block([(b"a", b"1")]), b"azzz")
    made.add(encoder.block([(b"c", b"2")]), b"\xff\xff")
    assert read(path, made.encode()) == [(b"a", b"1"), (b"c", b"2")]


def test_bytes_behind_a_handle_are_ignored(path: Path) -> None:
    block = encoder.block(RECORDS)
    made = encoder.Table().add(block, b"\xff")
    made.handles[0] = encoder.handle(0, len(block)) + b"more"
    assert read(path, made.encode()) == RECORDS


def test_blocks_may_lie_apart(path: Path) -> None:
    blocks = [encoder.block([(b"a", b"1")]), encoder.block([(b"b", b"2")])]
    made = encoder.Table()
    made.add(blocks[0], b"a").add(b"nobody points here", b"").add(blocks[1], b"b")
    offset = len(blocks[0]) + 5 + len(b"nobody points here") + 5
    made.handles = {1: encoder.handle(offset, len(blocks[1]))}
    made.separators[1] = b"b"
    del made.separators[2]
    raw_blocks = made.blocks
    index = encoder.block([(b"a", encoder.handle(0, len(blocks[0]))), (b"b", made.handles[1])])
    raw = b"".join(stored + encoder.trailer(stored, kind) for stored, kind in raw_blocks)
    place = (len(raw), len(index))
    raw += index + encoder.trailer(index) + encoder.footer((0, 0), place)
    assert read(path, raw) == [(b"a", b"1"), (b"b", b"2")]


def snappy(raw: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(raw))


def test_snappy_blocks(path: Path) -> None:
    records = [(b"key%03d" % at, b"the same value") for at in range(100)]
    made = encoder.Table()
    for part in (records[:30], records[30:31], records[31:]):
        made.add(snappy(encoder.block(part)), part[-1][0], kind=1)
    raw = made.encode()
    assert len(raw) < len(encoder.table(records))
    assert read(path, raw) == records


def test_snappy_index_block(path: Path) -> None:
    block = encoder.block(RECORDS)
    index = snappy(encoder.block([(b"\xff", encoder.handle(0, len(block)))]))
    raw = block + encoder.trailer(block)
    place = (len(raw), len(index))
    raw += index + encoder.trailer(index, 1) + encoder.footer((0, 0), place)
    assert read(path, raw) == RECORDS


def one(stored: bytes, kind: int = 0, last: bytes = b"\xff") -> bytes:
    return encoder.Table().add(stored, last, kind).encode()


def with_handle(handle: bytes) -> bytes:
    made = encoder.Table().add(encoder.block(RECORDS), b"\xff")
    made.handles[0] = handle
    return made.encode()


def with_footer(metaindex: tuple[int, int], index: tuple[int, int]) -> bytes:
    return one(encoder.block(RECORDS))[:-48] + encoder.footer(metaindex, index)


def two(first: Records, second: Records, separators: tuple[bytes, bytes]) -> bytes:
    made = encoder.Table()
    made.add(encoder.block(first), separators[0]).add(encoder.block(second), separators[1])
    return made.encode()


def overlapping() -> bytes:
    made = encoder.Table().add(encoder.block(RECORDS), b"z").add(encoder.block(RECORDS), b"zz")
    made.handles[1] = encoder.handle(1, 20)
    return made.encode()


def index_of(index: bytes) -> bytes:
    return index + encoder.trailer(index) + encoder.footer((0, 0), (0, len(index)))


BLOCK = encoder.block(RECORDS)
A, B, C = (b"a", b"1"), (b"b", b"2"), (b"c", b"3")
VARINT_WITHOUT_END = b"\xff" * 40 + encoder.MAGIC

# (id, file, class, part of the message)
BAD: list[tuple[str, bytes, type[CkptError], str]] = [
    ("empty file", b"", TruncatedError, "footer"),
    ("47 bytes", bytes(47), TruncatedError, "footer"),
    ("48 bytes without magic", bytes(48), CorruptError, "magic"),
    ("text", b"model_checkpoint_path: 'x'\n" * 4, CorruptError, "magic"),
    ("footer alone", encoder.footer((0, 0), (0, 0)), TruncatedError, "past the end"),
    ("handle without end", VARINT_WITHOUT_END, CorruptError, "varint"),
    ("index past the end", with_footer((0, 8), (0, 2**20)), TruncatedError, "past the end"),
    ("index size 2**63", with_footer((0, 8), (0, 2**63)), TruncatedError, "past the end"),
    ("index size 2**64 - 1", with_footer((0, 8), (0, 2**64 - 1)), TruncatedError, "past the end"),
    ("index offset 2**64 - 1", with_footer((0, 8), (2**64 - 1, 8)), TruncatedError, "past"),
    ("index size -5 in 64 bits", with_footer((0, 8), (10, 2**64 - 5)), TruncatedError, "past"),
    ("index handle elsewhere", with_footer((0, 8), (1, 20)), ChecksumError, "block is damaged"),
    ("index of no bytes", index_of(b""), CorruptError, "restarts"),
    ("block size 2**63", with_handle(encoder.handle(0, 2**63)), TruncatedError, "past the end"),
    ("block offset 2**63", with_handle(encoder.handle(2**63, 9)), TruncatedError, "past the end"),
    ("block into the footer", with_handle(encoder.handle(0, 10**4)), TruncatedError, "past"),
    ("handle of one varint", with_handle(b"\x05"), CorruptError, "varint"),
    ("handle of no bytes", with_handle(b""), CorruptError, "varint"),
    ("handle of 65 bits", with_handle(b"\xff" * 9 + b"\x02\x00"), CorruptError, "64 bits"),
    (
        "block of no bytes",
        with_handle(encoder.handle(len(BLOCK), 0)),
        CorruptError,
        "restarts|damaged",
    ),
    ("blocks overlap", overlapping(), CorruptError, "overlap"),
    ("compression 2", one(BLOCK, kind=2), UnsupportedError, "compression 2"),
    ("compression 255", one(BLOCK, kind=255), UnsupportedError, "compression 255"),
    ("raw block called Snappy", one(BLOCK, kind=1), CorruptError, "decompress|claims"),
    ("Snappy called raw", one(snappy(BLOCK)), CorruptError, r"restarts|lengths"),
    ("Snappy of nothing", one(b"", kind=1), CorruptError, "decompress"),
    ("Snappy cut", one(snappy(BLOCK)[:-1], kind=1), CorruptError, "decompress"),
    ("Snappy and more", one(snappy(BLOCK) + b"\0", kind=1), CorruptError, "decompress"),
    ("Snappy claims 4 GiB", one(b"\xff\xff\xff\xff\x0f\0", kind=1), CorruptError, "claims"),
    ("Snappy length without end", one(b"\xff" * 12, kind=1), CorruptError, "decompress|claims"),
    ("Snappy of a bad block", one(snappy(BLOCK[:-1]), kind=1), CorruptError, "restarts"),
    ("keys fall", one(encoder.block([B, A])), CorruptError, "rise"),
    ("keys fall between blocks", two([C], [A], (b"c", b"d")), CorruptError, "outside"),
    ("same key in two blocks", two([A], [A], (b"a", b"b")), CorruptError, "outside"),
    ("separator below the last key", two([A, C], [], (b"b", b"d")), CorruptError, "outside"),
    ("separator above the next key", two([A], [B], (b"bb", b"c")), CorruptError, "outside"),
    ("separator is the next key", two([A], [B], (b"b", b"c")), CorruptError, "outside"),
    ("separators fall", two([A], [B], (b"z", b"c")), CorruptError, "rise"),
    ("damaged entry", one(encoder.close_block(b"\0\1")), CorruptError, "varint"),
]


@pytest.mark.parametrize(
    ("raw", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad(path: Path, raw: bytes, error: type[CkptError], message: str) -> None:
    with memory_limit(256 * MIB), refused(error, message) as caught:
        read(path, raw)
    assert caught.value.path == str(path)
    offset = caught.value.offset
    if offset is not None and "past the end" not in caught.value.message:
        assert 0 <= offset <= len(raw)


def test_a_damaged_block_ends_the_walk_after_the_good_ones(path: Path) -> None:
    spans = corruption.spans(SMALL_BLOCKS)
    third = spans[2]
    path.write_bytes(corruption.flip(SMALL_BLOCKS, third.start + 1, 0x10))
    found = []
    with RandomAccessFile(str(path)) as file, pytest.raises(ChecksumError) as caught:
        for key, _ in TableReader(file).items():
            found.append(key)
    assert found == [key for key, _ in RECORDS][: len(found)]
    assert 0 < len(found) < len(RECORDS)
    assert caught.value.offset == third.start


def test_checksum_error_tells_what_is_stored_and_what_is_there(path: Path) -> None:
    raw = corruption.flip(SMALL_BLOCKS, 0, 0x01)
    path.write_bytes(raw)
    stop = corruption.spans(SMALL_BLOCKS)[0].stop + 1
    with RandomAccessFile(str(path)) as file, pytest.raises(ChecksumError) as caught:
        list(TableReader(file).items())
    assert caught.value.computed == encoder.crc32c(raw[:stop])
    assert encoder.mask(caught.value.stored) == struct.unpack("<I", raw[stop : stop + 4])[0]


def test_offset_of_a_damaged_entry_counts_in_the_file(path: Path) -> None:
    good = encoder.block([A])
    bad = encoder.close_block(encoder.block_entry(0, b"b", b"2") * 2)
    made = encoder.Table().add(good, b"a").add(bad, b"z")
    path.write_bytes(made.encode())
    with RandomAccessFile(str(path)) as file, refused(CorruptError, "rise") as caught:
        list(TableReader(file).items())
    assert caught.value.offset == len(good) + 5 + 5


def test_offset_in_a_compressed_block_stays_in_that_block(path: Path) -> None:
    bad = encoder.close_block(
        encoder.block_entry(0, b"a", bytes(4000)) + encoder.block_entry(0, b"a", b"")
    )
    stored = snappy(bad)
    path.write_bytes(one(stored, kind=1))
    with RandomAccessFile(str(path)) as file, refused(CorruptError, "rise") as caught:
        list(TableReader(file).items())
    assert caught.value.offset is not None
    assert caught.value.offset < len(stored)


def test_the_walk_can_be_repeated(path: Path) -> None:
    path.write_bytes(SMALL_BLOCKS)
    with RandomAccessFile(str(path)) as file:
        reader = TableReader(file)
        assert list(reader.items()) == list(reader.items()) == RECORDS


def test_truncated(path: Path) -> None:
    for size in range(len(SMALL_BLOCKS)):
        with pytest.raises(CorruptError) as caught:
            read(path, SMALL_BLOCKS[:size])
        assert caught.value.path == str(path), size


def test_every_byte_turned_is_noticed_or_means_nothing(path: Path) -> None:
    spans = corruption.spans(SMALL_BLOCKS)
    metaindex = spans[-2]
    unread = set(range(metaindex.start, metaindex.stop + 5))
    footer = len(SMALL_BLOCKS) - 48
    handles = len(encoder.handle(metaindex.start, 8))
    unread |= set(range(footer, footer + handles))
    unread |= set(range(footer + handles + 3, footer + 40))
    for at in range(len(SMALL_BLOCKS)):
        raw = corruption.flip(SMALL_BLOCKS, at, corruption.bits_for(at))
        try:
            found = read(path, raw)
        except CorruptError as error:
            assert error.path == str(path)
            continue
        except UnsupportedError as error:
            raise AssertionError("damage taken for a compression") from error
        assert found == RECORDS
        assert at in unread, at


def test_a_sparse_file_that_claims_a_huge_block_is_refused(path: Path) -> None:
    size = 1 << 40
    path.write_bytes(b"")
    os.truncate(path, size)
    with open(path, "r+b") as file:
        file.seek(size)
        file.write(encoder.footer((0, 0), (0, size - 5)))
    with (
        memory_limit(256 * MIB),
        time_limit(5),
        RandomAccessFile(str(path)) as source,
        pytest.raises(CkptError) as caught,
    ):
        TableReader(source)
    assert caught.value.path == str(path)


def test_a_snappy_bomb_takes_no_more_memory_than_the_format_allows(path: Path) -> None:
    # 64 bytes for each copy of 3: the densest that Snappy has.
    claimed = 20 * MIB
    dense = encoder.varint(claimed) + b"\x00\x00" + b"\xfe\x01\x00" * ((claimed - 1) // 64)
    rest = (claimed - 1) % 64
    dense += bytes(((rest - 1) * 4 + 2, 1, 0)) if rest else b""
    path.write_bytes(one(dense, kind=1))
    with memory_limit(256 * MIB), time_limit(10), pytest.raises(CorruptError):
        read(path, path.read_bytes())


@given(st.binary(max_size=300))
def test_any_snappy_bytes_end_in_records_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    with contextlib.suppress(CorruptError):
        keys = [key for key, _ in read(tmp_path_factory.getbasetemp() / "any", one(raw, kind=1))]
        assert keys == sorted(keys)


KEYS = st.binary(min_size=1, max_size=6)


@given(
    st.dictionaries(KEYS, st.binary(max_size=30), max_size=30),
    st.integers(1, 150),
    st.integers(0, 2**16),
    st.integers(1, 255),
)
def test_damage_never_gives_another_answer(
    tmp_path_factory: pytest.TempPathFactory,
    records: dict[bytes, bytes],
    block_size: int,
    at: int,
    bits: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.index"
    ordered = sorted(records.items())
    raw = encoder.table(ordered, block_size=block_size)
    assert read(path, raw) == ordered
    try:
        assert read(path, corruption.flip(raw, at % len(raw), bits)) == ordered
    except CorruptError as error:
        assert error.path == str(path)
