"""`ckpt export` as its users run it."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ckpttool as ct
from ckpttool.interchange.safetensors import SAFETENSORS_CODES, read_header
from ckpttool.storage.source import RandomAccessFile
from tests.support.command import ckpt
from tests.support.conversions import big_endian
from tests.support.fixtures import FIXTURES
from tests.support.schemas import validate

GUIDE = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts/ckpt-10")
EVERY = {
    **{
        name: np.arange(-3, 3).astype(name)
        for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "bool")
    },
    **{name: np.arange(6).astype(name) for name in ("uint64", "uint32", "uint16", "uint8")},
    "complex64": np.array([1 + 2j, np.nan], np.complex64),
    "bfloat16": np.array([[1.5, -2]], ml_dtypes.bfloat16),
    "float8_e4m3fn": np.array([0.5, 448], ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.array([0.5, np.inf], ml_dtypes.float8_e5m2),
    "float8_e4m3fnuz": np.array([0.5], ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2fnuz": np.array([0.5], ml_dtypes.float8_e5m2fnuz),
    "empty": np.zeros((0, 4), np.float32),
    "scalar": np.array(3, np.int16),
}
REFUSED = {
    "complex128": np.array([1j]),
    "int4": np.array([1, -8], ml_dtypes.int4),
    "uint4": np.array([15], ml_dtypes.uint4),
    "float8_e4m3b11fnuz": np.array([1], ml_dtypes.float8_e4m3b11fnuz),
    "string": np.array([b"a", b"bc"], object),
}


def stored(path: str | Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return dtype, shape and bytes by name of a safetensors file."""
    with RandomAccessFile(str(path)) as file:
        return {
            each.name: (each.dtype.name, each.shape, file.read_at(each.offset, each.size))
            for each in read_header(file).tensors
        }


def expected(arrays: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (a.dtype.name, a.shape, a.tobytes()) for name, a in arrays.items()}


@pytest.fixture
def every(tmp_path: Path) -> str:
    prefix = str(tmp_path / "every" / "ckpt-1")
    os.mkdir(os.path.dirname(prefix))
    ct.save_checkpoint(prefix, EVERY)
    return prefix


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """Return a checkpoint with what safetensors cannot hold."""
    prefix = str(tmp_path / "odd-1")
    ct.save_checkpoint(prefix, {**REFUSED, "w": np.ones(3, np.float32)})
    return prefix


def test_weights_by_object_path(tmp_path: Path) -> None:
    out = tmp_path / "new" / "net.safetensors"
    done = ckpt("export", GUIDE, "-o", str(out))
    assert done.code == 0
    assert done.err == f"ckpt: wrote {out}: 2 tensors, 40 B\n"
    lines = done.out.splitlines()
    assert lines[0].split("\t") == [
        *("object_path", "name", "stored_name", "dtype", "shape", "kind", "bytes", "file"),
    ]
    assert [line.split("\t")[2] for line in lines[1:]] == ["net/l1/bias", "net/l1/kernel"]
    with ct.open_checkpoint(GUIDE) as source:
        wanted = {name: source[name] for name in ("net/l1/bias", "net/l1/kernel")}
    assert stored(out) == expected(wanted)
    with RandomAccessFile(str(out)) as file:
        header = read_header(file)
        assert header.metadata == {"format": "tf"} and header.data_start % 64 == 0
    assert sorted(os.listdir(out.parent)) == ["net.safetensors"]


def test_every_dtype_of_safetensors(every: str, tmp_path: Path) -> None:
    out = tmp_path / "a.safetensors"
    done = ckpt("export", every, "--all-kinds", "-o", str(out))
    assert done.code == 0
    assert "complex64, float8_e4m3fn, " in done.err and "only recent readers" in done.err
    assert stored(out) == expected(EVERY)
    assert {name for name, _, _ in stored(out).values()} == set(SAFETENSORS_CODES)
    again = tmp_path / "b.safetensors"
    assert ckpt("export", every, "--all-kinds", "-o", str(again)).code == 0
    assert again.read_bytes() == out.read_bytes()


