"""The commands on V1 checkpoints, as their users run them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.legacy import handmade
from tests.legacy.handmade import described, description, legacy_fixture, record, table, varints
from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES
from tests.support.schemas import validate

SHARDED = legacy_fixture("v1/tf1.15/partitioned_sharded/model.ckpt-7")
VECTOR = legacy_fixture("v1/tf2.21/dtypes/vector")


def document(command: str, *words: str, code: int = 0) -> dict[str, Any]:
    done = ckpt(command, "--json", *words)
    assert done.code == code, done.err
    found: dict[str, Any] = json.loads(done.out)
    validate(found, f"ckpt.{command}/1")
    return found


@pytest.mark.parametrize("address", [SHARDED.address, SHARDED.paths[1], VECTOR.address])
def test_json_fits_the_schemas(address: str) -> None:
    listed = document("ls", address)
    fixture = VECTOR if address == VECTOR.address else SHARDED
    assert {row["key"] for row in listed["tensors"]} == set(fixture.tensors)
    assert listed["source"]["byte_order"] is None
    assert all(row["crc32c"] is None and row["offset"] is None for row in listed["tensors"])
    for view in ("--tree", "--collapse", "--depth=1"):
        document("ls", view, address)
    assert document("show", address)["summary"]["totals"]["tensors"] == len(fixture.tensors)
    for key in fixture.tensors:
        (shown,) = document("show", address, f"={key}")["tensors"]
        assert shown["shape"] == list(fixture.tensors[key].shape)
    assert document("verify", address)["verdict"] == "ok"
    document("ls", "-d", os.path.dirname(fixture.prefix))


def test_long_listing_and_slices() -> None:
    done = ckpt("ls", "-l", SHARDED.address)
    assert done.code == 0 and done.err == ""
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in done.out.splitlines()}
    assert rows["a"] == ["float32", "[2, 3]", "weight", "24", "0", "-", "-", "-"]
    assert sorted(rows["rows"][-1].split()) == ["0,3:0,2@0", "3,2:0,2@0"]
    strings = ckpt("ls", VECTOR.address, "vector/string").out.splitlines()[1]
    assert strings.split("\t")[-1] == "-"


def test_values() -> None:
    done = ckpt("show", SHARDED.address, "rows[1:3]", "b")
    assert done.code == 0 and done.err == ""
    assert "rows[1:3, :]" in done.out and "float32" in done.out and "int64" in done.out
    shown = ckpt("show", VECTOR.address, "vector/string", "vector/float16")
    assert shown.code == 0 and "? B" in shown.out


def test_a_missing_file(tmp_path: Path) -> None:
    shutil.copy(SHARDED.paths[0], tmp_path)
    alone = str(tmp_path / os.path.basename(SHARDED.paths[0]))
    missing = os.path.basename(SHARDED.paths[1])
    done = ckpt("ls", alone)
    assert done.code == 0 and "a\tfloat32" in done.out
    assert missing in done.err and "not listed" in done.err
    assert ckpt("show", alone, "a").code == 0
    gone = ckpt("show", alone, "b")
    assert (gone.code, gone.out) == (2, "") and missing in gone.err
    assert len(gone.err.splitlines()) == 1
    found = document("verify", alone, code=1)
    assert [each["code"] for each in found["reports"][0]["findings"]] == ["shard-missing"]


HALVES = [((0, 1), (0, -1)), ((1, 1), (0, -1))]


def half(at: int, dtype: int = 4) -> bytes:
    part = HALVES[at]
    return table(
        description(described(b"t", dtype, (2, 2), [part])), record(b"t", part, varints(7, [1, 2]))
    )


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([half(0)], "gap"),
        ([half(0), half(1), half(1)], "overlaps"),
        ([half(0), half(1, dtype=5)], "int16 [2, 2] here, but uint8 [2, 2] in"),
        ([half(0), b"junk" * 30], "magic"),
    ],
)
def test_bad_input_is_exit_2_and_a_line(files: list[bytes], message: str, tmp_path: Path) -> None:
    paths = [str(tmp_path / f"m-{at:05d}-of-{len(files):05d}") for at in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        handmade.write(path, data)
    done = ckpt("show", paths[0], "t")
    assert (done.code, done.out) == (2, "")
    assert message in done.err and str(tmp_path) in done.err
    assert len(done.err.splitlines()) == 1 and "Traceback" not in done.err
    assert ckpt("verify", paths[0]).code == 1


def test_an_export_of_session_bundle() -> None:
    exports = os.path.join(FIXTURES, "session_bundle/tf1.4")
    v1 = [name for name in sorted(os.listdir(exports)) if "v1" in name]
    assert v1
    for name in v1:
        assert ckpt("ls", os.path.join(exports, name, "export")).code == 0, name
        assert ckpt("verify", os.path.join(exports, name, "export")).code == 0, name
