"""State files that come from another place or another system."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ckpttool.api.verify import verify
from ckpttool.checkpoint.folder import list_checkpoints, name_here
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.named import checkpoint_name, other_paths
from ckpttool.errors import MissingFileError
from tests.support.fixtures import FIXTURES

WINDOWS = [
    r"C:\\runs\\model\\ckpt-4",
    r"c:/runs\\ckpt-4",
    "C:/runs/ckpt-4",
    r"\\\\server\\share\\ckpt-4",
    r"\\runs\\ckpt-4",
    r"run\\ckpt-4",
    r".\\ckpt-4",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "ckpts"
    shutil.copytree(Path(FIXTURES, "v2/tf2.21/guide_legacy_adam/tf_ckpts"), copy)
    return copy


def write_state(folder: Path, named: str, *, end: str = "\r\n", mark: str = "") -> None:
    text = f'{mark}model_checkpoint_path: "{named}"\nall_model_checkpoint_paths: "{named}"\n'
    (folder / "checkpoint").write_bytes(text.replace("\n", end).encode())


@pytest.mark.parametrize("named", WINDOWS)
def test_paths_of_windows_mean_the_name_beside(folder: Path, named: str) -> None:
    write_state(folder, named, mark="\ufeff")
    found = locate(folder)
    assert found.prefix == str(folder / "ckpt-4")
    assert "using the checkpoint of that name beside it" in found.warnings[0]
    assert "byte order mark" in found.warnings[1]
    assert [files.name for files in list_checkpoints(str(folder)) if files.latest] == ["ckpt-4"]
    reports = verify(folder)
    assert {each.verdict for each in reports} == {"ok"}
    assert {each.code for each in reports[-1].findings} == {"state-moved", "state-marked"}


def test_a_path_of_windows_in_a_subfolder(folder: Path) -> None:
    shutil.copytree(folder, folder / "run")
    write_state(folder, r"run\\ckpt-4", end="\n")
    found = locate(folder)
    assert found.prefix == str(folder / "run/ckpt-4")
    assert "using the checkpoint 'run/ckpt-4'" in found.warnings[0]
    assert name_here(str(folder), r"run\ckpt-4") is None


def test_a_name_with_a_backslash_is_a_name(folder: Path) -> None:
    for path in folder.glob("ckpt-4.*"):
        shutil.copy(path, folder / f"a\\b{path.name[len('ckpt-4') :]}")
    write_state(folder, r"a\\b", end="\n")
    assert locate(folder).prefix == str(folder / r"a\b")
    assert locate(folder).warnings == ()
    assert name_here(str(folder), r"a\b") == r"a\b"


@pytest.mark.parametrize("named", [r"C:\\runs\\ckpt-9", r"..\\..\\ckpt-9", "/old/ckpt-9", "C:/"])
def test_nothing_of_that_name_beside(folder: Path, named: str) -> None:
    write_state(folder, named)
    with pytest.raises(MissingFileError, match="which does not exist"):
        locate(folder)
    last = verify(folder)[-1]
    assert last.verdict == "damaged"
    assert [each.code for each in last.findings] == ["state-stale"]


def test_names_and_other_paths() -> None:
    assert checkpoint_name("/a/ckpt-3-?????-of-00002") == "ckpt-3"
    assert checkpoint_name("C:\\a\\ckpt-3-?????-of-00002") == "ckpt-3"
    assert checkpoint_name("a/b") == "b"
    assert other_paths("a/b") == ()
    assert other_paths("..\\b") == ("b",)
    assert other_paths("C:\\") == ()
