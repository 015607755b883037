"""Entries by columns are what they are one by one, and so are the errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.bundle.columns import decode_columns
from ckpttool.bundle.entry import EntryDecoder
from ckpttool.bundle.index import BundleIndex
from ckpttool.errors import CkptError, CorruptError
from tests.support import encoder

SHARDS = 130


def by_columns(records: Sequence[bytes]) -> list[tuple[object, ...]]:
    found = decode_columns(EntryDecoder(SHARDS), records)
    parts = [found.slices.get(at, ()) for at in range(len(records))]
    return list(zip(*found[:6], parts, strict=True))


def one_by_one(records: Sequence[bytes]) -> list[tuple[object, ...]]:
    return [EntryDecoder(SHARDS).decode(record)[:7] for record in records]


def float_entry(shape: Sequence[int] = (4, 3), *, shard: int = 0, offset: int = 0) -> bytes:
    size = 4
    for dim in shape:
        size *= dim
    return encoder.entry(1, shape, shard=shard, offset=offset, size=size, crc=(offset + 1) % 2**32)


ONE = float_entry(offset=300)
PLACES = st.tuples(
    st.sampled_from([(4, 3), (3,), (), (0,), (2**20, 2**20)]),
    st.sampled_from([0, 1, 2, 127, 128, 129]),
    st.one_of(
        st.sampled_from([0, 1, 127, 128, 2**14 - 1, 2**14, 2**49 - 1, 2**49, 2**63 - 1]),
        st.integers(0, 2**31),
    ),
)


@given(st.lists(PLACES, max_size=4), st.integers(1, 20))
def test_any_places_are_what_single_entries_say(
    places: list[tuple[tuple[int, ...], int, int]], times: int
) -> None:
    records = [float_entry(shape, shard=shard, offset=at) for shape, shard, at in places] * times
    assert by_columns(records) == one_by_one(records)


def test_numbers_of_many_records_stay_apart() -> None:
    offsets = [0x7F * 0x80**length + at for length in range(7) for at in range(100)]
    records = [float_entry(shard=at % 3, offset=offset) for at, offset in enumerate(offsets)]
    found = decode_columns(EntryDecoder(3), records)
    assert found.offsets == offsets
    assert found.shards == [at % 3 for at in range(len(offsets))]
    assert found.crcs == [(offset + 1) % 2**32 for offset in offsets]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
def test_other_forms_among_the_usual(count: int) -> None:
    text = encoder.entry(7, (2,), offset=5, size=20, crc=1)
    parted = encoder.entry(1, (4,), slices=[((0, 2),), ((2, 2),)])
    unknown = ONE + bytes.fromhex("5a0161")
    records = [ONE, text, parted, unknown] * count
    assert by_columns(records) == one_by_one(records)


@given(st.data())
def test_a_damaged_record_among_sound_ones_is_told_as_alone(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ONE) - 1))
    byte = data.draw(st.integers(0, 255))
    odd = data.draw(st.sampled_from([ONE[:at], ONE[:at] + bytes((byte,)) + ONE[at + 1 :]]))
    times = data.draw(st.sampled_from([1, 20]))
    records = [ONE] * 10 + [odd] * times + [ONE]
    try:
        expected = one_by_one(records)
    except CkptError as error:
        with pytest.raises(type(error)) as caught:
            by_columns(records)
        assert caught.value.message == error.message
        return
    assert by_columns(records) == expected


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_heads_are_the_same_all_at_once(odd: list[bytes]) -> None:
    decoder = EntryDecoder(SHARDS)
    for record in (*odd, ONE, ONE[:8], ONE[:9] + b"\x12\x00", ONE):
        try:
            expected = EntryDecoder(SHARDS).decode_head(record)
        except CkptError as error:
            with pytest.raises(type(error)):
                list(decoder.decode_heads([record]))
        else:
            assert list(decoder.decode_heads([record])) == [expected]


def test_no_entries() -> None:
    assert by_columns([]) == []


def test_an_error_names_the_key(tmp_path: Path) -> None:
    entries = {f"k{at:02}".encode(): float_entry(offset=48 * at) for at in range(30)}
    entries[b"k17"] = float_entry(shard=3)
    records = [(b"", encoder.header()), *entries.items()]
    (tmp_path / "m.index").write_bytes(encoder.table(records))
    with pytest.raises(CorruptError, match="data shard 3") as caught:
        list(BundleIndex(str(tmp_path / "m")).entries.columns())
    assert caught.value.key == "k17"
