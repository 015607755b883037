"""`.npy` and `.npz` files: NumPy reads what is written, and would write the same headers."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable

import numpy as np
import pytest

from ckpttool.interchange.formats import FILE_FORMATS, format_of_path
from ckpttool.interchange.npy_writing import npy_header, npy_type, write_npy_file
from ckpttool.interchange.npz_writing import npz_name_obstacle, same_member, write_npz_file
from ckpttool.interchange.outgoing import Outgoing
from ckpttool.tensor.dtypes import DTYPES, STRING, dtype_of_array

SHAPES = [(), (0,), (3,), (2, 3), (1,) * 12, (10**12, 0)]


def outgoing(name: str, array: np.ndarray) -> Outgoing:
    def chunks() -> Iterable[bytes]:
        data = array.tobytes()
        return [data[:5], data[5:]]

    return Outgoing(name, dtype_of_array(array), array.shape, chunks)


@pytest.mark.skipif(
    not hasattr(np.lib.format, "GROWTH_AXIS_MAX_DIGITS"),
    reason="older NumPy leaves no room in a header for a first dimension that grows",
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numpy_writes_the_same_bytes(shape: tuple[int, ...]) -> None:
    told = 0
    for dtype in DTYPES.values():
        tensor = Outgoing("x", dtype, shape, list)
        if npy_type(tensor) is None:
            continue
        told += 1
        out = io.BytesIO()
        described = np.lib.format.dtype_to_descr(dtype.numpy_dtype)
        np.lib.format.write_array_header_1_0(
            out, {"descr": described, "fortran_order": False, "shape": shape}
        )
        assert npy_header(str(npy_type(tensor)), shape) == out.getvalue(), dtype
    assert told == 19
    wide = Outgoing("x", STRING, (2,), list, 7)
    assert (npy_type(wide), wide.size) == ("'|S7'", 14)


def test_a_header_of_many_dimensions() -> None:
    """Its length does not fit into two bytes; NumPy takes as many as it can."""
    header = npy_header("'<f4'", (1,) * 30000)
    assert header[:8] == b"\x93NUMPY\x02\x00" and len(header) % 64 == 0
    assert int.from_bytes(header[8:12], "little") == len(header) - 12


def test_npz_round_trip() -> None:
    rng = np.random.default_rng(3)
    arrays = {
        "b/kernel": rng.normal(size=(3, 4)).astype(np.float32),
        "a": np.array([True, False]),
        "größe": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.complex128),
    }
    files = []
    for order in (list(arrays), list(arrays)[::-1]):
        out = bytearray()
        write_npz_file([outgoing(name, arrays[name]) for name in order], out.extend)
        files.append(bytes(out))
    assert files[0] == files[1]
    with np.load(io.BytesIO(files[0])) as found:
        assert list(found) == ["a", "b/kernel", "empty", "größe"]
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    with zipfile.ZipFile(io.BytesIO(files[0])) as archive:
        assert archive.testzip() is None
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_npy_round_trip() -> None:
    array = np.arange(12, dtype=np.uint16).reshape(3, 4)
    out = bytearray()
    write_npy_file(outgoing("x", array), out.extend)
    np.testing.assert_array_equal(np.load(io.BytesIO(out)), array)


@pytest.mark.parametrize("name", ["/a", "a/../b", "..", "a\0b", "x" * 70_000])
def test_names_that_no_member_has(name: str) -> None:
    assert npz_name_obstacle(name)


def test_names_that_are_fine() -> None:
    assert not any(map(npz_name_obstacle, ["a..b/c", "...", "a/b", "-x"]))
    assert same_member(["a", "a.npy", "b.npy"]) == ("a", "a.npy")
    assert same_member(["a", "b.npy"]) is None


def test_endings() -> None:
    for form in FILE_FORMATS.values():
        assert format_of_path(f"x/model{form.ending}") is form
    assert format_of_path("model.h5") is None
