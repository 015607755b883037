from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool.bundle.reader import BundleReader
from ckpttool.coding.checksum import crc32c, mask
from ckpttool.errors import (
    ChecksumError,
    MissingKeyError,
    TruncatedError,
)
from ckpttool.storage.source import ShardFile
from ckpttool.tensor.region import fit_index, parse_index
from ckpttool.tensor.variants import VariantElement
from tests.support import encoder
from tests.support.encoder import entry, string_data, variant_data
from tests.support.handmade import Bundle, shard_path
from tests.support.limits import resident, run_python
from tests.support.refusals import refused

F32, F64, I32, U8, I16, I8, STRING, C64, I64, BOOL = range(1, 11)
QINT32, BFLOAT16, C128, F16, RESOURCE, VARIANT, U32 = 13, 14, 18, 19, 20, 21, 22
MIB = 1 << 20


def simple() -> Bundle:
    made = Bundle().add(b"f", F32, (2, 3), np.arange(6, dtype="<f4").tobytes())
    made.add_strings(b"s", (2,), [b"one", b"\xff\0"])
    made.add(b"x", U8, (), b"\x07")
    rows = [(((0, 2), (0, -1)), struct.pack("<4i", 0, 1, 2, 3)), (((2, 1), (0, -1)), bytes(8))]
    return made.add_slices(b"p", I32, (3, 2), rows)


def test_reading(prefix: str) -> None:
    simple().write(prefix)
    with BundleReader(prefix) as reader:
        assert reader.prefix == prefix
        assert reader.header is reader.index.header
        assert reader.entries is reader.index.entries
        assert reader.read("f").tolist() == [[0, 1, 2], [3, 4, 5]]
        assert reader.read("f").dtype == np.float32
        assert reader.read("s").tolist() == [b"one", b"\xff\0"]
        assert reader.read("s").dtype == object
        assert reader.read("x").shape == ()
        assert reader.read("x") == 7
        assert reader.read("p").tolist() == [[0, 1], [2, 3], [0, 0]]


def test_worked_example_of_a_merge(prefix: str) -> None:
    made = Bundle(header=bytes.fromhex("08021a020801"), shards=[b"\x07", b"\x01\x09\x00"])
    made.records = {
        b"a": bytes.fromhex("0804120412020801280135" "46f8f711"),
        b"b": bytes.fromhex("080a12001801280135" "052b2843"),
        b"bb": bytes.fromhex("0805120018012001280235" "86eabdfa"),
    }  # fmt: skip
    made.write(prefix)
    reader = BundleReader(prefix)
    assert reader.read("a").tolist() == [7]
    assert reader.read("b").tolist() is True
    assert reader.read("bb").tolist() == 9
    assert reader.shard_files() == [
        ShardFile(shard_path(prefix, 0, 2), 1),
        ShardFile(shard_path(prefix, 1, 2), 3),
    ]


def test_worked_example_of_corner_cases(prefix: str) -> None:
    made = Bundle(shards=[bytes.fromhex("d8ea82a200a67b113a00000040")])
    made.records = {
        b"none": bytes.fromhex("0801120612001202080335d8ea82a2"),
        b"no strings": bytes.fromhex("080712021200280435f6c10c64"),
        b"empty": bytes.fromhex("080712002004280535bd6707be"),
        b"two": bytes.fromhex("0801120020092804" "3510fd784f"),
    }  # fmt: skip
    made.write(prefix)
    reader = BundleReader(prefix)
    assert reader.read("none").shape == (0, 3)
    assert reader.read("no strings").shape == (0,)
    assert reader.read("empty").tolist() == b""
    assert reader.read("two").tolist() == 2.0


def test_worked_example_of_an_optional(prefix: str) -> None:
    message = encoder.bytes_field(1, b"tensorflow::data::Optional") + bytes.fromhex(
        "1201011a0708031200" "3a0105"
    )  # fmt: skip
    made = Bundle(shards=[b"\x28" + message + bytes.fromhex("83f2ed77")])
    made.records[b"o"] = bytes.fromhex("08151200282d355511bdce")
    made.write(prefix)
    (element,) = BundleReader(prefix).read("o").reshape(-1).tolist()
    assert element == VariantElement(message)


