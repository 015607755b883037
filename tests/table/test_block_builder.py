from __future__ import annotations

import struct

import pytest

from ckpttool.table.block import decode_block
from ckpttool.table.block_builder import BlockBuilder
from tests.support import encoder


def _restarts(block: bytes) -> tuple[int, ...]:
    (count,) = struct.unpack("<I", block[-4:])
    return struct.unpack(f"<{count}I", block[-4 * (count + 1) : -4])


@pytest.mark.parametrize("entries", [0, 1, 15, 16, 17, 31, 32, 33, 48, 49])
def test_restarts_fall_on_every_sixteenth_entry(entries: int) -> None:
    builder = BlockBuilder(16)
    starts = []
    for at in range(entries):
        starts.append(builder.size - 4 - 4 * max(1, -(-at // 16)))
        builder.add(b"k%03d" % at, b"v")
    assert _restarts(builder.finish()) == tuple(starts[::16] or [0])


def test_size_is_that_of_the_finished_block() -> None:
    builder = BlockBuilder(2)
    assert (builder.size, builder.empty) == (8, True)
    for at in range(7):
        builder.add(b"key%d" % at, b"x" * at)
        assert builder.size == len(builder.finish())
        assert not builder.empty


def test_clear_forgets_everything() -> None:
    builder = BlockBuilder(16)
    builder.add(b"abc", b"1")
    builder.clear()
    assert builder.empty
    builder.add(b"abd", b"2")
    assert builder.finish() == encoder.block([(b"abd", b"2")])


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (b"", b"", 0),
        (b"", b"a", 0),
        (b"abc", b"abd", 2),
        (b"ab", b"abc", 2),
        (b"abc", b"b", 0),
        (b"a\0\0", b"a\0\1", 2),
        (b"\0\0\0a", b"\0\0\0b", 3),
        (b"k" * 5000 + b"1", b"k" * 5000 + b"2", 5000),
    ],
)
def test_shared_length(first: bytes, second: bytes, shared: int) -> None:
    builder = BlockBuilder(16)
    builder.add(first, b"")
    before = builder.size
    builder.add(second, b"")
    added = encoder.block_entry(shared, second[shared:], b"")
    assert builder.size - before == len(added)
    assert builder.finish().endswith(added + bytes((0, 0, 0, 0, 1, 0, 0, 0)))
    if first < second:
        assert decode_block(builder.finish()) == [(first, b""), (second, b"")]
