from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.checksum import mask
from ckpttool.errors import ChecksumError, CorruptError, TruncatedError
from ckpttool.tensor.strings import decode_strings, encode_strings
from tests.support import corruption, encoder
from tests.support.limits import memory_limit, time_limit
from tests.support.refusals import refused

# (id, bytes, the entry's crc as stored, elements): TensorFlow's.
TENSORS = [
    ("three", "02000165148e116869ff", "2d298b44", [b"hi", b"", b"\xff"]),
    ("none", "d8ea82a2", "f6c10c64", []),
    ("one empty", "00a67b113a", "bd6707be", [b""]),
]
GOOD = bytes.fromhex(TENSORS[0][1])


@pytest.mark.parametrize(
    ("code", "crc", "elements"), [row[1:] for row in TENSORS], ids=[row[0] for row in TENSORS]
)
def test_both_ways(code: str, crc: str, elements: list[bytes]) -> None:
    raw = bytes.fromhex(code)
    found, computed = decode_strings(memoryview(raw), len(elements))
    assert list(found) == elements
    assert struct.pack("<I", mask(computed)).hex() == crc
    encoded, computed = encode_strings(elements)
    assert encoded == raw
    assert struct.pack("<I", mask(computed)).hex() == crc


def test_big_endian() -> None:
    raw, stored = encoder.string_data([b"hi", b"", b"\xff"], order=">")
    elements, crc = decode_strings(memoryview(raw), 3, big_endian=True)
    assert list(elements) == [b"hi", b"", b"\xff"]
    assert mask(crc) == stored
    with pytest.raises(ChecksumError):
        decode_strings(memoryview(raw), 3)


def test_lengths_in_more_bytes_than_needed() -> None:
    lengths = encoder.long_varint(2, 5) + encoder.long_varint(0, 3) + b"\x01"
    raw = lengths + GOOD[3:]
    elements, crc = decode_strings(memoryview(raw), 3)
    assert list(elements) == [b"hi", b"", b"\xff"]
    assert struct.pack("<I", mask(crc)).hex() == "2d298b44"


def sealed(lengths: list[int], contents: bytes) -> bytes:
    """Return string data whose length checksum is right, whatever the lengths say."""
    plain = b"".join(struct.pack("<Q" if n >> 32 else "<I", n) for n in lengths)
    crc = struct.pack("<I", encoder.masked_crc(plain))
    return b"".join(map(encoder.varint, lengths)) + crc + contents


# (id, bytes, count, class, part of the message)
BAD: list[tuple[str, bytes, int, type[CorruptError], str]] = [
    ("no bytes", b"", 0, TruncatedError, "too few"),
    ("no bytes for one", b"", 1, TruncatedError, "too few"),
    ("fewer bytes than strings", b"\0" * 8, 5, TruncatedError, "too few"),
    ("2**40 strings", GOOD, 2**40, TruncatedError, "too few"),
    ("10**18 strings", GOOD, 10**18, TruncatedError, "too few"),
    ("one string too many", GOOD, 4, CorruptError, "lengths|add up"),
    ("one string too few", GOOD, 2, CorruptError, "add up"),
    ("contents cut", GOOD[:-1], 3, CorruptError, "add up"),
    ("one byte more", GOOD + b"\0", 3, CorruptError, "add up"),
    ("length too large", sealed([2, 0, 2], b"hi\xff"), 3, CorruptError, "add up"),
    ("length too small", sealed([2, 0, 0], b"hi\xff"), 3, CorruptError, "add up"),
    ("length of 2**40", sealed([2**40, 0, 0], b"hi\xff"), 3, CorruptError, "add up"),
    ("length of 2**63", sealed([2**63, 0, 0], b"hi\xff"), 3, CorruptError, "add up"),
    ("sum that wraps to 3", sealed([2**63, 2**63, 3], b"hi\xff"), 3, CorruptError, "add up"),
    ("length without end", b"\x80" * 20, 3, CorruptError, "64 bits"),
    ("length cut", b"\0\0" + b"\x80" * 6, 3, TruncatedError, "varint"),
    ("lengths damaged", corruption.flip(GOOD, 4, 1), 3, ChecksumError, "lengths"),
    ("two lengths exchanged", b"\0\2\1" + GOOD[3:], 3, ChecksumError, "lengths"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "count", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad(raw: bytes, count: int, error: type[CorruptError], message: str) -> None:
    with memory_limit(64 << 20), refused(CorruptError, message) as caught:
        decode_strings(memoryview(raw), count)
    assert type(caught.value) is error


def test_contents_are_under_the_crc_of_the_entry() -> None:
    _, good = decode_strings(memoryview(GOOD), 3)
    _, other = decode_strings(memoryview(corruption.flip(GOOD, 7, 1)), 3)
    assert good != other


def test_many_strings_take_little_time() -> None:
    raw, _ = encode_strings([b"x"] * 200_000)
    with time_limit(10):
        elements, _ = decode_strings(memoryview(raw), 200_000)
    assert list(elements) == [b"x"] * 200_000


@given(st.lists(st.binary(max_size=200)))
def test_second_opinion(elements: list[bytes]) -> None:
    raw, crc = encode_strings(elements)
    assert (raw, mask(crc)) == encoder.string_data(elements)
    found, computed = decode_strings(memoryview(raw), len(elements))
    assert (list(found), computed) == (elements, crc)


@given(st.binary(max_size=40), st.integers(0, 50), st.booleans())
def test_any_bytes_end_in_strings_or_an_error(raw: bytes, count: int, big: bool) -> None:
    try:
        elements, _ = decode_strings(memoryview(raw), count, big_endian=big)
    except CorruptError:
        return
    assert len(elements) == count
    assert sum(map(len, elements)) <= len(raw)


def test_elements_anywhere() -> None:
    # Some runs have lengths of one byte only, others not.
    words = [b"%d" % n * (40 if n in (5000, 13_000) else 1) for n in range(20_000)]
    strings, _ = decode_strings(memoryview(encoder.string_data(words)[0]), len(words))
    places = [19_999, 0, 4095, 4096, 5000, 4999, 5001, 13_000, 12_288, 8191]
    assert list(strings.take(places)) == [words[place] for place in places]
    assert list(strings) == words


@pytest.mark.large
def test_elements_not_asked_for_take_no_memory() -> None:
    raw, _ = encode_strings([b"ab"] * 2_000_000)
    with memory_limit(24 << 20):
        strings, _ = decode_strings(memoryview(raw), 2_000_000)
        assert list(strings.take([0, 1_999_999])) == [b"ab", b"ab"]