def test_what_a_format_cannot_hold_is_named_at_once(odd: str, tmp_path: Path) -> None:
    out = tmp_path / "x.safetensors"
    done = ckpt("export", odd, "--all-kinds", "-o", str(out))
    assert done.code == 2 and len(done.err.splitlines()) == 1
    for name in REFUSED:
        assert f"for {name}: '{name}'" in done.err
    assert "--skip-unsupported" in done.err
    assert not out.exists()
    done = ckpt("export", odd, "--all-kinds", "-o", str(out), "--skip-unsupported")
    assert done.code == 0 and "left out: " in done.err
    assert set(stored(out)) == {"w"}
    found = ct.export(odd, tmp_path / "y.safetensors", all_kinds=True, skip_unsupported=True)
    assert {name for name, _ in found.skipped} == set(REFUSED)
    done = ckpt("export", odd, "string", "--all-kinds", "--skip-unsupported", "-n")
    assert done.code == 2  # nothing would be left


def test_cast(odd: str, every: str, tmp_path: Path) -> None:
    out = tmp_path / "x.safetensors"
    words = ("export", odd, "--all-kinds", "-x", "string", "-o", str(out))
    casts = ("complex128=complex64", "int4=int8", "uint4=uint8", "float8_*=float32")
    done = ckpt(*words, *(word for each in casts for word in ("--cast", each)))
    assert done.code == 0, done.err
    assert {name: dtype for name, (dtype, _, _) in stored(out).items()} == {
        "complex128": "complex64",
        "int4": "int8",
        "uint4": "uint8",
        "w": "float32",
        "float8_e4m3b11fnuz": "float32",
    }
    assert stored(out)["int4"][2] == b"\x01\xf8"
    one = ("export", every, "float64", "--all-kinds", "-o", str(tmp_path / "y.npy"))
    assert ckpt(*one, "--cast", "float64=float8_e4m3fn").code == 2  # NumPy has none
    assert ckpt(*one, "--cast", "float64=float16").code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), EVERY["float64"].astype("float16"))
    done = ckpt(*one, "--saturate", "--force")
    assert done.code == 2 and "--saturate needs --cast" in done.err


def test_npz_of_numpy_and_strings(odd: str, tmp_path: Path) -> None:
    out = str(tmp_path / "x.npz")
    names = ("string", "complex128", "w")
    assert ckpt("export", odd, *names, "--all-kinds", "-o", out).code == 2
    done = ckpt("export", odd, *names, "--all-kinds", "--strings", "bytes", "-o", out)
    assert done.code == 0
    with np.load(out) as found:
        assert found["string"].tolist() == [b"a", b"bc"]
        np.testing.assert_array_equal(found["complex128"], REFUSED["complex128"])
    ct.save_checkpoint(str(tmp_path / "nul-1"), {"s": np.array([b"a\0"], object)})
    done = ckpt(
        *("export", str(tmp_path / "nul-1"), "--all-kinds", "--strings", "bytes"),
        *("-o", str(tmp_path / "y.npz")),
    )
    assert done.code == 2 and "string 0 ends in NUL" in done.err


def test_one_tensor_as_npy_or_into_a_pipe(tmp_path: Path) -> None:
    out = str(tmp_path / "k.npy")
    assert ckpt("export", GUIDE, "net/l1/kernel", "-o", out).code == 0
    with ct.open_checkpoint(GUIDE) as source:
        np.testing.assert_array_equal(np.load(out), source["net/l1/kernel"])
    assert "holds one tensor, not 2" in ckpt("export", GUIDE, "-o", out, "--force").err
    for form in ("npy", "npz", "safetensors"):
        stream = io.BytesIO()
        done = ct.export(GUIDE, stream, "net/l1/kernel", to=form)
        path = tmp_path / f"file.{form}"
        ct.export(GUIDE, path, "net/l1/kernel")
        assert stream.getvalue() == path.read_bytes()
        assert done.files[0].path is None


