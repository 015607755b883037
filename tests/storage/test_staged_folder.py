"""The folder of a SavedModel: where it may be, how it is replaced, what trouble leaves of it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import warnings
from pathlib import Path

import pytest

from ckpttool.errors import CkptError, DestinationError, FileAccessError, MissingFileError
from ckpttool.query.verify.folder import check_folder
from ckpttool.storage.folders import OpenFolder
from ckpttool.storage.leftovers import LOCK_SUFFIX
from ckpttool.surgery.session_bundle.saved_model import prepare_export
from tests.support.exports import is_whole, sample_export, tree
from tests.support.faults import CHANGES, Call, Fault, System
from tests.support.refusals import refused


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return sample_export(tmp_path / "00000123")


class TestDestination:
    """Where a SavedModel may be written."""

    @pytest.mark.parametrize("spelling", ["model", "model/", "model//", "./model", "deep/model"])
    def test_spellings(
        self, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        prepare_export(str(sample), spelling).write()
        assert is_whole(tmp_path / spelling, sample)

    def test_an_empty_folder_is_filled(self, sample: Path, tmp_path: Path) -> None:
        (tmp_path / "model").mkdir()
        prepare_export(str(sample), str(tmp_path / "model")).write()
        assert is_whole(tmp_path / "model", sample)

    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize(
        ("where", "reason"),
        [
            ("file", "exists and is not a folder"),
            ("link", "exists and is not a folder"),
            ("full", "already exists|is not a SavedModel; not replaced"),
            ("00000123", "shares a folder with the export"),
            ("00000123/model", "shares a folder with the export"),
            ("00000123/../00000123/.", "name the folder"),
            (".", "shares a folder with the export|name the folder"),
            ("", "name the folder"),
        ],
    )
    def test_refused(
        self,
        sample: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        where: str,
        reason: str,
        force: bool,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "file").write_bytes(b"mine")
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "notes.txt").write_bytes(b"mine")
        (tmp_path / "link").symlink_to("full")
        before = tree(tmp_path)
        with refused(DestinationError, reason):
            prepare_export(str(sample), where, force=force)
        assert tree(tmp_path) == before

    def test_a_folder_that_the_export_is_in(self, sample: Path, tmp_path: Path) -> None:
        (tmp_path / "saved_model.pb").write_bytes(b"")
        with refused(DestinationError, "shares a folder with the export"):
            prepare_export(str(sample), str(tmp_path), force=True).write()

    def test_no_folder_above(self, sample: Path, tmp_path: Path) -> None:
        with pytest.raises(MissingFileError):
            prepare_export(str(sample), str(tmp_path / "a" / "b" / "model")).write()

    @pytest.mark.parametrize("name", ["a\0b", "x" * 300])
    def test_impossible_names(self, sample: Path, tmp_path: Path, name: str) -> None:
        with pytest.raises(FileAccessError):
            prepare_export(str(sample), str(tmp_path / name)).write()
        assert os.listdir(tmp_path) == ["00000123"]

    def test_somebody_else_was_faster(
        self, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = tmp_path / "model"
        true_rename = os.rename

        def rename(source: str, destination: str, **folders: int) -> None:
            if destination == "model":
                model.mkdir()
                (model / "theirs").write_bytes(b"")
            true_rename(source, destination, **folders)

        monkeypatch.setattr(os, "rename", rename)
        with refused(DestinationError, "already exists"):
            prepare_export(str(sample), str(model)).write()
        assert tree(model) == {"theirs": b""}
        assert sorted(os.listdir(tmp_path)) == ["00000123", "model"]


class TestReplacing:
    """What force does."""

    @pytest.fixture
    def model(self, sample: Path, tmp_path: Path) -> Path:
        folder = tmp_path / "model"
        prepare_export(str(sample), str(folder)).write()
        (folder / "assets.extra").mkdir()
        (folder / "assets.extra" / "notes.txt").write_bytes(b"old")
        return folder

    def test_the_whole_folder_is_replaced(self, sample: Path, model: Path) -> None:
        with refused(DestinationError, "already exists"):
            prepare_export(str(sample), str(model)).write()
        receipt = prepare_export(str(sample), str(model), force=True).write()
        assert is_whole(model, sample)
        assert sorted(os.listdir(model.parent)) == ["00000123", "model"]
        assert receipt.notes == ()

    def test_in_two_steps_where_names_cannot_be_exchanged(
        self, sample: Path, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(OpenFolder, "exchange", lambda self, one, other: False)
        prepare_export(str(sample), str(model), force=True).write()
        assert is_whole(model, sample)
        assert sorted(os.listdir(model.parent)) == ["00000123", "model"]

    @pytest.mark.parametrize("exchange", [False, True])
    def test_the_old_one_is_put_back_if_the_step_cannot_be_made_durable(
        self, sample: Path, model: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
    ) -> None:
        before = tree(model)
        if not exchange:
            monkeypatch.setattr(OpenFolder, "exchange", lambda self, one, other: False)

        def sync(folder: OpenFolder) -> None:
            if "model" in folder.names():
                assert tree(model) != before
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(OpenFolder, "sync", sync)
        with pytest.raises(FileAccessError):
            prepare_export(str(sample), str(model), force=True).write()
        assert tree(model) == before
        assert sorted(os.listdir(model.parent)) == ["00000123", "model"]

    @pytest.mark.parametrize("failing", [1, 2])
    def test_the_old_one_is_put_back(
        self, sample: Path, model: Path, monkeypatch: pytest.MonkeyPatch, failing: int
    ) -> None:
        before = tree(model)
        renames: list[str] = []
        true_rename = os.rename

        def rename(source: str, destination: str, **folders: int) -> None:
            if "model" in (source, destination):
                renames.append(source)
                if len(renames) == failing:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            true_rename(source, destination, **folders)

        monkeypatch.setattr(OpenFolder, "exchange", lambda self, one, other: False)
        monkeypatch.setattr(os, "rename", rename)
        with pytest.raises(FileAccessError):
            prepare_export(str(sample), str(model), force=True).write()
        assert tree(model) == before
        assert sorted(os.listdir(model.parent)) == ["00000123", "model"]


class TestTrouble:
    """Failing calls, and being killed."""

    @staticmethod
    def calls(sample: Path, model: Path, *, force: bool) -> list[Call]:
        with System(model.parent) as system:
            prepare_export(str(sample), str(model), force=force).write()
        return system.calls

    def test_any_call_that_fails_leaves_nothing(self, sample: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        out.mkdir()
        model = out / "model"
        total = len(self.calls(sample, model, force=False))
        shutil.rmtree(model)
        failures = 0
        for number in range(1, total + 1):

            def before(call: Call, number: int = number) -> Fault | None:
                return Fault(errno.EIO) if call.number == number else None

            try:
                with System(out, before=before) as system:
                    prepare_export(str(sample), str(model)).write()
            except CkptError:
                failures += 1
                assert not model.exists()
            else:
                # What is no more than tidying up may fail.
                assert is_whole(model, sample) or system.calls[number - 1].name == "unlink"
            shutil.rmtree(model, ignore_errors=True)
            left = os.listdir(out)
            assert left == [] or system.calls[number - 1].name in ("unlink", "lstat", "rmdir")
            for name in left:
                if name.endswith(LOCK_SUFFIX):
                    (out / name).unlink()
                else:
                    shutil.rmtree(out / name)
        assert failures > total // 2

    @pytest.mark.parametrize("force", [False, True])
    def test_killed_at_any_call(self, sample: Path, tmp_path: Path, force: bool) -> None:
        out = tmp_path / "out"
        out.mkdir()
        model = out / "model"

        def prepare() -> None:
            shutil.rmtree(out)
            out.mkdir()
            if force:
                model.mkdir()
                (model / "saved_model.pb").write_bytes(b"old")

        prepare()
        calls = self.calls(sample, model, force=force)
        # Between two changes a file system looks the same all the time.
        steps = [call.number for call in calls if call.name in CHANGES]
        leftovers = 0
        for number in steps:
            prepare()
            assert killed_at(number, sample, model, force=force)
            if force and (model / "saved_model.pb").read_bytes() == b"old":
                assert tree(model) == {"saved_model.pb": b"old"}
            elif force or model.exists():
                assert is_whole(model, sample)
            others = set(os.listdir(out)) - {"model"}
            found = check_folder(str(out), {})
            names = {os.path.basename(str(each.path)) for each in found}
            # Of a lock it tells where there is nothing else of that run.
            assert names == others or names == {n for n in others if not n.endswith(LOCK_SUFFIX)}
            assert {each.code for each in found} <= {"leftover"}
            leftovers += bool(others)
            prepare_export(str(sample), str(model), force=True).write()
            assert is_whole(model, sample)
            assert os.listdir(out) == ["model"], number
        assert leftovers > len(steps) // 2


def killed_at(number: int, sample: Path, model: Path, *, force: bool) -> bool:
    """Convert in another process, which is killed right before one of its calls."""

    def before(call: Call) -> None:
        if call.number == number:
            os.kill(os.getpid(), signal.SIGKILL)

    with warnings.catch_warnings():
        # NumPy may have started threads, none of which the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            with System(model.parent, before=before):
                prepare_export(str(sample), str(model), force=force).write()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)
