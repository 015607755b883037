from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ckpttool.checkpoint.folder import (
    CheckpointFiles,
    find_checkpoint,
    list_checkpoints,
)
from ckpttool.checkpoint.generation import table_generation
from ckpttool.checkpoint.locate import locate
from ckpttool.errors import FileAccessError, MissingFileError
from ckpttool.storage.source import RandomAccessFile
from ckpttool.table.reader import TableReader
from tests.support import encoder
from tests.support.fixtures import FIXTURES

V1 = os.path.join(FIXTURES, "v1")
V2 = os.path.join(FIXTURES, "v2", "tf2.21")


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"x" * len(name))


def names(folder: Path | str) -> list[str]:
    return [files.name for files in list_checkpoints(str(folder))]


def test_every_table_that_tensorflow_wrote_is_of_its_format() -> None:
    indexes = sorted(Path(FIXTURES).rglob("*.index"))
    assert len(indexes) > 100
    assert not [path for path in indexes if table_generation(str(path)) != "V2"]
    files = [path for path in sorted(Path(V1).rglob("*")) if path.is_file()]
    tables = [path for path in files if path.name != "checkpoint" and path.suffix != ".meta"]
    assert len(tables) > 20
    assert not [path for path in tables if table_generation(str(path)) != "V1"]


@pytest.mark.parametrize(
    "head", [b"", b"\0\0", b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff", b"\0\0\0", b"\0\3key\1"]
)
def test_other_tables_are_neither(tmp_path: Path, head: bytes) -> None:
    magic = bytes.fromhex("57fb808b247547db")
    (tmp_path / "table").write_bytes(head.ljust(40, b"\0") + magic)
    assert table_generation(str(tmp_path / "table")) is None
    (tmp_path / "short").write_bytes(magic)
    assert table_generation(str(tmp_path / "short")) is None


def test_one_checkpoint(tmp_path: Path) -> None:
    touch(tmp_path, "m.index", "m.data-00001-of-00002", "m.data-00000-of-00002", "m.meta")
    os.utime(tmp_path / "m.index", (1, 1000))
    assert list_checkpoints(str(tmp_path)) == [
        CheckpointFiles(
            name="m",
            prefix=f"{tmp_path}/m",
            generation="V2",
            index=f"{tmp_path}/m.index",
            shards=(f"{tmp_path}/m.data-00000-of-00002", f"{tmp_path}/m.data-00001-of-00002"),
            shard_counts=(2,),
            meta_path=f"{tmp_path}/m.meta",
            modified=1000.0,
            size=7 + 21 + 21,
            latest=False,
        )
    ]


def test_what_is_missing(tmp_path: Path) -> None:
    touch(tmp_path, "m.index", "m.data-00001-of-00003")
    (files,) = list_checkpoints(str(tmp_path))
    assert files.missing() == (
        f"{tmp_path}/m.data-00000-of-00003",
        f"{tmp_path}/m.data-00002-of-00003",
    )
    assert files.missing(2) == (
        f"{tmp_path}/m.data-00000-of-00002",
        f"{tmp_path}/m.data-00001-of-00002",
    )
    (tmp_path / "m.data-00001-of-00003").unlink()
    (files,) = list_checkpoints(str(tmp_path))
    assert (files.shard_counts, files.missing()) == ((), ())
    assert files.missing(1) == (f"{tmp_path}/m.data-00000-of-00001",)


def test_two_sets_of_shards(tmp_path: Path) -> None:
    touch(tmp_path, "m.index", "m.data-00000-of-00001", "m.data-00000-of-00002")
    (files,) = list_checkpoints(str(tmp_path))
    assert files.shard_counts == (1, 2)
    assert files.missing() == ()
    assert files.missing(2) == (f"{tmp_path}/m.data-00001-of-00002",)


def test_names_of_shards_that_cannot_be(tmp_path: Path) -> None:
    touch(tmp_path, "m.index", "m.data-00000-of-999999999999", "m.data-00002-of-00002")
    (files,) = list_checkpoints(str(tmp_path))
    assert (files.shards, files.shard_counts, files.missing()) == ((), (), ())


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "a.index.tempstate123",
        "a.data-00000-of-00001",
        "a.data-00000-of-00001.tempstate5",
        "a.index.orig-1",
        "checkpoint.tmp0123456789abcdef0123456789abcdef",
        "events.out.tfevents.1.host",
        "graph.pbtxt",
    )
    (tmp_path / "b_temp").mkdir()
    shutil.copy(f"{V1}/tf1.4/saver/model.ckpt-2", tmp_path / "v1.tempstate99")
    assert list_checkpoints(str(tmp_path)) == []


