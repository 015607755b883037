from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.bundle.entry import BundleEntry, BundleHeader, EntryDecoder, decode_header
from ckpttool.errors import CkptError, CorruptError, TruncatedError, UnsupportedError
from ckpttool.tensor.dtypes import DTYPES, dtype_of_name, dtype_of_number
from ckpttool.tensor.slices import TensorSlice
from tests.support import encoder
from tests.support.encoder import bytes_field, number_field
from tests.support.slices import parse_slice

F32, I32, U8, BOOL = map(dtype_of_name, ("float32", "int32", "uint8", "bool"))
STRING, VARIANT = dtype_of_name("string"), dtype_of_name("variant")


def crc(code: str) -> int:
    (value,) = struct.unpack("<I", bytes.fromhex(code))
    return int(value)


HEADERS = [
    ("one shard", "08011a020801", BundleHeader()),
    ("two shards", "08021a020801", BundleHeader(2)),
    ("many shards", "089f8d061a020801", BundleHeader(99999)),
    ("big-endian", "080110011a020801", BundleHeader(1, big_endian=True)),
    ("a newer producer", "08011a020863", BundleHeader(producer=99)),
    ("oldest producer", "08011a00", BundleHeader(producer=0)),
    ("min_consumer 1", "08011a0408011001", BundleHeader(min_consumer=1)),
    ("bad consumers", "08011a0608011a020203", BundleHeader(bad_consumers=(2, 3))),
    ("unknown field", "08011a0208015801", BundleHeader(unknown=b"\x58\x01")),
]

# Read, but written in another form.
ODD_HEADERS = [
    ("no version", "0801", BundleHeader(producer=0)),
    ("fields reversed", "1a02080110010801", BundleHeader(1, big_endian=True)),
    ("little-endian said aloud", "080110001a020801", BundleHeader()),
    ("bad consumers not packed", "08011a06080118021803", BundleHeader(bad_consumers=(2, 3))),
    ("num_shards twice", "080308021a020801", BundleHeader(2)),
    ("unknown first", "5a0161" "08011a020801", BundleHeader(unknown=b"\x5a\x01a")),
]  # fmt: skip

MINUS_ONE = "ffffffffffffffffff01"

BAD_HEADERS: list[tuple[str, str, type[CkptError], str]] = [
    ("empty", "", CorruptError, "0 data shards"),
    ("no shards", "08001a020801", CorruptError, "0 data shards"),
    ("negative shards", f"08{MINUS_ONE}1a020801", CorruptError, "-1 data shards"),
    ("100,000 shards", "08a08d061a020801", CorruptError, "100000 data shards"),
    ("2**62 shards", "088080808080808080401a020801", CorruptError, "data shards"),
    ("byte order 2", "080110021a020801", CorruptError, "byte order 2"),
    ("negative producer", f"08011a0b08{MINUS_ONE}", CorruptError, "format version -1"),
    ("min_consumer 2", "08011a0408011002", UnsupportedError, "version 2"),
    ("bars us", "08011a0508011a0101", UnsupportedError, "bars"),
    ("bars us, not packed", "08011a0408011801", UnsupportedError, "bars"),
    ("cut", "08011a0208", TruncatedError, ""),
    ("cut in the version", "08011a0108", TruncatedError, ""),
    ("text", b"model_checkpoint_path".hex(), CkptError, ""),
]


@pytest.mark.parametrize(
    ("code", "header"), [row[1:] for row in HEADERS], ids=[row[0] for row in HEADERS]
)
def test_header_both_ways(code: str, header: BundleHeader) -> None:
    assert decode_header(bytes.fromhex(code)) == header
    assert header.encode().hex() == code


@pytest.mark.parametrize(
    ("code", "header"), [row[1:] for row in ODD_HEADERS], ids=[row[0] for row in ODD_HEADERS]
)
def test_odd_headers(code: str, header: BundleHeader) -> None:
    assert decode_header(bytes.fromhex(code)) == header
    assert decode_header(header.encode()) == header


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [row[1:] for row in BAD_HEADERS],
    ids=[row[0] for row in BAD_HEADERS],
)
def test_bad_headers(code: str, error: type[CkptError], message: str) -> None:
    with pytest.raises(error) as caught:
        decode_header(bytes.fromhex(code))
    assert message in caught.value.message