def test_no_such_key(prefix: str) -> None:
    simple().write(prefix)
    reader = BundleReader(prefix)
    for read in (reader.read, lambda key: list(reader.chunks(key))):
        with pytest.raises(MissingKeyError) as caught:
            read("q")
        assert caught.value.key == "q"
    with pytest.raises(LookupError):
        reader.read_region("", ())


def test_the_header_is_no_tensor(prefix: str) -> None:
    simple().write(prefix)
    with pytest.raises(MissingKeyError):
        BundleReader(prefix).read("")


@pytest.mark.parametrize("copies", [1, 100_000])
def test_arrays_are_the_callers_own(prefix: str, copies: int) -> None:
    raw = np.arange(6 * copies, dtype="<f4").tobytes()
    Bundle().add(b"f", F32, (6 * copies,), raw).write(prefix)
    with BundleReader(prefix) as reader:
        first, second = reader.read("f"), reader.read("f")
        first[:] = -1
        assert second.tobytes() == raw
        assert reader.read("f").tobytes() == raw
    assert Path(shard_path(prefix)).read_bytes() == raw
    assert (first == -1).all()


def test_arrays_outlive_reader_and_file(prefix: str) -> None:
    raw = np.arange(100_000, dtype="<f4").tobytes()
    Bundle().add(b"f", F32, (100_000,), raw).write(prefix)
    with BundleReader(prefix) as reader:
        array = reader.read("f")
    os.unlink(shard_path(prefix))
    os.unlink(prefix + ".index")
    assert array.tobytes() == raw
    array += 1


def test_a_reader_can_be_used_again_after_close(prefix: str) -> None:
    simple().write(prefix)
    reader = BundleReader(prefix)
    reader.close()
    assert reader.read("x") == 7
    reader.close()
    reader.close()


def test_a_part_of_a_large_tensor_takes_memory_for_itself_alone(prefix: str) -> None:
    size = 200 * MIB
    made = Bundle()
    made.records[b"f"] = entry(U8, (size,), size=size, crc=0)
    made.write(prefix)
    os.truncate(shard_path(prefix), size)
    reader = BundleReader(prefix)
    before = resident()
    part = reader.read_region("f", fit_index(parse_index("5:9"), (size,)))
    assert part.tolist() == [0] * 4
    assert resident() - before < 8 * MIB


