"""Files of other programs are named for what they are."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ckpttool.coding.foreign import HEAD_SIZE, foreign_bytes
from ckpttool.storage.foreign import foreign_file, foreign_folder
from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 1234567\n" % 7


def safetensors(header: bytes = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}') -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(4)


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"{}")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("ckpt-1.index"))
    return buffer.getvalue()


def saved(write: Callable[..., None], **arrays: object) -> bytes:
    buffer = io.BytesIO()
    write(buffer, **arrays)
    return buffer.getvalue()


KNOWN = {
    "Git LFS": (POINTER, "a pointer of Git LFS to a file of 1,234,567 bytes; fetch that: git lfs"),
    "git-annex": (b"/annex/objects/SHA256E-s5--ab.index\n", "git annex get"),
    "HDF5": (
        b"\x89HDF\r\n\x1a\n" + bytes(99),
        "HDF5, such as Keras weights; `ckpt ls` lists its tensors",
    ),
    "safetensors": (safetensors(), "safetensors; `ckpt ls` lists its tensors"),
    "npy": (saved(np.save, arr=np.zeros(3)), "a NumPy array"),
    "npz": (saved(np.savez, w=np.zeros(3)), "a NumPy archive (.npz); `ckpt ls` lists its tensors"),
    "PyTorch": (zipped("model/data.pkl", "model/version"), "torch.load reads it"),
    "Keras 3": (zipped("metadata.json", "config.json", "model.weights.h5"), "Keras 3 model"),
    "zip": (zipped("readme.txt"), "a ZIP archive; unpack it first"),
    "old PyTorch": (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "a PyTorch file; torch.load"),
    "pickle": (pickle.dumps({"w": [1.0]}), "a Python pickle"),
    "GGUF": (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "GGUF"),
    "ONNX": (b"\x08\x08\x12\x07pytorch\x1a\x051.7.0" + bytes(60), "an ONNX model"),
    "frozen graph": (
        b"\n\x16\n\x05Input\x12\x0bPlaceholder*\x00" + bytes(8),
        "a GraphDef, such as a frozen graph; its weights are constants in it",
    ),
    "TensorFlow Lite": (b"\x1c\0\0\0TFL3" + bytes(30), "TensorFlow Lite"),
    "gzip": (gzip.compress(b"x"), "a gzip file; unpack it first"),
    "tar": (tarred(), "a tar archive; unpack it first"),
    "page": (b"\n<!DOCTYPE html><html>Sign in</html>", "a page of HTML"),
    "list of shards": (json.dumps({"metadata": {}, "weight_map": {}}).encode(), "safetensors"),
    "TensorFlow.js": (b'{"modelTopology": {}, "weightsManifest": []}', "a TensorFlow.js model"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_files(name: str, tmp_path: Path) -> None:
    data, expected = KNOWN[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    assert expected in str(foreign_file(str(path)))
    done = ckpt("ls", str(path))
    if name in ("safetensors", "npy", "npz"):
        assert (done.code, done.err) == (0, "")  # whatever its name
        return
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    if name == "HDF5":  # it is opened: without h5py, or because the rest of it is no such file
        assert "HDF5" in done.err
        return
    assert done.err.startswith(f"ckpt: {path}: not a checkpoint: it is ") and expected in done.err


UNKNOWN = {
    "empty": b"",
    "zeros": bytes(5000),
    "text": b"epoch 1: loss 0.3\n" * 50,
    "JSON": b'{"a": 1}',
    "a length beyond the end": struct.pack("<Q", 1 << 40) + b"{}",
    "a SavedModel": b"\x08\x01\x12\x04\x0a\x02\x0a\x00" + bytes(80),
    "a mention of Git LFS": POINTER + b"x" * 2000,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_files(name: str) -> None:
    data = UNKNOWN[name]
    assert foreign_bytes(data[:HEAD_SIZE], len(data)) is None


def test_every_cut_is_told_or_not() -> None:
    """A head may end anywhere."""
    for data, _ in KNOWN.values():
        for size in range(min(len(data), 300)):
            found = foreign_bytes(data[:size], size)
            assert found is None or found.what


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["_CHECKPOINT_METADATA", "default"], "Orbax"),
        (["manifest.ocdbt", "d"], "Orbax"),
        ([".zgroup"], "zarr"),
        (["config.json", "model.safetensors"], "'model.safetensors', which is safetensors"),
        ([], None),
    ],
)
def test_folders(names: list[str], expected: str | None, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_bytes(safetensors() if name.endswith("safetensors") else b"{}")
    found = foreign_folder(str(tmp_path))
    assert (expected in str(found)) if expected else found is None
    done = ckpt("ls", str(tmp_path))
    if "model.safetensors" in names:
        assert done.code == 0
        return
    assert done.code == 2 and (expected or "no checkpoint in the folder") in done.err


ADAM = os.path.join(FIXTURES, "v2", "tf2.21", "guide_legacy_adam", "tf_ckpts")
MODEL = os.path.join(FIXTURES, "saved_model", "tf2.21", "module", "model")
FETCH = "a pointer of Git LFS to a file of 1,234,567 bytes; fetch that: git lfs pull"


@pytest.mark.parametrize("command", [("ls",), ("show",), ("show", "step"), ("verify", "--fast")])
@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_pointers_in_place_of_a_checkpoint(
    command: tuple[str, ...], ending: str, tmp_path: Path
) -> None:
    shutil.copytree(ADAM, tmp_path / "run")
    (tmp_path / "run" / f"ckpt-5{ending}").write_bytes(POINTER)
    done = ckpt(command[0], str(tmp_path / "run" / "ckpt-5"), *command[1:])
    if command == ("ls",) and ending != ".index":
        assert done.code == 0  # the index is enough
    else:
        assert done.code in (1, 2) or command == ("show",)
        assert FETCH in done.err + done.out


@pytest.mark.parametrize(
    "command", [("verify",), ("export-meta-json",), ("show", "--graph"), ("diff", MODEL)]
)
def test_a_pointer_in_place_of_a_graph(command: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copytree(MODEL, tmp_path / "model")
    (tmp_path / "model" / "saved_model.pb").write_bytes(POINTER)
    done = ckpt(*command, str(tmp_path / "model"))
    if command[0] == "diff":
        assert done.code == 0  # of tensors
    else:
        assert done.code in (1, 2) and FETCH in done.err + done.out


def test_the_shell_expanded_a_pattern(tmp_path: Path) -> None:
    shutil.copytree(ADAM, tmp_path / "run")
    files = sorted(str(path) for path in (tmp_path / "run").glob("ckpt-*"))
    for command in ("ls", "show"):
        done = ckpt(command, *files)
        assert done.code == 2 and "did the shell expand a pattern?" in done.err
    done = ckpt("verify", *files)
    assert done.code == 0
    assert [line.split("\t")[0] for line in done.out.splitlines()[1:]] == [
        f"{tmp_path}/run/ckpt-{step}" for step in (3, 4, 5)
    ]