def test_newest_first_by_number(tmp_path: Path) -> None:
    touch(tmp_path, *(f"ckpt-{step}.index" for step in (9, 10, 100, 11)), "ckpt.index")
    assert names(tmp_path) == ["ckpt-100", "ckpt-11", "ckpt-10", "ckpt-9", "ckpt"]


def test_newest_first_by_state(tmp_path: Path) -> None:
    touch(tmp_path, *(f"ckpt-{step}.index" for step in (1, 2, 3, 20)))
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "ckpt-2"\n'
        'all_model_checkpoint_paths: "ckpt-3"\n'
        'all_model_checkpoint_paths: "/gone/ckpt-1"\n'
        'all_model_checkpoint_paths: "ckpt-2"\n'
    )
    assert names(tmp_path) == ["ckpt-2", "ckpt-1", "ckpt-3", "ckpt-20"]
    assert [files.latest for files in list_checkpoints(str(tmp_path))] == [
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("named", "latest"),
    [
        ("ckpt-1", True),
        ("./ckpt-1", True),
        ("{folder}/ckpt-1", True),
        ("../run/ckpt-1", True),
        ("/gone/ckpt-1", True),
        ("sub/ckpt-1", False),
        ("../other/ckpt-1", False),
        ("{parent}/other/ckpt-1", False),
        ("", False),
    ],
)
def test_which_one_is_latest(tmp_path: Path, named: str, latest: bool) -> None:
    folder = tmp_path / "run"
    for each in (folder, tmp_path / "other"):
        each.mkdir()
        touch(each, "ckpt-1.index")
    named = named.format(folder=folder, parent=tmp_path)
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{named}"\n')
    assert [files.latest for files in list_checkpoints(str(folder))] == [latest]


def test_a_damaged_state_file_does_not_matter(tmp_path: Path) -> None:
    touch(tmp_path, "ckpt-1.index", "ckpt-2.index")
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe")
    assert names(tmp_path) == ["ckpt-2", "ckpt-1"]


def test_v1_in_folders() -> None:
    (two, three) = sorted(list_checkpoints(f"{V1}/tf1.4/saver"), key=lambda files: files.name)
    assert (two.name, two.generation, two.index) == ("model.ckpt-2", "V1", None)
    assert (three.latest, two.latest) == (True, False)
    assert three.shards == (f"{V1}/tf1.4/saver/model.ckpt-3",)
    assert three.meta_path == f"{V1}/tf1.4/saver/model.ckpt-3.meta"
    assert (three.shard_counts, three.missing()) == ((), ())
    (sharded,) = list_checkpoints(f"{V1}/tf1.4/partitioned_sharded")
    assert (sharded.name, sharded.shard_counts, sharded.latest) == ("model.ckpt-7", (2,), True)


def test_a_v1_shard_is_missing(tmp_path: Path) -> None:
    shutil.copy(f"{V1}/tf1.4/partitioned_sharded/model.ckpt-7-00001-of-00002", tmp_path)
    (files,) = list_checkpoints(str(tmp_path))
    assert files.missing() == (f"{tmp_path}/model.ckpt-7-00000-of-00002",)


def test_real_v2_folder() -> None:
    assert names(f"{V2}/guide_legacy_adam/tf_ckpts") == ["ckpt-5", "ckpt-4", "ckpt-3"]
    assert sorted(names(f"{V2}/glob_prefix")) == sorted(
        {path.name.removesuffix(".index") for path in Path(V2, "glob_prefix").glob("*.index")}
    )


