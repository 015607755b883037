"""TensorFlow reads what `ckpt convert-legacy` makes of checkpoints.

CKPT_TF115_PYTHON names an interpreter that has TensorFlow 1.15.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.bundle.writer import BundleWriter
from ckpttool.surgery.writing.recoding.spread import Recoding
from ckpttool.tensor.dtypes import STRING, dtype_of_name
from tests.interop.process import Oracle, summary
from tests.interop.values import sample
from tests.legacy.handmade import LegacyFixture, legacy_fixtures
from tests.support import conversions
from tests.support.conversions import ROWS, convert, everything, write_v1
from tests.support.slices import parse_slice

PYTHONS = {"1.15": "CKPT_TF115_PYTHON", "2.21": None}
WITH_GRAPHS = [each for each in legacy_fixtures() if os.path.exists(each.prefix + ".meta")]
HOWS = [Recoding(), Recoding(join_slices=True), Recoding(shards=3)]


def python_of(release: str) -> str:
    """Return an interpreter that has a release of TensorFlow."""
    variable = PYTHONS[release]
    python = os.environ.get(variable) if variable else sys.executable
    if not python or (not variable and importlib.util.find_spec("tensorflow") is None):
        pytest.skip(f"there is no interpreter that has TensorFlow {release}")
    return python


@pytest.fixture(scope="module", params=PYTHONS)
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle(python_of(request.param)) as process:
        yield process


@pytest.fixture(scope="module")
def newest() -> Iterator[Oracle]:
    with Oracle(python_of("2.21")) as process:
        yield process


@pytest.fixture(scope="module", params=PYTHONS)
def saver(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    program = Path(__file__).with_name("legacy_saver.py")
    process = subprocess.Popen(
        [python_of(request.param), str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    yield process
    process.communicate()


def restored(saver: subprocess.Popen[str], meta: str, checkpoint: str) -> dict[str, Any]:
    """Return what the Saver of a graph restores."""
    assert saver.stdin is not None and saver.stdout is not None
    saver.stdin.write(json.dumps([meta, checkpoint]) + "\n")
    saver.stdin.flush()
    answer: dict[str, Any] = json.loads(saver.stdout.readline())
    return answer


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
def test_every_fixture_as_v2(
    oracle: Oracle, fixture: LegacyFixture, how: Recoding, tmp_path: Path
) -> None:
    prefix = str(tmp_path / "m")
    convert(fixture.address, prefix, recoding=how)
    found = oracle.ask(prefix)["tensors"]
    assert found.keys() == fixture.tensors.keys()
    for key, facts in fixture.tensors.items():
        assert "error" not in found[key], (key, found[key])
        assert (tuple(found[key]["shape"]), found[key]["sha256"]) == (facts.shape, facts.sha256)


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("fixture", legacy_fixtures(), ids=lambda fixture: fixture.name)
def test_every_fixture_back_in_v1(
    oracle: Oracle, fixture: LegacyFixture, how: Recoding, tmp_path: Path
) -> None:
    convert(fixture.address, tmp_path / "v2")
    receipt = convert(tmp_path / "v2", tmp_path / "v1", "v1", how)
    for key, facts in fixture.tensors.items():
        number = dtype_of_name(facts.dtype).number
        answer = oracle.ask([receipt.address, key, "", number])
        assert answer.get("sha256") == facts.sha256, (key, answer)


@pytest.mark.parametrize("to", ["v2", "v1"])
@pytest.mark.parametrize("fixture", WITH_GRAPHS, ids=lambda fixture: fixture.name)
def test_graphs_restore(
    saver: subprocess.Popen[str], fixture: LegacyFixture, to: str, tmp_path: Path
) -> None:
    """The graph beside a checkpoint restores it, and saves what can be read again."""
    receipt = convert(fixture.address, tmp_path / "m")
    if to == "v1":
        receipt = convert(tmp_path / "m", tmp_path / "back", "v1")
    assert receipt.meta is not None
    answer = restored(saver, receipt.meta, receipt.address)
    if fixture.name.startswith("v1/tf2.21") and "not in Op<" in answer.get("error", ""):
        pytest.skip("the graph is newer than this TensorFlow")
    assert answer.get("version") == 2, answer
    with ckpttool.open_checkpoint(receipt.address) as ckpt:
        values = {key: summary(ckpt[key]) for key in ckpt}
        slices = {key for key, entry in ckpt.entries.items() if entry.slices}
    for name, found in answer["variables"].items():
        if name in values:
            assert found == values[name], name
        else:  # a part of a partitioned variable
            assert any(name.startswith(f"{key}/part_") for key in slices), name
    if to == "v2":
        assert everything(answer["saved"]) == everything(receipt.address)


def test_enough_graphs_are_tried() -> None:
    assert len(WITH_GRAPHS) >= 10


def test_big_endian_and_old_strings(oracle: Oracle, tmp_path: Path) -> None:
    conversions.big_endian(tmp_path / "big", [(), (3,)])
    texts = conversions.old_strings(tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "new")
    found = oracle.ask(str(tmp_path / "new"))["tensors"]["s"]
    with ckpttool.open_checkpoint(tmp_path / "new") as ckpt:
        assert ckpt["s"].tolist() == texts
        assert found == summary(ckpt["s"])
    convert(tmp_path / "big", tmp_path / "little")
    before = oracle.ask(str(tmp_path / "big"))["tensors"]
    after = oracle.ask(str(tmp_path / "little"))["tensors"]
    with ckpttool.open_checkpoint(tmp_path / "little") as ckpt:
        expected = {key: summary(ckpt[key]) for key in ckpt}
    for key, answer in after.items():
        assert answer == before[key], key
        if "error" not in answer:
            assert answer["sha256"] == expected[key]["sha256"], key
    assert sum("error" not in answer for answer in after.values()) > 20


@pytest.mark.parametrize("name", ["float16", "uint16", "string"])
def test_why_some_slices_become_wholes(newest: Oracle, name: str, tmp_path: Path) -> None:
    """In a bundle TensorFlow joins no slices of these dtypes, in format V1 it does."""
    dtype = dtype_of_name(name)
    value = conversions.elements(dtype, (3, 4))
    source = write_v1(tmp_path / "m", {"w": value}, slices={"w": ROWS})
    assert "error" not in newest.ask([source, "w", "", dtype.number])
    convert(source, tmp_path / "q")
    assert newest.ask(str(tmp_path / "q"))["tensors"]["w"] == summary(value)
    # A program that has it partitioned is the one that cannot restore it then.
    assert "error" in newest.ask([str(tmp_path / "q"), "w", f"3 4 {ROWS[0]}", dtype.number])
    with BundleWriter(str(tmp_path / "sliced")) as writer:
        for spec in ROWS:
            part = parse_slice(spec)
            bounds = tuple(slice(*edges) for edges in part.bounds((3, 4)))
            writer.add_slice("w", (3, 4), part, value[bounds])
    assert "error" in newest.ask(str(tmp_path / "sliced"))["tensors"]["w"]


def test_bundles_as_v1(oracle: Oracle, tmp_path: Path) -> None:
    arrays = {
        name: sample(dtype_of_name(name), (3, 4))
        for name in ("float32", "float64", "int8", "int16", "int32", "int64", "uint8")
    }
    ckpttool.save_checkpoint(str(tmp_path / "m"), {**arrays, "s": sample(STRING, (3,))})
    convert(tmp_path / "m", tmp_path / "v1", "v1")
    found = oracle.ask(str(tmp_path / "v1"))["tensors"]
    with ckpttool.open_checkpoint(tmp_path / "m") as ckpt:
        assert found == {key: summary(ckpt[key]) for key in ckpt}
