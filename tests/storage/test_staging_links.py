"""Staging in a folder to which somebody else may write too, and who puts links everywhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ckpttool.errors import ChangedError, CkptError
from ckpttool.storage.source import Permissions, RandomAccessFile
from ckpttool.storage.staged_folder import StagedFolder
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.temporary import temporary_path
from ckpttool.surgery.session_bundle.saved_model import prepare_export
from tests.support.exports import is_whole, sample_export, tree
from tests.support.fixtures import folder_contents
from tests.support.links import adversary
from tests.support.refusals import refused

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def identity(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_nlink, status.st_mode, status.st_uid, status.st_gid


@needs_root
def test_somebody_who_exchanges_files_for_links_reaches_nothing_elsewhere(tmp_path: Path) -> None:
    """A file of root must not become somebody else's, nor be written to, nor get another name."""
    folder, secret = tmp_path / "shared", tmp_path / "secret"
    folder.mkdir()
    secret.write_bytes(b"root's own")
    secret.chmod(0o600)
    like = Permissions(0o644, 65534, 65534)
    before = identity(secret)
    written = 0
    with adversary(folder, secret):
        for number in range(150):
            try:
                with StagedFiles() as staged:
                    for name in ("data", "index"):
                        file = staged.create(str(folder / f"{number}.{name}"), mode=0o600)
                        file.take_permissions(like)
                        for _ in range(20):
                            file.write(name.encode() * 100)
                    staged.commit(replace_last=number % 2 == 0)
            except CkptError:
                continue
            written += 1
            for name in ("data", "index"):
                made = folder / f"{number}.{name}"
                assert not made.is_symlink()
                assert made.read_bytes() == name.encode() * 2000
    assert identity(secret) == before
    assert secret.read_bytes() == b"root's own"
    assert written < 150, "nobody interfered"


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_is_exchanged_for_a_link_is_not_filled_elsewhere(
    force: bool, tmp_path: Path
) -> None:
    """Nor is anything removed there, nor does a link get the name."""
    sample = sample_export(tmp_path / "00000123")
    folder, other = tmp_path / "shared", tmp_path / "other"
    folder.mkdir()
    (other / "variables").mkdir(parents=True)
    (other / "saved_model.pb").write_bytes(b"theirs")
    before = tree(other)
    written = 0
    with adversary(folder, other):
        for number in range(25):
            model = folder / f"{number}"
            if force:
                model.mkdir()
                (model / "saved_model.pb").write_bytes(b"old")
            try:
                prepare_export(str(sample), str(model), force=force).write()
            except CkptError as error:
                assert "/proc/" not in str(error)
            else:
                written += 1
                assert not model.is_symlink()
                assert is_whole(model, sample)
            assert tree(other) == before
    assert written < 25, "nobody interfered"


def test_a_folder_is_nobody_elses_until_it_is_there(tmp_path: Path) -> None:
    mask = os.umask(0o002)
    try:
        with StagedFolder(str(tmp_path / "model")) as staged:
            assert stat.S_IMODE(os.stat(staged.temporary).st_mode) == 0o700
            assert os.path.samefile(staged.inside, staged.temporary)
            staged.publish(replace=False)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o775
    assert os.listdir(tmp_path) == ["model"]


def test_another_folder_in_the_place_of_the_staged_one_is_not_published(tmp_path: Path) -> None:
    with (
        refused(ChangedError, "replaced the folder"),
        StagedFolder(str(tmp_path / "model")) as staged,
    ):
        os.rename(staged.temporary, tmp_path / "taken")
        os.mkdir(staged.temporary)
        staged.publish(replace=False)
    assert "model" not in os.listdir(tmp_path)


@pytest.mark.parametrize("replace", [False, True])
def test_a_link_in_the_place_of_a_staged_file_is_not_published(
    tmp_path: Path, replace: bool
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"other")
    with refused(ChangedError, "replaced the file"), StagedFiles() as staged:
        file = staged.create(str(tmp_path / "m.index"))
        file.write(b"index")
        file.sync()
        os.unlink(file.temporary)
        os.symlink("other", file.temporary)
        staged.commit(replace_last=replace)
    assert other.read_bytes() == b"other"


def test_a_shard_that_is_exchanged_takes_the_whole_set_with_it(tmp_path: Path) -> None:
    with refused(ChangedError, "replaced the file"), StagedFiles() as staged:
        shard = staged.create(str(tmp_path / "m.data"))
        shard.sync()
        staged.create(str(tmp_path / "m.index"))
        os.rename(shard.temporary, tmp_path / "taken")
        Path(shard.temporary).write_bytes(b"")
        staged.commit()
    assert not (tmp_path / "m.index").exists()


def test_a_folder_whose_name_leads_elsewhere_meanwhile(tmp_path: Path) -> None:
    """Everything is done in the folder that was opened."""
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "m.index").write_bytes(b"theirs")
    with StagedFiles() as staged:
        staged.create(str(folder / "m.index")).write(b"ours")
        folder.rename(tmp_path / "moved")
        folder.symlink_to("elsewhere")
        staged.commit(replace_last=True)
    assert folder_contents(tmp_path / "moved") == {"m.index": b"ours"}
    assert folder_contents(elsewhere) == {"m.index": b"theirs"}


