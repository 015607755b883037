from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from safetensors.numpy import save

from ckpttool.errors import (
    CkptError,
    CorruptError,
    InvalidTensorError,
    KeyCollisionError,
    TruncatedError,
    UnsupportedError,
)
from ckpttool.interchange.safetensors import (
    MAX_HEADER,
    SAFETENSORS_CODES,
    SafetensorsHeader,
    build_header,
    read_header,
    safetensors_code,
)
from ckpttool.storage.source import RandomAccessFile
from ckpttool.tensor.dtypes import DTYPES, dtype_of_name
from tests.support.arrays import info, safetensors_bytes
from tests.support.limits import memory_limit, time_limit

F32 = dtype_of_name("float32")


def header_of(tmp_path: Path, data: bytes) -> SafetensorsHeader:
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with RandomAccessFile(str(path)) as file:
        return read_header(file)


def test_a_header_tells_where_tensors_lie(tmp_path: Path) -> None:
    tensors = {
        "__metadata__": {"format": "pt"},
        "b": info("I8", [3], 8, 11),
        "naïve/ä": info("F32", [2], 0, 8),
        "empty": info("F64", [0, 5], 8, 8),
        "scalar": info("BOOL", [], 11, 12),
    }
    raw = json.dumps(tensors, ensure_ascii=False).encode()
    found = header_of(tmp_path, safetensors_bytes(raw, bytes(12), pad=b"   "))
    start = found.data_start
    assert start == 8 + len(raw) + 3
    assert [(t.name, t.dtype.name, t.shape, t.offset - start, t.size) for t in found.tensors] == [
        ("naïve/ä", "float32", (2,), 0, 8),
        ("empty", "float64", (0, 5), 8, 0),
        ("b", "int8", (3,), 8, 3),
        ("scalar", "bool", (), 11, 1),
    ]
    assert found.metadata == {"format": "pt"}


def test_no_tensors_and_spaces_between_tokens(tmp_path: Path) -> None:
    assert header_of(tmp_path, safetensors_bytes(b"{}")).tensors == ()
    text = b'{\n "a" : {"shape": [ ], "data_offsets" : [0 , 2],\t"dtype":"F16"} \r\n}'
    (found,) = header_of(tmp_path, safetensors_bytes(text, bytes(2))).tensors
    assert (found.name, found.shape, found.size) == ("a", (), 2)


def test_packed_dtypes_are_named_and_their_extents_checked(tmp_path: Path) -> None:
    tensors = {
        "four": info("F4", [3, 2], 0, 3),
        "six": info("F6_E2M3", [4], 3, 6),
        "scale": info("F8_E8M0", [1], 6, 7),
    }
    found = header_of(tmp_path, safetensors_bytes(tensors, bytes(7))).tensors
    assert [str(each.dtype) for each in found] == [
        "unknown(F4)",
        "unknown(F6_E2M3)",
        "unknown(F8_E8M0)",
    ]
    assert not any(each.dtype.known for each in found)
    odd = {"four": info("F4", [3], 0, 2)}
    with pytest.raises(CorruptError, match=r"F4 \[3\] does not fit the 2 bytes"):
        header_of(tmp_path, safetensors_bytes(odd, bytes(2)))


def entry(dtype: str = '"F32"', shape: str = "[1]", offsets: str = "[0,4]") -> bytes:
    return f'{{"a":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}'.encode()


