from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CorruptError, TruncatedError
from ckpttool.table.format import (
    MAGIC,
    BlockHandle,
    Footer,
    TableOptions,
    short_successor,
    shortest_separator,
)
from tests.support import encoder
from tests.support.refusals import refused

HANDLES = [
    ("first data block", "0024", BlockHandle(0, 0x24)),
    ("metaindex", "2908", BlockHandle(41, 8)),
    ("two-byte offset", "81010e", BlockHandle(129, 14)),
    ("largest", "ffffffffffffffffff01" * 2, BlockHandle(2**64 - 1, 2**64 - 1)),
]

FOOTERS = [
    ("one tensor", "2908360e" + "00" * 36, Footer(BlockHandle(41, 8), BlockHandle(54, 14))),
    ("two slices", "740881010e" + "00" * 35, Footer(BlockHandle(116, 8), BlockHandle(129, 14))),
]

SEPARATORS = [
    ("next digit is too near", b"layer_5800/e", b"layer_5801/f", b"layer_5800/e"),
    ("shortened", b"\0layer_8999/x", b"\0zzz", b"\0m"),
    ("shortened at the first byte", b"abc", b"d", b"b"),
    ("one apart", b"abc", b"b", b"abc"),
    ("prefix of the next", b"ab", b"abc", b"ab"),
    ("empty before anything", b"", b"a", b""),
    ("ff cannot rise", b"a\xffx", b"a\xff\xff", b"a\xffy"),
    ("ff at the difference", b"\xff", b"\xff\x01", b"\xff"),
    ("fe below ff", b"\xfe", b"\xff", b"\xfe"),
]

SUCCESSORS = [
    ("w", b"w", b"x"),
    ("p", b"p", b"q"),
    ("long", b"zz/anything/b", b"{"),
    ("slice key", b"\0zz", b"\x01"),
    ("ff first", b"\xff\xffab", b"\xff\xffb"),
    ("all ff", b"\xff\xff", b"\xff\xff"),
    ("empty", b"", b""),
]


@pytest.mark.parametrize(
    ("code", "handle"), [row[1:] for row in HANDLES], ids=[row[0] for row in HANDLES]
)
def test_handle_both_ways(code: str, handle: BlockHandle) -> None:
    raw = bytes.fromhex(code)
    assert handle.encode() == raw
    assert BlockHandle.decode(b"?" + raw, 1) == (handle, 1 + len(raw))


@pytest.mark.parametrize("code", ["", "00", "0080", "80"])
def test_truncated_handle(code: str) -> None:
    with pytest.raises(TruncatedError):
        BlockHandle.decode(bytes.fromhex(code))


@pytest.mark.parametrize(
    ("code", "footer"), [row[1:] for row in FOOTERS], ids=[row[0] for row in FOOTERS]
)
def test_footer_both_ways(code: str, footer: Footer) -> None:
    raw = bytes.fromhex(code) + bytes.fromhex("57fb808b247547db")
    assert len(raw) == 48
    assert footer.encode() == raw
    assert Footer.decode(raw) == footer


def test_footer_with_the_widest_handles() -> None:
    widest = BlockHandle(2**64 - 1, 2**64 - 1)
    raw = Footer(widest, widest).encode()
    assert len(raw) == 48
    assert Footer.decode(raw) == Footer(widest, widest)


@pytest.mark.parametrize("at", range(8))
def test_every_byte_of_the_magic_number_counts(at: int) -> None:
    raw = bytearray(bytes(40) + MAGIC)
    raw[40 + at] ^= 1
    with refused(CorruptError, "magic number") as caught:
        Footer.decode(bytes(raw))
    assert caught.value.offset == 40


@pytest.mark.parametrize("handles", [b"\xff" * 40, b"\x01" * 3 + b"\x80" * 37])
def test_footer_with_an_impossible_handle(handles: bytes) -> None:
    with pytest.raises(CorruptError):
        Footer.decode(handles + MAGIC)


@pytest.mark.parametrize(
    ("last", "following", "separator"),
    [row[1:] for row in SEPARATORS],
    ids=[row[0] for row in SEPARATORS],
)
def test_separator(last: bytes, following: bytes, separator: bytes) -> None:
    assert shortest_separator(last, following) == separator


@pytest.mark.parametrize(
    ("last", "successor"), [row[1:] for row in SUCCESSORS], ids=[row[0] for row in SUCCESSORS]
)
def test_successor(last: bytes, successor: bytes) -> None:
    assert short_successor(last) == successor


KEYS = st.one_of(
    st.binary(max_size=8),
    st.text("ab\xfe\xff\0", max_size=6).map(lambda text: text.encode("latin1")),
)


@given(KEYS, KEYS)
def test_separators_lie_between(a: bytes, b: bytes) -> None:
    low, high = sorted((a, b))
    assert short_successor(a) == encoder.successor(a)
    assert short_successor(a) >= a
    if low != high:
        separator = shortest_separator(low, high)
        assert low <= separator < high
        assert len(separator) <= len(low)
        assert separator == encoder.separator(low, high)


def test_the_usual_options_are_those_of_tensorflow() -> None:
    assert TableOptions() == TableOptions(block_size=256 * 1024, restart_interval=16)
