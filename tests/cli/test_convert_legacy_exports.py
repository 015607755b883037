"""`ckpt convert-legacy` of SessionBundle exports; what becomes of one is told in tests/surgery."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from tests.support.exports import (
    copied,
    edit,
    export_path,
    exports,
    is_whole,
    sample_export,
    values,
    with_signatures,
)
from tests.support.schemas import validate
from tests.support.surgery import refuse, run, state

NAME = "convert-legacy"


def document(folder: Path, *words: str) -> dict[str, Any]:
    """Run a command with --json, hold the output to its schema and return it."""
    found: dict[str, Any] = json.loads(run(folder, NAME, "--json", *words).out)
    validate(found, f"ckpt.{NAME}/1")
    return found


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """Return a folder with a folder `exports` of two versions."""
    shutil.copytree(export_path("session_bundle/tf1.4/versions"), tmp_path / "exports")
    return tmp_path


def test_an_export(tmp_path: Path) -> None:
    sample_export(tmp_path / "export")
    before = state(tmp_path / "export")
    done = run(tmp_path, NAME, "export", "-o", "model")
    assert is_whole(tmp_path / "model", tmp_path / "export")
    assert state(tmp_path / "export") == before
    assert "wrote SavedModel model: " in done.err
    header, *rows = [line.split("\t") for line in done.out.splitlines()]
    assert header == ["signature", "method", "inputs", "outputs", "export"]
    assert {row[0] for row in rows} >= {"serving_default"}
    assert all(row[4] == "export" for row in rows)
    refuse(tmp_path, NAME, "export", "-o", "model", message="already exists")
    run(tmp_path, NAME, "export/export.meta", "-o", "model", "--force")
    assert is_whole(tmp_path / "model", tmp_path / "export")


def test_versions(versions: Path) -> None:
    found = document(versions, "exports", "-o", "models")
    assert [each["destination"] for each in found["conversions"]] == [
        "models/00000007",
        "models/00000012",
    ]
    for each in found["conversions"]:
        assert each["result"] == "SavedModel"
        source, made = versions / each["source"]["path"], versions / each["destination"]
        assert values(f"{made}").keys() == values(f"{source}").keys()
        with ckpttool.open_checkpoint(made) as read:
            assert read.metagraph is not None and read.metagraph.tags == ("serve",)
    run(versions, NAME, "exports/00000012", "-o", "alone")
    assert (versions / "alone" / "saved_model.pb").is_file()


@pytest.mark.parametrize("row", exports(), ids=lambda row: row["name"])
def test_json_of_every_export(row: dict[str, Any], tmp_path: Path) -> None:
    copied(row["name"], tmp_path / "export")
    before = state(tmp_path)
    planned = document(tmp_path, "export", "-o", "model", "-n")
    assert state(tmp_path) == before
    found = document(tmp_path, "export", "-o", "model")
    ((before_one,), (one,)) = planned["conversions"], found["conversions"]
    assert before_one["signatures"] == one["signatures"]
    (anywhere,) = document(tmp_path, "export", "-n")["conversions"]
    assert anywhere == before_one | {"destination": None}
    assert one["written"]["bytes_written"] == sum(
        path.stat().st_size
        for path in (tmp_path / "model").rglob("*")
        if path.is_file() and path.stat().st_nlink == 1
    )


def test_what_fits_no_signature_is_named(tmp_path: Path) -> None:
    copied("session_bundle/tf1.4/classification/export/00000123", tmp_path / "export")
    edit(tmp_path / "export", with_signatures(odd={"kind": "unknown"}))
    done = run(tmp_path, NAME, "export", "-o", "model")
    assert "odd" in done.err
    (one,) = document(tmp_path, "export", "-o", "other")["conversions"]
    assert [(each["name"], each["kind"]) for each in one["unmapped"]] == [("odd", "unknown")]


def test_all_versions_are_looked_at_first(versions: Path) -> None:
    meta = versions / "exports" / "00000012" / "export.meta"
    meta.write_bytes(b"\xff\xff")
    refuse(versions, NAME, "exports", "-o", "models", message="00000012/export.meta")
    (versions / "models" / "00000012").mkdir(parents=True)
    (versions / "models" / "00000012" / "mine").write_bytes(b"")
    shutil.copy(versions / "exports" / "00000007" / "export.meta", meta)
    refuse(versions, NAME, "exports", "-o", "models", message="models/00000012")


@pytest.mark.parametrize(
    "words",
    [
        ("--shards", "2"),
        ("--max-shard-size", "9"),
        ("--join-slices",),
        ("--update-state",),
        ("--meta", "drop"),
        ("--table", "tf1-rnn"),
        ("--like", "export"),
    ],
)
def test_options_of_checkpoints(words: tuple[str, ...], tmp_path: Path) -> None:
    sample_export(tmp_path / "export")
    message = "options of checkpoints need --to for an export"
    refuse(tmp_path, NAME, "export", "-o", "model", *words, message=message, lines=2)


def test_the_checkpoint_alone(versions: Path) -> None:
    run(versions, NAME, "exports/00000012", "--to", "v2", "-o", "out")
    with ckpttool.open_checkpoint(versions / "out" / "export") as read:
        assert read.generation == "V2"
    run(versions, NAME, "exports", "--to", "v2", "-o", "last")
    assert values(str(versions / "last")).keys() == values(str(versions / "out/export")).keys()