# TensorFlow's entries: (id, bytes, entry).
ENTRIES = [
    ("w", "0801120412020802280835453f1688", BundleEntry(F32, (2,), size=8, crc32c=0x88163F45)),
    (
        "three strings",
        "0807120412020803280a352d298b44",
        BundleEntry(STRING, (3,), size=10, crc32c=crc("2d298b44")),
    ),
    (
        "slice",
        "080312081202080112020802201028083570 2be761".replace(" ", ""),
        BundleEntry(I32, (1, 2), offset=16, size=8, crc32c=crc("702be761")),
    ),
    (
        "in slices",
        "0803120812020803120208023a060a0210020a003a080a04080210010a00",
        BundleEntry(I32, (3, 2), slices=(parse_slice("0,2:-"), parse_slice("2,1:-"))),
    ),
    ("variant", "08151200282d355511bdce", BundleEntry(VARIANT, (), 0, 0, 45, crc("5511bdce"))),
    ("graph", "080712002004284c353c0e17d3", BundleEntry(STRING, (), 0, 4, 76, crc("3c0e17d3"))),
    ("shard 1", "080a12001801280135052b2843", BundleEntry(BOOL, (), 1, 0, 1, crc("052b2843"))),
    (
        "in shard 1 at 1",
        "08051200180120012802" "3586eabdfa",
        BundleEntry(dtype_of_name("int16"), (), 1, 1, 2, crc("86eabdfa")),
    ),
    (
        "no elements",
        "08011206120012020803" "35d8ea82a2",
        BundleEntry(F32, (0, 3), crc32c=crc("d8ea82a2")),
    ),
    ("none", "080712021200280435f6c10c64", BundleEntry(STRING, (0,), size=4, crc32c=0x640CC1F6)),
    ("empty", "080712002004280535bd6707be", BundleEntry(STRING, (), 0, 4, 5, crc("bd6707be"))),
    ("scalar", "0801120020092804" "3510fd784f", BundleEntry(F32, (), 0, 9, 4, crc("10fd784f"))),
    (
        "unknown field",
        "080412002801" "3500000080" "5801",
        BundleEntry(U8, (), size=1, crc32c=1 << 31, unknown=b"\x58\x01"),
    ),
    (
        "two-digit dtype number",
        "08841112002803" "3501000000",
        BundleEntry(dtype_of_number(2180), (), size=3, crc32c=1),
    ),
]  # fmt: skip

# Read, but written in another form.
ODD_ENTRIES = [
    (
        "fields reversed",
        "35453f1688" "2808" "120412020802" "0801",
        BundleEntry(F32, (2,), size=8, crc32c=0x88163F45),
    ),
    (
        "zeros said aloud",
        "0801120412020802" "1800" "2000" "2808" "35453f1688",
        BundleEntry(F32, (2,), size=8, crc32c=0x88163F45),
    ),
    ("no crc", "08041200" "2801", BundleEntry(U8, (), size=1)),
    (
        "no crc, and what looks like one",
        "0804120412020835" "2835" "1801" "2002",
        BundleEntry(U8, (53,), 1, 2, 53),
    ),
    (
        "crc not last",
        "08041200" "3501000000" "2801",
        BundleEntry(U8, (), size=1, crc32c=1),
    ),
    (
        "unknown in the middle",
        "0804" "5801" "1200" "2801" "3501000000",
        BundleEntry(U8, (), size=1, crc32c=1, unknown=b"\x58\x01"),
    ),
    ("no shape", "0804" "2801" "3501000000", BundleEntry(U8, (), size=1, crc32c=1)),
    (
        "long varints",
        "0884808000" "1200" "2881808000" "3501000000",
        BundleEntry(U8, (), size=1, crc32c=1),
    ),
    (
        "strings of no bytes",
        "0807" "12021200" "3501000000",
        BundleEntry(STRING, (0,), crc32c=1),
    ),
]  # fmt: skip


def entry_bytes(*fields: bytes) -> str:
    return b"".join(fields).hex()


