"""What lies beside checkpoints: leftovers, orphans, state files."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ckpttool.api.verify import verify
from ckpttool.errors import MissingFileError
from ckpttool.query.folder import list_folder
from ckpttool.query.verify import checkpoint
from ckpttool.query.verify.addresses import find_subjects, verify_each
from ckpttool.query.verify.findings import Finding
from ckpttool.query.verify.report import Report
from ckpttool.storage.staging import StagedFiles
from ckpttool.surgery.writing.folder import find_sources
from tests.query.verify.victims import GUIDE, has
from tests.support.fixtures import FIXTURES

DAY = 86400.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a folder with three checkpoints and a state file."""
    copy = tmp_path / "ckpts"
    shutil.copytree(os.path.join(FIXTURES, GUIDE), copy)
    return copy


def rest(folder: Path) -> Report:
    """Verify a folder; return what is told beside its checkpoints, which are sound."""
    *reports, last = verify(folder)
    assert all(each.verdict == "ok" for each in reports)
    assert last.kind == "folder"
    return last


def found(folder: Path) -> list[Finding]:
    return list(rest(folder).findings)


def age(path: Path, seconds: float) -> None:
    when = time.time() - seconds
    os.utime(path, (when, when))


def test_a_tidy_folder(folder: Path) -> None:
    assert found(folder) == []
    (folder / "events.out.tfevents.1").write_bytes(b"x")
    (folder / "best_temp").mkdir()
    (folder / "best_temp" / "notes.txt").write_text("mine")
    (folder / "ckpt-5.data-of-interest").write_bytes(b"x")
    assert found(folder) == []


@pytest.mark.parametrize(
    ("name", "writer"),
    [
        (".ckpt-6.index.0123456789abcdef.ckpt-tmp", "ckpt"),
        (".other.data-00000-of-00001.0123456789abcdef.ckpt-tmp", "ckpt"),
        (".0123456789abcdef.ckpt-lock", "ckpt"),
        ("ckpt-6.data-00000-of-00001.tempstate17283940", "TensorFlow"),
        ("ckpt-6.index.tempstate1", "TensorFlow"),
        ("checkpoint.tmp0123456789abcdef0123456789abcdef", "TensorFlow"),
        ("ckpt-6.meta.tmp0123456789abcdef0123456789abcdef", "TensorFlow"),
    ],
)
def test_temporary_files(folder: Path, name: str, writer: str) -> None:
    path = folder / name
    path.write_bytes(b"12345")
    (one,) = found(folder)
    assert (one.code, one.severity, one.path, one.size) == ("leftover", "warning", str(path), 5)
    assert one.message.startswith(f"{writer} wrote this less than a minute ago")
    age(path, 3 * DAY)
    (one,) = found(folder)
    assert one.message == f"left behind 3 days ago by a save of {writer} that ended early"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (90, "a minute ago"),
        (150, "2 minutes ago"),
        (7200, "2 hours ago"),
        (47 * 3600, "47 hours ago"),
        (400 * DAY, "400 days ago"),
    ],
)
def test_ages(folder: Path, seconds: float, words: str) -> None:
    path = folder / "ckpt-6.index.tempstate1"
    path.write_bytes(b"")
    age(path, seconds)
    assert f"left behind {words} by" in has(found(folder), "leftover").message


@pytest.mark.parametrize("name", ["ckpt-6_temp", "ckpt-6_temp_0123456789abcdef0123456789abcdef"])
def test_temporary_folders(folder: Path, name: str) -> None:
    path = folder / name
    path.mkdir()
    age(path, 3 * DAY)
    (one,) = found(folder)
    assert (one.code, one.path, one.size) == ("leftover", str(path), 0)
    assert "3 days" in one.message
    part = path / "part-00000-of-00001.data-00000-of-00001"
    part.write_bytes(b"123")
    (path / "part-00000-of-00001.index.tempstate12").write_bytes(b"4567")
    (one,) = found(folder)
    assert one.size == 7 and "less than a minute" in one.message


def test_names_of_our_own_staged_files_are_known(folder: Path) -> None:
    with StagedFiles() as staged:
        staged.create(str(folder / "ckpt-6.data-00000-of-00001")).write(b"12")
        staged.create(str(folder / "ckpt-6.index"))
        assert [each.code for each in found(folder)] == ["leftover", "leftover"]
        assert sorted(each.size or 0 for each in found(folder)) == [0, 2]
    assert found(folder) == []


def test_orphans(folder: Path) -> None:
    (folder / "ckpt-6.data-00000-of-00002").write_bytes(b"12")
    (folder / "ckpt-7.meta").write_bytes(b"1")
    shard, graph = found(folder)
    assert (shard.code, shard.path, shard.size) == (
        "orphan",
        str(folder / "ckpt-6.data-00000-of-00002"),
        2,
    )
    assert "no 'ckpt-6.index'" in shard.message
    assert (graph.code, graph.path) == ("orphan", str(folder / "ckpt-7.meta"))
    assert rest(folder).verdict == "ok"
    assert rest(folder).judged(strict=True) == "damaged"