def test_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "m.index")
    monkeypatch.chdir(tmp_path)
    assert [files.prefix for files in list_checkpoints("")] == ["m"]
    assert [files.prefix for files in list_checkpoints(".")] == ["./m"]


def test_folders_that_cannot_be_listed(tmp_path: Path) -> None:
    touch(tmp_path, "file")
    with pytest.raises(MissingFileError):
        list_checkpoints(str(tmp_path / "gone"))
    with pytest.raises(FileAccessError, match="not a directory"):
        list_checkpoints(str(tmp_path / "file"))
    with pytest.raises(FileAccessError, match=r"null (byte|character)"):
        list_checkpoints("a\0b")


def test_odd_things_in_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("gone")
    (tmp_path / "gone.index").symlink_to("nowhere")
    (tmp_path / "folder.index").mkdir()
    touch(tmp_path, "m.index")
    assert "m" in names(tmp_path)
    assert "pipe" not in names(tmp_path)
    assert find_checkpoint(str(tmp_path / "pipe")) is None


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 47])
def test_short_files_are_neither(tmp_path: Path, size: int) -> None:
    for byte in (b"\0", b"\x0a", b"\xff"):
        (tmp_path / "x").write_bytes(byte * size)
        assert table_generation(str(tmp_path / "x")) is None


V1_FILE = os.path.join(V1, "tf2.21", "single", "model.ckpt-7")


def test_a_v1_file_whose_first_record_is_garbled(tmp_path: Path) -> None:
    data = bytearray(Path(V1_FILE).read_bytes())
    data[:16] = b"\x5a" * 16
    (tmp_path / "m").write_bytes(data)
    assert table_generation(str(tmp_path / "m")) == "V1"
    assert names(tmp_path) == ["m"]


def test_a_v1_file_whose_first_record_is_missing(tmp_path: Path) -> None:
    with RandomAccessFile(V1_FILE) as file:
        records = sorted(dict(TableReader(file).items()).items())
    (tmp_path / "m").write_bytes(encoder.table(records[1:]))
    assert table_generation(str(tmp_path / "m")) == "V1"
    # A table of other keys is no checkpoint, whatever else is wrong with it.
    (tmp_path / "other").write_bytes(encoder.table([(b"key", b"value")]))
    assert table_generation(str(tmp_path / "other")) is None
    assert names(tmp_path) == ["m"]


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """A folder with a checkpoint of each format under one name."""
    shutil.copy(V1_FILE, tmp_path / "m")
    for path in Path(V2, "saver_v2").glob("model.ckpt-3.*"):
        shutil.copy(path, tmp_path / f"m{path.name[len('model.ckpt-3') :]}")
    return tmp_path


def test_one_name_in_both_formats(both: Path) -> None:
    (both / "checkpoint").write_text('model_checkpoint_path: "m"\n')
    found = {files.address: files for files in list_checkpoints(str(both))}
    assert set(found) == {f"{both}/m", f"{both}/m@v1"}
    assert found[f"{both}/m"].generation == "V2" and found[f"{both}/m"].latest
    old = found[f"{both}/m@v1"]
    assert (old.generation, old.latest, old.files) == ("V1", False, (f"{both}/m",))
    for typed, generation in (("m", "V2"), ("m@v1", "V1"), ("m.index", "V2"), ("", "V2")):
        assert locate(both / typed).generation == generation
    assert locate(both / "m").warnings == (
        f"a file of format V1 has the same name; it is meant by '{both}/m@v1'",
    )
    assert locate(both / "m@v1").warnings == ()
    # What is there by that name wins.
    shutil.copy(V1_FILE, both / "m@v1")
    assert locate(both / "m@v1").prefix == f"{both}/m@v1"


def test_a_folder_is_listed_once_however_many_v1_files_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    scandir = os.scandir

    def counted(path: str) -> object:
        calls.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    lines = "".join(f'all_model_checkpoint_paths: "{tmp_path}/gone-{n}"\n' for n in range(50))
    (tmp_path / "checkpoint").write_text(lines)
    assert list_checkpoints(str(tmp_path)) == []
    assert len(calls) <= 2
