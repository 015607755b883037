"""What is written as .npy loads as what was stored."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import (
    ChecksumError,
    CkptError,
    DestinationError,
    MissingFileError,
    SelectionError,
    UnsupportedError,
)
from ckpttool.query.values.files import ValueFile, WrittenValues, format_of_values
from ckpttool.query.values.parts import ML_DTYPES
from ckpttool.query.values.targets import Target, find_targets
from ckpttool.tensor.slices import TensorSlice
from tests.support.fixtures import BundleFixture, bundle
from tests.support.limits import memory_limit
from tests.support.sweeps import each_bundle

ARRAY = np.arange(60, dtype=np.float32).reshape(5, 3, 4)


@pytest.fixture
def ckpt(tmp_path: Path) -> Iterator[Checkpoint]:
    prefix = os.fspath(tmp_path / "model")
    with BundleWriter(prefix) as writer:
        writer.add("whole", ARRAY)
        for at in range(3):
            writer.add_slice(
                "sliced", (5, 3, 4), TensorSlice(((0, 5), (at, 1), (0, 4))), ARRAY[:, at : at + 1]
            )
        writer.add("text", np.array(["a", "", "ccc"]))
        writer.add("nul", np.array([b"a\0b", b"ends in\0"], object))
        writer.add("no text", np.empty((0, 2), object))
        writer.add("empty text", np.array("", object))
    with open_checkpoint(prefix) as opened:
        yield opened


def write_npy(ckpt: Checkpoint, target: Target, path: str, *, force: bool = False) -> WrittenValues:
    return ValueFile(ckpt, [target], "npy").write(path, force=force)


def saved(array: np.ndarray[Any, Any]) -> bytes:
    """Return what numpy.save writes."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@each_bundle
def test_every_tensor_of_the_fixtures(fixture: BundleFixture, tmp_path: Path) -> None:
    with open_checkpoint(fixture.prefix) as opened:
        for number, (key, entry) in enumerate(opened.entries.items()):
            path = tmp_path / f"{number}.npy"
            value = opened.bundle.read(key)
            ends_in_nul = entry.dtype.name == "string" and any(
                item.endswith(b"\0") for item in value.reshape(-1)
            )
            if entry.dtype.name == "variant" or ends_in_nul:
                with pytest.raises(UnsupportedError) as caught:
                    write_npy(opened, Target(key), os.fspath(path))
                assert caught.value.key == key and not path.exists()
                continue
            written = write_npy(opened, Target(key), os.fspath(path))
            loaded = np.load(path, allow_pickle=False)
            assert written.bytes == path.stat().st_size
            assert written.verified and value.shape == loaded.shape
            if entry.dtype.name in ML_DTYPES:
                assert written.view == entry.dtype.name and loaded.dtype.kind == "V"
                loaded = loaded.view(getattr(ml_dtypes, entry.dtype.name))
            else:
                assert written.view is None
            if entry.dtype.name == "string":
                assert loaded.dtype.kind == "S" and loaded.tolist() == value.tolist()
            else:
                assert loaded.dtype == value.dtype
                assert loaded.tobytes() == value.tobytes()
                if written.view is None:
                    assert path.read_bytes() == saved(value)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["whole", "sliced"])
@pytest.mark.parametrize("index", ["", "[::-1, 1:, -1]", "[2]", "[1,1,1]", "[4:2]"])
@pytest.mark.parametrize("streamed", [True, False])
def test_parts(
    ckpt: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    index: str,
    streamed: bool,
) -> None:
    if streamed:
        monkeypatch.setattr("ckpttool.query.values.parts._SMALL", 0)
        monkeypatch.setattr("ckpttool.query.values.parts._BLOCK", 20)
    (target,) = find_targets(ckpt, [name + index])
    path = tmp_path / "part.npy"
    written = write_npy(ckpt, target, os.fspath(path))
    wanted = eval(f"ARRAY{index}", {"ARRAY": ARRAY})
    assert path.read_bytes() == saved(np.asarray(wanted))
    assert written.verified is (not index)


def test_strings(ckpt: Checkpoint, tmp_path: Path) -> None:
    path = os.fspath(tmp_path / "text.npy")
    write_npy(ckpt, Target("text"), path)
    assert np.load(path).tolist() == [b"a", b"", b"ccc"]
    write_npy(ckpt, Target("no text"), path, force=True)
    assert np.load(path).shape == (0, 2)
    write_npy(ckpt, Target("empty text"), path, force=True)
    assert np.load(path)[()] == b""
    with pytest.raises(UnsupportedError, match="string 1 ends in NUL"):
        write_npy(ckpt, Target("nul"), path, force=True)
    (target,) = find_targets(ckpt, ["nul[0]"])
    write_npy(ckpt, target, path, force=True)
    assert np.load(path)[()] == b"a\0b"