BROKEN: dict[str, tuple[bytes, bytes, str, int]] = {
    "list": (b"[]", b"", "does not begin with '{'", 8),
    "space before": (b" {}", b"", "does not begin with '{'", 8),
    "no end": (b'{"a":1', b"", "its description is no object", 13),
    "no member": (b'{"a"}', b"", "':' is expected", 12),
    "no name": (b"{1:2}", b"", "a name is expected", 9),
    "comma at the end": (b'{"__metadata__":{},}', b"", "expecting value", 27),
    "two objects": (b"{}{}", b"", "only spaces may follow", 10),
    "newline after": (b"{}\n", b"", "only spaces may follow", 10),
    "NUL after": (b"{}\0", b"", "only spaces may follow", 10),
    "not UTF-8": (b'{"\xff":1}', b"", "not UTF-8", 10),
    "half a pair": (b'{"\\ud800":{}}', b"", "a name is not Unicode", 9),
    "NaN": (entry(shape="[NaN]"), bytes(4), "NaN is not JSON", 13),
    "many digits": (entry(offsets="[0,%s]" % ("9" * 5000)), bytes(4), "a number of 5000", 13),
    "deep": (b'{"a":' + b"[" * 100_000, b"", "nested too deep", 13),
    "deep objects": (b'{"a":' + b'{"a":' * 100_000, b"", "nested too deep", 13),
    "long name": (b'{"%s":{}}' % (b"x" * 70_000), b"", "a name of more than 65536", 9),
    "long description": (
        entry(shape=str([1] * 9000)),
        bytes(4),
        "a description of more than 16384",
        13,
    ),
    "long metadata": (
        b'{"__metadata__":{"a":"%s"}}' % (b"x" * (1 << 24)),
        b"",
        "the metadata of more than 16777216 characters",
        24,
    ),
    "zero before a number": (entry(shape="[01]"), bytes(4), "delimiter|expecting", 38),
    "twice": (
        entry()[:-1] + b"," + entry()[1:],
        bytes(4),
        "the name 'a' twice",
        8 + len(entry()),
    ),
    "member twice": (
        b'{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        bytes(4),
        "the member 'dtype' twice",
        13,
    ),
    "metadata twice": (b'{"__metadata__":{"a":"1","a":"2"}}', b"", "the member 'a' twice", 24),
    "metadata list": (b'{"__metadata__":[]}', b"", "it is no object", 24),
    "metadata number": (b'{"__metadata__":{"a":1}}', b"", "'a' is no text", 24),
    "metadata deep": (b'{"__metadata__":{"a":{"b":"c"}}}', b"", "'a' is no text", 24),
    "no dtype": (b'{"a":{"shape":[1],"data_offsets":[0,4]}}', bytes(4), "dtype is not known", 13),
    "no shape": (b'{"a":{"dtype":"F32","data_offsets":[0,4]}}', bytes(4), "its shape", 13),
    "no offsets": (b'{"a":{"dtype":"F32","shape":[1]}}', bytes(4), "data_offsets", 13),
    "dtype": (entry('"F128"'), bytes(4), "its dtype 'F128' is not known", 13),
    "dtype of TensorFlow": (entry('"float32"'), bytes(4), "'float32' is not known", 13),
    "dtype a list": (entry('["F32"]'), bytes(4), "its dtype is not known", 13),
    "more members": (
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[4]}}',
        bytes(4),
        "has 'strides'",
        13,
    ),
    "negative dimension": (entry(shape="[-1]"), bytes(4), "no list of whole numbers", 13),
    "fraction": (entry(shape="[1.0]"), bytes(4), "no list of whole numbers", 13),
    "true": (entry(shape="[true]"), bytes(4), "no list of whole numbers", 13),
    "text as shape": (entry(shape='"1"'), bytes(4), "no list of whole numbers", 13),
    "rank": (entry(shape=str([1] * 255)), bytes(4), "255 dimensions", 13),
    "product beyond 64 bits": (
        entry(shape="[4294967296,4294967296,4294967296]"),
        bytes(4),
        "more elements than any file",
        13,
    ),
    "such a product with a zero": (
        entry(shape="[9223372036854775807,9223372036854775807,0]", offsets="[0,0]"),
        b"",
        "more elements than any file",
        13,
    ),
    "backward": (entry(offsets="[4,0]"), bytes(4), "two rising numbers", 13),
    "three offsets": (entry(offsets="[0,4,8]"), bytes(4), "two rising numbers", 13),
    "negative offset": (entry(offsets="[-4,0]"), bytes(4), "two rising numbers", 13),
    "size": (entry(shape="[2]"), bytes(4), r"F32 \[2\] does not fit the 4 bytes", 13),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_headers(name: str, tmp_path: Path) -> None:
    raw, data, message, offset = BROKEN[name]
    with pytest.raises(CkptError, match=message) as caught:
        header_of(tmp_path, safetensors_bytes(raw, data))
    assert caught.value.offset == offset
    assert caught.value.path == str(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    ("extents", "data", "message", "key", "at"),
    [
        ([(0, 4), (8, 12)], 12, "a hole after that", "b", 8),
        ([(4, 8)], 8, "a hole after that", "a", 4),
        ([(0, 4), (2, 6)], 6, "an overlap with that", "b", 2),
        ([(0, 4), (0, 4)], 4, "an overlap with that", "b", 0),
        ([(0, 4), (2, 2)], 4, "an overlap with that", "b", 2),
        ([(0, 4), (8, 8)], 8, "a hole after that", "b", 8),
        ([(0, 4)], 5, "1 bytes at the end of the file belong to no tensor", None, 4),
        ([(0, 8)], 4, "the file has", "a", 4),
        ([(0, 1 << 40)], 4, "the file has", "a", 4),
        ([], 1, "1 bytes at the end", None, 0),
    ],
)
def test_bytes_belong_to_one_tensor_each(
    extents: list[tuple[int, int]],
    data: int,
    message: str,
    key: str | None,
    at: int,
    tmp_path: Path,
) -> None:
    tensors = {
        name: info("U8", [end - begin], begin, end)
        for name, (begin, end) in zip("abc", extents, strict=False)
    }
    raw = safetensors_bytes(tensors, bytes(data))
    with pytest.raises(CorruptError, match=message) as caught:
        header_of(tmp_path, raw)
    assert (caught.value.key, caught.value.offset) == (key, len(raw) - data + at)


