from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.ordered import (
    decode_num,
    decode_signed,
    decode_str,
    encode_num,
    encode_signed,
    encode_str,
)
from ckpttool.errors import CorruptError, TruncatedError
from tests.support import encoder

NUMBERS = [
    ("0", "00", 0),
    ("2", "0102", 2),
    ("255", "01ff", 255),
    ("300", "02012c", 300),
    ("2**63", "088000000000000000", 2**63),
    ("largest", "08ffffffffffffffff", 2**64 - 1),
]

STRINGS = [
    ("empty", "0001", b""),
    ("p", "700001", b"p"),
    ("NUL inside", "6100ff620001", b"a\0b"),
    ("NULs alone", "00ff00ff0001", b"\0\0"),
    ("ff", "ff000001", b"\xff"),
    ("ff and NUL", "ff0000ff0001", b"\xff\0"),
    ("fe is not special", "fe0001", b"\xfe"),
]

SIGNED = [
    ("0", "80", 0),
    ("1", "81", 1),
    ("63", "bf", 63),
    ("64", "c040", 64),
    ("255", "c0ff", 255),
    ("256", "c100", 256),
    ("8191", "dfff", 8191),
    ("8192", "e02000", 8192),
    ("2**20", "f0100000", 2**20),
    ("2**27", "f808000000", 2**27),
    ("2**41", "fe020000000000", 2**41),
    ("-1", "7f", -1),
    ("-2", "7e", -2),
    ("-64", "40", -64),
    ("-65", "3fbf", -65),
    ("-8192", "2000", -8192),
    ("-8193", "1fdfff", -8193),
    ("2**55 - 1", "ff7fffffffffffff", 2**55 - 1),
    ("2**55", "ff8080000000000000", 2**55),
    ("2**62 - 1", "ffbfffffffffffffff", 2**62 - 1),
    ("2**62", "ffc04000000000000000", 2**62),
    ("largest", "ffc07fffffffffffffff", 2**63 - 1),
    ("smallest", "003f8000000000000000", -(2**63)),
]


@pytest.mark.parametrize(
    ("code", "value"), [row[1:] for row in NUMBERS], ids=[row[0] for row in NUMBERS]
)
def test_number_both_ways(code: str, value: int) -> None:
    raw = bytes.fromhex(code)
    assert encode_num(value) == raw
    assert decode_num(b"?" + raw + b"?", 1) == (value, 1 + len(raw))


@pytest.mark.parametrize(
    ("code", "value"), [row[1:] for row in STRINGS], ids=[row[0] for row in STRINGS]
)
def test_string_both_ways(code: str, value: bytes) -> None:
    raw = bytes.fromhex(code)
    assert encode_str(value) == raw
    assert decode_str(b"?" + raw + b"?", 1) == (value, 1 + len(raw))


@pytest.mark.parametrize(
    ("code", "value"), [row[1:] for row in SIGNED], ids=[row[0] for row in SIGNED]
)
def test_signed_both_ways(code: str, value: int) -> None:
    raw = bytes.fromhex(code)
    assert encode_signed(value) == raw
    assert decode_signed(b"?" + raw + b"?", 1) == (value, 1 + len(raw))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("", TruncatedError),
        ("01", TruncatedError),
        ("080102", TruncatedError),
        ("09010101010101010101", CorruptError),
        ("ff", CorruptError),
        ("0100", CorruptError),
        ("020001", CorruptError),
    ],
)
def test_bad_number(code: str, error: type[CorruptError]) -> None:
    with pytest.raises(CorruptError) as caught:
        decode_num(bytes.fromhex(code), 0)
    assert type(caught.value) is error
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    ("code", "error", "offset"),
    [
        ("", TruncatedError, 0),
        ("61", TruncatedError, 0),
        ("6100", TruncatedError, 0),
        ("6100ff", TruncatedError, 0),
        ("61000001", CorruptError, 1),
        ("61ffff0001", CorruptError, 1),
        ("ff010001", CorruptError, 0),
    ],
)
def test_bad_string(code: str, error: type[CorruptError], offset: int) -> None:
    with pytest.raises(CorruptError) as caught:
        decode_str(bytes.fromhex(code), 0)
    assert type(caught.value) is error
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("name", "code", "error"),
    [
        ("nothing", "", TruncatedError),
        ("two bytes cut to one", "c0", TruncatedError),
        ("ten bytes cut to nine", "ffc07fffffffffffff", TruncatedError),
        ("negative cut", "3f", TruncatedError),
        ("eleven bytes", "ffe0000000000000000000", CorruptError),
        ("sixteen ones", "ffff000000000000000000", CorruptError),
        ("negative of sixteen", "0000000000000000000000", CorruptError),
        ("5 in two bytes", "c005", CorruptError),
        ("-1 in two bytes", "3fff", CorruptError),
        ("64 bits above zero", "ffc08000000000000000", CorruptError),
        ("64 bits below zero", "003f7fffffffffffffff", CorruptError),
    ],
)
def test_bad_signed(name: str, code: str, error: type[CorruptError]) -> None:
    with pytest.raises(CorruptError) as caught:
        decode_signed(bytes.fromhex(code), 0)
    assert type(caught.value) is error, name
    assert caught.value.offset == 0


UNSIGNED_64 = st.integers(0, 2**64 - 1)
# Plain integers() keeps to small numbers; boundaries are where the length changes.
SIGNED_64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.builds(
        lambda bits, off, sign: max(-(2**63), min(2**63 - 1, sign * (1 << bits) + off)),
        st.integers(0, 63),
        st.integers(-2, 2),
        st.sampled_from((1, -1)),
    ),
)


@given(UNSIGNED_64, UNSIGNED_64)
def test_numbers_sort_as_their_codes(a: int, b: int) -> None:
    assert encode_num(a) == encoder.ordered_number(a)
    assert (a < b) == (encode_num(a) < encode_num(b))
    assert decode_num(encode_num(a), 0) == (a, len(encode_num(a)))


@given(st.binary(), st.binary())
def test_strings_sort_as_their_codes(a: bytes, b: bytes) -> None:
    assert encode_str(a) == encoder.ordered_string(a)
    assert (a < b) == (encode_str(a) < encode_str(b))
    assert decode_str(encode_str(a) + b, 0) == (a, len(encode_str(a)))


@given(SIGNED_64, SIGNED_64)
def test_signed_numbers_sort_as_their_codes(a: int, b: int) -> None:
    assert encode_signed(a) == encoder.ordered_signed(a)
    assert (a < b) == (encode_signed(a) < encode_signed(b))
    assert decode_signed(encode_signed(a), 0) == (a, len(encode_signed(a)))


@given(st.binary(max_size=14))
def test_any_bytes_end_in_a_value_of_that_very_code_or_an_error(raw: bytes) -> None:
    for decode, encode in ((decode_num, encode_num), (decode_signed, encode_signed)):
        try:
            value, end = decode(raw, 0)
        except CorruptError:
            continue
        assert encode(value) == raw[:end]
    try:
        text, end = decode_str(raw, 0)
    except CorruptError:
        return
    assert encode_str(text) == raw[:end]