def test_strings_that_would_fill_the_disk(
    ckpt: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpttool.query.values.files._MOST_PADDED", 8)
    monkeypatch.setattr("ckpttool.query.values.files._MOST_PADDING", 2)
    with pytest.raises(UnsupportedError, match="3 strings would take 9 bytes"):
        write_npy(ckpt, Target("text"), os.fspath(tmp_path / "text.npy"))


def test_an_existing_file_is_refused(ckpt: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "w.npy"
    path.write_bytes(b"mine")
    with pytest.raises(DestinationError, match="exists"):
        write_npy(ckpt, Target("whole"), os.fspath(path))
    assert path.read_bytes() == b"mine"
    write_npy(ckpt, Target("whole"), os.fspath(path), force=True)
    np.testing.assert_array_equal(np.load(path), ARRAY)


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_the_checkpoint_itself_is_never_replaced(
    ckpt: Checkpoint, tmp_path: Path, ending: str, force: bool
) -> None:
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "link").symlink_to(f"model{ending}")
    for name in (f"model{ending}", "link"):
        with pytest.raises(DestinationError, match="of the checkpoint itself"):
            write_npy(ckpt, Target("whole"), os.fspath(tmp_path / name), force=force)
    (tmp_path / "link").unlink()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_folders(ckpt: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for force in (True, False):
        with pytest.raises(DestinationError):
            write_npy(ckpt, Target("whole"), os.fspath(tmp_path / "folder"), force=force)
    with pytest.raises(MissingFileError):
        write_npy(ckpt, Target("whole"), os.fspath(tmp_path / "none" / "w.npy"))


@pytest.mark.parametrize("name", ["whole", "sliced"])
def test_damage_leaves_no_file(
    ckpt: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("ckpttool.query.values.parts._SMALL", 0)
    monkeypatch.setattr("ckpttool.query.values.parts._BLOCK", 20)
    data = tmp_path / "model.data-00000-of-00001"
    data.write_bytes(bytes(byte ^ 1 for byte in data.read_bytes()))
    with pytest.raises(ChecksumError) as caught:
        write_npy(ckpt, Target(name), os.fspath(tmp_path / "w.npy"))
    assert caught.value.key == name
    assert sorted(os.listdir(tmp_path)) == ["model.data-00000-of-00001", "model.index"]


def test_files_beside_the_checkpoint_are_its_own(tmp_path: Path) -> None:
    fixture = bundle("v2/tf2.21/saver_v2/model.ckpt-3")
    with open_checkpoint(fixture.prefix) as opened:
        (key, *_) = opened.entries
        for path in (opened.location.meta_path, opened.location.state_path):
            assert path is not None
            with pytest.raises(CkptError, match="of the checkpoint itself"):
                write_npy(opened, Target(key), path, force=True)


def test_memory_stays_bounded(tmp_path: Path) -> None:
    prefix = os.fspath(tmp_path / "large")
    with BundleWriter(prefix) as writer:
        writer.add("w", np.ones(24 << 20, np.float32))
    with open_checkpoint(prefix) as opened, memory_limit(16 << 20):
        write_npy(opened, Target("w"), os.fspath(tmp_path / "w.npy"))
    loaded = np.load(tmp_path / "w.npy", mmap_mode="r")
    assert loaded.shape == (24 << 20,) and loaded[0] == loaded[-1] == 1


def test_tables(ckpt: Checkpoint, tmp_path: Path) -> None:
    def table(name: str) -> str:
        path = tmp_path / "t.csv"
        ValueFile(ckpt, find_targets(ckpt, [name]), "csv").write(os.fspath(path), force=True)
        return path.read_text()

    assert table("whole[:2,0]") == "0.0,1.0,2.0,3.0\n12.0,13.0,14.0,15.0\n"
    assert table("sliced[0,:,1]") == "1.0\n5.0\n9.0\n"
    assert table("whole[1,1,1]") == "17.0\n"
    assert table("text") == 'a\n""\nccc\n'
    assert table("no text") == ""
    with pytest.raises(UnsupportedError, match="a vector or a matrix, not 3 dimensions"):
        table("whole")


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn"])
def test_numbers_in_tables_read_back(tmp_path: Path, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    raw = np.random.default_rng(7).integers(0, 256, 512 * dtype.itemsize, np.uint8)
    values = raw.view(dtype)
    prefix = os.fspath(tmp_path / "m")
    with BundleWriter(prefix) as writer:
        writer.add("w", values)
    with open_checkpoint(prefix) as opened:
        ValueFile(opened, [Target("w")], "csv").write(prefix + ".csv")
    texts = Path(prefix + ".csv").read_text().splitlines()
    found = np.array([float(text) for text in texts]).astype(dtype)
    with np.errstate(all="ignore"):
        same = (found == values) | (np.isnan(found) & np.isnan(values))
    assert same.all()


def test_what_ends_a_name_tells_the_format() -> None:
    assert format_of_values("a.b/c.npz") == "npz"
    with pytest.raises(SelectionError, match=r"ends in '\.safetensors', '\.npz', '\.npy', '\.csv'"):
        format_of_values("model.pt")


def test_a_damaged_tensor_writes_nothing_into_a_pipe(tmp_path: Path) -> None:
    prefix = os.fspath(tmp_path / "m")
    with BundleWriter(prefix) as writer:
        writer.add("w", np.zeros(100))
    shard = Path(prefix + ".data-00000-of-00001")
    shard.write_bytes(b"\1" + shard.read_bytes()[1:])
    for form in ("npy", "npz", "safetensors", "csv"):
        written: list[object] = []
        with open_checkpoint(prefix) as opened, pytest.raises(CkptError):
            ValueFile(opened, [Target("w")], form).write_to(written.append)
        assert written == []
