from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.table.builder import TableBuilder
from ckpttool.table.format import TableOptions
from tests.support import corruption, encoder

Records = list[tuple[bytes, bytes]]

# TensorFlow's index of one float32 tensor "w".
ONE_TENSOR = bytes.fromhex(
    "000006" "08011a020801"
    "00010f" "77" "0801120412020802280835453f1688"
    "0000000001000000" "00" "88ef43ba"
    "0000000001000000" "00" "c0f2a1b0"
    "000102" "78" "0024" "0000000001000000" "00" "ab30707f"
    "2908" "360e" + "00" * 36 + "57fb808b247547db"
)  # fmt: skip


def build(records: Records, options: TableOptions | None = None) -> bytes:
    pieces: list[bytes | memoryview] = []
    builder = TableBuilder(pieces.append, options)
    for key, value in records:
        builder.add(key, value)
    size = builder.finish()
    raw = b"".join(pieces)
    assert size == len(raw)
    return raw


def test_tensorflows_bytes_for_one_tensor() -> None:
    records = [
        (b"", bytes.fromhex("08011a020801")),
        (b"w", bytes.fromhex("0801120412020802280835453f1688")),
    ]
    assert len(ONE_TENSOR) == 121
    assert build(records) == ONE_TENSOR
    assert encoder.table(records) == ONE_TENSOR


def test_no_entries_no_data_block() -> None:
    raw = build([])
    assert raw == encoder.table([])
    assert len(raw) == 2 * 13 + 48


BIG = 262144

# (id, sizes of the values, how many data blocks). A large record is 8 bytes more than its value:
# 5 of lengths, 3 of key; a block is 8 bytes more than its records.
CUTS = [
    ("one byte short of the size", [BIG - 17, 1, 1], 2),
    ("just the size", [BIG - 16, 1], 2),
    ("one small record fills it up", [BIG - 17, 1], 1),
    ("record that reaches the size is the last", [BIG, 1, 1], 2),
    ("huge record alone", [1, 2 * BIG, 1], 3),
    ("huge record first", [2 * BIG, 1], 2),
    ("huge by its key too", [1, 2 * BIG - 3, 1], 3),
    ("not huge yet", [1, 2 * BIG - 4, 1], 2),
    ("huge records in a row", [2 * BIG, 2 * BIG, 2 * BIG], 3),
    ("many of middle size", [100_000] * 7, 3),
]


@pytest.mark.parametrize(
    ("sizes", "blocks"), [row[1:] for row in CUTS], ids=[row[0] for row in CUTS]
)
def test_where_blocks_end(sizes: list[int], blocks: int) -> None:
    records = [(b"k%02d" % at, bytes(size)) for at, size in enumerate(sizes)]
    raw = build(records)
    # The checksums of the second opinion are slow; the blocks' places tell enough here.
    assert len(corruption.spans(raw)) == blocks + 2


@pytest.mark.parametrize("block_size", [1, 30, 64, 100, 1000])
@pytest.mark.parametrize("interval", [1, 2, 16])
def test_second_opinion_on_small_blocks(block_size: int, interval: int) -> None:
    records = [(b"layer_%04d/kernel" % at, bytes(at % 37)) for at in range(150)]
    records.insert(0, (b"", b"header"))
    options = TableOptions(block_size=block_size, restart_interval=interval)
    assert build(records, options) == encoder.table(
        records, block_size=block_size, interval=interval
    )


def test_second_opinion_on_a_large_table() -> None:
    records = [(b"layer_%05d/kernel" % at, bytes(20)) for at in range(9000)]
    raw = build(records)
    assert len(corruption.spans(raw)) == 4
    assert raw == encoder.table(records)


@pytest.mark.parametrize(
    "keys", [(b"a", b"a"), (b"b", b"a"), (b"", b""), (b"ab", b"a"), (b"a", b"c", b"b")]
)
def test_keys_must_rise(keys: tuple[bytes, ...]) -> None:
    builder = TableBuilder(lambda data: None)
    for key in keys[:-1]:
        builder.add(key, b"")
    with pytest.raises(ValueError, match="must rise"):
        builder.add(keys[-1], b"")


def test_the_empty_key_may_come_first() -> None:
    assert build([(b"", b"h"), (b"\0", b"")]) == encoder.table([(b"", b"h"), (b"\0", b"")])


@given(
    st.dictionaries(st.binary(max_size=6), st.binary(max_size=30), max_size=40),
    st.integers(1, 200),
    st.integers(1, 17),
)
def test_second_opinion(records: dict[bytes, bytes], block_size: int, interval: int) -> None:
    ordered = sorted(records.items())
    options = TableOptions(block_size=block_size, restart_interval=interval)
    assert build(ordered, options) == encoder.table(
        ordered, block_size=block_size, interval=interval
    )


@pytest.mark.parametrize("first", [b"", b"x" * 600])
@pytest.mark.parametrize("size", [0, 100, 1023, 1024, 5000])
def test_values_in_pieces(first: bytes, size: int) -> None:
    """A table is the same whether values come whole or in pieces, large ones too."""
    options = TableOptions(block_size=512)
    records = [(b"a", first), (b"b", bytes(size)), (b"c", b"small"), (b"d", b"y" * size)]
    whole: list[bytes | memoryview] = []
    builder = TableBuilder(whole.append, options)
    for key, value in records:
        builder.add(key, value)
    builder.finish()
    pieces: list[bytes] = []
    builder = TableBuilder(lambda data: pieces.append(bytes(data)), options)
    for key, value in records:
        cut = [value[at : at + 77] for at in range(0, len(value), 77)]
        builder.add_pieces(key, len(value), cut)
    builder.finish()
    assert b"".join(pieces) == b"".join(whole)


@pytest.mark.parametrize("size", [10, 2000])
def test_pieces_of_another_size(size: int) -> None:
    builder = TableBuilder(lambda data: None, TableOptions(block_size=512))
    with pytest.raises(ValueError, match="bytes"):
        builder.add_pieces(b"a", size, [bytes(size), b"1"])
    with pytest.raises(ValueError, match="must rise"):
        builder.add_pieces(b"", size, [bytes(size)])
        builder.add_pieces(b"", size, [bytes(size)])