def lies_in_a_map(array: np.ndarray[Any, Any]) -> bool:
    """Whether the memory of an array is that of a map."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return type(getattr(base, "obj", base)).__name__ == "mmap"


def test_who_asks_for_no_copy_gets_the_map(prefix: str) -> None:
    raw = bytes(range(256)) * 2048
    Bundle().add(b"f", U8, (len(raw),), raw).write(prefix)
    with BundleReader(prefix) as reader:
        view = reader.read("f", copy=False)
        assert lies_in_a_map(view) and not lies_in_a_map(reader.read("f"))
        view[0] = 9
        assert reader.read("f").tobytes() == raw
    with pytest.raises(ChecksumError), open(shard_path(prefix), "r+b") as file:
        file.write(b"?")
        file.flush()
        BundleReader(prefix).read("f", copy=False)


@pytest.mark.parametrize("size", [3 << 20, 70 << 20])  # by one thread, and by several
def test_a_value_stays_when_the_shard_is_written_over_or_cut(prefix: str, size: int) -> None:
    raw = bytearray(size)
    raw[:: 1 << 16] = b"x" * len(raw[:: 1 << 16])
    Bundle().add(b"f", U8, (size,), bytes(raw), crc=mask(crc32c(raw))).write(prefix)
    with BundleReader(prefix) as reader:
        value, part = reader.read("f"), reader.read_region("f", (slice(0, 1 << 19),))
        with open(shard_path(prefix), "r+b") as file:
            file.write(bytes([255]) * (1 << 20))
        os.truncate(shard_path(prefix), 1 << 20)
        assert value.tobytes() == raw
        assert part.tobytes() == raw[: 1 << 19]
        with refused(TruncatedError, "truncated while") as caught:
            reader.read("f")
        assert caught.value.key == "f" and caught.value.path == shard_path(prefix)
        assert caught.value.offset is not None and caught.value.offset >= 1 << 20


def test_reading_takes_memory_for_one_tensor(prefix: str) -> None:
    size = 96 * MIB
    made = Bundle()
    made.records[b"f"] = entry(F64, (size // 8,), size=size, crc=mask(crc32c(bytes(size))))
    half = [((0, size // 16),), ((size // 16, size // 16),)]
    for extents in half:
        made.records[encoder.slice_key(b"p", extents)] = entry(
            F64,
            (size // 16,),
            size=size // 2,
            crc=mask(crc32c(bytes(size // 2))),
            offset=extents[0][0] * 8,
        )
    made.records[b"p"] = entry(F64, (size // 8,), slices=half)
    made.header = encoder.header(endianness=1)  # so that all elements have to be turned round
    made.write(prefix)
    os.truncate(shard_path(prefix), size)
    code = (
        "import re, sys, numpy\n"
        "from ckpttool.bundle.reader import BundleReader\n"
        "def peak():\n"
        "    with open('/proc/self/status') as file:\n"
        "        return int(re.search('VmHWM:(.*)kB', file.read())[1])\n"
        "before = peak()\n"
        "value = BundleReader(sys.argv[1]).read(sys.argv[2])\n"
        "assert not value.any()\n"
        "print(peak() - before)"
    )
    for key in "fp":
        done = run_python(code, prefix, key)
        assert done.stderr == ""
        assert size >> 10 <= int(done.stdout) <= 1.2 * (size >> 10)


@pytest.mark.parametrize("gap", [1, 3, 4095])
def test_tensors_at_odd_offsets(prefix: str, gap: int) -> None:
    raw = np.arange(100_000, dtype="<f8").tobytes()
    made = Bundle(shards=[bytes(gap)]).add(b"f", F64, (100_000,), raw)
    made.write(prefix)
    array = BundleReader(prefix).read("f")
    assert array.tobytes() == raw
    assert array.flags.aligned


def test_gaps_and_order_of_the_data_mean_nothing(prefix: str) -> None:
    made = Bundle()
    made.shards[0] = b"bb--a-"
    made.records[b"a"] = entry(U8, (1,), offset=4, size=1, crc=encoder.masked_crc(b"a"))
    made.records[b"b"] = entry(U8, (2,), offset=0, size=2, crc=encoder.masked_crc(b"bb"))
    made.write(prefix)
    reader = BundleReader(prefix)
    assert reader.read("a").tobytes() == b"a"
    assert reader.read("b").tobytes() == b"bb"


# Big-endian: (id, dtype, bytes, value)
BIG = [
    ("bool", BOOL, "0001", [False, True]),
    ("int8", I8, "ff01", [-1, 1]),
    ("half", F16, "3c00", [1.0]),
    ("bfloat16", BFLOAT16, "3f80", [1.0]),
    ("float", F32, "3f800000c0000000", [1.0, -2.0]),
    ("int64", I64, "00000000000000ff", [255]),
    ("complex64", C64, "3f800000c0000000", [1 - 2j]),
    ("complex128", C128, "3ff0000000000000c000000000000000", [1 - 2j]),
    ("qint32", QINT32, "00000007", [(7,)]),
]


@pytest.mark.parametrize(
    ("dtype", "code", "values"), [row[1:] for row in BIG], ids=[row[0] for row in BIG]
)
def test_big_endian(prefix: str, dtype: int, code: str, values: list[object]) -> None:
    made = Bundle(header=encoder.header(1, endianness=1))
    made.add(b"t", dtype, (len(values),), bytes.fromhex(code))
    made.write(prefix)
    assert BundleReader(prefix).read("t").tolist() == values


def test_big_endian_strings_and_variants(prefix: str) -> None:
    made = Bundle(header=encoder.header(1, endianness=1))
    data, crc = string_data([b"hi", b"", b"\xff"], order=">")
    made.add(b"s", STRING, (3,), data, crc=crc)
    data, crc = variant_data([b"one", b""], order=">")
    made.add(b"v", VARIANT, (2,), data, crc=crc)
    made.write(prefix)
    reader = BundleReader(prefix)
    assert reader.read("s").tolist() == [b"hi", b"", b"\xff"]
    assert reader.read("v").tolist() == [VariantElement(b"one"), VariantElement(b"")]


def test_big_endian_slices(prefix: str) -> None:
    made = Bundle(header=encoder.header(1, endianness=1))
    made.add_slices(b"p", I16, (2,), [(((1, 1),), b"\0\2"), (((0, 1),), b"\0\1")])
    made.write(prefix)
    assert BundleReader(prefix).read("p").tolist() == [1, 2]


@pytest.mark.parametrize("count", [0, 1, 3, MIB // 4, MIB // 4 + 1, MIB])
def test_chunks(prefix: str, count: int) -> None:
    raw = np.arange(count, dtype="<i4").tobytes()
    Bundle().add(b"t", I32, (count,), raw).write(prefix)
    sizes = []
    found = bytearray()
    for chunk in BundleReader(prefix).chunks("t"):
        sizes.append(len(chunk))
        found += chunk
    assert bytes(found) == raw
    assert all(size % 4 == 0 for size in sizes)
    assert max(sizes, default=0) <= MIB


def test_the_last_chunk_is_followed_by_the_check(prefix: str) -> None:
    made = Bundle().add(b"t", U8, (3,), b"abc", crc=1)
    made.write(prefix)
    chunks = BundleReader(prefix).chunks("t")
    assert bytes(next(chunks)) == b"abc"
    with pytest.raises(ChecksumError) as caught:
        next(chunks)
    assert (caught.value.path, caught.value.key) == (shard_path(prefix), "t")


def test_chunks_go_on_while_other_shards_are_read(prefix: str) -> None:
    count = 100
    made = Bundle(header=encoder.header(count), shards=[b""] * count)
    made.add(b"long", U8, (3 * MIB,), bytes(3 * MIB))
    for at in range(1, count):
        made.add(b"t%03d" % at, U8, (), bytes((at,)), shard=at)
    made.write(prefix)
    with BundleReader(prefix) as reader:
        total = 0
        for chunk in reader.chunks("long"):
            total += len(chunk)
            assert [int(reader.read(f"t{at:03}")) for at in range(1, count)] == [*range(1, count)]
    assert total == 3 * MIB


def test_stored_bytes_are_not_checked(prefix: str) -> None:
    Bundle().add(b"t", U8, (3,), b"abc", crc=1).write(prefix)
    reader = BundleReader(prefix)
    assert bytes(reader.stored_bytes("t", reader.entries["t"])) == b"abc"
    with pytest.raises(TruncatedError) as caught:
        reader.stored_bytes("t", reader.entries["t"]._replace(offset=1))
    assert caught.value.key == "t"


MANY_SHARDS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from ckpttool.bundle.reader import BundleReader
from ckpttool.coding.checksum import crc32c, mask
with BundleReader(sys.argv[1]) as reader:
    print(sum(int(reader.read(key)) for key in reader.entries))
    open(sys.argv[1] + ".index").close()
"""


def test_more_shards_than_files_may_be_open(prefix: str) -> None:
    count = 200
    made = Bundle(header=encoder.header(count), shards=[b""] * count)
    for at in range(count):
        made.add(b"t%03d" % at, U8, (), bytes((at,)), shard=at)
    made.write(prefix)
    done = run_python(MANY_SHARDS, prefix)
    assert done.stderr == ""
    assert int(done.stdout) == sum(range(count))
