"""Assets of exports: files of theirs, and nothing from elsewhere."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import CkptError, CorruptError, FileAccessError, MissingFileError
from ckpttool.storage.source import CHUNK_SIZE
from ckpttool.storage.staging import StagedFiles
from ckpttool.surgery.session_bundle.assets import copy_assets, find_assets
from ckpttool.surgery.session_bundle.saved_model import prepare_export
from tests.support.exports import (
    edit,
    is_whole,
    refused_with_nothing_written,
    with_assets,
)


def test_assets_are_copied_with_their_permissions(sample: Path, tmp_path: Path) -> None:
    words = sample / "assets" / "words.txt"
    words.chmod(0o640)
    (sample / "assets" / "notes.txt").write_bytes(b"mine")
    receipt = prepare_export(str(sample), str(tmp_path / "model")).write()
    copy = tmp_path / "model" / "assets" / "words.txt"
    assert copy.read_bytes() == b"one\ntwo\n"
    assert copy.stat().st_mode & 0o777 == 0o640
    assert not copy.samefile(words)
    assert receipt.assets == ("words.txt",)
    assert receipt.init_op == "init"
    assert receipt.notes == ("files that are no assets were left behind: 'notes.txt'",)
    assert is_whole(tmp_path / "model", sample)


def test_an_asset_of_two_tensors_is_copied_once(sample: Path, tmp_path: Path) -> None:
    edit(sample, with_assets("words.txt", "words.txt"))
    assert prepare_export(str(sample), str(tmp_path / "model")).write().assets == ("words.txt",)
    with open_checkpoint(str(tmp_path / "model")) as ckpt:
        assert ckpt.metagraph is not None
        assert [each.tensor for each in ckpt.metagraph.assets] == ["asset_0:0", "asset_1:0"]


def test_a_large_asset_goes_in_pieces(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 5 * CHUNK_SIZE + 3
    with (sample / "assets" / "words.txt").open("r+b") as file:
        file.truncate(size)
    pieces: list[int] = []
    true_read = os.read

    def read(fd: int, most: int) -> bytes:
        data = true_read(fd, most)
        pieces.append(len(data))
        return data

    monkeypatch.setattr(os, "read", read)
    receipt = prepare_export(str(sample), str(tmp_path / "model")).write()
    assert pieces == [*([CHUNK_SIZE] * 5), 3, 0]
    assert (tmp_path / "model" / "assets" / "words.txt").stat().st_size == size
    assert receipt.bytes_written > size


@pytest.mark.parametrize(
    "name", ["..", ".", "../words.txt", "/etc/passwd", "sub/words.txt", "words.txt/", "", "a\0b"]
)
def test_assets_whose_names_lead_out_of_their_folder(
    sample: Path, tmp_path: Path, name: str
) -> None:
    (sample / "words.txt").write_bytes(b"outside")
    edit(sample, with_assets(name))
    error = refused_with_nothing_written(CorruptError, "asset", sample, tmp_path)
    assert f"'{name}'" in error.message
    assert error.path == str(sample / "export.meta")


def missing(path: Path) -> None:
    path.unlink()


def link_out(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def link_inside(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def subfolder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder_gone(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        (missing, MissingFileError, "an asset of the export is missing"),
        (folder_gone, MissingFileError, "an asset of the export is missing"),
        (link_out, FileAccessError, "a symbolic link"),
        (link_inside, FileAccessError, "a symbolic link"),
        (dangling, FileAccessError, "a symbolic link"),
        (subfolder, FileAccessError, "not a regular file"),
        (pipe, FileAccessError, "not a regular file"),
    ],
)
def test_assets_that_are_no_files_of_the_export(
    sample: Path, tmp_path: Path, change: Any, error: type[CkptError], reason: str
) -> None:
    change(sample / "assets" / "words.txt")
    caught = refused_with_nothing_written(error, reason, sample, tmp_path)
    assert caught.path == str(sample / "assets" / "words.txt")


def test_a_folder_of_assets_that_is_a_link(sample: Path, tmp_path: Path) -> None:
    (sample / "assets").rename(tmp_path / "elsewhere")
    (sample / "assets").symlink_to(tmp_path / "elsewhere")
    caught = refused_with_nothing_written(FileAccessError, "a symbolic link", sample, tmp_path)
    assert caught.path == str(sample / "assets")


def test_missing_assets_are_done_without_by_force(sample: Path, tmp_path: Path) -> None:
    edit(sample, with_assets("words.txt", "gone.txt"))
    with pytest.raises(MissingFileError, match="--force converts without it") as caught:
        prepare_export(str(sample), str(tmp_path / "model")).write()
    assert caught.value.path == str(sample / "assets" / "gone.txt")
    receipt = prepare_export(str(sample), str(tmp_path / "model"), force=True).write()
    assert receipt.assets == ("words.txt",)
    assert any("that the export lacks: 'gone.txt'" in note for note in receipt.notes)
    assert is_whole(tmp_path / "model", sample, assets=("words.txt", "gone.txt"))


def test_no_folder_of_assets(sample: Path, tmp_path: Path) -> None:
    shutil.rmtree(sample / "assets")
    receipt = prepare_export(str(sample), str(tmp_path / "model"), force=True).write()
    assert receipt.assets == ()
    assert not (tmp_path / "model" / "assets").exists()


def test_force_follows_no_link(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"mine")
    (sample / "assets" / "words.txt").unlink()
    (sample / "assets" / "words.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(FileAccessError, match="symbolic link"):
        prepare_export(str(sample), str(tmp_path / "model"), force=True).write()
    assert not (tmp_path / "model").exists()


def test_a_folder_of_assets_that_may_not_be_looked_at_is_not_a_missing_one(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = os.open

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if str(path).endswith("assets"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return true(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileAccessError, match="permission denied"):
        find_assets(str(sample), ("words.txt",), all_needed=False)


@pytest.mark.parametrize("name", ["fstat", "listdir", "read"])
def test_what_the_system_says_of_an_asset_is_told(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fail(*arguments: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with StagedFiles() as staged:
        monkeypatch.setattr(os, name, fail)
        with pytest.raises(FileAccessError, match="input/output error") as caught:
            find_assets(str(sample), ("words.txt",))
            copy_assets(str(sample), ("words.txt",), str(tmp_path), staged)
        monkeypatch.undo()
    assert caught.value.path is not None
    assert caught.value.path.startswith(str(sample / "assets"))
