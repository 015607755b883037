"""Damaged files: we never give a value that TensorFlow does not, and none that differs from its."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import CkptError
from tests.interop.corpus import FIXTURES
from tests.interop.process import Oracle, summary

SUBJECTS = (
    "v2/tf2.21/dtypes/vector",
    "v2/tf2.21/dtypes/empty",
    "v2/tf2.21/strings/strings",
    "v2/tf2.21/partitioned_grid/model",
    "v2/tf2.21/partitioned_sharded/model",
    "v2/tf2.21/saver_sharded/model-7",
    "v2/tf2.21/root_variable/ckpt",
    "v2/tf1.15/partitioned/model.ckpt-7",
)
# How many mutations of each kind a file gets.
FLIPS = 48
CUTS = 12


@pytest.fixture(scope="module")
def oracle(tf: Any) -> Iterator[Oracle]:  # tf: skips where there is none
    with Oracle(sys.executable) as process:
        yield process


def ours(prefix: str) -> dict[str, Any]:
    """Return what the oracle would say if it were us."""
    try:
        reader = BundleReader(prefix)
    except CkptError as error:
        return {"error": str(error)}
    found = {}
    with reader:
        for key in reader.entries:
            try:
                found[key] = summary(reader.read(key))
            except CkptError as error:
                found[key] = {"error": str(error)}
    return {"tensors": found}


def spread(size: int, count: int) -> list[int]:
    """Return `count` positions all over a file, its first and last byte among them."""
    return sorted({at * (size - 1) // (count - 1) for at in range(count)}) if size else []


def mutations(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a file's bytes with one bit flipped, or cut short."""
    for number, at in enumerate(spread(len(data), FLIPS)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << number % 8
        yield f"bit {number % 8} of byte {at} flipped", bytes(flipped)
    for size in spread(len(data), CUTS):
        yield f"cut to {size} bytes", data[:size]


def check(case: str, theirs: dict[str, Any], found: dict[str, Any], sound: dict[str, Any]) -> int:
    """Hold our answer against TensorFlow's; return how many values both refuse.

    Args:
        case: what was done to which file.
        theirs: TensorFlow's answer.
        found: ours.
        sound: TensorFlow's answer for the whole file: what it refuses even there does not count.
    """
    if "error" in theirs:
        values = [key for key, value in found.get("tensors", {}).items() if "error" not in value]
        assert not values, f"{case}: TensorFlow refuses the bundle: {theirs['error']}"
        return 1
    if "error" in found:
        return 0
    assert found["tensors"].keys() == theirs["tensors"].keys(), case
    refused = 0
    for key, value in theirs["tensors"].items():
        mine = found["tensors"][key]
        if "error" not in value:
            assert "error" in mine or mine == value, f"{case}: {key}"
        elif "error" not in sound["tensors"].get(key, {}):
            assert "error" in mine, f"{case}: TensorFlow refuses {key}: {value['error']}"
            refused += 1
    return refused


def copied(name: str, folder: Path) -> str:
    """Copy a fixture's files into a folder; return the prefix there."""
    source = FIXTURES / name
    for member in source.parent.iterdir():
        if member.name.startswith((source.name + ".index", source.name + ".data-")):
            shutil.copy(member, folder / member.name)
    return str(folder / source.name)


@pytest.mark.parametrize("name", SUBJECTS)
def test_one_damaged_file(oracle: Oracle, tmp_path: Path, name: str) -> None:
    prefix = copied(name, tmp_path)
    sound = oracle.ask(prefix)
    members = sorted(tmp_path.iterdir())
    assert len(members) >= 2
    assert check("nothing done", sound, ours(prefix), sound) == 0
    for member in members:
        whole = member.read_bytes()
        refused = 0
        for case, data in mutations(whole):
            # A new file each time: a map of the old one must not see the change.
            os.unlink(member)
            member.write_bytes(data)
            label = f"{member.name}, {case}"
            refused += check(label, oracle.ask(prefix), ours(prefix), sound)
        assert refused or not whole
        member.write_bytes(whole)


@pytest.mark.parametrize("name", SUBJECTS)
def test_missing_file(oracle: Oracle, tmp_path: Path, name: str) -> None:
    prefix = copied(name, tmp_path)
    sound = oracle.ask(prefix)
    for member in sorted(tmp_path.iterdir()):
        whole = member.read_bytes()
        os.unlink(member)
        assert check(member.name, oracle.ask(prefix), ours(prefix), sound) > 0
        member.write_bytes(whole)
