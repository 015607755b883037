from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.bundle.reader import BundleReader
from ckpttool.coding.checksum import crc32c, mask, unmask
from ckpttool.errors import ChecksumError, CorruptError, TruncatedError, UnsupportedError
from ckpttool.tensor.dtypes import STRING, VARIANT, DType, dtype_of_name, dtype_of_number
from ckpttool.tensor.strings import decode_strings, encode_strings
from ckpttool.tensor.variants import VariantElement, decode_variants, encode_variants
from ckpttool.tensor.verifier import make_verifier
from tests.support import encoder, fixtures
from tests.support.corruption import flip
from tests.support.limits import memory_limit
from tests.support.sweeps import each_bundle

MIB = 1 << 20
FLOAT = dtype_of_name("float32")

elements = st.lists(
    st.one_of(st.binary(max_size=5), st.binary(min_size=120, max_size=140)), max_size=12
)
cuts = st.lists(st.integers(0, 400), max_size=12)


def pieces(data: bytes, at: Sequence[int]) -> Iterator[bytes]:
    """Cut data at these places; some pieces may be empty."""
    edges = [0, *sorted(min(each, len(data)) for each in at), len(data)]
    for start, stop in pairwise(edges):
        yield data[start:stop]


def crc_of(dtype: DType, count: int, parts: Iterator[bytes], *, big_endian: bool = False) -> int:
    verifier = make_verifier(dtype, count, big_endian=big_endian)
    for part in parts:
        verifier.feed(part)
    return verifier.finish()


def error_of(dtype: DType, count: int, parts: Iterator[bytes]) -> CorruptError:
    with pytest.raises(CorruptError) as caught:
        crc_of(dtype, count, parts)
    return caught.value


@given(elements, cuts)
def test_strings_in_any_pieces(words: list[bytes], at: list[int]) -> None:
    data, crc = encode_strings(words)
    assert crc_of(STRING, len(words), pieces(data, at)) == crc


@given(elements, cuts)
def test_variants_in_any_pieces(words: list[bytes], at: list[int]) -> None:
    data, crc = encode_variants([VariantElement(word) for word in words])
    assert crc_of(VARIANT, len(words), pieces(data, at)) == crc


