"""What happened to a checkpoint, in one sentence: damage as people meet it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from ckpttool.query.verify.findings import Diagnosis
from ckpttool.query.verify.report import Report
from tests.support.command import ckpt
from tests.support.conversions import SHARDED as SHARDED_V1
from tests.support.conversions import SINGLE, copy_v1
from tests.support.fixtures import FIXTURES
from tests.support.schemas import validate

RUN = Path(FIXTURES) / "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"
SHARDED = Path(FIXTURES) / "v2/tf2.21/max_shard_size_300"
DATA = "ckpt-9.data-00000-of-00001"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


def large(folder: Path, name: str = "big-1", *, seed: int = 0) -> Path:
    """Write a checkpoint of some MiB of noise, and return its data shard."""
    noise = np.random.default_rng(seed)
    arrays = {f"layer_{at}/w": noise.standard_normal(40_000) for at in range(12)}
    ckpttool.save_checkpoint(folder / name, arrays, num_shards=1)
    return folder / f"{name}.data-00000-of-00001"


def verified(path: Path, *, fast: bool = False) -> Report:
    found = ckpttool.verify(path, fast=fast)
    validate(found.to_dict(), "ckpt.verify/1")
    return found[0]


def told(path: Path, *, fast: bool = False) -> Diagnosis:
    """Return what is said of damage."""
    report = verified(path, fast=fast)
    assert report.verdict == "damaged"
    assert report.diagnosis is not None, report.findings
    return report.diagnosis


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def test_nothing_to_say(run: Path) -> None:
    assert [each.diagnosis for each in ckpttool.verify(run)] == [None] * 4


@pytest.mark.parametrize("fast", [True, False])
def test_a_copy_that_was_interrupted(fast: bool, run: Path) -> None:
    size = (run / DATA).stat().st_size
    os.truncate(run / DATA, 1300)
    found = told(run / "ckpt-9", fast=fast)
    assert found.code == "cut"
    assert f"is cut at 1300 of {size} bytes: an interrupted copy" in found.message
    os.truncate(run / DATA, 0)
    assert "is empty: an interrupted copy" in told(run / "ckpt-9", fast=fast).message


def test_data_of_another_save(run: Path) -> None:
    shutil.copy(run / "ckpt-8.data-00000-of-00001", run / DATA)
    found = told(run / "ckpt-9")
    assert found == Diagnosis("mixed-saves", "data and index are from different saves")
    shutil.copy(RUN / DATA, run / "other.data-00000-of-00001")
    shutil.copy(RUN / "ckpt-9.index", run / "other.index")
    assert told(run / "ckpt-9").message.endswith("saves; the index fits the data of 'other'")


def test_data_of_another_save_that_is_shorter(tmp_path: Path) -> None:
    shard = large(tmp_path)
    other = large(tmp_path, "big-2", seed=1)
    shutil.copy(other, shard)
    os.truncate(shard, shard.stat().st_size - 1_000_000)
    found = told(tmp_path / "big-1")
    assert found.code == "mixed-saves" and "different saves" in found.message


def test_data_of_a_save_in_other_shards(tmp_path: Path) -> None:
    shutil.copy(RUN / "ckpt-9.index", tmp_path)
    for at in range(3):
        shutil.copy(RUN / DATA, tmp_path / f"ckpt-9.data-0000{at}-of-00003")
    found = told(tmp_path / "ckpt-9")
    assert found.code == "mixed-saves"
    assert "a set of 1 data shards, the files are of a set of 3" in found.message


def test_shards_with_each_others_names(tmp_path: Path) -> None:
    run = Path(shutil.copytree(SHARDED, tmp_path / "run"))
    one, other, *_ = sorted(run.glob("ckpt-1.data-*"))
    one.rename(tmp_path / "x")
    other.rename(one)
    (tmp_path / "x").rename(other)
    found = told(run / "ckpt-1")
    assert found.code == "swapped" and one.name in found.message and other.name in found.message


@pytest.mark.parametrize(("gone", "message"), [(1, "1 of 4"), (4, "all")])
def test_shards_that_are_missing(gone: int, message: str, tmp_path: Path) -> None:
    run = Path(shutil.copytree(SHARDED, tmp_path / "run"))
    for path in sorted(run.glob("ckpt-1.data-*"))[:gone]:
        path.unlink()
    found = told(run / "ckpt-1")
    assert found == Diagnosis(
        "missing", f"{message} data shards are missing: an incomplete copy or download"
    )


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 2735\n" % (b"0" * 64)


def test_pointers_in_place_of_files(run: Path, tmp_path: Path) -> None:
    (run / DATA).write_bytes(POINTER)
    found = told(run / "ckpt-9")
    assert found.code == "pointer" and "git lfs pull" in found.message
    source = Path(copy_v1(SINGLE, tmp_path / "v1"))
    source.write_bytes(POINTER)
    assert "git lfs pull" in ckpt("verify", str(source)).err


@pytest.mark.parametrize("size", ["small", "large"])
def test_line_ends_of_windows(size: str, run: Path, tmp_path: Path) -> None:
    shard = large(tmp_path) if size == "large" else run / DATA
    edit(shard, lambda data: data.replace(b"\n", b"\r\n"))
    found = told(Path(str(shard).partition(".data")[0]))
    assert found.code == "text-mode"
    assert f"'{shard.name}' was copied as text: every line feed became CR LF" in found.message
    assert all(each.code != "mixed-saves" for each in verified(shard).findings)


def test_line_ends_made_those_of_unix(tmp_path: Path) -> None:
    shard = large(tmp_path)
    edit(shard, lambda data: data.replace(b"\r\n", b"\n"))
    found = told(tmp_path / "big-1")
    assert found.code == "text-mode" and "every CR LF became a line feed" in found.message


def test_bytes_made_utf8(tmp_path: Path) -> None:
    for encoding in ("latin-1", "utf-8"):
        shard = large(tmp_path, encoding)
        shard.write_bytes(shard.read_bytes().decode(encoding, "replace").encode())
        found = told(tmp_path / encoding)
        assert found.code == "text-mode" and "converted to UTF-8" in found.message


@pytest.mark.parametrize(("start", "stop"), [(1_048_576, 1_052_672), (2_000_000, None), (0, None)])
def test_holes(start: int, stop: int | None, tmp_path: Path) -> None:
    shard = large(tmp_path)
    end = shard.stat().st_size if stop is None else stop
    edit(shard, lambda data: data[:start] + bytes(end - start) + data[end:])
    found = told(tmp_path / "big-1")
    assert found.code == "zeros"
    place = {0: "is all zeros", 2_000_000: "is zero from byte 2000000 on"}.get(
        start, f"is zero from byte {start} to {end - 1}"
    )
    assert f"'{shard.name}' {place}" in found.message


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit(bit: int, run: Path) -> None:
    with ckpttool.open_checkpoint(run / "ckpt-9") as read:
        entry = read.entries["net/l1/kernel"]
    at = getattr(entry, "offset") + 7  # noqa: B009 (of a bundle)
    old = (run / DATA).read_bytes()[at]
    edit(run / DATA, lambda data: data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
    found = told(run / "ckpt-9")
    assert found.code == "flipped-bit"
    assert f"byte {at} of '{DATA}' is {old ^ 1 << bit:#04x}" in found.message
    assert found.message.endswith(f"that of {old:#04x}")


def test_a_flipped_bit_in_zeros(tmp_path: Path) -> None:
    """The zeros beside it are what was written."""
    ckpttool.save_checkpoint(tmp_path / "z-1", {"m": np.zeros(100_000), "w": np.ones(9)})
    (shard,) = tmp_path.glob("z-1.data*")
    edit(shard, lambda data: data[:5000] + b"\x10" + data[5001:])
    assert told(tmp_path / "z-1").code == "flipped-bit"


def test_a_bad_block_and_many_bad_places(tmp_path: Path) -> None:
    shard = large(tmp_path)
    edit(shard, lambda data: data[:319_000] + b"\xa5" * 4096 + data[323_096:])
    found = told(tmp_path / "big-1")
    assert found.code == "one-place"
    assert "2 of 12 tensors, all side by side in bytes" in found.message
    edit(shard, lambda data: b"\xff" + data[1:-1] + b"\xff")
    found = told(tmp_path / "big-1")
    assert found.code == "scattered" and "3 of 12 tensors" in found.message


def test_one_bad_tensor(tmp_path: Path) -> None:
    shard = large(tmp_path)
    edit(shard, lambda data: data[:1000] + b"\xa5\x5a" * 8 + data[1016:])
    found = told(tmp_path / "big-1")
    assert found.code == "one-place"
    assert found.message.startswith("one of 12 tensors is damaged, in bytes 0 to 319999 of")


def test_an_index(run: Path) -> None:
    index = run / "ckpt-9.index"
    good = index.read_bytes()
    index.write_bytes(good[:300])
    assert told(run / "ckpt-9").code == "cut"
    index.write_bytes(good[:-100] + bytes(100))
    assert told(run / "ckpt-9").code == "zeros"
    index.write_bytes(good[:80] + bytes([good[80] ^ 1]) + good[81:])
    assert told(run / "ckpt-9").code == "bad-index"
    text = good.replace(b"\n", b"\r\n")
    index.write_bytes(text)
    assert told(run / "ckpt-9").code == "text-mode"


def test_v1(tmp_path: Path) -> None:
    prefix = Path(copy_v1(SHARDED_V1, tmp_path / "v1"))
    files = sorted(tmp_path.glob("v1/model.ckpt-7-0*"))
    edit(files[1], lambda data: data.replace(b"\n", b"\r\n"))
    assert told(prefix).code == "text-mode"
    files[1].unlink()
    assert told(prefix) == Diagnosis("missing", "a file is missing: an incomplete copy or download")


def test_bytes_that_prune_leaves(run: Path, tmp_path: Path) -> None:
    ckpttool.prune(run / "ckpt-9", tmp_path / "slim" / "ckpt-9", slots=True)
    ckpttool.prune(run / "ckpt-9", tmp_path / "slim" / "ckpt-10", keep="net", drop="optimizer")
    found = ckpttool.verify(tmp_path / "slim", strict=True)
    assert found.verdict == "ok"
    assert {each.diagnosis.code for each in found if each.diagnosis} == {"dead-bytes"}
    assert {each.severity for report in found for each in report.findings} == {"note"}
    assert found.to_dict()["totals"]["notes"] > 1
    assert found.to_dict()["totals"]["warnings"] == 0
    done = ckpt("verify", str(tmp_path / "slim"), "--strict", "--format", "table")
    assert done.code == 0
    assert "trailing-bytes" not in done.out and done.out.count("not damage") == 2
    assert (
        "note trailing-bytes"
        in ckpt("verify", str(tmp_path / "slim"), "-v", "--format", "table").out
    )


def test_a_folder_that_was_moved(run: Path) -> None:
    text = (run / "checkpoint").read_text(encoding="utf-8")
    (run / "checkpoint").write_text(text.replace('"ckpt-', '"/gone/run/ckpt-'), encoding="utf-8")
    found = ckpttool.verify(run)
    assert found.verdict == "ok" and found[-1].diagnosis is not None
    assert found[-1].diagnosis.code == "moved"
    (run / "checkpoint").write_text('model_checkpoint_path: "gone-3"\n', encoding="utf-8")
    found = ckpttool.verify(run)
    assert found.verdict == "damaged" and found[-1].diagnosis is not None
    assert found[-1].diagnosis.code == "state"


def test_what_people_read(tmp_path: Path) -> None:
    """First what happened, then the tensors by scope."""
    shard = large(tmp_path)
    edit(shard, lambda data: data.replace(b"\n", b"\r\n"))
    done = ckpt("verify", str(tmp_path / "big-1"), "--format", "table")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{tmp_path}/big-1: DAMAGED: '{shard.name}' was copied as text")
    assert lines[1].strip().startswith("12 tensors, ")
    assert "    12 tensors: the bytes are damaged" in lines
    assert "      layer_#/w × 12" in lines
    assert len(lines) == 5
    every = ckpt("verify", str(tmp_path / "big-1"), "-v", "--format", "table").out
    assert all(f"    layer_{at}/w" in every.splitlines() for at in range(12))
    plain = ckpt("verify", str(tmp_path / "big-1")).out.splitlines()
    assert len(plain) == 1 + 12 + 1 + 1
    assert "was copied as text" in plain[-1]