def test_names(tmp_path: Path) -> None:
    for names, wanted in (
        ("variable", {"net_1/dense_1/bias", "net_1/dense_1/kernel"}),
        ("key", {f"net/l1/{x}/.ATTRIBUTES/VARIABLE_VALUE" for x in ("bias", "kernel")}),
    ):
        out = tmp_path / f"{names}.safetensors"
        assert ckpt("export", GUIDE, "--names", names, "-o", str(out)).code == 0
        assert set(stored(out)) == wanted
    done = ckpt("export", GUIDE, "--all-kinds", "--names", "variable", "-n")
    assert done.code == 2 and "records no variable name of 'iterator" in done.err


def test_paths_that_say_nothing() -> None:
    keras = os.path.join(FIXTURES, "v2/tf2.21/keras3_adam/ckpt-1")
    done = ckpt("export", keras, "-n")
    assert "'optimizer/_trainable_variables/0'" in done.err and "--names variable" in done.err
    done = ckpt("export", keras, "--names", "variable", "-n")
    assert done.code == 0 and "by the list" not in done.err
    assert "by the list" not in ckpt("export", GUIDE, "-n").err


def test_weights_unless_told_otherwise(tmp_path: Path) -> None:
    done = ckpt("export", GUIDE, "optimizer", "-n")
    assert done.code == 2 and "5 optimizer: --all-kinds" in done.err
    done = ckpt("export", GUIDE, "--kind", "slot", "-n", "--format", "names")
    assert done.code == 0 and len(done.out.splitlines()) == 4
    done = ckpt("export", GUIDE, "--kind", "slot", "--all-kinds", "-n")
    assert done.code == 2 and "contradict" in done.err


def test_partitioned_big_endian_and_v1(tmp_path: Path) -> None:
    wanted = big_endian(tmp_path / "big-1", [(2, 3)])
    sources = [
        str(tmp_path / "big-1"),
        *(
            os.path.join(FIXTURES, each)
            for each in (
                "v2/tf2.21/partitioned_grid/model.ckpt-0",
                "v2/tf2.21/partitioned_rows/model.ckpt-0",
                "v1/tf2.21/partitioned/model.ckpt-0",
                "v1/tf2.21/sharded",
            )
            if os.path.exists(os.path.dirname(os.path.join(FIXTURES, each)))
        ),
    ]
    assert wanted
    for number, source in enumerate(sources):
        out = tmp_path / f"{number}.safetensors"
        try:
            ct.export(source, out, all_kinds=True, skip_unsupported=True)
        except ct.MissingFileError:
            source = os.path.dirname(source)
            ct.export(source, out, all_kinds=True, skip_unsupported=True)
        with ct.open_checkpoint(source) as ckpt_:
            for name, (dtype, shape, data) in stored(out).items():
                value = np.asarray(ckpt_[name])
                assert (dtype, shape, data) == (value.dtype.name, value.shape, value.tobytes())
        assert stored(out)


def test_a_bool_is_zero_or_one(tmp_path: Path) -> None:
    """TensorFlow takes any other byte for true, NumPy does not."""
    prefix = str(tmp_path / "b-1")
    from tests.support.handmade import Bundle

    Bundle().add(b"flags", 10, [3], b"\0\1\7").write(prefix)
    ct.export(prefix, tmp_path / "b.safetensors", all_kinds=True)
    assert stored(tmp_path / "b.safetensors")["flags"][2] == b"\0\1\1"