def test_shards_of_another_count(folder: Path) -> None:
    (folder / "ckpt-5.data-00001-of-00003").write_bytes(b"12")
    (folder / "ckpt-5.data-00009-of-00001").write_bytes(b"1")
    first, second = found(folder)
    assert {first.code, second.code} == {"foreign-shard"}
    assert "of a set of 3" in first.message and "none of number 9" in second.message


def test_an_index_without_any_shard(folder: Path) -> None:
    (folder / "ckpt-4.data-00000-of-00001").unlink()
    reports = verify(folder)
    assert [each.verdict for each in reports] == ["ok", "damaged", "ok", "ok"]
    (lost,) = reports[1].findings
    assert (lost.code, lost.path) == (
        "shard-missing",
        str(folder / "ckpt-4.data-00000-of-00001"),
    )
    assert "15" not in lost.message and "and 12 more" in lost.message


def test_a_folder_of_orphans_alone(tmp_path: Path) -> None:
    (tmp_path / "ckpt-6.data-00000-of-00001").write_bytes(b"12")
    (report,) = verify(tmp_path)
    assert [each.code for each in report.findings] == ["orphan", "no-checkpoint"]
    assert report.verdict == "unchecked"


def write_state(folder: Path, latest: str, *others: str) -> None:
    lines = [f'model_checkpoint_path: "{latest}"']
    lines += [f'all_model_checkpoint_paths: "{each}"' for each in (*others, latest)]
    (folder / "checkpoint").write_text("\n".join(lines) + "\n")


def test_a_state_file_that_names_what_is_gone(folder: Path) -> None:
    write_state(folder, "ckpt-9", "ckpt-4", "ckpt-3", "ckpt-2")
    stale, gone = found(folder)
    assert (stale.code, stale.path) == ("state-stale", str(folder / "checkpoint"))
    assert "'ckpt-9', which does not exist" in stale.message
    assert (gone.code, gone.severity) == ("state-gone", "warning")
    assert "'ckpt-2'" in gone.message
    assert rest(folder).verdict == "damaged"


def test_an_absolute_path_that_is_stale(folder: Path) -> None:
    write_state(folder, "/gone/run1/ckpt-5", "/gone/run1/ckpt-3", "/gone/run1/ckpt-2")
    gone, moved = found(folder)
    assert (gone.code, moved.code, moved.severity) == ("state-gone", "state-moved", "warning")
    assert "'/gone/run1/ckpt-2', which does not exist" in gone.message
    assert "'/gone/run1/ckpt-5', which does not exist; 'ckpt-5' here is taken" in moved.message
    assert moved.message.endswith(", and 1 more are found in the same way")


def test_an_absolute_path_that_is_right(folder: Path) -> None:
    write_state(folder, str(folder / "ckpt-5"))
    (one,) = found(folder)
    assert (one.code, one.severity) == ("state-absolute", "warning")
    assert str(folder / "ckpt-5") in one.message


def test_a_path_that_leads_out_of_the_folder(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "other")
    write_state(folder, "../other/ckpt-5", str(folder.parent / "other" / "ckpt-3"), "ckpt-3")
    first, second = found(folder)
    assert {first.code, second.code} == {"state-outside"}
    write_state(folder, "../other/ckpt-7")
    assert [each.code for each in found(folder)] == ["state-stale"]


