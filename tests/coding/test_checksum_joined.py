from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding.checksum import crc32c, joined_crc
from tests.support import encoder


@given(st.binary(max_size=200), st.binary(max_size=2000))
def test_two_parts(first: bytes, second: bytes) -> None:
    whole = encoder.crc32c(first + second)
    assert joined_crc(encoder.crc32c(first), encoder.crc32c(second), len(second)) == whole


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_many_parts(parts: list[bytes]) -> None:
    crc = 0
    for part in parts:
        crc = joined_crc(crc, crc32c(part), len(part))
    assert crc == crc32c(b"".join(parts))


def test_known_values() -> None:
    # The usual check string, and the 32 zeros of RFC 3720.
    assert joined_crc(crc32c(b"1234"), crc32c(b"56789"), 5) == 0xE3069283
    assert joined_crc(crc32c(bytes(31)), crc32c(bytes(1)), 1) == 0x8A9136AA


def test_a_part_larger_than_any_memory() -> None:
    # By halves of zeros, up to 2**40 of them, and once at a stroke.
    zeros, size = crc32c(bytes(1)), 1
    while size < 1 << 40:
        zeros = joined_crc(zeros, zeros, size)
        size *= 2
    start = crc32c(b"x")
    at_once = joined_crc(start, zeros, size)
    in_two = joined_crc(joined_crc(start, crc32c(bytes(1)), 1), joined_zeros(size - 1), size - 1)
    assert at_once == in_two


def joined_zeros(count: int) -> int:
    """Return the crc of so many zeros, bit by bit of the count."""
    crc, power, size = 0, crc32c(bytes(1)), 1
    while count:
        if count & 1:
            crc = joined_crc(crc, power, size)
        power = joined_crc(power, power, size)
        size *= 2
        count >>= 1
    return crc
