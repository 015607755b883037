"""The same program run with TensorFlow and with us writes the same files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.interop.train_faces import ours, theirs
from tests.interop.train_programs import PROGRAMS, Program


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_files_are_the_same(program: Program, tf: Any, tmp_path: Path) -> None:
    results = {}
    for name, face in (("theirs", theirs(tf)), ("ours", ours())):
        folder = tmp_path / name
        folder.mkdir()
        here = os.getcwd()
        os.chdir(folder)
        try:
            answer = program(face, folder)
        finally:
            os.chdir(here)
        results[name] = files(folder), str(answer).replace(str(folder), "")
    wanted, found = results["theirs"], results["ours"]
    assert found[1] == wanted[1]
    assert found[0].keys() == wanted[0].keys()
    for name in wanted[0]:
        assert found[0][name] == wanted[0][name], name
