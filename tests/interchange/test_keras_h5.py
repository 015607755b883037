"""Files of HDF5 as they are read: what h5py makes of them, and what others may make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool as ct
from ckpttool.errors import CkptError, CorruptError, UnsupportedError
from ckpttool.interchange.reader import ArrayReader
from tests.support.command import ckpt
from tests.support.limits import memory_limit, time_limit

h5py: Any = pytest.importorskip("h5py", reason="needs h5py")
NAME = "layers/dense/vars/0"
DATA = np.arange(6, dtype="<f4").reshape(2, 3)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Return a place for a file; whatever is made of it, nothing is written beside it."""
    place = tmp_path / "in" / "m.weights.h5"
    place.parent.mkdir()
    yield place
    assert not (tmp_path / "out").exists()


def made(path: Path, fill: Callable[[Any], object], **how: Any) -> Path:
    with h5py.File(path, "w", **how) as file:
        fill(file)
    return path


def test_every_dtype(tmp_path: Path) -> None:
    arrays = {
        f"g/{name}": (np.arange(6) % 2).astype(name).reshape(2, 3)
        for name in ("<f4", "<f8", "<f2", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")
    }
    arrays |= {f"big/{name}": arrays[f"g/<{name}"].astype(">" + name) for name in ("f4", "i2")}
    arrays |= {"scalar": np.float32(3), "none": np.zeros((0, 5), "<f4")}

    def fill(file: Any) -> None:
        for name, array in arrays.items():
            file[name] = array

    path = made(tmp_path / "m.h5", fill)
    with ArrayReader(str(path), "h5") as reader:
        assert {*reader.entries} == {*arrays}
        for name, array in arrays.items():
            np.testing.assert_array_equal(reader.read(name), array)
            assert reader.read(name).dtype == array.dtype.newbyteorder("<")
            flat = b"".join(map(bytes, reader.chunks(name)))
            assert flat == array.astype(array.dtype.newbyteorder("<")).tobytes()
        np.testing.assert_array_equal(reader.read_region("big/f4", (1, slice(0, 2, 1))), [1, 0])
    ct.import_checkpoint(path, tmp_path / "out" / "m-1")
    assert ckpt("diff", "--exact", str(path), str(tmp_path / "out" / "m-1")).code == 0


def external_link(file: Any) -> None:
    file[NAME] = h5py.ExternalLink("/etc/passwd", "/x")


def soft_link(file: Any) -> None:
    file[NAME] = DATA
    file["layers/other"] = h5py.SoftLink("/layers/dense")


def soft_link_to_nothing(file: Any) -> None:
    file[NAME] = h5py.SoftLink("/nowhere")


def circle(file: Any) -> None:
    file[NAME] = DATA
    file["layers/dense/again"] = file["layers"]


def many_circles(file: Any) -> None:
    for at in range(60):
        file.create_group(str(at))
    for at in range(60):
        for other in range(60):
            file[f"{at}/to{other}"] = file[str(other)]


def to_itself(file: Any) -> None:
    file["all"] = file["/"]


def deep(file: Any) -> None:
    file.create_group("/".join("a" * 200))


def type_in_a_group(file: Any) -> None:
    file["t"] = np.dtype("<f4")


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (external_link, f"'{NAME}' is a link"),
        (soft_link, "'layers/other' is a link"),
        (soft_link_to_nothing, "is a link"),
        (circle, "'layers/dense/again' is a group with another path"),
        (many_circles, "is a group with another path"),
        (to_itself, "'all' is a group with another path"),
        (deep, "lie too deep"),
        (type_in_a_group, "'t' is neither group nor dataset"),
    ],
)
def test_files_that_are_refused(path: Path, fill: Any, message: str) -> None:
    made(path, fill)
    with time_limit(5):
        for words in (("ls",), ("import", "-o", str(path.parent.parent / "out" / "m-1"))):
            done = ckpt(*words, str(path))
            assert done.code == 2 and message in done.err and str(path) in done.err, done.err
        done = ckpt("verify", str(path))
        assert done.code == 2 and message.strip("'") in done.out


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((2, 3), "<f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (2, 3))
    file.create_virtual_dataset(NAME, layout)


def elsewhere(file: Any) -> None:
    file.create_dataset(NAME, (2, 3), "<f4", external=[("/etc/passwd", 0, 24)])


def odd_bits(file: Any) -> None:
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(12)
    kind.set_offset(4)
    space = h5py.h5s.create_simple((2, 3))
    h5py.h5d.create(file.id, b"x", kind, space)


UNREADABLE: tuple[tuple[Callable[[Any], object], str], ...] = (
    (virtual, "its values lie in another file"),
    (elsewhere, "its values lie in another file"),
    (odd_bits, "elements like"),
    (lambda f: f.create_dataset(NAME, data=DATA, chunks=(1, 3)), "h5repack -f NONE -l CONTI"),
    (lambda f: f.create_dataset(NAME, data=DATA, compression="gzip"), "h5repack"),
    # A claim of 2 PiB, in a file of some bytes.
    (lambda f: f.create_dataset(NAME, (1 << 49,), "<f4", chunks=(1 << 28,)), "h5repack"),
    (lambda f: f.create_dataset(NAME, (1 << 49,), "<f4"), "were never written"),
    (lambda f: f.create_dataset(NAME, dtype="<f4", data=h5py.Empty("<f4")), "no elements"),
    (lambda f: f.create_dataset(NAME, (2,), h5py.ref_dtype), "elements like object"),
    (lambda f: f.create_dataset(NAME, (2,), h5py.string_dtype()), "elements like object"),
    (lambda f: f.create_dataset(NAME, (2,), "S3"), "elements like"),
    (lambda f: f.create_dataset(NAME, (2,), "V2"), "elements like"),
    (lambda f: f.create_dataset(NAME, (2,), "<c8"), "elements like complex64"),
    (lambda f: f.create_dataset(NAME, (2,), [("a", "<f4"), ("b", "<i8")]), "elements like"),
)


@pytest.mark.parametrize(("fill", "message"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_tensors_that_are_refused(path: Path, fill: Any, message: str) -> None:
    """They are listed; nothing of the file is imported."""
    made(path, lambda file: (fill(file), file.create_dataset("good", data=DATA)))
    with memory_limit(1 << 30), time_limit(5):
        listed = ckpt("ls", str(path), "--format", "names")
        assert listed.code == 0 and len(listed.out.split()) == 2
        with ArrayReader(str(path), "h5") as reader:
            (bad,) = {*reader.entries} - {"good"}
            np.testing.assert_array_equal(reader.read("good"), DATA)
            for read in (reader.read, lambda key: list(reader.chunks(key))):
                with pytest.raises(UnsupportedError, match=message):
                    read(bad)
        done = ckpt("import", str(path), "-o", str(path.parent.parent / "out" / "m-1"))
        assert done.code == 2 and message in done.err and bad in done.err, done.err


def test_values_behind_the_end(path: Path) -> None:
    """Newer versions of HDF5 see it themselves."""
    made(path, lambda file: file.create_dataset(NAME, data=DATA))
    whole = path.read_bytes()
    shape = (2).to_bytes(8, "little") + (3).to_bytes(8, "little")
    at = whole.index(shape + shape)  # and how far it may grow
    raw = bytearray(whole)
    raw[at : at + 8] = raw[at + 16 : at + 24] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(raw)
    with time_limit(5):
        assert ckpt("ls", str(path)).code == 2
        done = ckpt("import", str(path), "-o", str(path.parent.parent / "out" / "m-1"))
    assert done.code == 2 and ("not 24" in done.err or "invalid dataset size" in done.err), done.err
    layout = whole.index((24).to_bytes(8, "little"), at)
    size = (1 << 40) * 12
    raw[layout : layout + 8] = size.to_bytes(8, "little")
    path.write_bytes(raw)
    with pytest.raises(CkptError, match=r"more than the file has|invalid dataset|addr overflow"):
        ct.import_checkpoint(path, path.parent.parent / "out" / "m-1")


def test_damaged_files(path: Path) -> None:
    """Whatever byte is changed, it is read or refused in time, and in little memory."""
    made(path, lambda file: [file.create_dataset(f"g{n}/vars/0", data=DATA) for n in range(4)])
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    refused = 0
    with memory_limit(1 << 30), time_limit(20):
        for at in rng.integers(8, len(whole), 150):
            raw = bytearray(whole)
            raw[at] ^= int(rng.integers(1, 256))
            path.write_bytes(raw)
            try:
                with ArrayReader(str(path), "h5") as reader:
                    for key in reader.entries:
                        assert reader.read(key).nbytes <= 1 << 20
            except CkptError as error:
                assert error.path == str(path)
                refused += 1
    assert 0 < refused < 150


@pytest.mark.parametrize(
    "data", [b"", b"\x89HDF", bytes(100), b"\x89HDF\r\n\x1a\n" + bytes(100)], ids=range(4)
)
def test_what_is_no_file_of_hdf5(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="no file of HDF5"):
        ArrayReader(str(path), "h5")


def test_a_user_block(path: Path) -> None:
    """Bytes before the file may be anything, such as a program."""
    made(path, lambda file: file.create_dataset(NAME, data=DATA), userblock_size=512)
    with pytest.raises(CorruptError, match="begins otherwise"):
        ArrayReader(str(path), "h5")