@pytest.mark.parametrize(
    ("length", "rest", "message"),
    [
        (1, b"{}", "a header of 1 bytes in a file of 10"),
        (0, b"{}", "a header of 0 bytes in a file of 10"),
        (3, b"{}", "a header of 3 bytes in a file of 10"),
        (100_000_001, b"{}", "a header of 100000001 bytes is more than 100000000"),
        (2**64 - 1, b"{}", "is more than 100000000"),
    ],
)
def test_lengths_of_headers(length: int, rest: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match=message) as caught:
        header_of(tmp_path, length.to_bytes(8, "little") + rest)
    assert caught.value.offset == 0


def test_files_that_are_something_else(tmp_path: Path) -> None:
    with pytest.raises(TruncatedError, match="a file of 0 bytes is too short"):
        header_of(tmp_path, b"")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n"
    with pytest.raises(CorruptError, match="git lfs pull"):
        header_of(tmp_path, pointer)
    with pytest.raises(CorruptError, match="page of HTML"):
        header_of(tmp_path, b"<!doctype html>\n" + b"<p>not found</p>" * 9)


def test_what_is_spelled_otherwise_is_the_same(tmp_path: Path) -> None:
    usual = json.dumps({"aä": info("F32", [2, 1], 0, 8)}, separators=(",", ":"))
    loose = json.dumps({"aä": info("F32", [2, 1], 0, 8)}, ensure_ascii=False, indent=1)
    assert "\\u00e4" in usual
    for text in (usual, loose, usual.replace("\\u00e4", "ä")):
        (found,) = header_of(tmp_path, safetensors_bytes(text.encode(), bytes(8))).tensors
        assert (found.name, found.shape, found.size) == ("aä", (2, 1), 8)


@pytest.mark.parametrize("rank", [0, 1, 5])
def test_the_safetensors_package_agrees(rank: int, tmp_path: Path) -> None:
    """Every dtype, in both directions."""
    shape = (2, 3, *(1,) * (rank - 2))[:rank]
    tensors = {name: np.zeros(shape, dtype_of_name(name).numpy_dtype) for name in SAFETENSORS_CODES}
    theirs = header_of(tmp_path, save(tensors, {"format": "pt"}))
    assert theirs.metadata == {"format": "pt"}
    assert {each.name: (each.dtype.name, each.shape) for each in theirs.tensors} == {
        name: (name, shape) for name in SAFETENSORS_CODES
    }
    built = build_header([(name, dtype_of_name(name), shape) for name in SAFETENSORS_CODES])
    size = sum(each.size for each in built.tensors)
    deserialize: Any = safetensors.deserialize
    found = dict(deserialize(built.data + bytes(size)))
    assert {name: (each["dtype"], tuple(each["shape"])) for name, each in found.items()} == {
        name: (code, shape) for name, code in SAFETENSORS_CODES.items()
    }


def test_a_terabyte_is_only_claimed(tmp_path: Path) -> None:
    """Nothing is set aside for a size that the header claims; the file itself may be sparse."""
    path = tmp_path / "m.safetensors"
    size = 1 << 40
    path.write_bytes(safetensors_bytes({"a": info("U8", [size], 0, size)}))
    start = path.stat().st_size
    with RandomAccessFile(str(path)) as file, pytest.raises(TruncatedError, match="in all"):
        read_header(file)
    os.truncate(path, start + size)
    with RandomAccessFile(str(path)) as file:
        assert read_header(file).tensors[0].size == size


