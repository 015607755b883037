from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from ckpttool.checkpoint.folder import CheckpointFiles, list_checkpoints
from ckpttool.checkpoint.locate import Location, locate
from ckpttool.errors import (
    CkptError,
    CorruptError,
    FileAccessError,
    MissingFileError,
    NotFoundError,
)
from tests.support.fixtures import FIXTURES

ADAM = os.path.join(FIXTURES, "v2", "tf2.21", "guide_legacy_adam", "tf_ckpts")
V1 = os.path.join(FIXTURES, "v1", "tf1.4")
BUNDLES = os.path.join(FIXTURES, "session_bundle", "tf1.4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three checkpoints, ckpt-5 being the latest."""
    return Path(shutil.copytree(ADAM, tmp_path / "tf_ckpts"))


@pytest.fixture
def sharded_v1(tmp_path: Path) -> Path:
    """Return a folder with a V1 checkpoint of two shards, without its state file."""
    copy = Path(shutil.copytree(f"{V1}/partitioned_sharded", tmp_path / "v1"))
    (copy / "checkpoint").unlink()
    return copy


def write_state(path: Path, latest: str, *others: str) -> None:
    lines = [f'model_checkpoint_path: "{latest}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in (*others, latest)]
    path.write_text("\n".join(lines) + "\n")


def complaint(path: str | Path) -> str:
    with pytest.raises(MissingFileError) as caught:
        locate(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("tf_ckpts/ckpt-4", "prefix"),
        ("./tf_ckpts/ckpt-4", "prefix"),
        ("tf_ckpts/ckpt-4.index", "member"),
        ("tf_ckpts/ckpt-4.data-00000-of-00001", "member"),
    ],
)
def test_prefix_and_members(
    folder: Path, monkeypatch: pytest.MonkeyPatch, typed: str, address: str
) -> None:
    monkeypatch.chdir(folder.parent)
    expected = "./tf_ckpts/ckpt-4" if typed.startswith("./") else "tf_ckpts/ckpt-4"
    state = expected.replace("ckpt-4", "checkpoint")
    assert locate(typed) == Location(typed, expected, "V2", address, state_path=state)  # type: ignore[arg-type]


def test_in_the_folder_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert locate("ckpt-3").prefix == "ckpt-3"
    assert locate("ckpt-3").state_path == "checkpoint"
    assert locate("checkpoint").prefix == "ckpt-5"
    assert locate("checkpoint").folder == "."
    assert locate(".").prefix == "./ckpt-5"
    assert complaint("ckpt-33").endswith("nearest: 'ckpt-3', 'ckpt-4', 'ckpt-5'")


@pytest.mark.parametrize("ending", ["", "/", "/checkpoint"])
def test_folder_and_state_file_mean_the_latest(folder: Path, ending: str) -> None:
    found = locate(f"{folder}{ending}")
    assert os.path.normpath(found.prefix) == str(folder / "ckpt-5")
    assert (found.address, found.warnings) == ("state", ())
    assert os.path.normpath(found.folder or "") == str(folder)
    assert os.path.normpath(found.state_path or "") == str(folder / "checkpoint")


def test_a_path_object(folder: Path) -> None:
    assert locate(folder).prefix == str(folder / "ckpt-5")


def test_a_state_file_of_another_name(folder: Path) -> None:
    write_state(folder / "latest_best", "ckpt-3")
    assert locate(folder / "latest_best").prefix == str(folder / "ckpt-3")
    (folder / "odd").write_text(
        '# best\n\n  all_model_checkpoint_paths: "a"\nmodel_checkpoint_path: "ckpt-4"\n'
    )
    assert locate(folder / "odd").prefix == str(folder / "ckpt-4")
    (folder / "marked").write_text('\ufeffmodel_checkpoint_path: "ckpt-4"\n')
    marked = locate(folder / "marked")
    assert marked.prefix == str(folder / "ckpt-4")
    assert "byte order mark" in marked.warnings[0]


def test_a_meta_file_beside(tmp_path: Path) -> None:
    names = ("model.index", "model.data-00000-of-00001", "model.meta")
    for name in names:
        (tmp_path / name).write_bytes(b"")
    for typed in (tmp_path / "model", tmp_path / "model.meta"):
        assert locate(typed).prefix == str(tmp_path / "model")
        assert locate(typed).meta_path == str(tmp_path / "model.meta")
    assert locate(tmp_path / "model").state_path is None


@pytest.mark.parametrize("name", ["model[1]", "a*", "what?", "{a,b}", "back\\slash", "é ü"])
def test_glob_characters_are_literal(tmp_path: Path, name: str) -> None:
    for each in (name, "model1", "ab", "whatx", "a", "b"):
        (tmp_path / f"{each}.index").write_bytes(b"")
        (tmp_path / f"{each}.data-00000-of-00001").write_bytes(b"")
    prefix = str(tmp_path / name)
    assert locate(prefix).prefix == prefix
    assert locate(f"{prefix}.index").prefix == prefix
    assert locate(f"{prefix}.data-00000-of-00001").prefix == prefix
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "' + name.replace("\\", "\\\\") + '"\n'
    )
    assert locate(tmp_path).prefix == prefix


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "model\udcff.index").write_bytes(b"")
    assert locate(tmp_path / "model\udcff").prefix == str(tmp_path / "model\udcff")
    text = complaint(tmp_path / "model\udcfe")
    assert text.endswith("nearest: '" + str(tmp_path) + "/model\\xff'")


