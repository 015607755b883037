"""Good checkpoints are sound, and nothing that is done to one goes unnoticed."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import get_args

import pytest

from ckpttool.api.verify import verify
from ckpttool.errors import (
    CkptError,
    FileAccessError,
    MissingFileError,
    NotFoundError,
    UnsupportedError,
)
from ckpttool.query.verify.addresses import find_subjects, verify_each
from ckpttool.query.verify.findings import CODES, Severity
from ckpttool.query.verify.report import Report
from tests.query.verify.victims import GUIDE, Victim
from tests.support import corruption, fixtures
from tests.support.attack import Attack, all_attacks, good
from tests.support.bombs import BOMBS, Bomb
from tests.support.fixtures import FIXTURES, read_bytes
from tests.support.limits import memory_limit, time_limit
from tests.support.sweeps import each_bundle

MIB = 1 << 20
# TensorFlow itself lost a tensor that has no elements when it wrote this one, and cannot restore
# the object that had it.
LOST = {"v2/tf2.21/max_shard_size_lost/ckpt-1": [("graph-key-missing", "none")]}
# Small fixtures of every kind: whole and partitioned tensors, strings, variants, object graphs,
# several shards, odd keys, no elements.
SWEPT = [
    "v2/tf0.12/saver/model.ckpt-2",
    "v2/tf1.15/saveables/model",
    "v2/tf2.21/dtypes/scalar",
    "v2/tf2.21/dtypes/empty",
    "v2/tf2.21/keys_not_utf8/bytes",
    "v2/tf2.21/partitioned_grid/model",
    "v2/tf2.21/saver_sharded/model-7",
    "v2/tf2.21/variants/variants",
    "v2/tf2.21/write_no_counter/ckpt",
]
FULL = bool(os.environ.get("CKPTTOOL_FULL_SWEEPS"))
each_fixture = pytest.mark.parametrize("name", SWEPT)


def codes(report: Report) -> set[str]:
    return {each.code for each in report.findings}


@each_bundle
def test_fixtures_are_sound(fixture: fixtures.BundleFixture) -> None:
    (report,) = verify(fixture.prefix)
    lost = LOST.get(fixture.name, [])
    assert [(each.code, (each.key or "").split("/")[0]) for each in report.findings] == lost
    assert report.verdict == ("damaged" if lost else "ok")
    assert report.judged(strict=True) == report.verdict
    assert report.tensors == len(fixture.tensors)
    source = report.source
    assert source is not None and source.prefix == fixture.prefix and source.missing_shards == ()
    # Every byte of the data is accounted for: what was read is all there is.
    assert report.bytes_read == source.data_bytes
    (fast,) = verify(fixture.prefix, fast=True)
    assert (fast.verdict, fast.findings, fast.bytes_read) == ("structure-ok", (), 0)
    assert fast.source == source


def test_folders_of_fixtures_are_sound() -> None:
    tried = 0
    for folder, _, names in os.walk(os.path.join(FIXTURES, "v2")):
        if "checkpoint" in names:
            *reports, rest = verify(folder)
            lost = ["state-damaged"] if folder.endswith("_lost") else []
            assert rest.kind == "folder" and [each.code for each in rest.findings] == lost, folder
            assert len(reports) == sum(name.endswith(".index") for name in names)
            tried += 1
    assert tried > 30


@pytest.mark.parametrize("attack", all_attacks(), ids=str)
def test_broken_rules_of_the_format(attack: Attack, tmp_path: Path) -> None:
    made = good()
    index = attack.change(made)
    prefix = made.write(tmp_path / "m", index)
    with memory_limit(64 * MIB), time_limit(5):
        (report,) = verify(prefix)
    if attack.name == "rank 254":
        # More than NumPy can hold, but nothing is wrong with it.
        assert report.findings == ()
    elif attack.error is None:
        assert report.verdict in ("ok", "damaged")
        assert report.findings or attack.name == "Snappy"
    else:
        # No dtype at all is damage, one that is not known is not.
        unchecked = issubclass(attack.error, UnsupportedError) and str(attack) != "I15 0"
        assert report.verdict == ("unchecked" if unchecked else "damaged")
    if attack.key is not None and report.verdict != "ok":
        assert attack.key in {each.key for each in report.findings} or "I23" in attack.rule
    assert codes(report) <= set(CODES)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("bomb", BOMBS, ids=str)
def test_claims_to_be_huge(bomb: Bomb, tmp_path: Path) -> None:
    prefix = str(tmp_path / "m")
    bomb.write(prefix)
    with memory_limit(64 * MIB + bomb.room), time_limit(20):
        try:
            (report,) = verify(prefix)
        except UnsupportedError:
            return
    assert report.verdict in ("damaged", "unchecked") or not bomb.message


@each_fixture
def test_every_turned_byte_of_the_data_is_damage(name: str, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    for number in range(victim.num_shards):
        path = victim.shard(number)
        data = read_bytes(path)
        for at in range(len(data)):
            victim.write(path, corruption.flip(data, at, corruption.bits_for(at)))
            report = victim.verify()
            assert report.verdict == "damaged", at
            places = [(each.offset, each.size) for each in report.findings if each.path == path]
            assert any(
                offset is not None and size is not None and offset <= at < offset + size
                for offset, size in places
            ), at
        victim.write(path, data)


@each_fixture
def test_every_cut_of_the_data_is_damage(name: str, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    for number in range(victim.num_shards):
        path = victim.shard(number)
        data = read_bytes(path)
        for size in range(len(data)):
            victim.write(path, data[:size])
            assert victim.verify(fast=True).verdict == "damaged", size
        victim.write(path, data)
    assert victim.verify().verdict == "ok"


@each_fixture
def test_every_cut_of_the_index_is_damage(name: str, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    data = read_bytes(victim.index)
    for size in range(0, len(data), 1 if FULL else 5):
        victim.write(victim.index, data[:size])
        assert victim.verify().verdict == "damaged", size


@each_fixture
def test_every_turned_byte_of_the_index_is_found(name: str, tmp_path: Path) -> None:
    victim = Victim(name, tmp_path)
    data = read_bytes(victim.index)
    padding = range(len(data) - 48, len(data) - 8)
    for at in range(0, len(data), 1 if FULL else 3):
        victim.write(victim.index, corruption.flip(data, at, corruption.bits_for(at)))
        report = victim.verify()
        if report.verdict == "ok":
            # Nothing is lost by it, but it is told.
            assert at in padding and codes(report) == {"table-slack"}, at
        else:
            assert report.verdict == "damaged", at


@pytest.mark.parametrize("name", SWEPT[:2] + SWEPT[5:7])
def test_sealed_changes_of_the_index_end_in_an_answer(name: str, tmp_path: Path) -> None:
    # With the checksums made right a change may make another good index, with other names or
    # shapes, but the data then still have to fit it.
    victim = Victim(name, tmp_path)
    unnoticed = 0
    flips = corruption.sealed_flips(read_bytes(victim.index))
    for _, data in flips[:: 1 if FULL else 3]:
        victim.write(victim.index, data)
        try:
            with time_limit(5):
                unnoticed += victim.verify().findings == ()
        except CkptError as error:
            raise AssertionError("a bundle that was typed is reported on") from error
    assert unnoticed < len(flips) / 3


def test_a_folder_is_all_its_checkpoints(tmp_path: Path) -> None:
    folder = tmp_path / "ckpts"
    shutil.copytree(os.path.join(FIXTURES, GUIDE), folder)
    names = [os.path.basename(each.prefix) for each in find_subjects(str(folder))]
    assert names == ["ckpt-3", "ckpt-4", "ckpt-5", "ckpts"]
    reports = verify(str(folder))
    assert [each.verdict for each in reports] == ["ok"] * 4
    assert {each.path for each in reports} == {str(folder)}
    # One that is damaged does not stop the others.
    (folder / "ckpt-4.index").write_bytes(b"nonsense")
    assert [each.verdict for each in verify(folder)] == ["ok", "damaged", "ok", "ok"]
    # Nor does one that cannot be read at all.
    (folder / "ckpt-4.index").unlink()
    (folder / "ckpt-4.index").mkdir()
    reports = verify(folder)
    assert [each.verdict for each in reports] == ["ok", "unchecked", "ok", "ok"]
    assert codes(reports[1]) == {"unreadable"}
    with pytest.raises(FileAccessError, match="not a regular file"):
        verify(folder / "ckpt-4")


def test_a_state_file_stands_for_the_latest_checkpoint() -> None:
    folder = os.path.join(FIXTURES, GUIDE)
    (subject,) = find_subjects(os.path.join(folder, "checkpoint"))
    assert subject.prefix == os.path.join(folder, "ckpt-5")
    assert subject.location is not None


@pytest.mark.parametrize(
    "name", ["saved_model/tf2.21/module/model", "saved_model/tf1.4/builder/model"]
)
def test_a_saved_model_is_its_variables(name: str) -> None:
    folder = os.path.join(FIXTURES, name)
    (report,) = verify(folder)
    assert report.prefix == os.path.join(folder, "variables", "variables")
    assert (report.kind, report.verdict) == ("checkpoint", "ok")


def test_a_session_bundle() -> None:
    export = os.path.join(FIXTURES, "session_bundle/tf1.4/sharded_v2/export/00000123")
    (report,) = verify(export)
    assert report.verdict == "ok"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("nowhere", MissingFileError),
        ("v2/tf2.21", MissingFileError),
        ("README.md", NotFoundError),
        ("", MissingFileError),
    ],
)
def test_what_is_no_checkpoint(path: str, error: type[CkptError]) -> None:
    with pytest.raises(error):
        verify(os.path.join(FIXTURES, path) if path else path)


def test_a_checkpoint_that_changes_while_it_is_read(tmp_path: Path) -> None:
    victim = Victim(f"{GUIDE}/ckpt-5", tmp_path)
    shard = victim.shard()
    victim.flip(shard, 1085)

    def save_again(done: int, total: int) -> None:
        assert 0 < done <= total
        data = read_bytes(shard)
        os.unlink(shard)
        victim.write(shard, data)

    (report,) = verify(victim.prefix, on_progress=save_again)
    assert [(each.code, each.path) for each in report.findings] == [
        ("changed-while-reading", shard)
    ]
    assert report.verdict == "unchecked"
    (report,) = verify(victim.prefix)
    assert report.verdict == "damaged"


def test_a_checkpoint_that_goes_while_its_folder_is_read(tmp_path: Path) -> None:
    shutil.copytree(os.path.join(FIXTURES, GUIDE), tmp_path / "ckpts")
    each = verify_each(find_subjects(tmp_path / "ckpts"))
    assert next(each).verdict == "ok"
    for path in (tmp_path / "ckpts").glob("ckpt-4.*"):
        path.unlink()
    # It is not in the folder any more, so there is nothing to tell of it.
    last = next(each)
    assert (os.path.basename(last.prefix), last.verdict) == ("ckpt-5", "ok")
    # That the state file still lists it is told of the folder.
    assert codes(next(each)) == {"state-gone"}


def test_threads_are_gone_in_the_end() -> None:
    before = threading.active_count()
    verify(os.path.join(FIXTURES, GUIDE), jobs=4)
    assert threading.active_count() == before


def test_severities_are_ordered() -> None:
    assert set(CODES.values()) == set(get_args(Severity))
