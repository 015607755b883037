from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.coding import wire
from ckpttool.errors import CorruptError, TruncatedError
from tests.support import encoder

# What decode_fields yields for these bytes: (number, wire type, value, raw).
MESSAGES: list[tuple[str, str, list[tuple[int, int, int | bytes, str]]]] = [
    ("nothing", "", []),
    ("varint", "0801", [(1, 0, 1, "0801")]),
    ("explicit zero", "2800", [(5, 0, 0, "2800")]),
    ("long varint", "08ac02", [(1, 0, 300, "08ac02")]),
    ("empty message", "1200", [(2, 2, b"", "1200")]),
    ("bytes", "12020802", [(2, 2, b"\x08\x02", "12020802")]),
    ("fixed32", "35453f1688", [(6, 5, 0x88163F45, "35453f1688")]),
    ("fixed64", "390100000000000080", [(7, 1, 0x8000000000000001, "390100000000000080")]),
    ("same field twice", "08010802", [(1, 0, 1, "0801"), (1, 0, 2, "0802")]),
    ("two-byte tag", "800101", [(16, 0, 1, "800101")]),
    ("highest number", "f8ffffff0f00", [(2**29 - 1, 0, 0, "f8ffffff0f00")]),
    (
        "entry of w",
        "0801120412020802280835453f1688",
        [
            (1, 0, 1, "0801"),
            (2, 2, bytes.fromhex("12020802"), "120412020802"),
            (5, 0, 8, "2808"),
            (6, 5, 0x88163F45, "35453f1688"),
        ],
    ),
]

BAD = [
    ("tag cut", "80", TruncatedError, 0),
    ("varint missing", "08", TruncatedError, 1),
    ("varint cut", "0880", TruncatedError, 1),
    ("varint of 65 bits", "08ffffffffffffffffff02", CorruptError, 1),
    ("fixed32 cut", "35000000", TruncatedError, 0),
    ("fixed64 cut", "3900000000000000", TruncatedError, 0),
    ("length missing", "12", TruncatedError, 1),
    ("bytes cut", "120208", TruncatedError, 0),
    ("length of 2**63", "12ffffffffffffffff7f", TruncatedError, 0),
    ("field 0", "0001", CorruptError, 0),
    ("field 2**29", "808080801001", CorruptError, 0),
    ("wire type 6", "0e", CorruptError, 1),
    ("wire type 7", "0f", CorruptError, 1),
    ("end of a group that never began", "0c", CorruptError, 1),
    ("second field bad", "08010e", CorruptError, 3),
]


@pytest.mark.parametrize(
    ("code", "fields"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES]
)
def test_decode(code: str, fields: list[tuple[int, int, int | bytes, str]]) -> None:
    found = list(wire.decode_fields(bytes.fromhex(code)))
    assert [(n, kind, value, raw.hex()) for n, kind, value, raw in found] == fields


@pytest.mark.parametrize(
    ("code", "error", "offset"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad(code: str, error: type[CorruptError], offset: int) -> None:
    with pytest.raises(CorruptError) as caught:
        list(wire.decode_fields(bytes.fromhex(code)))
    assert type(caught.value) is error
    assert caught.value.offset == offset


def test_fields_before_the_damage_are_yielded() -> None:
    fields = wire.decode_fields(bytes.fromhex("08010e"))
    assert next(fields)[:3] == (1, 0, 1)
    with pytest.raises(CorruptError):
        next(fields)


@pytest.mark.parametrize(
    ("encoded", "code"),
    [
        (wire.varint_field(1, 300), "08ac02"),
        (wire.varint_field(3, 0), ""),
        (wire.varint_field(2, True), "1001"),
        (wire.varint_field(2, False), ""),
        (wire.varint_field(2, -1), "10ffffffffffffffffff01"),
        (wire.varint_field(16, 1), "800101"),
        (wire.fixed32_field(6, 0x88163F45), "35453f1688"),
        (wire.fixed32_field(6, 0), ""),
        (wire.bytes_field(2, b""), "1200"),
        (wire.bytes_field(2, b"x" * 200), "12c801" + "78" * 200),
    ],
)
def test_encode(encoded: bytes, code: str) -> None:
    assert encoded.hex() == code


@pytest.mark.parametrize(
    ("raw", "value"),
    [(0, 0), (1, 1), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)],
)
def test_signed(raw: int, value: int) -> None:
    assert wire.signed64(raw) == value


NUMBERS = st.integers(1, 2**29 - 1)
FIELDS = st.one_of(
    st.builds(encoder.number_field, NUMBERS, st.integers(0, 2**64 - 1)),
    st.builds(encoder.bytes_field, NUMBERS, st.binary(max_size=200)),
    st.builds(encoder.fixed32_field, NUMBERS, st.integers(0, 2**32 - 1)),
)


@given(st.lists(FIELDS))
def test_raw_bytes_add_up_to_the_message(fields: list[bytes]) -> None:
    assert [raw for *_, raw in wire.decode_fields(b"".join(fields))] == fields


@given(st.binary(max_size=60))
def test_any_bytes_end_in_fields_or_an_error(raw: bytes) -> None:
    try:
        fields = list(wire.decode_fields(raw))
    except CorruptError as error:
        assert error.offset is not None
        assert 0 <= error.offset <= len(raw)
        return
    assert b"".join(field for *_, field in fields) == raw
