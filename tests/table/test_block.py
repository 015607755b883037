from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CorruptError, TruncatedError
from ckpttool.table.block import decode_block
from ckpttool.table.block_builder import BlockBuilder
from tests.support import encoder
from tests.support.limits import run_python
from tests.support.refusals import refused

Records = list[tuple[bytes, bytes]]

# (id, bytes, records): the first four are TensorFlow's.
BLOCKS: list[tuple[str, str, Records]] = [
    ("empty", "0000000001000000", []),
    (
        "one tensor",
        "000006" "08011a020801"
        "00010f" "77" "0801120412020802280835453f1688"
        "0000000001000000",
        [
            (b"", bytes.fromhex("08011a020801")),
            (b"w", bytes.fromhex("0801120412020802280835453f1688")),
        ],
    ),
    (
        "two slices",
        "000006" "08011a020801"
        "000a13" "00700001010280828 07f".replace(" ", "")
        + "080312081202080212020802" "2810" "35cbd05fb6"
        "060415" "8281807f" "080312081202080112020802" "2010" "2808" "35702be761"
        "00011e" "70" "080312081202080312020802" "3a060a0210020a00" "3a080a04080210010a00"
        "0000000001000000",
        [
            (b"", bytes.fromhex("08011a020801")),
            (
                bytes.fromhex("00700001010280 82807f".replace(" ", "")),
                bytes.fromhex("080312081202080212020802281035cbd05fb6"),
            ),
            (
                bytes.fromhex("0070000101028281807f"),
                bytes.fromhex("08031208120208011202080220102808" "35702be761"),
            ),
            (
                b"p",
                bytes.fromhex("0803120812020803120208023a060a0210020a003a080a04080210010a00"),
            ),
        ],
    ),
    ("index block", "0001027800240000000001000000", [(b"x", b"\x00\x24")]),
    ("empty value", "000100" "61" "0000000001000000", [(b"a", b"")]),
    (
        "restart at every entry",
        "000101" "61" "31" "000101" "62" "32" "00000000" "05000000" "02000000",
        [(b"a", b"1"), (b"b", b"2")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "records"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS]
)
def test_both_ways(code: str, records: Records) -> None:
    raw = bytes.fromhex(code)
    assert decode_block(raw) == records
    interval = 1 if code.endswith("02000000") else 16
    builder = BlockBuilder(interval)
    for key, value in records:
        builder.add(key, value)
    assert builder.finish() == raw


def test_lengths_in_more_bytes_than_needed() -> None:
    raw = encoder.close_block(
        encoder.long_varint(0, 5) + encoder.long_varint(1, 5) + encoder.long_varint(2, 3) + b"kvv"
    )
    assert decode_block(raw) == [(b"k", b"vv")]


def test_long_keys_and_values() -> None:
    records = [(b"k" * 300, b"v" * 70_000), (b"k" * 299 + b"l", b"")]
    assert decode_block(encoder.block(records)) == records


ENTRY = encoder.block_entry
A, B = ENTRY(0, b"a", b"1"), ENTRY(0, b"b", b"2")

# (id, block, part of the message, offset)
BAD: list[tuple[str, bytes, str, int | None]] = [
    ("no bytes", b"", "restarts", None),
    ("three bytes", b"\1\0\0", "restarts", None),
    ("count alone", b"\1\0\0\0", "restarts", None),
    ("count 0", encoder.close_block(b"", ()), "restarts", None),
    ("count 0 behind entries", encoder.close_block(A, (), count=0), "restarts", None),
    ("count too large", encoder.close_block(A, (0,), count=4), "restarts", None),
    ("count 2**31", encoder.close_block(A, (0,), count=2**31), "restarts", None),
    ("count 2**32 - 1", encoder.close_block(A, (0,), count=2**32 - 1), "restarts", None),
    ("first restart is not 0", encoder.close_block(A, (1,)), "restarts", None),
    ("restarts fall", encoder.close_block(A + B + ENTRY(0, b"c", b""), (0, 10, 5)), "rise", None),
    ("same restart twice", encoder.close_block(A + B, (0, 5, 5)), "rise", None),
    ("restart inside an entry", encoder.close_block(A + B, (0, 4)), "restart", None),
    ("restart at the end", encoder.close_block(A + B, (0, 10)), "restart", None),
    ("restart far behind the end", encoder.close_block(A, (0, 2**32 - 1)), "restart", None),
    ("restarts without entries", encoder.close_block(b"", (0, 5)), "restart", None),
    (
        "restart at a key cut short",
        encoder.close_block(ENTRY(0, b"ab", b"") + ENTRY(1, b"c", b""), (0, 5)),
        "restart",
        5,
    ),
    ("first key shares", encoder.close_block(ENTRY(1, b"a", b"")), "lengths", 0),
    ("shared beyond the key", encoder.close_block(A + ENTRY(2, b"b", b"")), "lengths", 5),
    ("shared 2**32", encoder.close_block(A + ENTRY(2**32, b"b", b"")), "32 bits", 5),
    ("key past the end", encoder.close_block(ENTRY(0, b"a", b"", fresh=2)), "lengths", 0),
    ("value past the end", encoder.close_block(ENTRY(0, b"a", b"v", size=2)), "lengths", 0),
    (
        "two lengths whose 32-bit sum is small",
        encoder.close_block(ENTRY(0, b"a", b"v", fresh=2**32 - 1, size=2)),
        "lengths",
        0,
    ),
    ("length 2**32", encoder.close_block(ENTRY(0, b"a", b"v", size=2**32)), "32 bits", 0),
    ("length 2**63", encoder.close_block(ENTRY(0, b"a", b"v", size=2**63)), "32 bits", 0),
    ("lengths cut off", encoder.close_block(A + b"\0\1"), "varint", 7),
    ("one byte left over", encoder.close_block(A + b"\0"), "varint", 6),
    ("length without end", encoder.close_block(b"\x80" * 20), "varint", 0),
    ("same key twice", encoder.close_block(A + A), "rise", 5),
    ("keys fall", encoder.close_block(B + A), "rise", 5),
    ("key falls by getting shorter", encoder.block([(b"ab", b""), (b"a", b"")]), "rise", 5),
    ("second empty key", encoder.block([(b"", b"1"), (b"", b"2")]), "rise", 4),
]


@pytest.mark.parametrize(
    ("raw", "message", "offset"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad(raw: bytes, message: str, offset: int | None) -> None:
    with refused(CorruptError, message) as caught:
        decode_block(raw)
    if offset is not None:
        assert caught.value.offset == offset
    assert caught.value.path is None


GOOD = bytes.fromhex(BLOCKS[2][1])


def test_truncated_at_every_length() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(CorruptError):
            pytest.fail(f"{size} bytes are read: {decode_block(GOOD[:size])}")


def test_every_single_bit_turned() -> None:
    for at in range(len(GOOD)):
        for bit in range(8):
            raw = bytearray(GOOD)
            raw[at] ^= 1 << bit
            try:
                records = decode_block(bytes(raw))
            except CorruptError:
                continue
            keys = [key for key, _ in records]
            assert keys == sorted(set(keys))


def test_a_key_that_runs_past_is_not_called_a_wrong_file() -> None:
    with pytest.raises(CorruptError) as caught:
        decode_block(encoder.close_block(b"\0\x80"))
    assert isinstance(caught.value, TruncatedError)


SHARED_KEY_BOMB = """
import resource
from ckpttool.errors import CkptError
from ckpttool.table.block import decode_block
from tests.support import encoder
raw = [encoder.block_entry(0, b"k" * 500_000, b"")]
raw += [encoder.block_entry(500_000 + at, b"a", b"") for at in range(60_000)]
block = encoder.close_block(b"".join(raw))
assert len(block) < 1_000_000
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
try:
    decode_block(block)
except CkptError as error:
    print("refused:", error)
"""


def test_keys_that_share_a_long_start_cannot_take_more_memory_than_fits() -> None:
    done = run_python(SHARED_KEY_BOMB)
    assert done.stderr == ""
    assert done.stdout.startswith("refused:")


RECORDS = st.dictionaries(st.binary(max_size=12), st.binary(max_size=40), max_size=50).map(
    lambda records: sorted(records.items())
)


@given(RECORDS, st.integers(1, 20))
def test_whatever_is_built_is_read(records: Records, interval: int) -> None:
    raw = encoder.block(records, interval=interval)
    assert decode_block(raw) == records
    builder = BlockBuilder(interval)
    for key, value in records:
        builder.add(key, value)
    assert builder.finish() == raw


@given(st.binary(max_size=80))
def test_any_bytes_end_in_rising_keys_or_an_error(raw: bytes) -> None:
    try:
        records = decode_block(raw)
    except CorruptError:
        return
    keys = [key for key, _ in records]
    assert keys == sorted(set(keys))
