"""Part of a tensor, read without the rest."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from ckpttool.tensor.dtypes import DTYPES, DType, dtype_of_name
from ckpttool.tensor.partial import read_part
from ckpttool.tensor.region import fit_index, parse_index
from ckpttool.tensor.values import Array, decode_array

FIXED = [dtype for dtype in DTYPES.values() if dtype.size is not None]
INDICES = ["0", "-1", ":", "::-1", "1:", "0:0", ":,0", "...,-1", "1,1", "::-1,::2", "0:1,1:"]


class Held:
    """Bytes that note what is read of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.calls: list[int] = []

    def read_at(self, pos: int, length: int) -> bytes:
        assert 0 <= pos <= pos + length <= self.size
        self.calls.append(length)
        return self.data[pos : pos + length]

    def chunks(self, pos: int, length: int, *, chunk_size: int) -> Iterator[memoryview]:
        raise AssertionError("the whole is read")


def check(dtype: DType, whole: Array, held: Held, start: int, text: str, *, big: bool) -> None:
    index = fit_index(parse_index(text), whole.shape)
    part = read_part(dtype, whole.shape, index, held, start, big_endian=big)
    expected = whole[index]
    assert part.dtype == whole.dtype, text
    assert part.shape == np.shape(expected), text
    assert part.tobytes() == expected.tobytes(), text
    assert part.flags.writeable
    assert part.flags.aligned


@pytest.mark.parametrize("big", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("dtype", FIXED, ids=str)
def test_every_dtype(dtype: DType, big: bool) -> None:
    raw = bytes(range(1, 6 * (dtype.size or 0) + 1))
    whole = decode_array(dtype, (2, 3), memoryview(raw), big_endian=big)
    for text in INDICES:
        check(dtype, whole, Held(b"\xff" * 3 + raw), 3, text, big=big)


def test_a_scalar_and_nothing() -> None:
    dtype = dtype_of_name("int16")
    assert read_part(dtype, (), (), Held(b"\1\0"), 0, big_endian=False).tolist() == 1
    nothing = Held(b"")
    empty = read_part(dtype, (0, 3), (slice(None), 1), nothing, 0, big_endian=False)
    assert empty.shape == (0,)
    assert not nothing.calls


def random_part(dim: int, chance: random.Random) -> str:
    if dim and chance.random() < 0.2:
        return str(chance.randrange(-dim, dim))
    start, stop = (chance.choice(["", str(chance.randint(-dim - 1, dim + 1))]) for _ in "ab")
    return f"{start}:{stop}:{chance.choice(['', '1', '2', '7', '-1', '-3', '500'])}"


@pytest.mark.parametrize(
    "shape",
    [(700_000,), (3, 200_000), (300, 3, 900), (2, 3, 50_000, 2), (40_000, 1, 20), (2, 0, 5)],
    ids=str,
)
def test_parts_of_large_arrays(shape: tuple[int, ...]) -> None:
    chance = random.Random(str(shape))
    dtype = dtype_of_name("int32")
    whole = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    held = Held(b"\xff" + whole.tobytes())
    for _ in range(40):
        text = ",".join(random_part(dim, chance) for dim in shape[: chance.randint(1, len(shape))])
        check(dtype, whole, held, 1, text, big=False)


@pytest.mark.parametrize(
    ("shape", "text", "most", "calls"),
    [
        ((1 << 20,), "5:9", 16, 1),
        ((1 << 20,), "::100000", 4 * 11, 11),  # too far apart to read what lies between
        ((1 << 20,), "::1000", 1 << 22, 6),  # a seek would cost more than what lies between
        ((1 << 10, 1 << 10), "3,7:9", 1 << 12, 1),
        ((4, 1 << 18), ":,-1", 4 * (1 << 20), 4),
        ((8, 1 << 17), ":,3:4", 8 * 4, 8),
    ],
)
def test_little_more_is_read_than_wanted(
    shape: tuple[int, ...], text: str, most: int, calls: int
) -> None:
    whole = np.zeros(shape, "<i4")
    held = Held(whole.tobytes())
    check(dtype_of_name("int32"), whole, held, 0, text, big=False)
    assert sum(held.calls) <= most
    assert len(held.calls) <= calls
    assert max(held.calls) <= 1 << 20
