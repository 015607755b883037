"""Names as bytes and as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.text import decode_text, encode_text


@given(st.binary())
def test_every_name_comes_back(raw: bytes) -> None:
    text = decode_text(raw)
    assert encode_text(text) == raw
    assert decode_text(memoryview(raw)) == decode_text(bytearray(raw)) == text


@given(st.lists(st.binary()))
def test_texts_sort_by_their_bytes(names: list[bytes]) -> None:
    texts = [decode_text(raw) for raw in names]
    assert [encode_text(text) for text in sorted(texts, key=encode_text)] == sorted(names)


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"a/\xc3\xa9", "a/é"), (b"a\xff", "a\udcff"), (b"\xed\xb3\xbf", "\udced\udcb3\udcbf")],
)
def test_known_names(raw: bytes, text: str) -> None:
    assert decode_text(raw) == text


def test_half_a_surrogate_pair_is_no_name() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_text("\ud800")