def test_a_second_name_is_that_of_the_file_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "store" / "blob").write_bytes(b"bytes")
    (tmp_path / "source").symlink_to("store/blob")
    with RandomAccessFile(str(tmp_path / "source")) as source, StagedFiles() as staged:
        assert staged.link(source, str(tmp_path / "deep" / "er" / "a")) is not None
        staged.commit()
    assert not (tmp_path / "deep" / "er" / "a").is_symlink()
    assert os.path.samefile(tmp_path / "deep" / "er" / "a", tmp_path / "store" / "blob")


def test_a_source_that_is_exchanged_is_not_linked(tmp_path: Path) -> None:
    source, other = tmp_path / "source", tmp_path / "other"
    source.write_bytes(b"12345")
    other.write_bytes(b"abcde")
    with (
        refused(ChangedError, "replaced"),
        StagedFiles() as staged,
        RandomAccessFile(str(source)) as file,
    ):
        other.rename(source)
        staged.link(file, str(tmp_path / "a"))
    assert folder_contents(tmp_path) == {"source": b"abcde"}


def test_a_symbolic_link_can_be_staged(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"bytes")
    (tmp_path / "source").symlink_to("./blob")
    with StagedFiles() as staged, RandomAccessFile(str(tmp_path / "source")) as source:
        made = staged.symlink(source, str(tmp_path / "a"))
        assert made is not None
        assert made.size == 5
        staged.create(str(tmp_path / "b"))
        assert not (tmp_path / "a").is_symlink()
        staged.commit()
    assert os.readlink(tmp_path / "a") == "./blob"
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "blob", "source"]


def test_what_is_no_link_is_not_made_one(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"")
    with StagedFiles() as staged, RandomAccessFile(str(tmp_path / "source")) as source:
        assert staged.symlink(source, str(tmp_path / "a")) is None


@pytest.mark.parametrize("mode", [0o6755, 0o1777, 0o2640, 0o4600])
def test_rights_of_others_are_never_lent(tmp_path: Path, mode: int) -> None:
    like = tmp_path / "like"
    like.write_bytes(b"")
    like.chmod(mode)
    with RandomAccessFile(str(like)) as file, StagedFiles() as staged:
        made = staged.create(str(tmp_path / "a"), mode=0o600)
        made.take_permissions(file.permissions)
        staged.commit()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode & 0o777


@pytest.mark.parametrize(
    ("mode", "kept"), [(0o640, 0o600), (0o664, 0o644), (0o670, 0o600), (0o755, 0o755)]
)
def test_another_group_may_do_no_more_than_everybody(mode: int, kept: int) -> None:
    permissions = Permissions(mode, 0, 1234)
    assert permissions.for_group(1234) == mode
    assert permissions.for_group(99) == kept


@needs_root
def test_group_and_owner_are_taken_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may give a file to a group often may not give it to another user."""
    true_chown = os.fchown

    def chown(fd: int, owner: int, group: int) -> None:
        if owner != -1:
            raise PermissionError
        true_chown(fd, owner, group)

    monkeypatch.setattr(os, "fchown", chown)
    with StagedFiles() as staged:
        made = staged.create(str(tmp_path / "a"), mode=0o600)
        made.take_permissions(Permissions(0o660, 4321, 1234))
        staged.commit()
    status = (tmp_path / "a").stat()
    assert (status.st_uid, status.st_gid) == (os.geteuid(), 1234)
    assert stat.S_IMODE(status.st_mode) == 0o660


@pytest.mark.parametrize("length", [1, 96, 97, 209, 222, 235, 255])
def test_a_name_of_any_length_can_be_staged(tmp_path: Path, length: int) -> None:
    for letter in ("n", "ü" * (length > 1)):
        name = (letter * length)[: length // len((letter or "n").encode())] or "n"
        name += "x" * (length - len(name.encode()))
        with StagedFiles() as staged:
            staged.create(str(tmp_path / name)).write(b"1")
            assert len(os.fsencode(os.listdir(tmp_path)[0])) <= 123
            staged.commit()
        assert folder_contents(tmp_path) == {name: b"1"}
        os.unlink(tmp_path / name)


def test_temporary_names_tell_whose_they_are() -> None:
    tag = "0123456789abcdef"
    assert temporary_path("a/m.index", tag) == f"a/.m.index.{tag}.ckpt-tmp"
    long, other = "n" * 200 + "1", "n" * 200 + "2"
    assert temporary_path(long, tag) != temporary_path(other, tag)
    assert temporary_path(long, tag).startswith("." + "n" * 87 + "~")


def test_a_name_too_long_for_a_file_is_refused_at_once(tmp_path: Path) -> None:
    with StagedFiles() as staged, pytest.raises(CkptError) as caught:
        staged.create(str(tmp_path / ("n" * 256)))
    assert "too long" in str(caught.value)
    assert os.listdir(tmp_path) == []
