from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.errors import CkptError, CorruptError, TruncatedError, UnsupportedError
from ckpttool.tensor.shape import Shape, decode_shape, element_count, encode_shape
from tests.support import encoder

# As TensorFlow writes them.
SHAPES: list[tuple[str, str, Shape]] = [
    ("scalar", "", ()),
    ("one dimension", "12020802", (2,)),
    ("matrix", "1202080212020803", (2, 3)),
    ("no rows", "120012020803", (0, 3)),
    ("nothing at all", "1200", (0,)),
    ("two-byte size", "120308ac02", (300,)),
    ("large", "1206088080808008", (2**31,)),
]

# What protobuf reads the same, though nobody writes it.
ODD: list[tuple[str, str, Shape]] = [
    ("explicit zero", "12020800", (0,)),
    ("dimension with a name", "1205080212016e", (2,)),
    ("name first", "120512016e0802", (2,)),
    ("known rank said aloud", "120208021800", (2,)),
    ("unknown field", "5801" "12020802", (2,)),
    ("unknown field in a dimension", "120408025801", (2,)),
    ("long varint", "1206088280808000", (2,)),
]  # fmt: skip

BAD: list[tuple[str, str, type[CkptError], str]] = [
    ("negative", "120b08ffffffffffffffffff01", CorruptError, "-1"),
    ("most negative", "120b0880808080808080808001", CorruptError, "-9223372036854775808"),
    ("too many elements", encoder.shape([2**32, 2**32]).hex(), CorruptError, "more elements"),
    ("too many beside a zero", encoder.shape([0, 2**40, 2**40]).hex(), CorruptError, "more elem"),
    ("2**63 - 1 elements", encoder.shape([2**63 - 1]).hex(), CorruptError, "more elements"),
    ("255 dimensions", encoder.shape([1] * 255).hex(), CorruptError, "255 dimensions"),
    ("unknown rank", "1801", UnsupportedError, "rank"),
    ("unknown rank beside dimensions", "120208021801", UnsupportedError, "rank"),
    ("cut", "120208", TruncatedError, ""),
    ("cut in a dimension", "120108", TruncatedError, ""),
    ("text", "68656c6c6f", CkptError, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "shape"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES]
)
def test_both_ways(code: str, shape: Shape) -> None:
    raw = bytes.fromhex(code)
    assert encode_shape(shape) == raw
    assert decode_shape(raw) == shape


@pytest.mark.parametrize(("code", "shape"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_odd_forms(code: str, shape: Shape) -> None:
    assert decode_shape(bytes.fromhex(code)) == shape


@pytest.mark.parametrize(
    ("code", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad(code: str, error: type[CkptError], message: str) -> None:
    with pytest.raises(error) as caught:
        decode_shape(bytes.fromhex(code))
    assert message in caught.value.message


def test_the_most_dimensions_that_tensorflow_has() -> None:
    assert decode_shape(encoder.shape([1] * 254)) == (1,) * 254


@pytest.mark.parametrize(
    ("shape", "count"), [((), 1), ((0,), 0), ((3, 0, 2), 0), ((7,), 7), ((2, 3, 4), 24)]
)
def test_element_count(shape: Shape, count: int) -> None:
    assert element_count(shape) == count


@given(st.lists(st.integers(0, 2**11), max_size=5))
def test_second_opinion(dims: list[int]) -> None:
    raw = encode_shape(tuple(dims))
    assert raw == encoder.shape(dims)
    assert decode_shape(raw) == tuple(dims)


@given(st.binary(max_size=40))
def test_any_bytes_end_in_a_shape_or_an_error(raw: bytes) -> None:
    try:
        shape = decode_shape(raw)
    except CkptError:
        return
    assert all(dim >= 0 for dim in shape)