SCALAR = bytes_field(2, b"")
BAD_ENTRIES: list[tuple[str, str, type[CkptError], str]] = [
    ("cut in a varint", "08", TruncatedError, "varint"),
    ("cut in the shape", "0801120412", TruncatedError, "past its end"),
    ("cut in the crc", "080412002801" "350000", TruncatedError, "past its end"),
    ("shard 2 of 2", "080412001802" "2801" "3501000000", CorruptError, "data shard 2"),
    ("shard -1", f"0804120018{MINUS_ONE}2801" "3501000000", CorruptError, "data shard -1"),
    ("shard 2**31", "0804120018808080800828013501000000", CorruptError, "data shard 2147483648"),
    ("offset -1", f"0804120020{MINUS_ONE}2801" "3501000000", CorruptError, "offset -1"),
    ("size -1", f"0804120028{MINUS_ONE}" "3501000000", CorruptError, "size -1"),
    ("too small", "0801120028033501000000", CorruptError, "3 bytes for 1 elements of f"),
    ("too large", "0801120028053501000000", CorruptError, "5 bytes for 1 elements of f"),
    ("size 0", "08011200" "3501000000", CorruptError, "0 bytes for 1 elements"),
    ("size without elements", "080112021200" "2804" "3501000000", CorruptError, "4 bytes for 0"),
    ("strings of no byte", "0807" "1204120208052808" "3501000000", CorruptError, "8 bytes for 5"),
    ("no bytes for a string", "08071200" "3501000000", CorruptError, "0 bytes for 1 elements"),
    ("variants of 4", "0815" "1204120208022809" "3501000000", CorruptError, "9 bytes for 2"),
    ("negative dimension", f"0801120d120b08{MINUS_ONE}" "3501000000", CorruptError, "dimension"),
    ("unknown rank", "0801" "12021801" "2804" "3501000000", UnsupportedError, "rank"),
    ("slice out of range", "0801120412020802" "3a060a0408011002", CorruptError, "does not fit"),
    ("slice of another rank", "0801120412020802" "3a00", CorruptError, "rank"),
    ("negative slice", f"0801120412020802" f"3a0d0a0b10{MINUS_ONE}", CorruptError, "length"),
    ("slice cut", "0801120412020802" "3a020a02", TruncatedError, ""),
    ("offset of 11 bytes", f"0804120020{'80' * 10}002801" "3501000000", CorruptError, "64 bits"),
    ("wire type 7", "0804" "0f", CorruptError, "wire type 7"),
    ("field 0", "0804" "0001", CorruptError, "field number"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "entry"), [row[1:] for row in ENTRIES], ids=[row[0] for row in ENTRIES]
)
def test_entry_both_ways(code: str, entry: BundleEntry) -> None:
    decoder = EntryDecoder(2)
    raw = bytes.fromhex(code)
    for _ in range(2):  # the second time dtype and shape are known already
        assert decoder.decode(raw) == entry
        assert decoder.decode_head(raw)[:2] == (entry.dtype, entry.shape)
    assert entry.encode().hex() == code


@pytest.mark.parametrize(
    ("code", "entry"), [row[1:] for row in ODD_ENTRIES], ids=[row[0] for row in ODD_ENTRIES]
)
def test_odd_entries(code: str, entry: BundleEntry) -> None:
    decoder = EntryDecoder(2)
    assert decoder.decode(bytes.fromhex(code)) == entry
    assert decoder.decode_head(bytes.fromhex(code))[:2] == (entry.dtype, entry.shape)
    assert decoder.decode(entry.encode()) == entry


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [row[1:] for row in BAD_ENTRIES],
    ids=[row[0] for row in BAD_ENTRIES],
)
def test_bad_entries(code: str, error: type[CkptError], message: str) -> None:
    with pytest.raises(error) as caught:
        EntryDecoder(2).decode(bytes.fromhex(code))
    assert message in caught.value.message


@pytest.mark.parametrize(
    "code",
    [
        "0801120028043501000000" "0802",
        "080112002804" "3501000000" "12021200",
        "0801" "0802" "1200" "2804" "3501000000",
        "0801" "1200" "12021200" "2804" "3501000000",
    ],
)  # fmt: skip
def test_two_ways_to_decode_never_disagree(code: str) -> None:
    """A field that comes twice is refused, or both ways take the same one of the two."""
    raw = bytes.fromhex(code)
    try:
        entry = EntryDecoder(1).decode(raw)
    except CorruptError:
        return
    assert EntryDecoder(1).decode_head(raw)[:2] == (entry.dtype, entry.shape)


@pytest.mark.parametrize("number", sorted(DTYPES))
def test_every_dtype(number: int) -> None:
    dtype = DTYPES[number]
    size = 12 if dtype.size is None else 2 * dtype.size
    raw = encoder.entry(number, (2,), size=size, crc=5)
    entry = EntryDecoder(1).decode(raw)
    assert entry == BundleEntry(dtype, (2,), size=size, crc32c=5)
    assert entry.elements == 2
    assert entry.encode() == raw


@pytest.mark.parametrize("number", [0, 34, 101, 120, 2**31 - 1])
def test_a_dtype_that_is_not_known_is_listed_all_the_same(number: int) -> None:
    raw = encoder.entry(number, (2, 3), size=5, crc=7)
    entry = EntryDecoder(1).decode(raw)
    assert (entry.dtype.number, entry.shape, entry.size) == (number, (2, 3), 5)
    assert not entry.dtype.known


def test_a_shape_of_zero_elements_may_be_long_elsewhere() -> None:
    entry = EntryDecoder(1).decode(encoder.entry(1, (0, 2**20, 7), crc=encoder.mask(0)))
    assert (entry.shape, entry.elements, entry.size) == ((0, 2**20, 7), 0, 0)


