"""`ckpt import` as its users run it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ckpttool as ct
from ckpttool.surgery.exporting.choice import NAMINGS
from tests.cli.test_export import EVERY, GUIDE
from tests.support.arrays import info, safetensors_bytes
from tests.support.command import ckpt
from tests.support.schemas import validate

WEIGHTS = ("net/l1/bias", "net/l1/kernel")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """Return the weights of a model as a safetensors file, beside them as npz."""
    path = tmp_path / "net.safetensors"
    ct.export(GUIDE, path)
    ct.export(GUIDE, tmp_path / "net.npz")
    return path


def findings(prefix: str | Path) -> list[str]:
    report = ct.verify(prefix).to_dict()
    validate(report, "ckpt.verify/1")
    return [each["code"] for subject in report["reports"] for each in subject["findings"]]


def same(a: str | Path, b: str | Path) -> bool:
    return ckpt("diff", "--exact", str(a), str(b)).code == 0


def test_every_dtype_there_and_back(tmp_path: Path) -> None:
    source = tmp_path / "every-1"
    ct.save_checkpoint(source, EVERY)
    out = tmp_path / "all.safetensors"
    ct.export(source, out, all_kinds=True)
    before = out.read_bytes()
    for more in ((), ("--compact",), ("--data", "hardlink")):
        prefix = tmp_path / f"back{len(more)}{''.join(more[1:])}-1"
        assert ckpt("import", str(out), "-o", str(prefix), *more).code == 0
        assert same(source, prefix)
        assert findings(prefix) == []
        with ct.open_checkpoint(prefix) as back:
            for name, array in EVERY.items():
                assert back[name].dtype == array.dtype
                assert back[name].tobytes() == array.tobytes()
    assert out.read_bytes() == before
    # In several files, and as far as NumPy goes.
    parts = tmp_path / "parts"
    ct.export(source, parts / "m.safetensors", all_kinds=True, max_shard_size=64)
    prefix = tmp_path / "joined-1"
    joined = ct.import_checkpoint(parts / "m.safetensors.index.json", prefix)
    assert joined.receipt is not None and len(joined.receipt.shards) > 3
    assert same(source, prefix) and findings(prefix) == []
    numpy_own = [name for name in EVERY if not name.startswith(("bfloat", "float8"))]
    ct.export(source, tmp_path / "all.npz", numpy_own, all_kinds=True)
    ct.import_checkpoint(tmp_path / "all.npz", tmp_path / "npz-1")
    done = ckpt("diff", "--exact", str(source), str(tmp_path / "npz-1"), *numpy_own)
    assert done.code == 0, done.out


def test_the_file_becomes_a_data_shard(net: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "new" / "model-1"
    done = ckpt("import", str(net), "-o", str(prefix))
    assert done.code == 0 and done.err.startswith("ckpt: 2 tensors, 40 B; wrote ")
    shard = Path(f"{prefix}.data-00000-of-00001")
    assert shard.read_bytes() == net.read_bytes()
    assert shard.stat().st_ino != net.stat().st_ino
    with ct.open_checkpoint(prefix) as new, ct.open_checkpoint(GUIDE) as old:
        assert new.style == "name" and sorted(new) == list(WEIGHTS)
        for name in WEIGHTS:
            np.testing.assert_array_equal(new[name], old[name])
    link = tmp_path / "linked-1"
    assert ckpt("import", str(net), "-o", str(link), "--data", "hardlink").code == 0
    assert os.path.samefile(f"{link}.data-00000-of-00001", net)
    assert ckpt("prune", str(prefix), "--drop", WEIGHTS[0], "--in-place").code == 0
    assert findings(prefix) == ["gap-nonzero"]


def test_a_header_is_not_just_anything(net: Path, tmp_path: Path) -> None:
    """What lies before the tensors is only right if it describes them."""
    prefix = tmp_path / "model-1"
    ct.import_checkpoint(net, prefix)
    shard = Path(f"{prefix}.data-00000-of-00001")
    good = shard.read_bytes()
    changes = ((b'"F32"', b'"I32"'), (b'"shape"', b'"shapf"'), (b'"shape":[5]', b'"shape":[ ]'))
    for old, new in changes:
        assert old in good
        shard.write_bytes(good.replace(old, new))
        assert findings(prefix) == ["gap-nonzero"]
    shard.write_bytes(good)
    assert findings(prefix) == []


def test_like_a_reference(net: Path, tmp_path: Path) -> None:
    for number, names in enumerate(NAMINGS):
        for form in ("safetensors", "npz"):
            path = tmp_path / f"{names}.{form}"
            ct.export(GUIDE, path, names=names)
            prefix = tmp_path / "out" / f"ckpt-{number + 5}"
            words = ("import", str(path), "--like", GUIDE, "-o", str(prefix), "--force")
            assert ckpt(*words).code == 0
            with ct.open_checkpoint(prefix) as new, ct.open_checkpoint(GUIDE) as old:
                assert new.style == "object"
                assert int(new["save_counter"]) == number + 5
                for name in WEIGHTS:
                    np.testing.assert_array_equal(new[name], old[name])
            assert findings(prefix) == []
    # With all that the program keeps, nothing is missing but what no file can hold.
    every = tmp_path / "all.safetensors"
    ct.export(GUIDE, every, all_kinds=True, skip_unsupported=True)
    done = ct.import_checkpoint(every, tmp_path / "ckpt-10", like=GUIDE)
    assert len(done.tensors) == 13 and not done.skipped
    told = ckpt("diff", "--exact", GUIDE, str(tmp_path / "ckpt-10"), "--name-status").out
    assert {line.split("\t")[-1] for line in told.splitlines()} <= {
        *("iterator", "iterator/.ATTRIBUTES/ITERATOR_STATE"),
    }


def test_tensors_and_places_that_are_left(net: Path, tmp_path: Path) -> None:
    path = tmp_path / "more.safetensors"
    ones = np.ones((1, 5), np.float32)
    ct.save_checkpoint(tmp_path / "more-1", {"net/l1/kernel": ones, "other": ones})
    ct.export(tmp_path / "more-1", path)
    done = ct.import_checkpoint(path, tmp_path / "new-1", like=GUIDE)
    assert [name for name, _ in done.skipped] == ["other"]
    assert any("'other'" in note for note in done.notes)
    assert any("'net/l1/bias'" in note for note in done.notes)
    ct.save_checkpoint(tmp_path / "wide-1", {"net_1/dense_1/kernel": np.ones((2, 5), np.float32)})
    ct.export(tmp_path / "wide-1", tmp_path / "wide.npz")
    told = ckpt("import", str(tmp_path / "wide.npz"), "--like", GUIDE, "-n")
    assert told.code == 2 and "[2, 5]" in told.err and "[1, 5]" in told.err
    told = ckpt("import", str(path), "--like", str(tmp_path / "more-1"), "-n")
    assert told.code == 2 and "name-based" in told.err


def test_cast_and_map(net: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "half-1"
    assert ckpt("import", str(net), "-o", str(prefix), "--cast", "**/kernel=bfloat16").code == 0
    with ct.open_checkpoint(prefix) as new, ct.open_checkpoint(GUIDE) as old:
        kernel, bias = new[WEIGHTS[1]], new[WEIGHTS[0]]
        assert kernel.dtype == ml_dtypes.bfloat16 and bias.dtype == np.float32
        np.testing.assert_array_equal(kernel, old[WEIGHTS[1]].astype(ml_dtypes.bfloat16))
    assert set(findings(prefix)) <= {"gap-nonzero", "trailing-bytes"}
    lines = [
        {"from": WEIGHTS[1], "to": "l1.weight", "shape": [1, 5], "permute": [1, 0]},
        {"from": WEIGHTS[0], "to": "l1.bias"},
    ]
    table = tmp_path / "map.json"
    table.write_text(json.dumps({"schema": "ckpt.map/2", "tensors": lines}))
    ct.export(GUIDE, tmp_path / "pt.safetensors", map=table)
    back = tmp_path / "back-1"
    done = ckpt("import", str(tmp_path / "pt.safetensors"), "--map", str(table), "-o", str(back))
    assert done.code == 0, done.err
    assert same(back, net)
    done = ckpt("import", str(net), "--map", str(table), "-n")
    assert done.code == 2 and "matches nothing" in done.err


def test_what_is_refused(net: Path, tmp_path: Path) -> None:
    (tmp_path / "there-1.index").write_text("precious")
    packed = tmp_path / "packed.safetensors"
    packed.write_bytes(safetensors_bytes({"a": info("F4", [4], 0, 2)}, b"ab"))
    empty = tmp_path / "empty.safetensors"
    empty.write_bytes(safetensors_bytes({}))
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(net.read_bytes()[:-1])
    nameless = tmp_path / "nameless.safetensors"
    nameless.write_bytes(safetensors_bytes({"": info("U8", [1], 0, 1)}, b"a"))
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, a=np.array([{}], object))
    out = str(tmp_path / "new-1")
    for words, told in (
        ((str(net),), "give -o DST, or --dry-run"),
        ((str(net), "-o", str(tmp_path / "there-1")), "already exists"),
        ((str(net), "-o", str(tmp_path)), "this is a folder"),
        ((str(net), "-o", str(tmp_path / "a" / "b" / "c")), "no such folder"),
        ((str(net), "-o", str(net)), "prefix such as"),
        ((str(net), "-o", out, "--saturate"), "--saturate needs --cast"),
        ((str(net), "-o", out, "--compact", "--data", "copy"), "goes without --data"),
        ((str(tmp_path / "net.npz"), "-o", out, "--data", "hardlink"), "only safetensors"),
        ((GUIDE, "-o", out), "already a checkpoint of TensorFlow, of format V2"),
        ((str(tmp_path / "gone.npz"), "-o", out), "gone.npz"),
        ((str(packed), "-o", out), "F4 of safetensors: 'a'"),
        ((str(empty), "-o", out), "no tensors in it"),
        ((str(cut), "-o", out), "the file has"),
        ((str(nameless), "-o", out), "empty"),
        ((str(pickled), "-o", out), "'a'"),
    ):
        before = sorted(tmp_path.iterdir())
        done = ckpt("import", *words)
        assert done.code == 2 and told in done.err, (words, done.err)
        assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "there-1.index").read_text() == "precious"
    assert ckpt("import", str(net), "-o", str(tmp_path / "there-1"), "--force").code == 0


def test_a_damaged_member_is_no_tensor(net: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    with ct.open_checkpoint(GUIDE) as old:
        value = old[WEIGHTS[1]].tobytes()
    data = bytearray(path.read_bytes())
    data[data.index(value)] ^= 1
    path.write_bytes(data)
    before = sorted(tmp_path.iterdir())
    done = ckpt("import", str(path), "-o", str(tmp_path / "new-1"))
    assert done.code == 2 and "CRC-32" in done.err and WEIGHTS[1] in done.err
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_changes_meanwhile(net: Path, tmp_path: Path) -> None:
    def change(done: int, total: int) -> None:
        net.write_bytes(net.read_bytes()[:-4] + b"abcd")
        os.utime(net, ns=(0, 0))

    with pytest.raises(ct.CkptError, match="changed"):
        ct.import_checkpoint(net, tmp_path / "new-1", on_progress=change)
    assert not list(tmp_path.glob("new-1*"))


def test_links_in_and_out_of_a_store(net: Path, tmp_path: Path) -> None:
    """A file that the user names is followed; one that an index names lies beside it."""
    link = tmp_path / "links" / "m.safetensors"
    link.parent.mkdir()
    link.symlink_to(net)
    ct.import_checkpoint(link, tmp_path / "a-1")
    parts = tmp_path / "parts"
    ct.export(GUIDE, parts / "m.safetensors", max_shard_size=20)
    (first, second) = sorted(parts.glob("m-*"))
    index = parts / "m.safetensors.index.json"
    moved = tmp_path / "elsewhere.safetensors"
    shutil.move(second, moved)
    second.symlink_to(moved)
    done = ckpt("import", str(index), "-o", str(tmp_path / "b-1"))
    assert done.code == 2 and "--follow-links" in done.err
    done = ckpt("import", str(index), "-o", str(tmp_path / "b-1"), "--follow-links")
    assert done.code == 0 and first.exists()


def test_json_dry_run_and_state(net: Path, tmp_path: Path) -> None:
    prefix = str(tmp_path / "out" / "ckpt-3")
    for more in (("-n",), ("-n", "-o", prefix), ("-o", prefix, "--like", GUIDE, "--update-state")):
        done = ckpt("import", str(net), "--json", *more)
        assert done.code == 0, done.err
        document: dict[str, Any] = json.loads(done.out)
        validate(document, "ckpt.import/1")
        assert document["dry_run"] == ("-n" in more) == (document["written"] is None)
        assert document["destination"] == (prefix if "-o" in more else None)
        assert [each["stored_name"] for each in document["tensors"]] == list(WEIGHTS)
        assert os.path.exists(f"{prefix}.index") == ("-n" not in more)
    assert ct.latest_checkpoint(tmp_path / "out") == prefix
    assert document["tensors"][1]["name"] == "net_1/dense_1/kernel"


def test_answer(net: Path, tmp_path: Path) -> None:
    with ct.open_checkpoint(net) as source:
        done = ct.import_checkpoint(source, tmp_path / "a-1")
        assert len(source) == 2  # still open
    assert repr(done).startswith("<Import of ") and "wrote" in done.summary
    assert "net/l1/kernel" in str(done) and not done.dry_run
    assert done.destination == str(tmp_path / "a-1") and done.source.generation == "safetensors"


def test_pairs_of_layers_are_for_files_of_keras(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "x-1")
    for words, message in (
        (("--accept-order", "-o", out), "--accept-order needs --like"),
        (("--write-map", "m", "-n"), "--write-map needs --like and --dry-run"),
        (("--like", GUIDE, "--write-map", "m", "-o", out), "--write-map needs --like and"),
        (("--like", GUIDE, "--accept-order", "--map", "m", "-n"), "pair without --map"),
        (("--like", GUIDE, "--accept-order", "-n"), "accept_order is for layers of Keras"),
        (("--like", GUIDE, "--write-map", "m", "-n"), "write_map is for layers of Keras"),
    ):
        done = ckpt("import", str(net), *words)
        assert done.code == 2 and message in done.err, done.err
    monkeypatch.setitem(sys.modules, "h5py", None)
    file = tmp_path / "m.weights.h5"
    file.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99))
    for command in (("ls",), ("import", "-o", out)):
        done = ckpt(*command, str(file))
        assert done.code == 2 and "pip install 'ckpttool[h5]'" in done.err
    assert not list(tmp_path.glob("x-1*"))
