"""Files of safetensors and of NumPy where a checkpoint may be named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import ckpttool
from tests.support.arrays import Member, described, info, npy_bytes, safetensors_bytes, zip_bytes
from tests.support.command import ckpt

NAMES = ("m.safetensors", "x.npz", "m.safetensors.index.json")
ARRAYS = {"net/w": np.arange(12, dtype="f4").reshape(3, 4), "net/b": np.ones(4, "f2")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a checkpoint and the same arrays in other files."""
    ckpttool.save_checkpoint(str(tmp_path / "ckpt-1"), ARRAYS)
    save_file(ARRAYS, tmp_path / "m.safetensors", metadata={"format": "pt"})
    save: Any = np.savez
    save(tmp_path / "x.npz", **ARRAYS)
    np.save(tmp_path / "w.npy", ARRAYS["net/w"])
    places = dict.fromkeys(ARRAYS, "m.safetensors")
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_ls(name: str, home: Path) -> None:
    done = ckpt("ls", str(home / name), "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    size = os.path.getsize(home / (name if "json" not in name else "m.safetensors"))
    source = found["source"]
    assert source["generation"] == ("npz" if "npz" in name else "safetensors")
    assert (source["style"], source["shards"], source["data_bytes"]) == ("name", 1, size)
    rows = [(row["key"], row["dtype"], row["shape"], row["kind"]) for row in found["tensors"]]
    assert rows == [("net/b", "float16", [4], "weight"), ("net/w", "float32", [3, 4], "weight")]
    for row in found["tensors"]:
        with open(home / (name if "json" not in name else "m.safetensors"), "rb") as file:
            file.seek(row["offset"])
            assert file.read(row["bytes"]) == ARRAYS[row["key"]].tobytes()
    assert ckpt("ls", str(home / name), "--long", "net").out.count("net/") == 2


@pytest.mark.parametrize("name", NAMES)
def test_diff_and_check(name: str, home: Path) -> None:
    for pair in ((home / "ckpt-1", home / name), (home / name, home / "ckpt-1")):
        done = ckpt("diff", *map(str, pair), "--format", "table")
        assert (done.code, done.err) == (0, ""), done.out
    lock = home / "lock.json"
    lock.write_text(ckpt("ls", str(home / "ckpt-1"), "--json").out)
    done = ckpt("check", str(home / name), "--against", str(lock), "--finite")
    assert (done.code, done.err) == (0, "")
    done = ckpt("check", str(home / name), "--against", str(lock), "--crc")
    assert done.code == 2 and "stores no crc32c to compare" in done.err


def test_diff_by_a_map(home: Path) -> None:
    """An export is proven by the map that it was made with."""
    renamed = {"enc.weight": ARRAYS["net/w"].T.copy(), "enc.bias": ARRAYS["net/b"]}
    save_file(renamed, home / "t.safetensors")
    tensors = [
        {"from": "net/w", "to": "enc.weight", "shape": [3, 4], "permute": [1, 0]},
        {"from": "net/b", "to": "enc.bias"},
    ]
    (home / "map.json").write_text(json.dumps({"schema": "ckpt.map/2", "tensors": tensors}))
    arguments = ("diff", str(home / "ckpt-1"), str(home / "t.safetensors"))
    done = ckpt(*arguments, "--map", str(home / "map.json"))
    assert (done.code, done.err) == (0, ""), done.out
    assert ckpt(*arguments).code == 1


def test_diff_tells_values(home: Path) -> None:
    changed = {**ARRAYS, "net/w": ARRAYS["net/w"] + (np.arange(12).reshape(3, 4) == 5)}
    save_file({key: each.astype("f4") for key, each in changed.items()}, home / "n.safetensors")
    done = ckpt("diff", str(home / "x.npz"), str(home / "n.safetensors"), "--json")
    found = {each["key"]: each for each in json.loads(done.out)["tensors"]}
    assert done.code == 1
    assert found["net/w"]["change"] == "value" and found["net/b"]["change"] == "dtype"


def test_show(home: Path) -> None:
    done = ckpt("show", str(home / "w.npy"), "arr_0[1]")
    assert (done.code, done.err) == (0, "") and "[4 5 6 7]" in done.out.replace(".", "")
    done = ckpt("show", str(home / "m.safetensors"), "net/b")
    assert "not checked" in done.out  # there is no checksum
    assert "not checked" not in ckpt("show", str(home / "x.npz"), "net/b").out
    done = ckpt("show", str(home / "m.safetensors"))
    assert done.code == 0 and "safetensors, name-based" in done.out
    assert "metadata    format=pt" in done.out
    done = ckpt("show", str(home / "m.safetensors"), "--json")
    assert json.loads(done.out)["summary"]["metadata"] == {"format": "pt"}


def test_pickles_are_not_shown(home: Path) -> None:
    np.savez(home / "o.npz", a=np.array([{}], object))
    assert "unknown(object)" in ckpt("ls", str(home / "o.npz")).out
    done = ckpt("show", str(home / "o.npz"), "a")
    assert done.code == 2 and "pickles are never opened" in done.err


@pytest.mark.parametrize("name", [*NAMES, "w.npy"])
@pytest.mark.parametrize(
    "command",
    [
        ("rename", "{}", "net=model", "-o", "{out}"),
        ("rename", "{}", "--prefix", "p", "--in-place"),
        ("rename", "{}", "--prefix", "p", "-n"),
        ("prune", "{}", "--drop", "**", "-o", "{out}"),
        ("convert-legacy", "{}", "-o", "{out}"),
    ],
)
def test_commands_that_write_say_what_to_do(
    name: str, command: tuple[str, ...], home: Path
) -> None:
    before = sorted(os.listdir(home))
    path = str(home / name)
    done = ckpt(*(each.format(path, out=str(home / "out-1")) for each in command))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"{path}: " in done.err and "`ckpt import` makes one of it" in done.err
    assert sorted(os.listdir(home)) == before


def test_graphs_are_not_in_them(home: Path) -> None:
    done = ckpt("export-meta-json", str(home / "m.safetensors"))
    assert done.code == 2 and "safetensors" in done.err and done.err.count("\n") == 1
    done = ckpt("check", str(home / "x.npz"), "--graph")
    assert done.code == 2 and done.err.count("\n") == 1


def test_folders(tmp_path: Path) -> None:
    save_file(ARRAYS, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    assert ckpt("ls", str(tmp_path), "--format", "names").out == "net/b\nnet/w\n"
    assert ckpt("verify", str(tmp_path)).code == 0
    save_file(ARRAYS, tmp_path / "model.fp16.safetensors")
    done = ckpt("ls", str(tmp_path))
    assert done.code == 2 and done.err.count("\n") == 1
    names = [f"'{tmp_path / name}'" for name in ("model.fp16.safetensors", "model.safetensors")]
    assert f"several files of arrays in the folder; name one: {', '.join(names)}" in done.err
    os.unlink(tmp_path / "model.fp16.safetensors")
    os.mkdir(tmp_path / "model.fp16.safetensors")  # a folder is none of them
    assert ckpt("ls", str(tmp_path), "--format", "names").out == "net/b\nnet/w\n"
    ckpttool.save_checkpoint(str(tmp_path / "ckpt-1"), {"a": np.zeros(1)})
    assert ckpt("ls", str(tmp_path), "--format", "names").out == "a\n"


def test_a_folder_of_several_files_of_one_model(tmp_path: Path) -> None:
    places = {}
    for number, (key, array) in enumerate(ARRAYS.items(), 1):
        places[key] = f"model-{number:05d}-of-00002.safetensors"
        save_file({key: array}, tmp_path / places[key])
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert ckpt("ls", str(tmp_path), "--format", "names").out == "net/b\nnet/w\n"
    assert ckpt("ls", str(tmp_path / places["net/w"]), "--format", "names").out == "net/w\n"
    os.unlink(tmp_path / places["net/w"])
    done = ckpt("ls", str(tmp_path))
    assert done.code == 2 and "net/b" in done.out
    assert "files are missing: model-00001-of-00002.safetensors" in done.err
    assert "key 'net/w': its file is missing" in done.err
    assert ckpt("verify", str(tmp_path)).code == 1


HOSTILE = {
    "m.safetensors": safetensors_bytes({"a": info("F32", [1], 4, 8)}, bytes(8)),
    "deep.safetensors": safetensors_bytes(b'{"a":' + b"[" * 100_000),
    "long.safetensors": (1 << 62).to_bytes(8, "little") + b"{}",
    "page.safetensors": b"<!doctype html><title>404</title>",
    "empty.safetensors": b"",
    "cut.npz": zip_bytes([Member(b"a.npy", b"x" * 99)])[:-9],
    "over.npz": zip_bytes([Member(b"a.npy", b"x" * 99), Member(b"b.npy", b"x", offset=3)]),
    "secret.npz": zip_bytes([Member(b"a.npy", b"x" * 99, flags=1)]),
    "empty.npz": b"",
    "short.npy": npy_bytes(described("<f8", "(1000000000, 1000)")),
    "lines.npy": npy_bytes(described("a\x1b[31m\n", "(1,)")),
    "m.safetensors.index.json": b'{"weight_map": {"a": "../../etc/shadow"}}',
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("command", ["ls", "show", "diff", "check", "verify"])
def test_hostile_files(command: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    more = {"diff": (str(path),), "check": ("--finite",)}.get(command, ())
    done = ckpt(command, str(path), *more)
    if command == "verify":
        assert (done.code in (1, 2) and "damaged" in done.out + done.err) or "unchecked" in done.out
        return
    assert done.code == 2, done.out
    assert done.err.count("\n") == 1 or name == "secret.npz"
    assert done.err.startswith(f"ckpt: {path}") and "\x1b" not in done.err


def test_verify(home: Path) -> None:
    done = ckpt("verify", str(home / "m.safetensors"), "--json")
    (report,) = json.loads(done.out)["reports"]
    assert (done.code, report["verdict"], report["data_read"]) == (0, "structure-ok", False)
    assert [each["code"] for each in report["findings"]] == ["no-checksums"]
    done = ckpt("verify", str(home / "x.npz"), "--json")
    (report,) = json.loads(done.out)["reports"]
    assert (done.code, report["verdict"], report["data_read"]) == (0, "ok", True)
    assert (report["tensors"], report["bytes_read"]) == (2, 56)
    data = bytearray((home / "x.npz").read_bytes())
    data[data.index(ARRAYS["net/w"].tobytes()) + 3] ^= 1
    (home / "x.npz").write_bytes(data)
    done = ckpt("verify", str(home / "x.npz"), "--json")
    (report,) = json.loads(done.out)["reports"]
    assert (done.code, report["verdict"]) == (1, "damaged")
    ((code, key),) = [(each["code"], each["key"]) for each in report["findings"]]
    assert (code, key) == ("bad-crc", "net/w")
    assert ckpt("verify", "--fast", str(home / "x.npz")).code == 0


def test_the_nearest_name(home: Path) -> None:
    for name in ("m.safetensor", "M.safetensors", "x.npy"):
        done = ckpt("ls", str(home / name))
        assert done.code == 2 and "; nearest: " in done.err
        assert ("m.safetensors" if "safetensor" in name else "x.npz") in done.err
