from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.checksum import mask
from ckpttool.errors import ChecksumError, CorruptError, TruncatedError
from ckpttool.tensor.variants import VariantElement, decode_variants, encode_variants
from tests.support import corruption, encoder
from tests.support.limits import memory_limit
from tests.support.refusals import refused

# TensorFlow's: an optional that holds the int32 5.
OPTIONAL = (
    encoder.bytes_field(1, b"tensorflow::data::Optional")
    + bytes.fromhex("120101")
    + bytes.fromhex("1a0708031200" "3a0105")
)  # fmt: skip
GOOD = b"\x28" + OPTIONAL + bytes.fromhex("83f2ed77")
CRC = "5511bdce"


def test_both_ways() -> None:
    assert len(GOOD) == 45
    elements, crc = decode_variants(memoryview(GOOD), 1)
    assert elements == [VariantElement(OPTIONAL)]
    assert struct.pack("<I", mask(crc)).hex() == CRC
    assert encode_variants(elements) == (GOOD, crc)


def test_no_elements() -> None:
    assert decode_variants(memoryview(b""), 0) == ([], 0)
    assert encode_variants([]) == (b"", 0)


def test_what_the_message_says() -> None:
    element = VariantElement(OPTIONAL)
    assert element.type_name == "tensorflow::data::Optional"
    assert element.message.metadata == b"\x01"
    assert list(element.message.tensors[0].int_val) == [5]


@pytest.mark.parametrize("raw", [b"\xff", b"\x0a\x05ab", b"\x0a\x01\xff"])
def test_a_message_that_is_none(raw: bytes) -> None:
    with pytest.raises(CorruptError):
        VariantElement(raw).type_name  # noqa: B018


def test_big_endian() -> None:
    raw, stored = encoder.variant_data([OPTIONAL, b""], order=">")
    elements, crc = decode_variants(memoryview(raw), 2, big_endian=True)
    assert elements == [VariantElement(OPTIONAL), VariantElement(b"")]
    assert mask(crc) == stored
    with pytest.raises(ChecksumError):
        decode_variants(memoryview(raw), 2)


TWO = encoder.variant_data([OPTIONAL, b"x"])[0]

# (id, bytes, count, class, part of the message)
BAD: list[tuple[str, bytes, int, type[CorruptError], str]] = [
    ("no bytes", b"", 1, TruncatedError, "too few"),
    ("10**12 variants", GOOD, 10**12, TruncatedError, "too few"),
    ("one variant too many", GOOD, 2, TruncatedError, "past|varint"),
    ("one variant too few", TWO, 1, CorruptError, "follow the last"),
    ("cut", GOOD[:-1], 1, TruncatedError, "past the tensor"),
    ("one byte more", GOOD + b"\0", 1, CorruptError, "follow the last"),
    ("size of 2**63", encoder.varint(2**63) + GOOD, 1, TruncatedError, "past the tensor"),
    ("size of 2**64 - 1", encoder.varint(2**64 - 1) + GOOD, 1, TruncatedError, "past the tensor"),
    ("size without end", b"\xff" * 20, 1, CorruptError, "64 bits"),
    ("message damaged", corruption.flip(GOOD, 10, 1), 1, ChecksumError, "element 0"),
    ("checksum damaged", corruption.flip(GOOD, 44, 1), 1, ChecksumError, "element 0"),
    ("second damaged", corruption.flip(TWO, len(TWO) - 5, 1), 2, ChecksumError, "element 1"),
]


@pytest.mark.parametrize(
    ("raw", "count", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad(raw: bytes, count: int, error: type[CorruptError], message: str) -> None:
    with memory_limit(64 << 20), refused(CorruptError, message) as caught:
        decode_variants(memoryview(raw), count)
    assert isinstance(caught.value, error)


@given(st.lists(st.binary(max_size=200)))
def test_second_opinion(messages: list[bytes]) -> None:
    raw, crc = encode_variants([VariantElement(message) for message in messages])
    assert (raw, mask(crc)) == (
        encoder.variant_data(messages) if messages else (b"", encoder.mask(0))
    )
    elements, again = decode_variants(memoryview(raw), len(messages))
    assert [element.serialized for element in elements] == messages
    assert again == crc


@given(st.binary(max_size=60), st.integers(0, 10), st.booleans())
def test_any_bytes_end_in_variants_or_an_error(raw: bytes, count: int, big: bool) -> None:
    try:
        elements, _ = decode_variants(memoryview(raw), count, big_endian=big)
    except CorruptError:
        return
    assert len(elements) == count
