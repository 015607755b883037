from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CorruptError
from ckpttool.tensor.slices import TensorSlice, decode_slice_key, encode_slice_key
from tests.support import encoder
from tests.support.slices import parse_slice

# (id, name, slice, key)
KEYS = [
    ("first rows", b"p", "0,2:-", "0070000101028082807f"),
    ("last row", b"p", "2,1:-", "0070000101028281807f"),
    ("name with NUL", b"a\0b", "1,2:-", "006100ff620001010281 82807f".replace(" ", "")),
    ("name with ff", b"\xff", "0,1", "00ff0000010101" "8081"),
    ("V1 scalar", b"s", "", "0073000100"),
    ("length spelled out", b"p", "0,4", "00700001010180" "84"),
    ("large", b"p", "64,8192", "0070000101 01c040e02000".replace(" ", "")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "code"), [row[1:] for row in KEYS], ids=[row[0] for row in KEYS]
)
def test_both_ways(name: bytes, text: str, code: str) -> None:
    part = parse_slice(text)
    assert encode_slice_key(name, part).hex() == code
    assert decode_slice_key(bytes.fromhex(code)) == (name, part)


def test_full_and_spelled_out_are_different_keys() -> None:
    assert encode_slice_key(b"p", parse_slice("-")) != encode_slice_key(b"p", parse_slice("0,4"))


def test_any_negative_length_means_the_full_extent() -> None:
    assert decode_slice_key(encoder.slice_key(b"p", ((0, -2),))) == (b"p", parse_slice("-"))


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("empty", ""),
        ("an ordinary name", b"dense/kernel".hex()),
        ("leading number 1", "010170000100"),
        ("no end of the name", "0070"),
        ("no rank", "00700001"),
        ("missing extents", "007000010102"),
        ("half an extent", "007000010101" "80"),
        ("more after the end", "0073000100" "00"),
        ("rank of 2**64 - 1", "0070000108" "ff" * 8),
        ("rank larger than the key", "00700001" "0401000000"),
        ("rank not in its shortest form", "00700001" "0200" "01" "8081"),
        ("number not in its shortest form", "0070000101" "01" "c00181"),
    ],
)  # fmt: skip
def test_bad(case: str, code: str) -> None:
    with pytest.raises(CorruptError):
        decode_slice_key(bytes.fromhex(code))


EXTENTS = st.lists(
    st.one_of(
        st.just((0, -1)),
        st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1)),
        st.tuples(st.integers(0, 300), st.integers(1, 300)),
    ),
    max_size=6,
)


@given(st.binary(max_size=30), EXTENTS)
def test_second_opinion(name: bytes, extents: list[tuple[int, int]]) -> None:
    part = TensorSlice(tuple(extents))
    key = encode_slice_key(name, part)
    assert key == encoder.slice_key(name, extents)
    assert decode_slice_key(key) == (name, part)
    assert key[:1] == b"\0"


@given(st.binary(max_size=30), st.binary(max_size=30), EXTENTS, EXTENTS)
def test_keys_sort_by_name_first(
    a: bytes, b: bytes, first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    if a != b:
        one = encode_slice_key(a, TensorSlice(tuple(first)))
        two = encode_slice_key(b, TensorSlice(tuple(second)))
        assert (a < b) == (one < two)


@given(st.binary(max_size=30).map(lambda rest: b"\0" + rest))
def test_any_bytes_end_in_a_slice_or_an_error(raw: bytes) -> None:
    try:
        name, part = decode_slice_key(raw)
    except CorruptError:
        return
    again = encode_slice_key(name, part)
    # Any negative length means the full extent.
    assert again == raw or any(length == -1 for _, length in part.extents)