def test_equal_tensors_give_equal_bytes(tmp_path: Path) -> None:
    tensors = [
        ("z/half", dtype_of_name("bfloat16"), (3,)),
        ("b", F32, (2, 2)),
        ("a", F32, ()),
        ("é", dtype_of_name("uint8"), (5,)),
        ("wide", dtype_of_name("complex64"), (1,)),
        ("none", F32, (0, 7)),
    ]
    built = build_header(tensors, {"format": "tf", "a": "ü"})
    assert build_header(tensors[::-1], {"a": "ü", "format": "tf"}).data == built.data
    assert len(built.data) % 64 == 0
    assert [each.name for each in built.tensors] == ["wide", "a", "b", "none", "z/half", "é"]
    end = built.tensors[-1].offset + built.tensors[-1].size
    found = header_of(tmp_path, built.data + bytes(end - len(built.data)))
    assert sorted(found.tensors) == sorted(built.tensors)
    assert found.metadata == {"format": "tf", "a": "ü"}
    assert found.data_start == len(built.data)
    assert all(each.offset % (each.dtype.size or 1) == 0 for each in found.tensors)


def test_what_cannot_be_written() -> None:
    with pytest.raises(KeyCollisionError, match="key 'a'"):
        build_header([("a", F32, ()), ("a", F32, (1,))])
    with pytest.raises(InvalidTensorError, match="__metadata__"):
        build_header([("__metadata__", F32, ())])
    with pytest.raises(InvalidTensorError, match=r"key 'a\\xff': .*only names in UTF-8"):
        build_header([("fine", F32, ()), ("a\udcff", F32, ())])
    with pytest.raises(UnsupportedError, match="key 'a': safetensors has no dtype for string"):
        build_header([("a", dtype_of_name("string"), ())])
    assert build_header([]).data == (56).to_bytes(8, "little") + b"{}".ljust(56)


def test_every_dtype_of_tensorflow_has_a_code_or_none() -> None:
    without = {
        *("string", "variant", "resource", "complex128"),
        *("qint8", "quint8", "qint16", "quint16", "qint32"),
        *("float8_e4m3b11fnuz", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"),
    }
    names = {dtype.name for dtype in DTYPES.values()}
    assert names - set(SAFETENSORS_CODES) == without
    assert safetensors_code(dtype_of_name("float8_e4m3fn")) == "F8_E4M3"
    for name in without:
        with pytest.raises(UnsupportedError, match=f"no dtype for {name}"):
            safetensors_code(dtype_of_name(name))


def _many(count: int) -> bytes:
    lines = (
        f'"layer_{n}/kernel":{{"dtype":"F32","shape":[1],"data_offsets":[{4 * n},{4 * n + 4}]}}'
        for n in range(count)
    )
    return ("{" + ",".join(lines) + "}").encode()


@pytest.mark.large
@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_a_header_of_very_many_tensors(tmp_path: Path, damaged: bool) -> None:
    """Time and memory grow with the header and no faster."""
    count = 300_000
    raw = _many(count)
    data = bytes(4 * count)
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(raw, data[4:] if damaged else data))
    with memory_limit(1 << 30), time_limit(30), RandomAccessFile(str(path)) as file:
        if damaged:
            with pytest.raises(CkptError):
                read_header(file)
        else:
            assert len(read_header(file).tensors) == count


@pytest.mark.large
@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 50_000_000,
        b'{"a":' * 10_000_000,
        b'{"__metadata__":{"a":"' + b"x" * 90_000_000 + b'"}',
        b'{"a":{"dtype":"F32","shape":[' + b"1," * 20_000_000 + b'1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 50_000_000 + b'],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"' + b"F" * 50_000_000 + b'","shape":[],"data_offsets":[0,4]}}',
        b"{" + b'"a":{},' * 7_000_000 + b'"b":{}}',
    ],
    ids=["lists", "objects", "text", "dimensions", "digits", "dtype", "duplicates"],
)
def test_a_huge_header_that_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(raw, bytes(4)))
    with (
        memory_limit(2 << 30),
        time_limit(30),
        RandomAccessFile(str(path)) as file,
        pytest.raises(CkptError) as caught,
    ):
        read_header(file)
    assert len(str(caught.value)) < 1000


def test_a_header_of_any_claimed_size_costs_nothing(tmp_path: Path) -> None:
    for claim in (MAX_HEADER, MAX_HEADER + 1, 1 << 40, (1 << 64) - 1):
        path = tmp_path / "m.safetensors"
        path.write_bytes(claim.to_bytes(8, "little") + b"{}")
        with (
            memory_limit(64 << 20),
            time_limit(2),
            RandomAccessFile(str(path)) as file,
            pytest.raises(CkptError),
        ):
            read_header(file)
