"""Whatever the bytes of a V1 file are, the answer is right or a refusal that says where."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.api.verify import verify
from ckpttool.errors import CkptError, CorruptError
from ckpttool.legacy.reader import LegacyReader
from ckpttool.tensor import proto_values
from tests.legacy import handmade
from tests.legacy.handmade import (
    BOOL,
    F32,
    I64,
    STRING,
    U8,
    described,
    description,
    legacy_fixture,
    legacy_fixtures,
    packed,
    record,
    strings,
    table,
    varints,
)
from tests.support import corruption, encoder
from tests.support.answers import Answer, check_refusal, value_bytes
from tests.support.encoder import bytes_field, number_field
from tests.support.fixtures import read_bytes
from tests.support.limits import memory_limit, run_python, time_limit

MIB = 1 << 20
assert proto_values  # imported before memory is limited, since that takes more than there is
ROOM = 64 * MIB
SECONDS = 5.0
CLOSELY = ["v1/tf2.21/single/model.ckpt-7", "v1/tf2.21/dtypes/empty", "v1/tf1.15/dtypes/scalar"]
OTHERS = [
    each.name
    for each in legacy_fixtures()
    if each.name not in CLOSELY and len(each.paths) == 1 and os.path.getsize(each.paths[0]) < 4000
]
FILES = [(name, 1) for name in CLOSELY] + [(name, 97) for name in OTHERS]
FULL = (0, -1)

each_file = pytest.mark.parametrize(("name", "stride"), FILES, ids=[row[0] for row in FILES])


def everything(path: str) -> dict[str, Answer] | None:
    """Read all of a file; None if it is refused as a whole."""
    try:
        reader = LegacyReader(path, (path,))
    except CkptError as error:
        check_refusal(error, path)
        return None
    with reader:
        return {key: answer(reader, key, path) for key in reader.entries}


def answer(reader: LegacyReader, key: str, path: str) -> Answer:
    try:
        entry = reader.entries[key]
        array: Any = reader.read(key)
    except CkptError as error:
        check_refusal(error, path)
        return Answer(error=error)
    assert array.shape == entry.shape
    assert array.dtype == entry.dtype.numpy_dtype
    return Answer(entry.dtype.name, entry.shape, value_bytes(array))


class Victim:
    """A copy of a fixture that is damaged in one way after the other."""

    def __init__(self, name: str, folder: Path) -> None:
        self.data = read_bytes(legacy_fixture(name).paths[0])
        self.path = handmade.write(folder / "model", self.data)
        good = everything(self.path)
        assert good is not None
        self.good = good

    def answers(self, data: bytes) -> dict[str, Answer] | None:
        handmade.write(self.path, data)
        with time_limit(SECONDS):
            return everything(self.path)


@pytest.mark.sweep(4)
@each_file
def test_a_file_that_is_cut(name: str, stride: int, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    with memory_limit(ROOM):
        for size in range(0, len(victim.data), stride):
            assert victim.answers(victim.data[:size]) is None, size


@pytest.mark.sweep(4)
@each_file
def test_a_turned_byte(name: str, stride: int, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    refused = 0
    with memory_limit(ROOM):
        for at in range(0, len(victim.data), stride):
            found = victim.answers(corruption.flip(victim.data, at, corruption.bits_for(at)))
            assert found is None or found == victim.good, at
            refused += found is None
    # Only the metaindex, its handle and the padding are without meaning.
    assert refused >= len(range(0, len(victim.data) - 61, stride)) - 14


@pytest.mark.sweep(4)
@each_file
def test_a_turned_byte_with_right_checksums(name: str, stride: int, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    with memory_limit(ROOM):
        for at, data in corruption.sealed_flips(victim.data)[::stride]:
            found = victim.answers(data)
            if found is not None and len(found) < len(victim.good):
                # What the description leaves out has a record all the same.
                assert verify(victim.path)[0].verdict == "damaged", at


SMALL = [read_bytes(legacy_fixture(name).paths[0]) for name in CLOSELY]


@given(st.sampled_from(SMALL), st.data())
def test_any_change_of_blocks_with_right_checksums(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, data: st.DataObject
) -> None:
    changed = corruption.mixed_up(raw, data)
    path = handmade.write(tmp_path_factory.getbasetemp() / "changed-legacy", changed)
    with memory_limit(ROOM), time_limit(SECONDS):
        everything(path)


def tensor(dtype: int, dims: tuple[int, ...], values: bytes = b"") -> bytes:
    part = [FULL] * len(dims)
    return table(description(described(b"t", dtype, dims)), record(b"t", part, values))


def sliced(dims: tuple[int, ...], parts: list[encoder.Extents]) -> bytes:
    records = [record(b"t", part, varints(7, [1])) for part in parts]
    return table(description(described(b"t", U8, dims, parts)), *records)


def sparse(path: str) -> None:
    """Write an empty terabyte and a footer that claims all of it."""
    size = 1 << 40
    with open(path, "wb") as file:
        file.seek(size)
        file.write(encoder.footer((0, 0), (0, size - 5)))


def large_block(values: bytes, *, claimed: int) -> bytes:
    """Return a file with a record of its own block that claims to be larger than that."""
    key, data = record(b"t", [FULL], values)
    first = encoder.block([description(described(b"t", F32, (1 << 20,)))])
    second = encoder.close_block(encoder.block_entry(0, key, data, size=claimed))
    return encoder.Table().add(first, b"").add(second, b"\1").encode()


LONG = b"\xff\xff\xff\xff\x0f"
HALF_TERABYTES: list[encoder.Extents] = [((0, 2**39),), ((2**39, 2**39),)]
DIAGONAL: list[encoder.Extents] = [((at, 1), (at, 1)) for at in range(3000)]
TWICE: list[encoder.Extents] = [((0, 1),), ((0, 1),)]

BOMBS: dict[str, tuple[Callable[[], bytes] | None, str]] = {
    "2**40 floats": (lambda: tensor(F32, (2**40,), packed(5, b"1234")), "too few"),
    "2**58 bytes": (lambda: tensor(U8, (2**58,), varints(7, [1])), "too few"),
    "2**58 flags": (lambda: tensor(BOOL, (2**58,), varints(11, [1])), "too few"),
    "10**12 strings": (lambda: tensor(STRING, (10**12,), strings([b""])), "too few"),
    "nothing, of 2**58 rows": (lambda: tensor(U8, (2**58, 0)), ""),
    "halves of 2**40 bytes": (lambda: sliced((2**40,), HALF_TERABYTES), "too few"),
    "a diagonal": (lambda: sliced((3000, 3000), DIAGONAL), "gap"),
    "a slice twice": (
        lambda: table(description(described(b"t", U8, (2,), TWICE)), record(b"t", TWICE[0], b"")),
        "overlaps",
    ),
    "30,000 dimensions": (lambda: tensor(U8, (1,) * 30_000), "30000 dimensions"),
    "a thousand dimensions of NumPy": (lambda: tensor(U8, (1,) * 200, varints(7, [1])), "of NumPy"),
    "a negative dimension": (lambda: tensor(U8, (-5,)), "-5"),
    "an overflow": (lambda: tensor(U8, (2**40, 2**40)), "more elements"),
    "a length of 4 GiB": (lambda: tensor(F32, (2,), b"\x2a" + LONG), "too few"),
    "a long length": (lambda: tensor(F32, (1,), b"\x2a" + LONG), "past its end"),
    "a long string": (lambda: tensor(STRING, (1,), b"\x42" + LONG), "past its end"),
    "no end of a group": (lambda: tensor(STRING, (1,), b"\x43\x43"), "wire type 3"),
    "field 0": (lambda: tensor(STRING, (1,), b"\x02\x00"), "not a protobuf field"),
    "another dtype": (lambda: tensor(F32, (1,), varints(10, [1, 2, 3, 4])), "not that of float32"),
    "a name twice, of two shapes": (
        lambda: table(description(described(b"t", U8, (2,)), described(b"t", U8, (3,)))),
        r"uint8 \[3\] here",
    ),
    "no name": (lambda: table(description(described(b"", U8, ()))), "no name"),
    "a description of nothing": (lambda: table((b"", b"")), "does not describe"),
    "a description that is no message": (lambda: table((b"", b"\xff" * 9)), "varint"),
    "no description": (lambda: table(record(b"t", [FULL], b"")), "no key is empty"),
    "no record": (lambda: table(description(described(b"t", U8, (1,)))), "no record"),
    "an empty table": (lambda: encoder.Table().encode(), "no key is empty"),
    "an index of V2": (lambda: table((b"", encoder.header())), "not the one that describes"),
    "a record that lies about its size": (
        lambda: large_block(bytes(1 << 22), claimed=2**31),
        "lengths",
    ),
    "a block of 2**63 bytes": (
        lambda: bytes(48) + encoder.footer((0, 0), (0, 2**63)),
        "past the end",
    ),
    "a terabyte": (None, "1099511627"),
    "Snappy that claims 4 GiB": (
        lambda: encoder.Table().add(encoder.varint(2**32 - 1) + bytes(9), b"\xff", 1).encode(),
        "claims",
    ),
    "values element by element": (
        lambda: tensor(I64, (100_000,), number_field(10, 1) * 100_000),
        "not packed",
    ),
    "many strings": (lambda: tensor(STRING, (10**5,), strings([b""] * 10**5)), ""),
    "a key for another record": (
        lambda: table(
            description(described(b"t", U8, (1,))),
            (encoder.slice_key(b"t", [FULL]), record(b"u", [FULL], varints(7, [1]))[1]),
        ),
        "another tensor",
    ),
    "a record of two slices": (
        lambda: table(
            description(described(b"t", U8, (1,))),
            (encoder.slice_key(b"t", [FULL]), record(b"t", [FULL], varints(7, [1]))[1] * 2),
        ),
        "not that of one slice",
    ),
    "values twice": (
        lambda: table(
            description(described(b"t", U8, (1,))),
            record(b"t", [FULL], varints(7, [1]), extra=bytes_field(3, varints(7, [2]))),
        ),
        "is repeated",
    ),
    "NaNs by the thousand": (
        lambda: tensor(F32, (5000,), packed(5, struct.pack("<f", -1) * 5000)),
        "",
    ),
}

BOMBED = """
import json, sys
import numpy
import ckpttool.tensor.proto_values
from ckpttool.errors import CkptError
from ckpttool.legacy.reader import LegacyReader
from tests.support.limits import memory_limit, time_limit
for path in sys.argv[2:]:
    message = None
    with memory_limit(int(sys.argv[1])), time_limit(20):
        try:
            with LegacyReader(path, [path]) as reader:
                reader.read("t")
        except CkptError as error:
            message = error.message[:200]
    print(json.dumps(message))
"""


@pytest.mark.large
def test_bombs(tmp_path: Path) -> None:
    """A claim takes neither memory nor time that the bytes behind it do not have."""
    paths = [str(tmp_path / f"m{at}") for at in range(len(BOMBS))]
    for path, (content, _) in zip(paths, BOMBS.values(), strict=True):
        if content is None:
            sparse(path)
        else:
            handmade.write(path, content())
    done = run_python(BOMBED, str(ROOM), *paths, timeout=120)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert (len(said), done.stderr) == (len(BOMBS), "")
    wrong = {
        name: found
        for (name, (_, message)), found in zip(BOMBS.items(), said, strict=True)
        if not (re.search(message, found or "") if message else found is None)
    }
    assert not wrong


def test_overlap_of_one_slice_in_many_files(tmp_path: Path) -> None:
    """The same slice in every file is not read over and over."""
    data = tensor(U8, (4,), varints(7, [1, 2, 3, 4]))
    paths = [handmade.write(tmp_path / f"m-{at:05d}-of-00200", data) for at in range(200)]
    reader = LegacyReader(str(tmp_path / "m"), paths)
    with reader, time_limit(SECONDS), pytest.raises(CorruptError, match="overlaps"):
        reader.read("t")
