"""NaN and infinities are found in every dtype that has them, wherever they are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ckpttool
from ckpttool import open_checkpoint
from ckpttool.coding.checksum import crc32c, mask
from ckpttool.errors import ChecksumError, UnsupportedError
from ckpttool.query.check.finite import NonFinite, find_nonfinite, may_hold_floats
from ckpttool.query.listing import tensor_rows
from ckpttool.tensor.dtypes import DTYPES
from tests.support import encoder
from tests.support.fixtures import BundleFixture, bundle
from tests.support.handmade import Bundle
from tests.support.limits import run_python
from tests.support.sweeps import each_bundle

# Those that NumPy cannot tell a NaN from: the dtype has none.
FLOATS = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}
WITH_INFINITIES = ("float16", "float32", "float64", "bfloat16", "float8_e5m2")


def look(prefix: str, key: str = "w") -> NonFinite | None:
    seen: list[int] = []
    with open_checkpoint(prefix) as ckpt:
        found = find_nonfinite(ckpt, key, seen.append)
        (row,) = [row for row in tensor_rows(ckpt) if row.key == key]
    assert may_hold_floats(row)
    assert sum(seen) == row.bytes
    return found


def saved(folder: Path, array: Any) -> str:
    ckpttool.save_checkpoint(str(folder / "x"), {"w": array})
    return str(folder / "x")


def test_which_dtypes_are_looked_at(tmp_path: Path) -> None:
    with open_checkpoint(saved(tmp_path, np.zeros(1, np.float32))) as ckpt:
        (row,) = tensor_rows(ckpt)
    taken = {d.name for d in DTYPES.values() if may_hold_floats(row._replace(dtype=d.name))}
    assert taken == {*FLOATS, "float4_e2m1fn", "complex64", "complex128"}
    assert may_hold_floats(row._replace(dtype="unknown(99)"))


@pytest.mark.parametrize("name", FLOATS)
def test_nan(name: str, tmp_path: Path) -> None:
    array = np.ones((3, 4), FLOATS[name])
    assert look(saved(tmp_path, array)) is None
    array[1, 2] = array[2, 3] = np.nan
    assert look(saved(tmp_path / "b", array)) == NonFinite(nan=2, inf=0, first=(1, 2))


@pytest.mark.parametrize("name", WITH_INFINITIES)
def test_infinities(name: str, tmp_path: Path) -> None:
    array = np.ones(9, FLOATS[name])
    array[[3, 5, 8]] = [-np.inf, np.nan, np.inf]
    assert look(saved(tmp_path, array)) == NonFinite(nan=1, inf=2, first=(3,))


@pytest.mark.parametrize("name", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("value", "nan", "inf"),
    [
        (complex(np.nan, 0), 1, 0),
        (complex(0, np.nan), 1, 0),
        (complex(np.inf, np.nan), 1, 0),
        (complex(0, -np.inf), 0, 1),
    ],
)
def test_complex(name: str, value: complex, nan: int, inf: int, tmp_path: Path) -> None:
    array = np.array([[0, value]], name)
    assert look(saved(tmp_path, array)) == NonFinite(nan, inf, (0, 1))


def test_what_has_neither_nan_nor_infinity(tmp_path: Path) -> None:
    array: Any = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)
    assert look(saved(tmp_path, array)) is None


def test_the_largest_and_the_smallest_numbers_are_finite(tmp_path: Path) -> None:
    edge = np.finfo(np.float64)
    array = np.array([edge.max, edge.min, edge.tiny, 5e-324, -0.0])
    assert look(saved(tmp_path, array)) is None


def test_a_scalar_and_nothing_at_all(tmp_path: Path) -> None:
    assert look(saved(tmp_path, np.float32("nan"))) == NonFinite(1, 0, ())
    assert look(saved(tmp_path / "b", np.zeros((0, 3), np.float32))) is None


@pytest.mark.parametrize("shape", [(3 << 22,), (5, 1 << 21)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_tensors(shape: tuple[int, ...], dtype: type, tmp_path: Path) -> None:
    """They come block by block."""
    array: Any = np.zeros(shape, dtype)
    flat = array.reshape(-1)
    flat[[9_000_001, 9_000_002, len(flat) - 1]] = [np.inf, np.nan, np.nan]
    where = tuple(map(int, np.unravel_index(9_000_001, shape)))
    assert look(saved(tmp_path, array)) == NonFinite(2, 1, where)


def partitioned(prefix: Path, dims: tuple[int, int], rows: list[np.ndarray[Any, Any]]) -> str:
    made = Bundle()
    extents = [((number * len(part), len(part)), (0, -1)) for number, part in enumerate(rows)]
    for extent, part in zip(extents, rows, strict=True):
        data = part.tobytes()
        key = encoder.slice_key(b"w", extent)
        made.records[key] = made.store(1, part.shape, data, crc=mask(crc32c(data)))
    made.records[b"w"] = encoder.entry(1, dims, slices=extents)
    return made.write(prefix)


@pytest.mark.parametrize("width", [3, 1 << 22])
def test_partitioned_tensors(width: int, tmp_path: Path) -> None:
    rows = [np.zeros((2, width), np.float32) for _ in range(2)]
    rows[1][0, 2] = np.nan
    prefix = partitioned(tmp_path / "x", (4, width), rows)
    seen: list[int] = []
    with open_checkpoint(prefix) as ckpt:
        assert find_nonfinite(ckpt, "w", seen.append) == NonFinite(1, 0, (2, 2))


def test_damage_is_no_answer(tmp_path: Path) -> None:
    for count in (10, 1 << 24):
        prefix = saved(tmp_path / str(count), np.full(count, np.nan, np.float32))
        with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
            file.seek(17)
            file.write(b"!")
        with pytest.raises(ChecksumError):
            look(prefix)


def test_a_dtype_that_is_not_known(tmp_path: Path) -> None:
    prefix = Bundle().add(b"w", 99, (1,), bytes(4)).write(tmp_path / "x")
    with open_checkpoint(prefix) as ckpt, pytest.raises(UnsupportedError, match="unknown"):
        find_nonfinite(ckpt, "w", lambda count: None)


@each_bundle
def test_agrees_with_numpy(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        rows = [row for row in tensor_rows(ckpt) if may_hold_floats(row)]
        for row in rows:
            if fixture.tensors[row.key].sha256 is None:
                continue
            value = np.asarray(ckpt[row.key])
            wide = value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
            bad = ~np.isfinite(wide)
            found = find_nonfinite(ckpt, row.key, lambda count: None)
            assert (found is not None) == bad.any(), row.key
            if found is not None:
                assert found.nan == np.isnan(wide).sum()
                assert found.nan + found.inf == bad.sum()
                assert found.first == tuple(np.argwhere(bad)[0].tolist())


@pytest.mark.large
def test_memory_is_bounded(tmp_path: Path) -> None:
    """A tensor of 1 GiB that is a hole in a file, with NaN in the end."""
    size = 1 << 30
    prefix = tmp_path / "x"
    piece = bytes(1 << 20)
    crc = 0
    for _ in range(size // len(piece) - 1):
        crc = crc32c(piece, crc)
    last = bytearray(piece)
    last[-4:] = np.float32("nan").tobytes()
    crc = crc32c(last, crc)
    index = encoder.table(
        [
            (b"", encoder.header()),
            (b"w", encoder.entry(1, (size // 4,), size=size, crc=mask(crc))),
        ]
    )
    Path(f"{prefix}.index").write_bytes(index)
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.seek(size - len(last))
        file.write(last)
    code = (
        "import sys\n"
        "from ckpttool import open_checkpoint\n"
        "from ckpttool.query.check.finite import find_nonfinite\n"
        "with open_checkpoint(sys.argv[1]) as ckpt:\n"
        "    found = find_nonfinite(ckpt, 'w', lambda count: None)\n"
        "status = open('/proc/self/status').read()\n"
        "print(found.nan, found.first, status.split('VmHWM:')[1].split()[0])\n"
    )
    done = run_python(code, str(prefix), timeout=120)
    assert done.returncode == 0, done.stderr
    nan, first, peak = done.stdout.split()
    assert (nan, first) == ("1", f"({size // 4 - 1},)")
    assert int(peak) < 200 << 10


def test_a_checkpoint_without_its_data(tmp_path: Path) -> None:
    prefix = str(tmp_path / "x")
    shutil.copy(bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix + ".index", prefix + ".index")
    with open_checkpoint(prefix) as ckpt:
        key = next(row.key for row in tensor_rows(ckpt) if may_hold_floats(row))
        with pytest.raises(ckpttool.errors.MissingFileError):
            find_nonfinite(ckpt, key, lambda count: None)
    assert os.listdir(tmp_path) == ["x.index"]
