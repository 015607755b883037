"""A checkpoint against a lock: what is told, of which tensors, and what is never passed over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import open_checkpoint
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.errors import CkptError, MissingFileError, NotFoundError, SelectionError
from ckpttool.query.check.checkpoint import check_checkpoint
from ckpttool.query.check.findings import LockReport
from ckpttool.query.check.lock import Lock, LockRows
from ckpttool.query.listing import list_tensors
from ckpttool.query.rows import TensorRow
from ckpttool.render.jsonout import encode
from ckpttool.render.listing import tensor_document
from tests.support.fixtures import BundleFixture, bundle
from tests.support.sweeps import each_bundle

GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
PARTITIONED = "v2/tf2.21/partitioned_sharded/model"
TENSORS = {
    "a/w": np.zeros((2, 3), np.float32),
    "a/b": np.ones(3, np.float32),
    "step": np.array(7, np.int64),
    "name": np.array([b"x"], object),
}


@contextmanager
def saved(folder: Path, **changes: Any) -> Iterator[Checkpoint]:
    """Open a checkpoint of `TENSORS`, some of them replaced, added or (by None) left out."""
    tensors = {**TENSORS, **{name.replace("__", "/"): value for name, value in changes.items()}}
    prefix = str(folder / "x")
    there = {name: value for name, value in tensors.items() if value is not None}
    ckpttool.save_checkpoint(prefix, there, force=True)
    with open_checkpoint(prefix) as ckpt:
        yield ckpt


def lock_of(ckpt: Checkpoint) -> Lock:
    """Return the lock that `ckpt ls --json` makes."""
    return lock_with(list_tensors(ckpt).rows)


def lock_with(rows: Iterable[TensorRow]) -> Lock:
    """Return a lock of some tensors, each on a line."""
    tensors = LockRows()
    for number, row in enumerate(rows):
        tensors.add(json.loads(encode(tensor_document(row, lambda key: ()))), number)
        tensors.place(4 + number)
    return Lock("x.lock.json", b"", tensors)


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    with saved(tmp_path / "first") as ckpt:
        return lock_of(ckpt)


def problems(report: LockReport) -> list[tuple[str, str]]:
    return [(each.problem, each.tensor.key) for each in report.findings]


def rules(*patterns: str) -> Selector:
    return Selector(SelectionRule(pattern) for pattern in patterns)


@each_bundle
def test_a_checkpoint_is_as_its_own_lock(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        lock = lock_of(ckpt)
        try:
            report = check_checkpoint(ckpt, lock, crc=bool(lock.tensors))
        except MissingFileError:  # some fixtures come without their data
            assert list_tensors(ckpt).source.missing_shards
            return
    assert report.verdict == "ok" and not report.findings
    assert report.compared == len(report.tensors) == len(fixture.tensors)
    assert report.bytes_read == 0


def test_each_problem(lock: Lock, tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "a__w": np.zeros((3, 2), np.float16),
        "a__b": None,
        "a__c": np.zeros(3, np.float32),
        "step": np.array(7, np.int32),
    }
    with saved(tmp_path, **changes) as ckpt:
        report = check_checkpoint(ckpt, lock)
    assert problems(report) == [
        ("missing", "a/b"),
        ("extra", "a/c"),
        ("dtype", "a/w"),
        ("dtype", "step"),
        ("shape", "a/w"),
    ]
    assert report.verdict == "failed"
    missing, extra, dtype = report.findings[:3]
    assert missing.found is None and missing.locked is not None and missing.locked.shape == (3,)
    assert extra.locked is None and extra.line is None
    assert dtype.locked is not None and dtype.found is not None
    assert (dtype.locked.dtype, dtype.found.dtype) == ("float32", "float16")
    keys = list(lock.tensors)
    for each in report.findings:
        if each.line is not None:
            assert each.line == 4 + keys.index(each.tensor.key)
    assert sum(each.line is not None for each in report.findings) == 4


@pytest.mark.parametrize(
    ("locked", "found"), [((), (1,)), ((6,), (2, 3)), ((2, 3), (3, 2)), ((0, 2), (0, 3))]
)
def test_shapes_of_as_many_elements(
    locked: tuple[int, ...], found: tuple[int, ...], tmp_path: Path
) -> None:
    with saved(tmp_path / "a", a__w=np.zeros(locked, np.float32)) as ckpt:
        lock = lock_of(ckpt)
    with saved(tmp_path / "b", a__w=np.zeros(found, np.float32)) as ckpt:
        assert problems(check_checkpoint(ckpt, lock)) == [("shape", "a/w")]


def test_values_are_not_compared_but_with_crc(lock: Lock, tmp_path: Path) -> None:
    with saved(tmp_path, step=np.array(8, np.int64)) as ckpt:
        assert check_checkpoint(ckpt, lock).verdict == "ok"
        report = check_checkpoint(ckpt, lock, crc=True)
    assert problems(report) == [("crc32c", "step")] and report.crc
    with saved(tmp_path) as ckpt:
        assert check_checkpoint(ckpt, lock, crc=True).verdict == "ok"


def test_a_tensor_without_a_checksum_is_not_the_same(lock: Lock, tmp_path: Path) -> None:
    bare = dict(lock.tensors)
    bare["step"] = bare["step"]._replace(crc32c=None)
    with saved(tmp_path) as ckpt:
        report = check_checkpoint(ckpt, lock_with(bare.values()), crc=True)
        assert problems(report) == [("crc32c", "step")]
        bare = {key: row._replace(crc32c=None) for key, row in lock.tensors.items()}
        with pytest.raises(NotFoundError, match="the lock has no crc32c to compare; --update"):
            check_checkpoint(ckpt, lock_with(bare.values()), crc=True)
        assert check_checkpoint(ckpt, lock_with(bare.values())).verdict == "ok"


def test_a_checkpoint_without_checksums(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpttool.query.check import checkpoint as module

    rows = [row._replace(crc32c=None) for row in lock.tensors.values()]
    monkeypatch.setattr(module, "tensor_rows", lambda ckpt: rows)
    with (
        open_checkpoint(bundle(GUIDE).prefix) as ckpt,
        pytest.raises(NotFoundError, match="the checkpoint stores no crc32c"),
    ):
        check_checkpoint(ckpt, lock, crc=True)


def test_checksums_of_slices() -> None:
    with open_checkpoint(bundle(PARTITIONED).prefix) as ckpt:
        rows = list_tensors(ckpt).rows
        at = next(number for number, row in enumerate(rows) if row.slices)
        first, *rest = rows[at].slices
        for slices in (
            (first._replace(crc32c=(first.crc32c or 0) ^ 1), *rest),
            (first._replace(spec="0,1:-"), *rest),
            tuple(rest),
            (),
        ):
            changed = [*rows[:at], rows[at]._replace(slices=slices), *rows[at + 1 :]]
            report = check_checkpoint(ckpt, lock_with(changed), crc=True)
            assert problems(report) == [("crc32c", rows[at].key)]
        moved = [part._replace(shard=9, offset=1) for part in rows[at].slices[::-1]]
        changed = [*rows[:at], rows[at]._replace(slices=tuple(moved)), *rows[at + 1 :]]
        assert check_checkpoint(ckpt, lock_with(changed), crc=True).verdict == "ok"


def test_extra_tensors_may_be_allowed_but_none_may_be_missing(lock: Lock, tmp_path: Path) -> None:
    with saved(tmp_path, more=np.zeros(1), step=None) as ckpt:
        assert problems(check_checkpoint(ckpt, lock)) == [("missing", "step"), ("extra", "more")]
        report = check_checkpoint(ckpt, lock, allow_extra=True)
    assert problems(report) == [("missing", "step")] and report.allow_extra


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        (["a"], [("extra", "a/c"), ("shape", "a/w")]),
        (["step"], [("missing", "step")]),
        (["step", "a/c"], [("missing", "step"), ("extra", "a/c")]),
        (["name"], []),
    ],
)
def test_patterns_select_on_both_sides(
    patterns: list[str], told: list[tuple[str, str]], lock: Lock, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"step": None, "a__c": np.zeros(1), "a__w": np.zeros(1, np.float32)}
    with saved(tmp_path, **changes) as ckpt:
        assert problems(check_checkpoint(ckpt, lock, rules(*patterns))) == told
        # What is ignored in place of selected is the rest of it.
        ignored = problems(check_checkpoint(ckpt, lock, ignore=patterns))
        assert sorted(ignored + told) == sorted(problems(check_checkpoint(ckpt, lock)))


def test_kinds_select_on_both_sides(tmp_path: Path) -> None:
    with open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        lock = lock_of(ckpt)
        slots = {key: row for key, row in lock.tensors.items() if row.kind == "slot"}
        assert len(slots) == 4
        report = check_checkpoint(ckpt, lock, Selector(kinds=["slot"]))
        assert [row.key for row in report.tensors] == list(slots)
        rest = {key: row for key, row in lock.tensors.items() if key not in slots}
        weights = Selector(kinds=["weight"])
        assert check_checkpoint(ckpt, lock_with(rest.values()), weights).verdict == "ok"
        found = check_checkpoint(ckpt, lock_with(rest.values()), Selector(kinds=["slot"]))
        assert problems(found) == [("extra", key) for key in slots]


def test_a_tensor_whose_kind_changed_is_still_one_tensor() -> None:
    with open_checkpoint(bundle(GUIDE).prefix) as ckpt:
        lock = lock_of(ckpt)
        (key,) = (key for key, row in lock.tensors.items() if row.object_path == "step")
        changed = {**lock.tensors, key: lock.tensors[key]._replace(kind="weight")}
        for kind in ("step", "weight"):
            report = check_checkpoint(ckpt, lock_with(changed.values()), Selector(kinds=[kind]))
            assert report.verdict == "ok" and key in {row.key for row in report.tensors}
        assert check_checkpoint(ckpt, lock_with(changed.values())).verdict == "ok"


@pytest.mark.parametrize("where", ["pattern", "ignore"])
def test_a_pattern_that_selects_nothing(where: str, lock: Lock, tmp_path: Path) -> None:
    with saved(tmp_path) as ckpt, pytest.raises(SelectionError) as caught:
        if where == "pattern":
            check_checkpoint(ckpt, lock, rules("stepp"))
        else:
            check_checkpoint(ckpt, lock, ignore=["stepp"])
    assert "pattern 'stepp' selects nothing; nearest: 'step'" in str(caught.value)


def test_checking_nothing_is_no_success(lock: Lock, tmp_path: Path) -> None:
    with saved(tmp_path) as ckpt:
        nothing = "no tensor is selected"
        with pytest.raises(SelectionError, match=nothing):
            check_checkpoint(ckpt, lock, ignore=["**"])
        with pytest.raises(SelectionError, match=nothing):
            check_checkpoint(ckpt, lock, Selector(kinds=["ema"]))
        with pytest.raises(SelectionError, match=nothing):
            check_checkpoint(ckpt, None, Selector(kinds=["ema"]), finite=True)
        empty = lock_with([])
        assert check_checkpoint(ckpt, empty).count("extra") == 4
    ckpttool.save_checkpoint(str(tmp_path / "none"), {})
    with open_checkpoint(tmp_path / "none") as ckpt:
        assert check_checkpoint(ckpt, empty).verdict == "ok"
        assert check_checkpoint(ckpt, lock).count("missing") == 4


def test_ignored_tensors_are_counted(lock: Lock, tmp_path: Path) -> None:
    with saved(tmp_path, step=None) as ckpt:
        report = check_checkpoint(ckpt, lock, rules("a", "step"), ignore=["step", "name"])
    assert (report.verdict, report.ignored, report.compared) == ("ok", 1, 2)


def test_finite_numbers(lock: Lock, tmp_path: Path) -> None:
    weights = np.array([[0, 1, np.inf], [np.nan, 0, 0]], np.float32)
    progress: list[tuple[int, int]] = []
    with saved(tmp_path, a__w=weights, more=np.array([np.nan])) as ckpt:
        assert problems(check_checkpoint(ckpt, lock)) == [("extra", "more")]
        report = check_checkpoint(
            ckpt, lock, finite=True, on_progress=lambda *done: progress.append(done)
        )
        assert problems(report) == [
            ("extra", "more"),
            ("not-finite", "a/w"),
            ("not-finite", "more"),
        ]
        assert (report.read, report.bytes_read) == (3, 24 + 12 + 8)
        assert progress[-1] == (44, 44)
        found = report.findings[1]
        assert found.nonfinite is not None and found.nonfinite.first == (0, 2)
        assert found.line is not None and report.findings[2].line is None
        alone = check_checkpoint(ckpt, None, finite=True)
        assert problems(alone) == [("not-finite", "a/w"), ("not-finite", "more")]
        assert alone.lock is None and alone.compared == 0
        assert check_checkpoint(ckpt, None, finite=True, ignore=["more", "a/w"]).verdict == "ok"
        assert check_checkpoint(ckpt, None, rules("a/b"), finite=True).verdict == "ok"


def test_damage_is_told_with_all_the_rest(lock: Lock, tmp_path: Path) -> None:
    with saved(tmp_path, a__w=np.full((2, 3), np.inf, np.float32), step=None) as ckpt:
        (row,) = (row for row in list_tensors(ckpt).rows if row.key == "a/b")
        assert row.offset is not None
        with open(f"{ckpt.prefix}.data-00000-of-00001", "r+b") as file:
            file.seek(row.offset)
            file.write(b"!")
        assert problems(check_checkpoint(ckpt, lock)) == [("missing", "step")]
        report = check_checkpoint(ckpt, lock, finite=True)
    assert problems(report) == [("missing", "step"), ("not-finite", "a/w"), ("unreadable", "a/b")]
    assert report.verdict == "unknown" and report.read == 1
    assert isinstance(report.findings[-1].error, CkptError)


def test_data_that_are_not_there_are_no_success(lock: Lock, tmp_path: Path) -> None:
    with saved(tmp_path) as ckpt:
        (tmp_path / "x.data-00000-of-00001").unlink()
        with pytest.raises(MissingFileError, match="the data shard is missing"):
            check_checkpoint(ckpt, lock, rules("step"))