def test_damage_leaves_no_file(tmp_path: Path) -> None:
    for path in Path(GUIDE).parent.glob("ckpt-10.*"):
        shutil.copy(path, tmp_path)
    prefix = str(tmp_path / "ckpt-10")
    with ct.open_checkpoint(prefix) as source:
        value = source["net/l1/kernel"].tobytes()
    shard = Path(f"{prefix}.data-00000-of-00001")
    data = bytearray(shard.read_bytes())
    data[data.index(value)] ^= 1
    shard.write_bytes(data)
    before = sorted(os.listdir(tmp_path))
    for form in ("safetensors", "npz"):
        done = ckpt("export", prefix, "-o", str(tmp_path / f"x.{form}"))
        assert done.code == 2 and "net/l1/kernel" in done.err and "crc32c" in done.err
    stream = io.BytesIO()
    with pytest.raises(ct.CkptError, match="crc32c"):
        ct.export(prefix, stream, to="npz")
    assert stream.getvalue() == b""
    assert sorted(os.listdir(tmp_path)) == before
    assert ckpt("export", prefix, "net/l1/bias", "-o", str(tmp_path / "y.npy")).code == 0


def test_several_files_and_what_is_in_the_way(tmp_path: Path, every: str) -> None:
    out = tmp_path / "model.safetensors"
    words = ("export", every, "--all-kinds", "-o", str(out))
    assert ckpt(*words, "--max-shard-size", "64B").code == 0
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = set(index["weight_map"].values())
    assert set(index["weight_map"]) == set(EVERY)
    assert index["metadata"]["total_size"] == sum(a.nbytes for a in EVERY.values())
    found: dict[str, Any] = {}
    for name in files:
        part = stored(tmp_path / name)
        assert all(index["weight_map"][key] == name for key in part)
        found |= part
    assert found == expected(EVERY)
    count = len(files)
    assert files == {f"model-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)}
    # One file, or another number of files, would stand beside those.
    for more in ((), ("--max-shard-size", "100B"), ("--max-shard-size", "64B")):
        done = ckpt(*words, *more)
        assert done.code == 2 and "already exists" in done.err
    assert ckpt(*words, "--max-shard-size", "64B", "--force").code == 0
    assert ckpt(*words, "--max-shard-size", "100B", "--force").code == 0
    now = {path.name for path in tmp_path.glob("model*")}
    assert "model.safetensors.index.json" in now
    assert 2 < len(now) < count + 1 and not (now & files)
    assert ckpt(*words, "--force").code == 0
    assert {path.name for path in tmp_path.glob("model*")} == {"model.safetensors"}
    assert stored(out) == expected(EVERY)
    # One file is enough.
    out.unlink()
    assert ckpt(*words, "--max-shard-size", "1MB").code == 0
    assert {path.name for path in tmp_path.glob("model*")} == {"model.safetensors"}


def test_places_that_are_refused(tmp_path: Path, every: str) -> None:
    folder = tmp_path / "folder.npz"
    folder.mkdir()
    (tmp_path / "there.npz").write_text("precious")
    os.mkfifo(tmp_path / "fifo.npz")
    own = f"{every}.index"
    for out, more, told in (
        (folder, (), "this is a folder"),
        (tmp_path / "there.npz", (), "already exists"),
        (tmp_path / "fifo.npz", ("--force",), "not a file"),
        (tmp_path / "a" / "b" / "x.npz", (), "no such folder"),
        (tmp_path / "there.npz" / "x.npz", (), "not a folder"),
        (own, ("--force", "--to", "npz"), "file of the source"),
        (tmp_path / "x.npy", ("--to", "npz"), "ends in '.npy' says something else than --to"),
        (tmp_path / "x.h5", (), "format is not clear"),
        ("", (), "format is not clear"),
        ("-", (), "format is not clear"),
    ):
        before = sorted(tmp_path.rglob("*"))
        done = ckpt("export", every, "float32", "--all-kinds", "-o", str(out), *more)
        assert done.code == 2 and told in done.err, out
        assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.npz").read_text() == "precious"
    link = tmp_path / "link.npz"
    link.symlink_to(tmp_path / "there.npz")
    assert ckpt("export", every, "float32", "--all-kinds", "-o", str(link), "--force").code == 0
    assert (tmp_path / "there.npz").read_text() == "precious" and not link.is_symlink()


def test_names_that_would_be_shared(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a-1")
    ones = np.ones(1, np.float32)
    ct.save_checkpoint(prefix, {"a": ones, "a.npy": ones, "b/../c": ones, "__metadata__": ones})
    for form, told in (
        ("npz", "'b/../c'"),
        ("safetensors", "'__metadata__'"),
    ):
        done = ckpt("export", prefix, "--all-kinds", "--to", form, "-n")
        assert done.code == 2 and told in done.err
    done = ckpt("export", prefix, "a", "a.npy", "--all-kinds", "--to", "npz", "-n")
    assert done.code == 2 and "for one name" in done.err


def test_json_and_dry_run(tmp_path: Path, every: str) -> None:
    out = str(tmp_path / "x.safetensors")
    for more in (("-n",), ("-n", "-o", out), ("-o", out), ("--max-shard-size", "64B", "-n")):
        done = ckpt("export", every, "--all-kinds", "--json", *more)
        assert done.code == 0
        document = json.loads(done.out)
        validate(document, "ckpt.export/1")
        assert document["dry_run"] == ("-n" in more)
        assert document["totals"]["tensors"] == len(EVERY)
        assert os.path.exists(out) == ("-n" not in more)
        if os.path.exists(out):
            assert document["files"][0]["bytes"] == os.path.getsize(out)
            os.remove(out)
    assert ct.export(GUIDE, dry_run=True).to_dict()["files"][0]["path"] is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give output, or dry_run"),
        ({"output": "x.npz", "metadata": {}}, "place for metadata"),
        ({"output": "x.npz", "max_shard_size": 5}, "max_shard_size needs it"),
        ({"output": "x.safetensors", "strings": "bytes"}, "no strings"),
        ({"output": "x.npz", "strings": "text"}, "strings is 'text'"),
        ({"output": "x.npz", "to": "csv"}, "to is 'csv'"),
        ({"output": "x.npz", "names": "short"}, "names is 'short'"),
        ({"output": io.BytesIO()}, "format is not clear"),
        ({"output": "x.safetensors", "max_shard_size": 0}, "the size 0"),
    ],
)
def test_arguments_that_are_refused(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    if isinstance(given.get("output"), str):
        given["output"] = tmp_path / given["output"]
    with pytest.raises(ct.CkptError, match=told):
        ct.export(GUIDE, **given)
    assert os.listdir(tmp_path) == []


def test_metadata(tmp_path: Path) -> None:
    out = tmp_path / "x.safetensors"
    words = ("export", GUIDE, "-o", str(out))
    assert ckpt(*words, "--metadata", "format=pt", "--metadata", "a=b=c").code == 0
    with RandomAccessFile(str(out)) as file:
        assert read_header(file).metadata == {"a": "b=c", "format": "pt"}
    assert "not of the form NAME=TEXT" in ckpt(*words, "--metadata", "x", "--force").err


def test_permissions_and_umask(tmp_path: Path) -> None:
    for path in Path(GUIDE).parent.glob("ckpt-10.*"):
        shutil.copy(path, tmp_path)
        os.chmod(tmp_path / path.name, 0o600)
    ct.export(tmp_path / "ckpt-10", tmp_path / "x.npz")
    assert (tmp_path / "x.npz").stat().st_mode & 0o777 == 0o600


def test_answer(tmp_path: Path) -> None:
    done = ct.export(GUIDE, tmp_path / "x.npz")
    assert repr(done).startswith("<Export of ") and "2 tensors" in repr(done)
    assert "net/l1/kernel" in str(done) and "stored" not in str(done)
    assert done.format == "npz" and not done.dry_run and done.index is None