@given(st.binary(max_size=300), cuts)
def test_fixed_sizes_in_any_pieces(data: bytes, at: list[int]) -> None:
    data = data[: len(data) // 4 * 4]
    assert crc_of(FLOAT, len(data) // 4, pieces(data, at)) == crc32c(data)


@given(st.lists(st.binary(max_size=300), max_size=6), cuts)
def test_big_endian(words: list[bytes], at: list[int]) -> None:
    strings, crc = encoder.string_data(words, order=">")
    found = crc_of(STRING, len(words), pieces(strings, at), big_endian=True)
    assert mask(found) == crc
    variants, crc = encoder.variant_data(words, order=">")
    found = crc_of(VARIANT, len(words), pieces(variants, at), big_endian=True)
    assert mask(found) == crc


@given(elements, cuts, st.data())
def test_damaged_strings_fare_as_in_reading(
    words: list[bytes], at: list[int], draw: st.DataObject
) -> None:
    data, crc = encode_strings(words)
    place = draw.draw(st.integers(0, len(data) - 1))
    bad = flip(data, place, draw.draw(st.integers(1, 255)))
    try:
        _, computed = decode_strings(memoryview(bad), len(words))
    except CorruptError:
        error_of(STRING, len(words), pieces(bad, at))
    else:
        assert computed != crc
        assert crc_of(STRING, len(words), pieces(bad, at)) == computed


@given(elements.filter(bool), cuts, st.data())
def test_damaged_variants_fare_as_in_reading(
    words: list[bytes], at: list[int], draw: st.DataObject
) -> None:
    data, _ = encode_variants([VariantElement(word) for word in words])
    place = draw.draw(st.integers(0, len(data) - 1))
    bad = flip(data, place, draw.draw(st.integers(1, 255)))
    with pytest.raises(CorruptError) as caught:
        decode_variants(memoryview(bad), len(words))
    found = error_of(VARIANT, len(words), pieces(bad, at))
    if isinstance(caught.value, ChecksumError):
        assert (found.message, found.offset) == (caught.value.message, caught.value.offset)


@given(elements, st.booleans(), cuts, st.data())
def test_a_cut_is_noticed(
    words: list[bytes], variants: bool, at: list[int], draw: st.DataObject
) -> None:
    if variants:
        data, _ = encode_variants([VariantElement(word) for word in words])
    else:
        data, _ = encode_strings(words)
    dtype = VARIANT if variants else STRING
    size = draw.draw(st.integers(0, max(len(data) - 1, 0)))
    if data and (size or words):
        error = error_of(dtype, len(words), pieces(data[:size], at))
        assert error.offset is not None and 0 <= error.offset <= size


@each_bundle
def test_fixtures(fixture: fixtures.BundleFixture) -> None:
    with BundleReader(fixture.prefix) as reader:
        checked = 0
        for key, entry in reader.entries.items():
            stored = reader.index.slice_entries(key) if entry.slices else [(None, entry)]
            for _, part in stored:
                data = bytes(reader.stored_bytes(key, part))
                for size in (1, 7, 4096):
                    parts = (data[at : at + size] for at in range(0, len(data), size))
                    assert crc_of(part.dtype, part.elements, parts) == unmask(part.crc32c), key
                checked += 1
        assert checked >= len(fixture.tensors)


@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_strings_of_many_lengths_of_one_byte_and_of_two(chunk: int) -> None:
    words = [b"x" * (at % 3) for at in range(3000)] + [b"y" * 200, b"", b"z"]
    data, crc = encode_strings(words)
    parts = (data[at : at + chunk] for at in range(0, len(data), chunk))
    assert crc_of(STRING, len(words), parts) == crc


def test_lengths_in_more_bytes_than_needed() -> None:
    good, crc = encode_strings([b"hi", b"x"])
    data = encoder.long_varint(2, 5) + encoder.long_varint(1, 10) + good[2:]
    for at in range(len(data)):
        assert crc_of(STRING, 2, pieces(data, [at])) == crc


@pytest.mark.parametrize(
    ("dtype", "count", "data", "message", "offset"),
    [
        (FLOAT, 2, bytes(9), "1 bytes follow the last element", 8),
        (FLOAT, 2, bytes(7), "7 bytes are too few for elements of 8", 7),
        (STRING, 1, b"", "no bytes for 1 strings", 0),
        (STRING, 3, b"\0\0", "1 string lengths are missing", 2),
        (STRING, 1, b"\x80" * 10 + b"\0", "a varint has more than 64 bits", 9),
        (STRING, 1, b"\xff" * 9 + b"\x02" + bytes(4), "a varint has more than 64 bits", 9),
        (STRING, 1, b"\x01" + bytes(5), "string lengths are damaged", 1),
        (STRING, 1, encode_strings([b"ab"])[0] + b"c", "1 bytes follow the last string", 7),
        (STRING, 1, encode_strings([b"ab"])[0][:-1], "string lengths call for 1 bytes more", 6),
        (VARIANT, 1, b"\x80" * 10 + b"\0", "a varint has more than 64 bits", 9),
        (VARIANT, 2, encode_variants([VariantElement(b"a")])[0], "element 1 of 2 is cut short", 6),
        (VARIANT, 1, encode_variants([VariantElement(b"a")])[0] + b"b", "1 bytes follow the", 6),
        (VARIANT, 0, b"b", "1 bytes follow the last variant element", 0),
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_what_does_not_add_up(
    dtype: DType, count: int, data: bytes, message: str, offset: int, size: int
) -> None:
    error = error_of(dtype, count, (data[at : at + size] for at in range(0, len(data), size)))
    assert message in error.message
    assert error.offset == offset
    short = message.endswith(("more", "missing", "short", "of 8")) or not data
    assert isinstance(error, TruncatedError) == short


def test_no_bytes_for_no_elements() -> None:
    for dtype in (STRING, VARIANT, FLOAT):
        assert make_verifier(dtype, 0).finish() == 0


@pytest.mark.parametrize("number", [0, 20, 34, 101, -1])
def test_dtypes_that_are_not_known(number: int) -> None:
    with pytest.raises(UnsupportedError, match="cannot be checked"):
        make_verifier(dtype_of_number(number), 1)


def test_memory_does_not_grow_with_the_tensor() -> None:
    # 4 GiB of one string, then 64 Mi empty ones: far more than may be held.
    chunk = bytes(MIB)
    prefix = encoder.varint(4096 * MIB)
    lengths = crc32c((4096 * MIB).to_bytes(8, "little"))
    with memory_limit(32 * MIB):
        verifier = make_verifier(STRING, 1)
        verifier.feed(prefix + mask(lengths).to_bytes(4, "little"))
        for _ in range(256):
            verifier.feed(chunk)
        with pytest.raises(TruncatedError, match=f"{3840 * MIB} bytes more"):
            verifier.finish()
        verifier = make_verifier(STRING, 64 * MIB)
        for _ in range(64):
            verifier.feed(chunk)
        with pytest.raises(TruncatedError):
            verifier.finish()
        verifier = make_verifier(VARIANT, 1)
        verifier.feed(encoder.varint(1 << 62))
        for _ in range(64):
            verifier.feed(chunk)
        with pytest.raises(TruncatedError):
            verifier.finish()