def test_a_folder_of_the_same_name(folder: Path) -> None:
    (folder / "ckpt-4").mkdir()
    found = locate(folder / "ckpt-4")
    assert (found.prefix, found.address) == (str(folder / "ckpt-4"), "prefix")
    assert found.warnings == (f"the folder of the same name is meant by '{folder}/ckpt-4/'",)
    assert "no checkpoint in the folder" in complaint(f"{folder}/ckpt-4/")


class TestState:
    def test_stale_absolute_path(self, folder: Path) -> None:
        write_state(folder / "checkpoint", "/gone/run1/ckpt-4")
        found = locate(folder)
        assert found.prefix == str(folder / "ckpt-4")
        (warning,) = found.warnings
        assert "/gone/run1/ckpt-4" in warning
        assert "using the checkpoint of that name beside it" in warning

    def test_live_absolute_path_inside(self, folder: Path) -> None:
        write_state(folder / "checkpoint", str(folder / "ckpt-3"))
        assert locate(folder).prefix == str(folder / "ckpt-3")
        assert locate(folder).warnings == ()

    def test_live_path_outside(self, folder: Path, tmp_path: Path) -> None:
        shutil.copytree(folder, tmp_path / "other")
        for named in (str(tmp_path / "other" / "ckpt-3"), "../other/ckpt-3"):
            write_state(folder / "checkpoint", named)
            found = locate(folder)
            assert os.path.realpath(found.prefix) == str(tmp_path / "other" / "ckpt-3")
            (warning,) = found.warnings
            assert "lies outside of its folder" in warning

    @pytest.mark.parametrize(
        "named", ["ckpt-9", "/gone/ckpt-9", "sub/ckpt-5", "../elsewhere/ckpt-5", "ckpt-*", "*"]
    )
    def test_never_another_checkpoint(self, folder: Path, named: str) -> None:
        write_state(folder / "checkpoint", named, "ckpt-3", "ckpt-4")
        text = complaint(folder)
        assert f"{folder}/checkpoint: names '{named}', which does not exist" in text
        assert text.endswith(
            f"name a checkpoint: '{folder}/ckpt-4', '{folder}/ckpt-3', '{folder}/ckpt-5'"
        )

    def test_nothing_there_at_all(self, tmp_path: Path) -> None:
        write_state(tmp_path / "checkpoint", "ckpt-9")
        assert complaint(tmp_path).endswith("does not exist; the folder has no checkpoint")

    @pytest.mark.parametrize("text", ["", 'all_model_checkpoint_paths: "ckpt-5"\n'])
    def test_no_name_in_it(self, folder: Path, text: str) -> None:
        (folder / "checkpoint").write_text(text)
        with pytest.raises(NotFoundError, match="names no checkpoint"):
            locate(folder)

    @pytest.mark.parametrize("data", [b"\x00\x01garbage", b'model_checkpoint_path: "unclosed\n'])
    def test_malformed(self, folder: Path, data: bytes) -> None:
        (folder / "checkpoint").write_bytes(data)
        with pytest.raises(CorruptError):
            locate(folder)

    def test_two_fields_that_only_tell_when(self, folder: Path) -> None:
        (folder / "checkpoint").write_text(
            'model_checkpoint_path: "ckpt-4"\nall_model_checkpoint_timestamps: 1.5\n'
            "last_preserved_timestamp: 1e+20\n"
        )
        assert locate(folder).prefix == str(folder / "ckpt-4")

    def test_sharded_v1_pattern(self, sharded_v1: Path) -> None:
        for named in ("model.ckpt-7-?????-of-00002", "/gone/model.ckpt-7-?????-of-00002"):
            write_state(sharded_v1 / "checkpoint", named)
            found = locate(sharded_v1)
            assert (found.prefix, found.generation) == (str(sharded_v1 / "model.ckpt-7"), "V1")
            assert bool(found.warnings) == named.startswith("/gone")

    def test_real_ones(self) -> None:
        found = locate(f"{V1}/saver")
        assert (found.prefix, found.generation) == (f"{V1}/saver/model.ckpt-3", "V1")
        assert found.files == (f"{V1}/saver/model.ckpt-3",)
        assert found.meta_path == f"{V1}/saver/model.ckpt-3.meta"


