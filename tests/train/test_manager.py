"""The manager: what it promises, and where it is meant to differ from TensorFlow's."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from ckpttool.checkpoint.retention import delete_checkpoint, plan_sweep
from ckpttool.checkpoint.state import CheckpointState, read_state, write_state
from ckpttool.errors import CkptError, DestinationError, FileAccessError, UntrackableError
from ckpttool.storage.locks import locked_folder
from ckpttool.train import manager as manager_module
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.manager import CheckpointManager
from ckpttool.train.options import CheckpointOptions
from ckpttool.train.slots import SlotOwner
from ckpttool.train.variable import Variable


def program() -> Any:
    return Checkpoint(v=Variable(1.0), step=Variable(0))


def prefixes(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(".index") for path in folder.glob("*.index"))


def test_a_run_without_restore_does_not_replace_the_last_one(tmp_path: Path) -> None:
    first = CheckpointManager(program(), tmp_path, 3)
    for _ in range(2):
        first.save()
    ckpt = program()
    second = CheckpointManager(ckpt, tmp_path, 3)
    before = (tmp_path / "checkpoint").read_bytes()
    with pytest.raises(DestinationError, match="restore_or_initialize") as caught:
        second.save()
    assert caught.value.path == str(tmp_path / "ckpt-1")
    assert int(ckpt.save_counter) == 0
    assert (tmp_path / "checkpoint").read_bytes() == before
    assert second.restore_or_initialize() == str(tmp_path / "ckpt-2")
    assert second.save() == str(tmp_path / "ckpt-3")
    third = CheckpointManager(program(), tmp_path, 3)
    assert third.save(checkpoint_number=2) == str(tmp_path / "ckpt-2")
    assert CheckpointManager(program(), tmp_path, 3, overwrite=True).save()


def test_a_preserved_checkpoint_is_not_replaced_either(tmp_path: Path) -> None:
    CheckpointManager(program(), tmp_path, 3).save()
    state = read_state(str(tmp_path))
    Checkpoint(v=Variable(2.0)).write(tmp_path / "other-1")
    os.utime(tmp_path / "ckpt-1.index", (1, 1))
    write_state(str(tmp_path / "checkpoint"), CheckpointState("other-1", ("other-1",)))
    assert state.model_checkpoint_path == "ckpt-1"
    with pytest.raises(DestinationError):
        CheckpointManager(program(), tmp_path, 3).save()


def test_what_a_killed_save_left_is_replaced(tmp_path: Path) -> None:
    ckpt = program()
    CheckpointManager(ckpt, tmp_path, 3).save()
    ckpt.write(tmp_path / "ckpt-2")  # as a save that was killed before it wrote the state
    ckpt = program()
    manager = CheckpointManager(ckpt, tmp_path, 3)
    assert manager.restore_or_initialize() == str(tmp_path / "ckpt-1")
    assert manager.save() == str(tmp_path / "ckpt-2")


def test_what_a_killed_first_save_left_can_be_restored(tmp_path: Path) -> None:
    left = str(tmp_path / "ckpt-1")
    first = program()
    assert first.save(tmp_path / "ckpt") == left
    os.remove(tmp_path / "checkpoint")  # as a run that was killed before it wrote the state
    ckpt = program()
    manager = CheckpointManager(ckpt, tmp_path, 3)
    assert manager.restore_or_initialize() is None
    with pytest.raises(DestinationError, match=r"restore\('.*ckpt-1'\)"):
        manager.save()
    ckpt.restore(left).assert_consumed()
    assert manager.save() == str(tmp_path / "ckpt-2")


def test_a_failed_save_is_as_if_not_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ckpt = program()
    manager = CheckpointManager(ckpt, tmp_path, 2, step_counter=ckpt.step, checkpoint_interval=5)
    manager.save()
    state = (tmp_path / "checkpoint").read_bytes()
    ckpt.step.assign(5)
    wrong = SlotOwner()
    wrong.slot = wrong.add_slot(ckpt.v, "m")
    ckpt.wrong = wrong
    with pytest.raises(UntrackableError):
        manager.save()
    del ckpt.wrong

    def full(path: str, state: CheckpointState) -> None:
        raise FileAccessError("No space left on device", path=path)

    with monkeypatch.context() as patch:
        patch.setattr(manager_module, "write_state", full)
        with pytest.raises(FileAccessError):
            manager.save()
    assert int(ckpt.save_counter) == 1
    assert manager.checkpoints == [str(tmp_path / "ckpt-1")]
    assert manager.latest_checkpoint == str(tmp_path / "ckpt-1")
    assert (tmp_path / "checkpoint").read_bytes() == state
    assert manager.save() == str(tmp_path / "ckpt-2")  # neither step nor number was used up


def test_names_are_literal(tmp_path: Path) -> None:
    folder = tmp_path / "a*[1]?"
    manager = CheckpointManager(program(), folder, 1, checkpoint_name="m[*]")
    for _ in range(3):
        manager.save()
    assert prefixes(folder) == ["m[*]-3"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "checkpoint",
        "m[*]-3.data-00000-of-00001",
        "m[*]-3.index",
    ]


def test_nothing_outside_the_folder_is_deleted(tmp_path: Path) -> None:
    outside = Checkpoint(v=Variable(1.0)).write(tmp_path / "mine" / "ckpt-1")
    folder = tmp_path / "from-a-stranger"
    ckpt = program()
    CheckpointManager(ckpt, folder, 2).save()
    for path in ("../mine/ckpt-1", outside):
        write_state(
            str(folder / "checkpoint"), CheckpointState("ckpt-1", (path, "ckpt-1"), (5.0, 6.0), 1.0)
        )
        manager = CheckpointManager(ckpt, folder, 1)
        assert len(manager.checkpoints) == 2
        manager.save()
        assert Path(outside + ".index").exists()
        assert manager.checkpoints == [manager.latest_checkpoint]


def test_somebody_else_in_the_folder_is_noticed(tmp_path: Path) -> None:
    ckpt = program()
    manager = CheckpointManager(ckpt, tmp_path, 5)
    manager.save()
    other = program()
    other.save_counter.assign(10)
    CheckpointManager(other, tmp_path, 5).save()
    with pytest.warns(UserWarning, match="something else has changed the state file"):
        manager.save()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        manager.save()


def test_a_clock_that_goes_back_is_told(tmp_path: Path) -> None:
    manager = CheckpointManager(program(), tmp_path, 5, clock=lambda: 2000.0)
    manager.save()
    with pytest.warns(UserWarning, match="1000 seconds behind"):
        again = CheckpointManager(program(), tmp_path, 5, clock=lambda: 1000.0)
    assert again.checkpoints == []
    assert again.latest_checkpoint == str(tmp_path / "ckpt-1")


def test_an_unreadable_state_file_is_as_none(tmp_path: Path) -> None:
    CheckpointManager(program(), tmp_path, 5).save()
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe")
    with pytest.warns(UserWarning, match="ignored"):
        manager = CheckpointManager(program(), tmp_path, 5)
    assert manager.latest_checkpoint is None
    (tmp_path / "checkpoint").write_bytes(b"")
    with pytest.raises(ValueError, match="no checkpoint is named"):
        CheckpointManager(program(), tmp_path, 5)


def test_the_index_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Checkpoint(v=Variable(1.0)).write(tmp_path / "c")
    (tmp_path / "c.meta").touch()
    gone: list[str] = []
    unlink = os.unlink

    def noted(each: str) -> None:
        gone.append(each)
        unlink(each)

    monkeypatch.setattr(os, "unlink", noted)
    delete_checkpoint(path)
    delete_checkpoint(path)
    assert [os.path.basename(each) for each in gone[:2]] == ["c.index", "c.data-00000-of-00001"]
    assert [each.name for each in tmp_path.iterdir()] == ["c.meta"]


def test_a_file_that_cannot_be_deleted(tmp_path: Path) -> None:
    manager = CheckpointManager(program(), tmp_path, 1)
    manager.save()
    (tmp_path / "ckpt-1.index").unlink()
    (tmp_path / "ckpt-1.index").mkdir()
    with pytest.raises(FileAccessError, match=r"ckpt-1\.index"):
        manager.save()
    assert read_state(str(tmp_path)).model_checkpoint_path == "ckpt-2"
    (tmp_path / "ckpt-1.index").rmdir()
    manager.save()
    assert prefixes(tmp_path) == ["ckpt-3"]


@pytest.mark.parametrize(
    ("count", "hours", "deleted", "preserved"),
    [
        (None, None, "", ""),
        (9, None, "", ""),
        (2, None, "abcd", ""),
        (2, 1, "bc", "ad"),
        (1, 2, "bcde", "a"),
        (1, 0.5, "bd", "ace"),
    ],
)
def test_sweeps(count: int | None, hours: float | None, deleted: str, preserved: str) -> None:
    active = {name: 10_000.0 + 1200 * at for at, name in enumerate("abcdef")}
    sweep = plan_sweep(active, 0.0, max_to_keep=count, keep_every_hours=hours)
    assert (sweep.deleted, sweep.preserved) == (tuple(deleted), tuple(preserved))
    assert "".join(sweep.active) == "".join(
        name for name in active if name not in deleted + preserved
    )


def test_a_lock_that_others_hold_stops_no_trainer(tmp_path: Path) -> None:
    manager = CheckpointManager(program(), tmp_path, 1)
    manager.save()
    with locked_folder(str(tmp_path)):
        assert manager.save() == str(tmp_path / "ckpt-2")
    assert prefixes(tmp_path) == ["ckpt-2"]
    assert read_state(str(tmp_path)).model_checkpoint_path == "ckpt-2"


def test_a_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    outside = Checkpoint(v=Variable(1.0)).write(tmp_path / "mine" / "ckpt-1")
    folder = tmp_path / "run"
    ckpt = program()
    CheckpointManager(ckpt, folder, 2).save()
    (folder / "sub").symlink_to(tmp_path / "mine")
    write_state(
        str(folder / "checkpoint"),
        CheckpointState("ckpt-1", ("sub/ckpt-1", "ckpt-1"), (5.0, 6.0), 1.0),
    )
    CheckpointManager(ckpt, folder, 1).save()
    assert Path(outside + ".index").exists()
    assert prefixes(folder) == ["ckpt-2"]


def test_in_the_background(tmp_path: Path) -> None:
    options = CheckpointOptions(enable_async=True)
    plain, background = program(), program()
    one = CheckpointManager(plain, tmp_path / "plain", 2)
    two = CheckpointManager(background, tmp_path / "background", 2)
    for number in range(4):
        for ckpt in (plain, background):
            ckpt.v.assign(float(number))
        one.save()
        assert two.save(options=options) == str(tmp_path / "background" / f"ckpt-{number + 1}")
        background.v.assign(-1.0)  # the values were copied
    two.sync()
    for path in (tmp_path / "plain").iterdir():
        if path.name != "checkpoint":
            assert (tmp_path / "background" / path.name).read_bytes() == path.read_bytes()
    assert prefixes(tmp_path / "background") == ["ckpt-3", "ckpt-4"]
    assert two.restore_or_initialize() == two.latest_checkpoint
    assert float(background.v) == 3.0


def test_what_goes_wrong_in_the_background_is_raised_once(tmp_path: Path) -> None:
    options = CheckpointOptions(enable_async=True)
    ckpt = program()
    manager = CheckpointManager(ckpt, tmp_path / "folder", 2)
    manager.save()
    state = (tmp_path / "folder" / "checkpoint").read_bytes()
    (tmp_path / "folder" / "ckpt-2.index").mkdir()
    manager.save(options=options)
    with pytest.raises(CkptError, match="ckpt-2"):
        manager.save()
    manager.sync()
    assert (tmp_path / "folder" / "checkpoint").read_bytes() == state
    assert manager.latest_checkpoint == str(tmp_path / "folder" / "ckpt-1")
    assert manager.save() == str(tmp_path / "folder" / "ckpt-3")

    def fail(path: str) -> None:
        raise RuntimeError("callback")

    failing = CheckpointOptions(enable_async=True, experimental_write_callbacks=[fail])
    for wait in (ckpt.sync, lambda: ckpt.read(tmp_path / "w"), lambda: ckpt.save(tmp_path / "s")):
        ckpt.write(tmp_path / "w", failing)
        with pytest.raises(RuntimeError, match="callback"):
            wait()
        ckpt.sync()
