from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.varint import decode_varint, encode_varint
from ckpttool.errors import CorruptError, TruncatedError
from tests.support import encoder
from tests.support.refusals import refused

VALUES = [
    ("zero", "00", 0),
    ("one", "01", 1),
    ("largest of one byte", "7f", 127),
    ("smallest of two bytes", "8001", 128),
    ("129, as in a footer", "8101", 129),
    ("300", "ac02", 300),
    ("largest of two bytes", "ff7f", 16383),
    ("32 bits", "ffffffff0f", 2**32 - 1),
    ("63 bits", "ffffffffffffffff7f", 2**63 - 1),
    ("sign bit", "80808080808080808001", 2**63),
    ("64 bits", "ffffffffffffffffff01", 2**64 - 1),
]


@pytest.mark.parametrize(
    ("code", "value"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES]
)
def test_both_ways(code: str, value: int) -> None:
    raw = bytes.fromhex(code)
    assert encode_varint(value) == raw
    assert decode_varint(raw, 0, len(raw)) == (value, len(raw))
    assert decode_varint(b"\xff" + raw + b"\xff", 1, len(raw) + 2) == (value, len(raw) + 1)
    assert decode_varint(memoryview(raw), 0, len(raw)) == (value, len(raw))


@pytest.mark.parametrize("size", range(2, 11))
def test_more_bytes_than_needed_are_read(size: int) -> None:
    raw = encoder.long_varint(5, size)
    assert decode_varint(raw, 0, size) == (5, size)


@pytest.mark.parametrize("code", ["", "80", "ffff", "808080808080808080"])
def test_truncated(code: str) -> None:
    raw = bytes.fromhex(code)
    with pytest.raises(TruncatedError) as caught:
        decode_varint(raw, 0, len(raw))
    assert caught.value.offset == 0


def test_the_end_counts_and_not_the_length_of_the_data() -> None:
    with pytest.raises(TruncatedError) as caught:
        decode_varint(b"\x00\x80\x01", 1, 2)
    assert caught.value.offset == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("65 bits", "ffffffffffffffffff02"),
        ("70 bits", "ffffffffffffffffff7f"),
        ("eleven bytes", "8080808080808080808000"),
        ("no end in sight", "ff" * 1000),
    ],
)
def test_too_wide(name: str, code: str) -> None:
    raw = bytes.fromhex(code)
    with refused(CorruptError, "64 bits") as caught:
        decode_varint(raw, 0, len(raw))
    assert not isinstance(caught.value, TruncatedError), name


@given(st.integers(0, 2**64 - 1))
def test_second_opinion(value: int) -> None:
    raw = encode_varint(value)
    assert raw == encoder.varint(value)
    assert decode_varint(raw, 0, len(raw)) == (value, len(raw))


@given(st.binary(max_size=12))
def test_any_bytes_end_in_a_value_or_an_error(raw: bytes) -> None:
    try:
        value, end = decode_varint(raw, 0, len(raw))
    except CorruptError:
        return
    assert 0 < end <= len(raw)
    assert 0 <= value < 2**64