class TestFolderWithoutState:
    @pytest.fixture(autouse=True)
    def no_state(self, folder: Path) -> None:
        (folder / "checkpoint").unlink()

    def test_highest_step(self, folder: Path) -> None:
        os.utime(folder / "ckpt-4.index", (2e9, 2e9))  # a copy in another order
        found = locate(folder)
        assert (found.prefix, found.address) == (f"{folder}/ckpt-5", "folder")
        assert found.warnings == (
            f"'{folder}' has no state file; took the highest step, 'ckpt-5', not 'ckpt-4', "
            "'ckpt-3'",
        )

    def test_newest_of_several_names(self, folder: Path) -> None:
        for ending in ("index", "data-00000-of-00001"):
            shutil.copy(folder / f"ckpt-3.{ending}", folder / f"best.{ending}")
        os.utime(folder / "best.index", (2e9, 2e9))
        found = locate(folder)
        assert found.prefix == f"{folder}/best"
        assert "took the newest checkpoint, 'best', not 'ckpt-5'" in found.warnings[0]

    def test_a_state_file_that_appears_meanwhile(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A trainer had not saved anything yet when it was looked for."""

        def list_late(path: str) -> list[CheckpointFiles]:
            write_state(folder / "checkpoint", "ckpt-3")
            return list_checkpoints(path)

        monkeypatch.setattr("ckpttool.checkpoint.locate.list_checkpoints", list_late)
        found = locate(folder)
        assert (found.prefix, found.address) == (f"{folder}/ckpt-3", "state")

    def test_only_one(self, folder: Path) -> None:
        for step in (3, 4):
            (folder / f"ckpt-{step}.index").unlink()
        found = locate(folder)
        assert (found.prefix, found.warnings) == (f"{folder}/ckpt-5", ())

    def test_subfolders(self, folder: Path) -> None:
        (folder.parent / ".cache").mkdir()
        assert complaint(folder.parent).endswith(f"name one of the folders below it: '{folder}'")


class TestSavedModel:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        model = tmp_path / "model"
        (model / "variables").mkdir(parents=True)
        (model / "saved_model.pb").write_bytes(b"")
        for name in ("variables.index", "variables.data-00000-of-00001"):
            (model / "variables" / name).write_bytes(b"")
        return model

    @pytest.mark.parametrize(
        ("ending", "address"),
        [
            ("", "saved_model"),
            ("/", "saved_model"),
            ("/saved_model.pb", "saved_model"),
            ("/variables", "saved_model"),
            ("/variables/variables", "prefix"),
            ("/variables/variables.index", "member"),
        ],
    )
    def test_all_its_names(self, model: Path, ending: str, address: str) -> None:
        found = locate(f"{model}{ending}")
        assert os.path.normpath(found.prefix) == f"{model}/variables/variables"
        assert (found.generation, found.address) == ("V2", address)
        assert os.path.normpath(found.saved_model or "") == str(model)
        assert os.path.normpath(found.meta_path or "") == f"{model}/saved_model.pb"
        assert found.state_path is None

    def test_from_inside(self, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(model / "variables")
        found = locate("variables")
        assert (found.prefix, found.saved_model) == ("variables", str(model))
        monkeypatch.chdir(model)
        assert locate("saved_model.pb").prefix == "variables/variables"
        assert locate("saved_model.pb").folder == "."

    def test_text_form(self, model: Path) -> None:
        (model / "saved_model.pb").rename(model / "saved_model.pbtxt")
        assert locate(model).meta_path == str(model / "saved_model.pbtxt")
        assert locate(model / "saved_model.pbtxt").prefix == str(model / "variables/variables")

    def test_without_variables(self, model: Path) -> None:
        shutil.rmtree(model / "variables")
        found = locate(model)
        assert found.bare and found.warnings == ("the SavedModel has no variables",)
        assert (found.saved_model, found.meta_path) == (str(model), f"{model}/saved_model.pb")
        size = (model / "saved_model.pb").stat().st_size
        (model / "saved_model.pb").write_text(
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{'7' * 64}\nsize {size}\n"
        )
        (_, warning) = locate(model).warnings
        assert "is a pointer of Git LFS" in warning and warning.endswith("git lfs pull")

    def test_data_without_their_index(self, model: Path) -> None:
        (model / "variables" / "variables.index").unlink()
        (model / "variables" / "variables.data-00000-of-00001").touch()
        assert "data shards, but no 'variables.index'" in complaint(model)

    def test_a_folder_of_them(self, model: Path) -> None:
        assert complaint(model.parent).endswith(f"name one of the folders below it: '{model}'")

    def test_versions(self, model: Path, tmp_path: Path) -> None:
        for version in ("9", "10", "1554227547", "best"):
            shutil.copytree(model, tmp_path / "served" / version)
        found = locate(tmp_path / "served")
        assert found.saved_model == f"{tmp_path}/served/1554227547"
        assert found.warnings == ("took the highest version, '1554227547', not '10', '9'",)

    def test_a_bundle_called_variables_elsewhere(self, tmp_path: Path) -> None:
        (tmp_path / "variables").mkdir()
        (tmp_path / "variables" / "variables.index").write_bytes(b"")
        assert locate(tmp_path / "variables" / "variables").saved_model is None
        assert locate(tmp_path / "variables").address == "folder"

    def test_real_one(self) -> None:
        (model, *_) = sorted(Path(FIXTURES, "saved_model").rglob("saved_model.pb"))
        found = locate(model.parent)
        assert os.path.exists(found.prefix + ".index")
        assert found.meta_path == str(model)


class TestV1:
    def test_one_file(self) -> None:
        prefix = f"{V1}/saver/model.ckpt-2"
        expected = Location(
            prefix, prefix, "V1", "prefix", (prefix,), state_path=f"{V1}/saver/checkpoint"
        )
        assert locate(prefix) == expected

    def test_meta_file(self) -> None:
        found = locate(f"{V1}/saver/model.ckpt-3.meta")
        assert (found.prefix, found.generation) == (f"{V1}/saver/model.ckpt-3", "V1")
        assert found.address == "member"

    @pytest.mark.parametrize(
        ("ending", "address"),
        [
            ("", "prefix"),
            ("-?????-of-00002", "prefix"),
            ("-?????-of-?????", "prefix"),
            ("-00000-of-00002", "member"),
            ("-00001-of-00002", "member"),
            (".meta", "member"),
        ],
    )
    def test_shards(self, sharded_v1: Path, ending: str, address: str) -> None:
        prefix = f"{sharded_v1}/model.ckpt-7"
        found = locate(prefix + ending)
        assert (found.prefix, found.generation, found.address) == (prefix, "V1", address)
        assert found.files == (f"{prefix}-00000-of-00002", f"{prefix}-00001-of-00002")
        assert found.meta_path == f"{prefix}.meta"

    def test_a_shard_is_missing(self, sharded_v1: Path) -> None:
        (sharded_v1 / "model.ckpt-7-00000-of-00002").unlink()
        found = locate(sharded_v1 / "model.ckpt-7")
        assert len(found.files) == 2

    def test_a_complete_set_is_preferred(self, sharded_v1: Path) -> None:
        shard = sharded_v1 / "model.ckpt-7-00000-of-00002"
        shutil.copy(shard, sharded_v1 / "model.ckpt-7-00000-of-00003")
        assert len(locate(sharded_v1 / "model.ckpt-7").files) == 2
        assert len(locate(sharded_v1 / "model.ckpt-7-?????-of-00003").files) == 3
        complaint(sharded_v1 / "model.ckpt-7-?????-of-00004")

    def test_v2_wins(self, tmp_path: Path) -> None:
        shutil.copy(f"{V1}/saver/model.ckpt-2", tmp_path / "model")
        (tmp_path / "model.index").write_bytes(b"")
        assert locate(tmp_path / "model").generation == "V2"


class TestSessionBundle:
    @pytest.mark.parametrize("ending", ["", "/00000012", "/00000012/export.meta"])
    def test_versions(self, ending: str) -> None:
        found = locate(f"{BUNDLES}/versions{ending}")
        prefix = f"{BUNDLES}/versions/00000012/export"
        assert found == Location(
            f"{BUNDLES}/versions{ending}",
            prefix,
            "V1",
            "session_bundle",
            (prefix,),
            folder=f"{BUNDLES}/versions/00000012",
            meta_path=f"{prefix}.meta",
            warnings=found.warnings,
        )
        assert bool(found.warnings) == (not ending)

    def test_v2(self) -> None:
        found = locate(f"{BUNDLES}/sharded_v2/export")
        assert found.prefix == f"{BUNDLES}/sharded_v2/export/00000123/export"
        assert (found.generation, found.address) == ("V2", "session_bundle")

    def test_sharded_v1(self) -> None:
        found = locate(f"{BUNDLES}/sharded_v1/export/00000123")
        assert (found.generation, len(found.files)) == ("V1", 2)

    def test_without_variables(self, tmp_path: Path) -> None:
        (tmp_path / "export.meta").write_bytes(b"")
        assert complaint(tmp_path).endswith("a SessionBundle export without a checkpoint")


class TestNothingFound:
    @pytest.mark.parametrize(
        ("typed", "reason"),
        [
            ("tf_ckpts/ckpt-6", "no such checkpoint, file or folder; nearest: 'tf_ckpts/ckpt-"),
            ("tf_ckpts/ckpt-4.", "nearest: 'tf_ckpts/ckpt-4'"),
            ("tf_ckpts/ckpt-4.meta", "nearest: 'tf_ckpts/ckpt-4'"),
            ("tf_ckpts/ckpt-4.data", "nearest: 'tf_ckpts/ckpt-4'"),
            ("tf_ckpts/ckpt-4.data-00000-of-00002", "nearest: 'tf_ckpts/ckpt-4'"),
            ("tf_ckpts/ckpt-4/", "nearest: 'tf_ckpts/ckpt-4'"),
            ("tf_ckpts/CKPT-4", "nearest: 'tf_ckpts/ckpt-4'"),
            ("tf_ckpt", "nearest: 'tf_ckpts'"),
            ("tf_ckpt/ckpt-4", "there is no folder 'tf_ckpt'; nearest: 'tf_ckpts'"),
            ("tf_ckpts/zzzzzz", "the folder has 'ckpt-5', 'ckpt-4', 'ckpt-3'"),
            ("empty/zzzzzz", "no such checkpoint, file or folder"),
            ("empty", "no checkpoint in the folder"),
            ("half/ckpt-1", "its data shards exist, but its index 'ckpt-1.index' does not"),
            ("half/ckpt-1.data-00000-of-00001", "there is no 'half/ckpt-1.index'"),
            ("half/ckpt-2", "begun ('ckpt-2_temp…') but not finished"),
            ("half/model.meta", "a MetaGraph without its checkpoint"),
            ("/proc/nothing/here", "there is no folder '/proc/nothing'"),
        ],
    )
    def test_reason_and_nearest_name(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, typed: str, reason: str
    ) -> None:
        monkeypatch.chdir(folder.parent)
        Path("empty").mkdir()
        Path("half/ckpt-2_temp").mkdir(parents=True)
        Path("half/ckpt-1.data-00000-of-00001").write_bytes(b"")
        Path("half/model.meta").write_bytes(b"")
        text = complaint(typed)
        assert text.startswith(typed)
        assert reason in text

    def test_many_checkpoints(self, tmp_path: Path) -> None:
        for step in range(1200):
            (tmp_path / f"ckpt-{step}.index").write_bytes(b"")
        assert locate(tmp_path).warnings[0].endswith("and 1194 more")
        write_state(tmp_path / "checkpoint", "gone-7")
        assert complaint(tmp_path).endswith("and 1195 more")
        assert f"nearest: '{tmp_path}/ckpt-1119'" in complaint(tmp_path / "ckp-1119")

    def test_nothing_typed(self) -> None:
        with pytest.raises(MissingFileError, match="the path is empty"):
            locate("")

    @pytest.mark.parametrize("typed", ["a\0b", "x" * 5000, "y" * 250, "x/" * 3000])
    def test_impossible_paths(self, typed: str) -> None:
        with pytest.raises(CkptError):
            locate(typed)

    def test_other_files(self, folder: Path) -> None:
        (folder / "notes.txt").write_text("x" * 100)
        (folder / "ckpt-4x").write_text("")
        with pytest.raises(NotFoundError, match="not a file of a checkpoint"):
            locate(folder / "notes.txt")
        with pytest.raises(NotFoundError, match=r"nearest: '.*/ckpt-4'"):
            locate(folder / "ckpt-4x")

    def test_an_index_of_another_name(self, folder: Path) -> None:
        (folder / "ckpt-4.index").rename(folder / "ckpt-4.index.bak")
        with pytest.raises(NotFoundError, match=r"its name does not end in '\.index'"):
            locate(folder / "ckpt-4.index.bak")


class TestOddFiles:
    @pytest.mark.parametrize("name", ["pipe", "checkpoint", "model.meta", "saved_model.pb"])
    def test_a_pipe_does_not_hang(self, tmp_path: Path, name: str) -> None:
        os.mkfifo(tmp_path / name)
        with pytest.raises(FileAccessError, match="not a regular file"):
            locate(tmp_path / name)

    def test_pipes_in_a_folder_do_not_hang(self, tmp_path: Path) -> None:
        for name in ("checkpoint", "export.meta", "saved_model.pb", "model", "m-00000-of-00001"):
            os.mkfifo(tmp_path / name)
        assert "no checkpoint in the folder" in complaint(tmp_path)
        assert "no such checkpoint" in complaint(tmp_path / "m")

    def test_devices_and_sockets(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
            for path in ("/dev/null", "/dev/zero", "socket"):
                with pytest.raises(FileAccessError, match="not a regular file"):
                    locate(path)

    def test_links(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(folder)
        assert locate(tmp_path / "link").prefix == str(tmp_path / "link" / "ckpt-5")
        assert locate(tmp_path / "link").warnings == ()
        (tmp_path / "broken.index").symlink_to("gone")
        complaint(tmp_path / "broken")
        (tmp_path / "round").symlink_to("round")
        with pytest.raises(CkptError):
            locate(tmp_path / "round")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_folder_that_may_not_be_entered(self, folder: Path) -> None:
        folder.chmod(0)
        try:
            with pytest.raises(FileAccessError, match="permission denied"):
                locate(folder / "ckpt-4")
        finally:
            folder.chmod(0o700)
