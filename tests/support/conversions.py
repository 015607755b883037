"""Checkpoints of old forms, and what they become."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ckpttool import open_checkpoint
from ckpttool.api.verify import verify
from ckpttool.legacy.writer import LegacyWriter
from ckpttool.query.verify.findings import Finding
from ckpttool.surgery.convert import TargetForm, conversion_options, plan_conversion
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.receipt import Receipt
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.dtypes import DTYPES, STRING, DType, dtype_of_name
from tests.support import encoder
from tests.support.answers import value_bytes
from tests.support.handmade import Bundle
from tests.support.slices import parse_slice

SINGLE = "v1/tf1.15/saver/model.ckpt-3"
PARTITIONED = "v1/tf1.15/partitioned/model.ckpt-7"
SHARDED = "v1/tf1.15/partitioned_sharded/model.ckpt-7"
ROWS = ("0,2:0,4", "2,1:0,4")
COLUMNS = ("0,3:0,1", "0,3:1,3")
Value = tuple[str, tuple[int, ...], bytes]


def convert(
    source: str | Path,
    target: str | Path,
    to: TargetForm = "v2",
    recoding: Recoding | None = None,
    options: WriteOptions | None = None,
) -> Receipt:
    """Convert a checkpoint under all its names."""
    with open_checkpoint(source) as ckpt:
        plan = plan_conversion(ckpt, to)
        how = conversion_options(plan, to, recoding or Recoding(), options or WriteOptions())
        return prepare(plan, str(target), how).write()


def everything(address: str | Path) -> dict[str, Value]:
    """Return dtype, shape and bytes of every tensor of a checkpoint of either format."""
    with open_checkpoint(address) as ckpt:
        return {
            key: (ckpt.entries[key].dtype.name, ckpt.entries[key].shape, value_bytes(ckpt[key]))
            for key in ckpt.entries
        }


def findings(prefix: str | Path) -> list[Finding]:
    """Return what is wrong with a checkpoint."""
    return [each for report in verify(str(prefix)) for each in report.findings]


def elements(dtype: DType, shape: tuple[int, ...]) -> Any:
    """Return different elements of a dtype."""
    count = int(np.prod(shape))
    if dtype == STRING:
        texts = [b"", b"word", bytes(range(256)), b"x" * 300]
        out = np.empty(count, object)
        out[:] = [texts[at % len(texts)] for at in range(count)]
        return out.reshape(shape)
    size = dtype.size or 1
    raw = np.random.default_rng(7).integers(0, 256, count * size, np.uint8)
    if dtype.name == "bool":
        raw %= 2
    elif dtype.name.startswith(("int4", "uint4", "int2", "uint2", "float4")):
        raw %= 4
    return raw.view(dtype.numpy_dtype).reshape(shape)


def write_v1(
    prefix: str | Path,
    arrays: Mapping[str, Any],
    *,
    slices: Mapping[str, Sequence[str]] | None = None,
    shards: int | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> str:
    """Write a V1 checkpoint and return its prefix.

    Args:
        prefix: where.
        arrays: the values by key.
        slices: specs of the slices of partitioned ones; each goes to the next file.
        shards: how many files; None for one without a number.
        dtypes: names of dtypes that arrays do not tell.
    """
    at = 0
    with LegacyWriter(str(prefix), num_shards=shards) as writer:
        for key, array in arrays.items():
            name = (dtypes or {}).get(key) or (
                "string" if array.dtype == object else array.dtype.name
            )
            dtype = dtype_of_name(name)
            specs = (slices or {}).get(key)
            if specs is None:
                shard_id = at % (shards or 1)
                writer.add(key, dtype, array.shape, _giving(array), shard_id=shard_id)
                at += 1
            for spec in specs or ():
                part = parse_slice(spec)
                bounds = tuple(slice(*edges) for edges in part.bounds(array.shape))
                shard_id = at % (shards or 1)
                read = _giving(array[bounds])
                writer.add_slice(key, dtype, array.shape, part, read, shard_id=shard_id)
                at += 1
    return str(prefix)


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: value


def big_endian(prefix: str | Path, shapes: Sequence[tuple[int, ...]]) -> dict[str, Value]:
    """Write a big-endian bundle with each dtype that can be one; return what it holds."""
    made = Bundle(header=encoder.header(1, endianness=1))
    expected = {}
    for number, dtype in sorted(DTYPES.items()):
        if dtype.size is None and dtype != STRING:
            continue
        if dtype.size == 1 and dtype.name not in ("bool", "int8", "uint8", "qint8", "quint8"):
            continue
        for shape in shapes:
            key = f"{dtype.name}/{'x'.join(map(str, shape)) or 'scalar'}"
            array = elements(dtype, shape)
            if dtype == STRING:
                data, crc = encoder.string_data(array.reshape(-1).tolist(), order=">")
                made.add(key.encode(), number, shape, data, crc=crc)
            else:
                plain = array.reshape(-1).view(f"V{_component(dtype)}")
                made.add(key.encode(), number, shape, _swapped(plain))
            expected[key] = (dtype.name, shape, value_bytes(array))
    made.write(prefix)
    return expected


def _component(dtype: DType) -> int:
    """Return the bytes that are swapped among each other: complex numbers have two parts."""
    return (dtype.size or 1) // (2 if dtype.name.startswith("complex") else 1)


def _swapped(plain: Any) -> bytes:
    size = plain.dtype.itemsize
    raw: bytes = plain.tobytes()
    return b"".join(raw[at : at + size][::-1] for at in range(0, len(raw), size))


def old_strings(prefix: str | Path) -> list[bytes]:
    """Write a bundle whose string lengths take more bytes than they need; return the strings."""
    texts = [b"one", b"", b"y" * 200]
    data, crc = encoder.string_data(texts)
    usual = b"".join(encoder.varint(len(text)) for text in texts)
    long = b"".join(encoder.long_varint(len(text), 4) for text in texts)
    made = Bundle().add(b"s", 7, [3], long + data[len(usual) :], crc=crc)
    made.add(b"w", 1, [2], b"01234567")
    made.write(prefix)
    return texts


def copy_v1(fixture: str, folder: Path) -> str:
    """Copy a V1 checkpoint among the fixtures, with what stands beside it; return its prefix."""
    from tests.legacy.handmade import legacy_fixture

    given = legacy_fixture(fixture)
    shutil.copytree(os.path.dirname(given.prefix), folder)
    return str(folder / os.path.basename(given.prefix))