def test_nothing_outside_of_the_folder_is_opened(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    # Opening it would wait for ever.
    os.mkfifo(other / "ckpt-1")
    os.mkfifo(other / "ckpt-2.index")
    write_state(folder, "../other/ckpt-1", "../other/ckpt-2", "../other/m-?????-of-00002")
    assert [each.code for each in found(folder)] == ["state-stale", "state-gone", "state-outside"]


@pytest.mark.parametrize(
    "text", ["model_checkpoint_path: 5\n", "", "no such field: 1", "\ufeffmodel", "x" * 100]
)
def test_a_state_file_that_says_nothing(folder: Path, text: str) -> None:
    (folder / "checkpoint").write_text(text)
    (one,) = found(folder)
    assert (one.code, one.path) == ("state-unreadable", str(folder / "checkpoint"))
    assert rest(folder).verdict == "damaged"


def test_a_checkpoint_alone_is_told_of_its_own_files_only(folder: Path) -> None:
    write_state(folder, "ckpt-9")
    for name in ("ckpt-6.index.tempstate1", "ckpt-4.index.tempstate1", "ckpt-44_temp"):
        (folder / name).mkdir() if name.endswith("_temp") else (folder / name).touch()
    (folder / ".ckpt-4.index.0123456789abcdef.ckpt-tmp").touch()
    (folder / "ckpt-4.data-00000-of-00004").touch()
    (folder / "ckpt-6.data-00000-of-00004").touch()
    (report,) = verify(folder / "ckpt-4")
    names = sorted(os.path.basename(each.path) for each in report.findings)
    assert names == [
        ".ckpt-4.index.0123456789abcdef.ckpt-tmp",
        "ckpt-4.data-00000-of-00004",
        "ckpt-4.index.tempstate1",
    ]
    (report,) = verify(folder / "ckpt-5")
    assert report.findings == ()


def test_something_else_in_place_of_the_state_file(folder: Path) -> None:
    (folder / "checkpoint").unlink()
    os.mkfifo(folder / "checkpoint")
    (one,) = found(folder)
    assert (one.code, one.path) == ("state-unreadable", str(folder / "checkpoint"))
    (folder / "checkpoint").unlink()
    os.symlink("nowhere", folder / "checkpoint")
    assert [each.code for each in found(folder)] == ["state-unreadable"]
    (folder / "checkpoint").unlink()
    (folder / "checkpoint").mkdir()
    (one,) = found(folder)
    assert (one.code, one.severity) == ("state-not-a-file", "warning")


def test_a_folder_of_checkpoints_may_be_called_checkpoint(folder: Path) -> None:
    (folder / "checkpoint").unlink()
    os.rename(folder, folder.parent / "moved")
    folder.mkdir()
    os.rename(folder.parent / "moved", folder / "checkpoint")
    assert [each.verdict for each in verify(folder / "checkpoint")] == ["ok"] * 4
    with pytest.raises(MissingFileError):
        verify(folder)


def test_one_name_in_both_formats(tmp_path: Path) -> None:
    shutil.copy(os.path.join(FIXTURES, "v1/tf2.21/single/model.ckpt-7"), tmp_path / "m")
    for path in Path(FIXTURES, "v2/tf2.21/saver_v2").glob("model.ckpt-3.[di]*"):
        shutil.copy(path, tmp_path / f"m{path.name[len('model.ckpt-3') :]}")
    old, new, rest = sorted(verify(tmp_path), key=lambda each: (each.kind, -len(each.findings)))
    assert [each.code for each in old.findings] == ["same-name"]
    assert (old.source and old.source.generation, old.verdict) == ("V1", "ok")
    assert (new.source and new.source.generation, new.verdict) == ("V2", "ok")
    assert rest.findings == ()
    (only,) = verify(tmp_path / "m@v1")
    assert only.source == replace(old.source, path=str(tmp_path / "m@v1")) if old.source else None
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:-300])
    (only,) = verify(tmp_path / "m@v1")
    assert only.verdict == "damaged"


def test_a_checkpoint_of_another_folder_does_not_count(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    shutil.copy(folder / "ckpt-4.data-00000-of-00001", other)
    shutil.copy(folder / "ckpt-3.index", other)
    shutil.copy(folder / "ckpt-3.data-00000-of-00001", other)
    subjects = [*find_subjects(folder / "ckpt-4"), *find_subjects(other)]
    last = list(verify_each(subjects))[-1]
    assert [each.code for each in last.findings] == ["orphan"]


def test_folders_are_not_listed_for_each_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of them in several V1 files, which are found by listing; all of them damaged."""
    source = Path(FIXTURES, GUIDE)
    old = Path(FIXTURES, "v1/tf2.21/sharded")
    for number in range(30):
        for end in (".index", ".data-00000-of-00001"):
            shutil.copy(source / f"ckpt-5{end}", tmp_path / f"ckpt-{number}{end}")
        with open(tmp_path / f"ckpt-{number}.data-00000-of-00001", "r+b") as file:
            file.write(bytes(200))
        for path in old.glob("model.ckpt-7-*"):
            shutil.copy(path, tmp_path / f"old-{number}{path.name[len('model.ckpt-7') :]}")
    write_state(tmp_path, "ckpt-1", *(f"/gone/ckpt-{number}" for number in range(60)))
    # A slow machine would list it once more for each of these times.
    monkeypatch.setattr(checkpoint, "_LISTING", 60.0)
    calls = []
    for name in ("listdir", "scandir"):
        listing = getattr(os, name)

        def counted(path: str = ".", listing: Callable[[str], object] = listing) -> object:
            calls.append(path)
            return listing(path)

        monkeypatch.setattr(os, name, counted)
    reports = verify(tmp_path)
    assert len(reports) == 61
    assert len(calls) < 12
    calls.clear()
    assert len(list_folder(str(tmp_path))) == 60
    assert len(find_sources(str(tmp_path), "out")) == 60
    assert len(calls) < 12
