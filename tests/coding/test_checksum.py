from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.checksum import crc32c, mask, unmask
from tests.support import encoder

# Known values: the usual check string, RFC 3720 appendix B.4, and what TensorFlow stored.
CRCS = [
    ("nothing", "", 0),
    ("check", b"123456789".hex(), 0xE3069283),
    ("32 zeros", "00" * 32, 0x8A9136AA),
    ("32 ones", "ff" * 32, 0x62A8AB43),
    ("rising", bytes(range(32)).hex(), 0x46DD794E),
    ("falling", bytes(range(31, -1, -1)).hex(), 0x113FDB5C),
]

# The stored form of the crc of these bytes, as they lie in a file.
STORED = [
    ("nothing", "", "d8ea82a2"),
    ("float32 1 and -2", "0000803f000000c0", "453f1688"),
    ("metaindex block", "000000000100000000", "c0f2a1b0"),
    ("lengths of three strings", "020000000000000001000000", "65148e11"),
    ("length of an empty string", "00000000", "a67b113a"),
    ("uint8 7", "07", "46f8f711"),
    ("bool true", "01", "052b2843"),
    ("float32 2", "00000040", "10fd784f"),
]


@pytest.mark.parametrize(("data", "crc"), [row[1:] for row in CRCS], ids=[row[0] for row in CRCS])
def test_known_values(data: str, crc: int) -> None:
    assert crc32c(bytes.fromhex(data)) == crc


@pytest.mark.parametrize(
    ("data", "stored"), [row[1:] for row in STORED], ids=[row[0] for row in STORED]
)
def test_stored_form_both_ways(data: str, stored: str) -> None:
    number = int.from_bytes(bytes.fromhex(stored), "little")
    assert mask(crc32c(bytes.fromhex(data))) == number
    assert unmask(number) == crc32c(bytes.fromhex(data))


@given(st.integers(0, 2**32 - 1))
def test_unmask_undoes_mask(crc: int) -> None:
    assert 0 <= mask(crc) < 2**32
    assert unmask(mask(crc)) == crc
    assert mask(unmask(crc)) == crc
    assert mask(crc) == encoder.mask(crc)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_second_opinion_and_continuation(first: bytes, second: bytes) -> None:
    assert crc32c(first) == encoder.crc32c(first)
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
    assert crc32c(memoryview(first)) == crc32c(bytearray(first)) == crc32c(first)
