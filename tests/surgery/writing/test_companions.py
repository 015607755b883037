"""What stands beside a checkpoint: graph files, the state file, names that are taken."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.checkpoint.state import CheckpointState, read_state
from ckpttool.checkpoint.tf_train import latest_checkpoint
from ckpttool.errors import CorruptError, DestinationError, FileAccessError
from ckpttool.surgery.writing.companions import MetaMode, removal_notes
from ckpttool.surgery.writing.prepare import WriteOptions
from tests.faults.checkpoints import (
    NAMES,
    OBJECTS,
    change,
    copy_of,
    names,
    small_checkpoint,
    stored,
    write,
)
from tests.support.faults import Call, Fault, System
from tests.support.fixtures import bundle


@pytest.fixture
def graphed(tmp_path: Path) -> str:
    """Return the prefix of a checkpoint with a graph file, in a folder of its own."""
    prefix = copy_of(NAMES, tmp_path / "src")
    os.unlink(tmp_path / "src" / "checkpoint")
    return prefix


GRAPH = Path(bundle(NAMES).prefix + ".meta").read_bytes()
# (mode, whether names change, whether the graph file comes along, what is said of it)
META: list[tuple[MetaMode, bool, bool, str]] = [
    ("auto", False, True, "was copied"),
    ("auto", True, False, "renamed or dropped"),
    ("copy", False, True, "was copied"),
    ("copy", True, True, "was copied; it still names"),
    ("drop", False, False, "left behind"),
    ("drop", True, False, "left behind"),
]


@pytest.mark.parametrize(("mode", "renamed", "comes", "note"), META)
def test_the_graph_file(
    graphed: str, tmp_path: Path, mode: MetaMode, renamed: bool, comes: bool, note: str
) -> None:
    moves = ("dense=layer",) if renamed else ()
    receipt = write(graphed, str(tmp_path / "q"), WriteOptions(meta=mode), *moves)
    meta = tmp_path / "q.meta"
    assert meta.exists() == comes
    if comes:
        assert meta.read_bytes() == GRAPH
        assert receipt.meta == str(meta)
    else:
        assert receipt.meta is None
    assert any(note in each for each in receipt.notes) if note else not receipt.notes
    assert Path(graphed + ".meta").read_bytes() == GRAPH


@pytest.mark.parametrize("mode", ["auto", "copy", "drop"])
def test_the_graph_file_of_what_is_changed_in_place(graphed: str, mode: MetaMode) -> None:
    receipt = change(graphed, "dense=layer", options=WriteOptions(meta=mode))
    (note,) = receipt.notes
    if mode == "drop":
        assert not os.path.exists(graphed + ".meta")
        assert receipt.meta is None
        assert "removed" in note
    else:
        assert Path(graphed + ".meta").read_bytes() == GRAPH
        assert receipt.meta == graphed + ".meta"
        assert "still names" in note


@pytest.mark.parametrize("mode", ["auto", "copy", "drop"])
@pytest.mark.parametrize("renamed", [False, True])
def test_the_graph_file_of_what_was_replaced_does_not_stay(
    graphed: str, tmp_path: Path, mode: MetaMode, renamed: bool
) -> None:
    small = small_checkpoint(tmp_path / "small")
    for source, moves in ((graphed, ("dense=layer",)), (small, ("a=b2",))):
        target = str(tmp_path / "q")
        Path(target + ".meta").write_bytes(b"of another")
        options = WriteOptions(force=True, meta=mode)
        receipt = write(source, target, options, *(moves if renamed else ()))
        found = Path(target + ".meta").read_bytes() if os.path.exists(target + ".meta") else None
        assert found in (None, GRAPH)
        assert (found is not None) == (receipt.meta is not None)


def test_a_graph_file_keeps_its_permissions(graphed: str, tmp_path: Path) -> None:
    os.chmod(graphed + ".meta", 0o600)
    with System(tmp_path) as system:
        write(graphed, str(tmp_path / "q"), WriteOptions(meta="copy"))
    assert os.stat(tmp_path / "q.meta").st_mode & 0o777 == 0o600
    (wide,) = (mode for path, mode in system.modes.items() if ".meta" in path)
    assert wide == 0o600


def test_a_graph_file_that_cannot_be_looked_at(graphed: str, tmp_path: Path) -> None:
    def before(call: Call) -> Fault | None:
        return Fault(5) if call.name == "stat" and call.path.endswith("src/" + META_NAME) else None

    with System(tmp_path, before=before), pytest.raises(FileAccessError) as caught:
        write(graphed, str(tmp_path / "q"), WriteOptions(meta="copy"))
    assert caught.value.path == graphed + ".meta"


META_NAME = os.path.basename(NAMES) + ".meta"


def test_a_note_for_what_cannot_be_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    paths = [str(tmp_path / name) for name in ("file", "missing", "folder")]
    (note,) = removal_notes(paths)
    assert str(tmp_path / "folder") in note
    assert names(tmp_path) == ["folder"]


def update(prefix: str, target: str) -> CheckpointState:
    """Write a checkpoint and name it in the state file of its folder; return what that says."""
    receipt = write(prefix, target, WriteOptions(update_state=True, force=True))
    assert receipt.state == os.path.join(os.path.dirname(target), "checkpoint")
    return read_state(receipt.state)


def test_a_new_state_file(small: str, tmp_path: Path) -> None:
    assert update(small, str(tmp_path / "q")) == CheckpointState("q", ("q",))
    assert latest_checkpoint(str(tmp_path)) == str(tmp_path / "q")
    with open_checkpoint(tmp_path) as ckpt:
        assert ckpt.prefix == str(tmp_path / "q")


def test_a_state_file_in_the_folder_where_we_are(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    receipt = write(small, "q", WriteOptions(update_state=True))
    assert receipt.state == "checkpoint"
    assert read_state("checkpoint") == CheckpointState("q", ("q",))


def test_paths_in_a_state_file_become_relative(small: str, tmp_path: Path) -> None:
    lines = [f'model_checkpoint_path: "{tmp_path}/b-2"']
    listed = (f"{tmp_path}/a-1", f"{tmp_path}/sub/c-3", "/elsewhere/d-4", "../e-5", "b-2")
    lines += [f'all_model_checkpoint_paths: "{path}"' for path in listed]
    (tmp_path / "checkpoint").write_text("\n".join(lines))
    state = update(small, str(tmp_path / "q"))
    assert state.model_checkpoint_path == "q"
    assert state.all_model_checkpoint_paths == (
        *("a-1", "sub/c-3", "/elsewhere/d-4", "../e-5", "b-2"),
        "q",
    )
    assert state.all_model_checkpoint_timestamps == ()


def test_timestamps_in_a_state_file(small: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "b"\n'
        'all_model_checkpoint_paths: "a"\n'
        'all_model_checkpoint_paths: "b"\n'
        "all_model_checkpoint_timestamps: 1700000000.25\n"
        "all_model_checkpoint_timestamps: 1700000001.5\n"
        "last_preserved_timestamp: 1690000000.125\n"
    )
    before = time.time()
    state = update(small, str(tmp_path / "q"))
    assert state.all_model_checkpoint_paths == ("a", "b", "q")
    first, second, third = state.all_model_checkpoint_timestamps
    assert (first, second) == (1700000000.25, 1700000001.5)
    assert before - 1 <= third <= time.time()
    assert state.last_preserved_timestamp == 1690000000.125
    # The same name again: once in the list, and the last.
    again = update(small, str(tmp_path / "a"))
    assert again.all_model_checkpoint_paths == ("b", "q", "a")
    assert again.all_model_checkpoint_timestamps[:2] == (second, third)


def test_timestamps_that_a_manager_needs(small: str, tmp_path: Path) -> None:
    """It forgets checkpoints without; a Saver, whose checkpoints are name-based, needs none."""
    folder = tmp_path / "run"
    copy_of(OBJECTS, folder)
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "gone-1"\n'
        'all_model_checkpoint_paths: "gone-1"\n'
        'all_model_checkpoint_paths: "ckpt-5"\n',
        encoding="utf-8",
    )
    os.utime(folder / "ckpt-5.index", (1_700_000_000.5, 1_700_000_000.5))
    before = time.time()
    state = update(str(folder / "ckpt-5"), str(folder / "q"))
    assert state.all_model_checkpoint_paths == ("gone-1", "ckpt-5", "q")
    assert state.all_model_checkpoint_timestamps[:2] == (0.0, 1_700_000_000.5)
    assert before <= state.all_model_checkpoint_timestamps[2] <= time.time()
    (alone,) = update(str(folder / "ckpt-5"), str(tmp_path / "q")).all_model_checkpoint_timestamps
    assert before <= alone <= time.time()
    (tmp_path / "names").mkdir()
    assert not update(small, str(tmp_path / "names" / "q")).all_model_checkpoint_timestamps


def test_the_state_file_of_what_is_changed_in_place(tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "run")
    before = read_state(str(tmp_path / "run"))
    receipt = change(prefix, "net=model", options=WriteOptions(update_state=True))
    after = read_state(str(tmp_path / "run"))
    assert receipt.state == str(tmp_path / "run" / "checkpoint")
    assert after.model_checkpoint_path == "ckpt-5"
    assert after.all_model_checkpoint_paths == before.all_model_checkpoint_paths
    assert len(after.all_model_checkpoint_timestamps) == 3
    assert after.last_preserved_timestamp == before.last_preserved_timestamp


def test_the_state_file_is_left_alone_unless_asked_for(tmp_path: Path) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "run")
    before = (tmp_path / "run" / "checkpoint").read_bytes()
    receipt = write(prefix, str(tmp_path / "run" / "q"))
    change(prefix, "net=model")
    assert receipt.state is None
    assert (tmp_path / "run" / "checkpoint").read_bytes() == before


def test_a_state_file_keeps_its_permissions(small: str, tmp_path: Path) -> None:
    update(small, str(tmp_path / "q"))
    os.chmod(tmp_path / "checkpoint", 0o640)
    update(small, str(tmp_path / "r"))
    assert os.stat(tmp_path / "checkpoint").st_mode & 0o777 == 0o640


BAD_STATES = [b"\xff\xfe", b"model_checkpoint_path", b'no_such: "field"', b"\xef\xbb\xbfno_such"]


@pytest.mark.parametrize("text", BAD_STATES)
def test_a_state_file_that_cannot_be_read(small: str, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "checkpoint").write_bytes(text)
    with pytest.raises(CorruptError) as caught:
        write(small, str(tmp_path / "q"), WriteOptions(update_state=True))
    assert caught.value.path == str(tmp_path / "checkpoint")
    assert names(tmp_path) == ["checkpoint", "src"]
    assert (tmp_path / "checkpoint").read_bytes() == text
    # Nobody else needs it.
    write(small, str(tmp_path / "q"))


def test_a_name_that_a_state_file_cannot_hold(small: str, tmp_path: Path) -> None:
    target = os.path.join(str(tmp_path), "q\udcff")
    with pytest.raises(DestinationError, match="UTF-8"):
        write(small, target, WriteOptions(update_state=True))
    assert names(tmp_path) == ["src"]
    write(small, target)
    assert stored(target) == stored(small)


@pytest.mark.parametrize("force", [False, True])
def test_names_of_the_sequence_are_the_trainers(tmp_path: Path, force: bool) -> None:
    prefix = copy_of(OBJECTS, tmp_path / "run")
    options = WriteOptions(force=force)
    for name in ("ckpt-6", "ckpt-10"):
        target = str(tmp_path / "run" / name)
        if force:
            write(prefix, target, options)
        else:
            with pytest.raises(DestinationError, match="ckpt-5"):
                write(prefix, target, options)
            assert not [each for each in names(tmp_path / "run") if each.startswith(name)]
    for name in ("ckpt-2", "other-6", "ckpt-x", "ckpt", "ckpt-5-6", "my-ckpt-6"):
        write(prefix, str(tmp_path / "run" / name), options)
    write(prefix, str(tmp_path / "ckpt-6"), options)
