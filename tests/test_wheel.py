"""What is in the wheel: the package with its data, the manual and completion, nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ckpttool
from ckpttool.cli.completion import SCRIPTS
from man import generate

ROOT = Path(__file__).resolve().parents[1]
DATA = f"ckpttool-{ckpttool.__version__}.data/data/share"
INFO = f"ckpttool-{ckpttool.__version__}.dist-info"
COMPLETIONS = {
    "bash": "bash-completion/completions/ckpt",
    "zsh": "zsh/site-functions/_ckpt",
    "fish": "fish/vendor_completions.d/ckpt.fish",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of a fresh wheel."""
    pytest.importorskip("hatchling", reason="hatchling, which makes the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.iterdir()
    assert path.name == f"ckpttool-{ckpttool.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def source_files(folder: Path) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_package_is_whole(wheel: dict[str, bytes]) -> None:
    package = {name for name in wheel if name.startswith("ckpttool/")}
    assert package == source_files(ROOT / "ckpttool")
    for name in package:
        assert wheel[name] == (ROOT / name).read_bytes(), name


@pytest.mark.parametrize(
    "name",
    ["py.typed", "pb/descriptors.binpb", "pb/__init__.pyi", "schemas/ckpt.ls.1.json"],
)
def test_data_of_the_package_are_there(name: str, wheel: dict[str, bytes]) -> None:
    assert f"ckpttool/{name}" in wheel


def test_there_is_nothing_else(wheel: dict[str, bytes]) -> None:
    assert {name.split("/")[0] for name in wheel} == {"ckpttool", DATA.split("/")[0], INFO}
    data = {name for name in wheel if name.startswith(DATA.split("/")[0])}
    pages = {f"{DATA}/man/man{path.name[-1]}/{path.name}" for path in generate.pages()}
    assert data == pages | {f"{DATA}/{path}" for path in COMPLETIONS.values()}


@pytest.mark.parametrize("path", generate.pages(), ids=lambda path: path.name)
def test_pages_are_installed(path: Path, wheel: dict[str, bytes]) -> None:
    assert wheel[f"{DATA}/man/man{path.name[-1]}/{path.name}"] == path.read_bytes()


@pytest.mark.parametrize("shell", SCRIPTS)
def test_completion_is_installed(shell: str, wheel: dict[str, bytes]) -> None:
    source = ROOT / "ckpttool" / "cli" / "completions" / SCRIPTS[shell]
    assert wheel[f"{DATA}/{COMPLETIONS[shell]}"] == source.read_bytes()


def test_metadata(wheel: dict[str, bytes]) -> None:
    metadata = wheel[f"{INFO}/METADATA"].decode("utf-8")
    assert re.search(rf"^Version: {re.escape(ckpttool.__version__)}$", metadata, re.MULTILINE)
    assert "\n# ckpttool\n" in metadata
    assert "Windows it reads only" in metadata and "License-Expression: Apache-2.0" in metadata
    assert "\nProject-URL:" not in metadata  # until there is an address
    assert "ckpttool = ckpttool.__main__:script" in wheel[f"{INFO}/entry_points.txt"].decode()
    assert b"ckpt = ckpttool.__main__:script" in wheel[f"{INFO}/entry_points.txt"]
    assert f"{INFO}/licenses/LICENSE" in wheel
