"""`ckpt export` under a map, and the draft of one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import ckpttool as ct
from ckpttool.errors import CkptError, SelectionError, UnsupportedError
from ckpttool.interchange.safetensors import read_header
from ckpttool.storage.source import RandomAccessFile
from ckpttool.tensor import layout as layouts
from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES

GUIDE = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-10")


def test_a_draft_is_reviewed_and_then_applied(tmp_path: Path) -> None:
    words = ("export", GUIDE, "--table", "torch", "--write-map", "m.json")
    done = ckpt(*words, "-n", folder=str(tmp_path))
    assert done.code == 0, done.err
    assert "a draft of 2 lines, to be reviewed" in done.err
    assert [line["rule"] for line in json.loads((tmp_path / "m.json").read_text())["tensors"]] == [
        "bias",
        "dense kernel [1, 0]",
    ]
    again = ckpt(*words, "-n", folder=str(tmp_path))
    assert again.code == 2
    assert "already exists" in again.err
    assert ckpt(*words, "-n", "--force", folder=str(tmp_path)).code == 0
    done = ckpt("export", GUIDE, "--map", "m.json", "-o", "m.safetensors", folder=str(tmp_path))
    assert done.code == 0, done.err
    with RandomAccessFile(str(tmp_path / "m.safetensors")) as file, ct.open_checkpoint(GUIDE) as c:
        header = read_header(file)
        found = {each.name: file.read_at(each.offset, each.size) for each in header.tensors}
        assert {each.name: each.shape for each in header.tensors} == {
            "net.l1.bias": (5,),
            "net.l1.weight": (5, 1),
        }
        assert found["net.l1.weight"] == c["net/l1/kernel"].T.tobytes()
    assert header.metadata == {"format": "pt"}


def test_a_draft_is_never_applied_unseen(tmp_path: Path) -> None:
    for words in (
        ("--table", "torch", "-o", "m.safetensors"),
        ("--table", "torch", "--write-map", "m.json", "-o", "m.safetensors"),
        ("--table", "torch", "-n"),
        ("--write-map", "m.json", "-n"),
        ("--table", "torch", "--write-map", "m.json", "--map", "x", "-n"),
        ("--map", "x", "--names", "key", "-n"),
        ("--skip-unmatched", "-n"),
        ("--table", "tensor", "--write-map", "m.json", "-n"),
    ):
        done = ckpt("export", GUIDE, *words, folder=str(tmp_path))
        assert done.code == 2, words
        assert list(tmp_path.iterdir()) == []
    done = ckpt("export", GUIDE, "--table", "torch", "--write-map", "-", "-n", folder=str(tmp_path))
    assert json.loads(done.out)["schema"] == "ckpt.map/2"
    with pytest.raises(SelectionError, match="a draft is for review"):
        ct.export(GUIDE, tmp_path / "x.npz", table="torch", write_map=tmp_path / "m.json")


def write_map(folder: Path, *lines: dict[str, object]) -> str:
    (folder / "m.json").write_text(json.dumps({"schema": "ckpt.map/2", "tensors": lines}))
    return str(folder / "m.json")


def test_what_the_map_does_not_name(tmp_path: Path) -> None:
    path = write_map(tmp_path, {"from": "net/l1/bias", "to": "b"})
    with pytest.raises(SelectionError, match="the map does not name 'net/l1/kernel'"):
        ct.export(GUIDE, tmp_path / "x.npz", map=path)
    done = ct.export(GUIDE, tmp_path / "x.npz", map=path, skip_unmatched=True)
    assert [each.stored_name for each in done.tensors] == ["b"]
    assert done.notes == ("the map does not name, left out: 'net/l1/kernel'",)
    with pytest.raises(SelectionError, match="names none of the selected tensors"):
        ct.export(GUIDE, tmp_path / "y.npz", "net/l1/kernel", map=path, skip_unmatched=True)
    lstm = {"lstm/kernel": np.zeros((2, 8)), "lstm/recurrent_kernel": np.zeros((2, 8))}
    ct.save_checkpoint(str(tmp_path / "model"), lstm)
    with pytest.raises(SelectionError, match=r"no proposal for 'lstm/kernel'.*gates"):
        ct.export(tmp_path / "model", table="torch", write_map=tmp_path / "d", dry_run=True)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("small", [64, 1 << 25])
@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_layouts_in_every_format(
    tmp_path: Path, ending: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "_SMALL", small)
    value = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    prefix = str(tmp_path / "model")
    ct.save_checkpoint(prefix, {"c/kernel": value, "c/bias": np.ones(5)})
    path = write_map(
        tmp_path,
        {"from": "c/kernel", "to": "w", "shape": [2, 3, 4, 5], "permute": [3, 2, 0, 1]},
        {"from": "c/bias", "to": "b", "shape": [5], "reshape": [1, 5]},
    )
    target = tmp_path / f"out{ending}"
    ct.export(prefix, target, map=path)
    if ending == ".npz":
        found = dict(np.load(target))
        assert (found["w"] == value.transpose(3, 2, 0, 1)).all()
        assert found["b"].tolist() == [[1] * 5]
    else:
        with RandomAccessFile(str(target)) as file:
            stored = {each.name: each for each in read_header(file).tensors}
            assert (stored["w"].shape, stored["b"].shape) == ((5, 4, 2, 3), (1, 5))
            data = file.read_at(stored["w"].offset, stored["w"].size)
        assert data == value.transpose(3, 2, 0, 1).tobytes()


def test_files_of_keras_need_a_reference_and_h5py(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ckpt("export", GUIDE, "-o", "x.weights.h5", folder=str(tmp_path))
    assert done.code == 2
    assert "a .weights.h5 file needs --like" in done.err
    for words in (("--like", "t", "-o", "x.npz"), ("--like", "t", "--to", "npz", "-o", "x")):
        done = ckpt("export", GUIDE, *words, folder=str(tmp_path))
        assert "--like makes a .weights.h5 file" in done.err
    done = ckpt("export", GUIDE, "--accept-order", "-n", folder=str(tmp_path))
    assert "--accept-order needs --like" in done.err
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "t.weights.h5").write_bytes(b"")
    with pytest.raises(UnsupportedError, match=r"pip install 'ckpttool\[h5\]'"):
        ct.export(GUIDE, tmp_path / "x.weights.h5", like=tmp_path / "t.weights.h5")


def test_damage_leaves_no_file(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model")
    ct.save_checkpoint(prefix, {"w": np.zeros((4, 5))})
    shard = tmp_path / "model.data-00000-of-00001"
    shard.write_bytes(b"\1" + shard.read_bytes()[1:])
    path = write_map(tmp_path, {"from": "w", "to": "v", "shape": [4, 5], "permute": [1, 0]})
    with pytest.raises(CkptError):
        ct.export(prefix, tmp_path / "x.safetensors", map=path)
    assert not list(tmp_path.glob("*x.safetensors*"))
