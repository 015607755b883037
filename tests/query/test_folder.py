"""The checkpoints of a folder: real ones, and damaged copies of them."""

from __future__ import annotations

import os
import shutil

import pytest

from ckpttool.query.folder import list_folder
from tests.support.fixtures import FIXTURES

GUIDE = os.path.join(FIXTURES, "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts")


@pytest.fixture
def folder(tmp_path: os.PathLike[str]) -> str:
    copy = os.path.join(tmp_path, "ckpts")
    shutil.copytree(GUIDE, copy)
    return copy


def test_steps_times_and_the_latest() -> None:
    rows = list_folder(GUIDE)
    assert [(row.name, row.step, row.latest) for row in rows] == [
        ("ckpt-8", 8, False),
        ("ckpt-9", 9, False),
        ("ckpt-10", 10, True),
    ]
    assert all(row.complete and row.tensors == 15 and row.generation == "V2" for row in rows)
    with open(os.path.join(GUIDE, "checkpoint"), encoding="utf-8") as file:
        state = file.read()
    assert all(f"all_model_checkpoint_timestamps: {row.saved!r}" in state for row in rows)


def test_what_is_missing_is_named(folder: str) -> None:
    os.remove(os.path.join(folder, "ckpt-8.data-00000-of-00001"))
    shard = os.path.join(folder, "ckpt-9.data-00000-of-00001")
    os.truncate(shard, os.stat(shard).st_size - 7)
    with open(os.path.join(folder, "ckpt-10.index"), "r+b") as file:
        file.write(b"\xff")
    eight, nine, ten = list_folder(folder)
    assert eight.missing == ("ckpt-8.data-00000-of-00001",)
    assert nine.missing == ("7 bytes at the end of ckpt-9.data-00000-of-00001",)
    assert ten.tensors is None and "a sound index" in ten.missing[0]
    assert not (eight.complete or nine.complete or ten.complete)


def test_without_a_state_file_the_time_is_that_of_the_index(folder: str) -> None:
    os.remove(os.path.join(folder, "checkpoint"))
    os.utime(os.path.join(folder, "ckpt-8.index"), (1000, 2000))
    rows = list_folder(folder)
    assert rows[0].saved == 2000
    assert not any(row.latest for row in rows)


def test_no_data_shard_is_opened(folder: str) -> None:
    for name in os.listdir(folder):
        if ".data-" in name:
            path = os.path.join(folder, name)
            size = os.stat(path).st_size
            os.remove(path)
            with open(path, "wb") as file:
                file.truncate(size)  # only zeros: reading would find it damaged
    assert all(row.complete for row in list_folder(folder))