DIMS = st.lists(st.integers(0, 40), max_size=4)


@given(
    st.sampled_from([row for row in DTYPES.values() if row.size]),
    DIMS,
    st.integers(0, 5),
    st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 200)),
    st.integers(1, 2**32 - 1),
)
def test_second_opinion(dtype: object, dims: list[int], shard: int, offset: int, crc: int) -> None:
    assert isinstance(dtype, type(F32))
    size = dtype.size or 0
    for dim in dims:
        size *= dim
    raw = encoder.entry(dtype.number, dims, shard=shard, offset=offset, size=size, crc=crc)
    entry = EntryDecoder(6).decode(raw)
    assert entry == BundleEntry(dtype, tuple(dims), shard, offset, size, crc)
    assert entry.encode() == raw


@given(st.permutations(range(6)), st.lists(st.tuples(st.integers(8, 99), st.binary(max_size=5))))
def test_order_of_fields_does_not_matter(
    order: list[int], unknown: list[tuple[int, bytes]]
) -> None:
    fields = [
        number_field(1, 3),
        bytes_field(2, encoder.shape((2, 3))),
        number_field(3, 1),
        number_field(4, 300),
        number_field(5, 24),
        encoder.fixed32_field(6, 77),
    ]
    extra = [bytes_field(number, value) for number, value in unknown]
    mixed = [fields[at] for at in order]
    for at, field in enumerate(extra):
        mixed.insert(at * 2, field)
    entry = EntryDecoder(2).decode(b"".join(mixed))
    assert entry == BundleEntry(I32, (2, 3), 1, 300, 24, 77, (), b"".join(extra))


EXTREMES = (0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("field", [1, 3, 4, 5])
def test_any_number_may_be_extreme(field: int, extreme: int) -> None:
    numbers = {1: 1, 3: 0, 4: 16, 5: 8, field: extreme}
    raw = b"".join(number_field(number, value) for number, value in sorted(numbers.items()))
    raw += bytes_field(2, encoder.shape((2,))) + encoder.fixed32_field(6, 9)
    try:
        entry = EntryDecoder(1).decode(raw)
    except CorruptError:
        return
    assert entry.encode() == BundleEntry(*entry).encode()
    assert 0 <= entry.shard_id < 1
    assert 0 <= entry.offset < 2**63
    assert entry.dtype.size is None or entry.size == 2 * entry.dtype.size


@pytest.mark.parametrize("extreme", EXTREMES)
def test_dimensions_and_extents_may_be_extreme(extreme: int) -> None:
    dims = bytes_field(2, bytes_field(2, number_field(1, extreme)) * 2)
    extents = [((extreme, 1),), ((0, extreme),), ((extreme, extreme),)]
    for raw in (
        number_field(1, 1) + dims + number_field(5, 4),
        number_field(1, 1) + dims + bytes_field(7, encoder.slice_proto(((0, 1), (0, 1)))),
        *(encoder.entry(1, (4,), slices=[part]) for part in extents),
    ):
        try:
            entry = EntryDecoder(1).decode(raw)
        except CkptError:
            continue
        assert all(0 <= dim < 2**63 for dim in entry.shape)
        for part in entry.slices:
            assert isinstance(part, TensorSlice)
            part.bounds(entry.shape)


@given(st.binary(max_size=60))
def test_any_bytes_end_in_an_entry_or_an_error(raw: bytes) -> None:
    decoder = EntryDecoder(3)
    try:
        entry = decoder.decode(raw)
    except CkptError:
        return
    assert decoder.decode_head(raw)[:2] == (entry.dtype, entry.shape)
    assert decoder.decode(entry.encode()) == entry


@given(st.sampled_from([bytes.fromhex(row[1]) for row in ENTRIES]), st.data())
def test_damaged_entries_end_in_an_entry_or_an_error(raw: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(raw) - 1))
    raw = raw[:at] + bytes((data.draw(st.integers(0, 255)),)) + raw[at + 1 :]
    decoder = EntryDecoder(3)
    try:
        entry = decoder.decode(raw)
    except CkptError:
        return
    assert decoder.decode_head(raw)[:2] == (entry.dtype, entry.shape)
    assert decoder.decode(entry.encode()) == entry


@given(st.binary(max_size=30))
def test_any_bytes_end_in_a_header_or_an_error(raw: bytes) -> None:
    try:
        header = decode_header(raw)
    except CkptError:
        return
    assert 0 < header.num_shards <= 99999
    assert decode_header(header.encode()) == header
