"""A lock written anew says the same for every save of a program, and is never half there."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import open_checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.errors import CkptError, DestinationError, MissingFileError, SelectionError
from ckpttool.query.check import update as lock_update
from ckpttool.query.check.checkpoint import check_checkpoint
from ckpttool.query.check.findings import LockReport
from ckpttool.query.check.lock import read_lock
from ckpttool.query.check.update import update_lock
from ckpttool.render.check.text import write_lock
from tests.support.calls import Calls
from tests.support.fixtures import FIXTURES, BundleFixture, bundle
from tests.support.schemas import validate
from tests.support.sweeps import each_bundle

RESUMED = "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"
PARTITIONED = "v2/tf2.21/partitioned_sharded/model"
TENSORS = {
    "a/w": np.zeros((2, 3), np.float32),
    "a/b": np.ones(3, np.float32),
    "step": np.array(7, np.int64),
}


def update(prefix: str, path: Path, *patterns: str, **options: Any) -> LockReport:
    lock = read_lock(str(path)) if path.exists() else None
    kinds = options.pop("kinds", ())
    selector = Selector([SelectionRule(pattern) for pattern in patterns], kinds=kinds)
    with open_checkpoint(prefix) as ckpt:
        return update_lock(ckpt, str(path), lock, write_lock, selector, **options)


def verdict(prefix: str, path: Path, **options: Any) -> str:
    with open_checkpoint(prefix) as ckpt:
        return check_checkpoint(ckpt, read_lock(str(path)), **options).verdict


def saved(folder: Path, **changes: Any) -> str:
    tensors = {**TENSORS, **{name.replace("__", "/"): value for name, value in changes.items()}}
    there = {name: value for name, value in tensors.items() if value is not None}
    ckpttool.save_checkpoint(str(folder / "x"), there, force=True)
    return str(folder / "x")


def keys(path: Path) -> list[str]:
    return list(read_lock(str(path)).tensors)


@pytest.mark.parametrize("crc", [False, True])
@each_bundle
def test_a_new_lock(fixture: BundleFixture, crc: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.lock.json"
    try:
        report = update(fixture.prefix, path, crc=crc)
    except MissingFileError:  # some fixtures come without their data
        assert not path.exists()
        return
    assert (report.update, report.verdict, report.findings) == ("created", "ok", [])
    text = path.read_text(encoding="ascii")
    found = json.loads(text)
    validate(found, "ckpt.ls/1")
    names = list(read_lock(str(path)).tensors)
    assert set(names) == set(fixture.tensors)
    raw = [name.encode("utf-8", "surrogateescape") for name in names]
    assert raw == sorted(raw)
    # A line for each tensor, and a few around them.
    rows = text.splitlines()
    assert len(rows) == 7 + len(names) or not names
    assert found["totals"]["tensors"] == len(names)
    if names:
        assert verdict(fixture.prefix, path, crc=crc) == "ok"
    assert update(fixture.prefix, path, crc=crc).update == "unchanged"


@pytest.mark.parametrize("kinds", [(), ("weight", "slot")])
def test_all_saves_of_a_program_have_one_lock(kinds: tuple[str, ...], tmp_path: Path) -> None:
    texts = set()
    names = ("ckpt-8", "ckpt-9", "ckpt-10")
    for number, name in enumerate(names):
        # Neither the name of the checkpoint nor the place where it is has left a trace.
        folder = tmp_path / ("deep/er" * number) / "ckpts"
        shutil.copytree(os.path.join(FIXTURES, RESUMED), folder)
        path = tmp_path / f"{name}.json"
        update(str(folder / name), path, kinds=kinds)
        texts.add(path.read_text())
    assert len(texts) == 1
    (text,) = texts
    assert str(tmp_path) not in text and "ckpt-" not in text
    source = json.loads(text)["source"]
    assert (source["path"], source["prefix"], source["index_bytes"]) == ("", "", None)


def test_with_checksums_each_save_has_its_own(tmp_path: Path) -> None:
    for name in ("ckpt-8", "ckpt-9"):
        update(os.path.join(FIXTURES, RESUMED, name), tmp_path / name, crc=True)
    assert (tmp_path / "ckpt-8").read_text() != (tmp_path / "ckpt-9").read_text()
    assert verdict(os.path.join(FIXTURES, RESUMED, "ckpt-9"), tmp_path / "ckpt-8") == "ok"


def test_a_tensor_more_or_less_is_a_line_more_or_less(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    update(saved(tmp_path), path)
    before = path.read_text().splitlines()
    update(saved(tmp_path, b__x=np.zeros(1)), path)
    after = path.read_text().splitlines()
    assert len(after) == len(before) + 1
    assert [line for line in after if line not in before and "totals" not in line] == [
        '    {"key": "b/x", "object_path": null, "name": null, "paths": [], '
        '"dtype": "float64", "shape": [1], "kind": "weight", "elements": 1, "bytes": 8, '
        '"shard": null, "offset": null, "crc32c": null, "slices": []},'
    ]


def test_what_has_changed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    update(saved(tmp_path), path)
    prefix = saved(tmp_path, step=None, more=np.zeros(1), a__w=np.zeros(2, np.float32))
    report = update(prefix, path)
    assert (report.update, report.verdict) == ("updated", "ok")
    told = [(each.problem, each.tensor.key) for each in report.findings]
    assert told == [("missing", "step"), ("extra", "more"), ("shape", "a/w")]
    assert verdict(prefix, path) == "ok"


def test_a_listing_becomes_a_lock(tmp_path: Path) -> None:
    from tests.support.command import ckpt

    path = tmp_path / "lock"
    prefix = bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix
    path.write_text(ckpt("ls", prefix, "--json").out)
    report = update(prefix, path)
    assert (report.update, report.findings) == ("updated", [])
    assert prefix not in path.read_text()
    assert update(prefix, path).update == "unchanged"


def test_what_is_not_selected_stays(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    update(saved(tmp_path), path, crc=True)
    lines = path.read_text().splitlines()
    prefix = saved(tmp_path, a__b=None, a__c=np.zeros(1), step=np.array(8.0), more=np.zeros(1))
    report = update(prefix, path, "a", crc=True)
    assert [(each.problem, each.tensor.key) for each in report.findings] == [
        ("missing", "a/b"),
        ("extra", "a/c"),
    ]
    assert keys(path) == ["a/c", "a/w", "step"]
    kept = [line for line in path.read_text().splitlines() if '"step"' in line]
    assert kept[0].rstrip(",") in [line.rstrip(",") for line in lines]
    assert update(prefix, path, ignore=["more", "step", "a/c"]).findings == []
    assert keys(path) == ["a/c", "a/w", "step"]
    update(prefix, path)
    assert keys(path) == ["a/c", "a/w", "more", "step"]


def test_checksums_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    prefix = bundle(PARTITIONED).prefix
    update(prefix, path)
    assert '"crc32c": "' not in path.read_text()
    report = update(prefix, path, crc=True)
    assert (report.update, report.findings) == ("updated", [])
    sums = read_lock(str(path)).tensors.values()
    assert all((row.crc32c is None) == bool(row.slices) for row in sums)
    assert any(row.slices for row in sums)
    assert update(prefix, path).update == "updated"
    assert not any(row.crc32c or row.slices for row in read_lock(str(path)).tensors.values())


def test_a_changed_value_is_told_where_the_lock_has_checksums(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    update(saved(tmp_path), path, crc=True)
    report = update(saved(tmp_path, step=np.array(8, np.int64)), path, crc=True)
    assert [(each.problem, each.tensor.key) for each in report.findings] == [("crc32c", "step")]


def test_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no tensor is selected"):
        update(saved(tmp_path), tmp_path / "lock", ignore=["**"])
    assert not (tmp_path / "lock").exists()


def test_an_unchanged_lock_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    prefix = saved(tmp_path)
    update(prefix, path)
    before = path.stat()
    assert update(prefix, path).update == "unchanged"
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "folder" / "lock", tmp_path / "link"
    path.parent.mkdir()
    update(saved(tmp_path), path)
    path.chmod(0o640)
    link.symlink_to("folder/lock")
    update(saved(tmp_path, more=np.zeros(1)), link)
    assert link.is_symlink() and "more" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == ["lock"]


def test_a_lock_that_somebody_else_makes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    def spell(source: Any, rows: Any, stream: Any) -> None:
        path.write_text("theirs")
        write_lock(source, rows, stream)

    with open_checkpoint(saved(tmp_path)) as ckpt, pytest.raises(DestinationError):
        update_lock(ckpt, str(path), None, spell)
    assert path.read_text() == "theirs"
    assert sorted(os.listdir(tmp_path)) == ["lock", "x.data-00000-of-00001", "x.index"]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_a_lock_that_cannot_be_written_stays_as_it_was(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "locks" / "lock"
    path.parent.mkdir()
    update(saved(tmp_path), path)
    before = path.read_text()
    prefix = saved(tmp_path, more=np.zeros(1))
    with open_checkpoint(prefix) as ckpt:
        lock = read_lock(str(path))
        calls = Calls(monkeypatch)
        calls.fail = lambda name, where, count: (
            OSError(28, "No space left on device") if name == call and "lock" in where else None
        )
        with pytest.raises(CkptError, match="no space left"):
            update_lock(ckpt, str(path), lock, write_lock)
    assert calls.of(call)
    monkeypatch.undo()
    assert path.read_text() == before
    assert os.listdir(path.parent) == ["lock"]


def test_no_folder_no_lock(tmp_path: Path) -> None:
    with pytest.raises(CkptError, match="no such file"):
        update(saved(tmp_path), tmp_path / "nowhere" / "lock")


def test_module_needs_no_arrays() -> None:
    """It is for machines that have little more than the index."""
    assert not hasattr(lock_update, "np")
