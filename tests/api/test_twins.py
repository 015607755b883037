"""Each function of the package answers what its command prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ckpttool as ct
from man import examples
from tests.support.command import ckpt


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("twins")
    examples.make(path)
    return path


def printed(*words: str | Path, code: int = 0) -> dict[str, Any]:
    """Return what a command prints as JSON."""
    outcome = ckpt(*map(str, words), "--json")
    assert outcome.code == code, outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_diff(folder: Path) -> None:
    a, b = folder / "ckpts" / "ckpt-8", folder / "ckpts"
    found = ct.diff(a, b)
    assert found.to_dict() == printed("diff", a, b, code=1)
    assert found.verdict == "different"
    weights = ct.diff(a, b, "net", kinds="weight", exclude="**/bias", rtol=1e-9)
    words = ("net", "--kind", "weight", "-x", "**/bias", "--rtol", "1e-9")
    assert weights.to_dict() == printed("diff", a, b, *words, code=1)
    assert weights.tensors and len(weights.tensors) < len(found.tensors)
    with ct.open_checkpoint(a) as one, ct.open_checkpoint(b) as other:
        assert ct.diff(one, other).tensors == found.tensors
        assert one["net/l1/bias"].size  # they stay open


def test_diff_series(folder: Path) -> None:
    found = ct.diff_series(folder / "ckpts")
    assert found.to_dict() == printed("diff", "--series", folder / "ckpts", code=1)
    biases = ct.diff_series(folder / "ckpts", "net", kinds="weight", exclude="**/kernel")
    words = ("net", "--kind", "weight", "-x", "**/kernel")
    assert biases.to_dict() == printed("diff", "--series", folder / "ckpts", *words, code=1)
    assert biases.rows and len(biases.rows) < len(found.rows)
    assert "1 tensor in 3 checkpoints" in str(biases)
    assert repr(biases).endswith("/ckpts': 3 checkpoints>")


def test_verify(folder: Path) -> None:
    found = ct.verify(folder / "ckpts")
    assert found.to_dict() == printed("verify", folder / "ckpts")
    assert (found.verdict, len(found), found[0].kind) == ("ok", 4, "checkpoint")
    fast = ct.verify(folder / "ckpts", fast=True, strict=True)
    assert fast.verdict == "structure-ok"
    assert fast.to_dict() == printed("verify", folder / "ckpts", "--fast", "--strict")


def test_check(folder: Path) -> None:
    path, lock = folder / "ckpts", folder / "model.lock.json"
    found = ct.check(path, lock, finite=True)
    assert found.verdict == "ok"
    assert found.to_dict() == printed("check", path, "--against", lock, "--finite")
    other = ct.check(folder / "model.ckpt-3", lock)
    assert other.verdict == "failed" and other.findings
    assert other.to_dict() == printed("check", folder / "model.ckpt-3", "--against", lock, code=1)


def test_check_wants_something_to_check(folder: Path) -> None:
    wrong: tuple[dict[str, Any], ...] = ({}, {"update": True}, {"crc": True, "finite": True})
    for options in wrong:
        with pytest.raises(ct.SelectionError):
            ct.check(folder / "ckpts", **options)


def without_places(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without what differs between two destinations."""
    written = document["written"]
    if written is not None:
        written["prefix"] = None
        written["meta"] = written["meta"] and Path(written["meta"]).suffix
        for shard in written["shards"]:
            shard["path"] = Path(shard["path"]).name.partition(".")[2]
    return {**document, "destination": None}


def test_rename(folder: Path, tmp_path: Path) -> None:
    source = folder / "ckpts"
    done = ct.rename(source, tmp_path / "a" / "ckpt-1", {"net": "model"}, force=True)
    words = ("rename", source, "net=model", "-o", tmp_path / "b" / "ckpt-1")
    assert without_places(done.to_dict()) == without_places(printed(*words))
    assert (done.destination, done.dry_run) == (str(tmp_path / "a" / "ckpt-1"), False)
    with ct.open_checkpoint(tmp_path / "a" / "ckpt-1") as ckpt:
        assert "model/l1/kernel" in ckpt


def test_rename_as_the_options_do(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "map.tsv").write_text("net/l1\tnet/dense\n", encoding="utf-8")
    found = ct.rename(
        folder / "ckpts", map=tmp_path / "map.tsv", sub=[("optim(.*)", r"adam\1")], dry_run=True
    )
    words = ("rename", folder / "ckpts", "--map", tmp_path / "map.tsv", "--sub", "optim(.*)")
    assert found.to_dict() == printed(*words, r"adam\1", "-n")
    assert found.destination is None and found.to_dict()["written"] is None
    for options in ({"prefix": "x/"}, {"strip_prefix": "dense/"}):
        source = folder / "model.ckpt-3"
        name, value = next(iter(options.items()))
        found = ct.rename(source, dry_run=True, **options)  # type: ignore[call-overload]
        assert found.to_dict() == printed(
            "rename", source, f"--{name.replace('_', '-')}", value, "-n"
        )
    with pytest.raises(ct.SelectionError):
        ct.rename(folder / "ckpts", dry_run=True)


def test_prune(folder: Path, tmp_path: Path) -> None:
    source = folder / "ckpts"
    done = ct.prune(source, tmp_path / "a" / "ckpt-1", optimizer=True, compact=True)
    words = ("prune", source, "--optimizer", "--compact", "-o", tmp_path / "b" / "ckpt-1")
    assert without_places(done.to_dict()) == without_places(printed(*words))
    assert done.changes and done.receipt.bytes_written


def test_in_place(folder: Path, tmp_path: Path) -> None:
    ct.rename(folder / "ckpts", tmp_path / "ckpt-1", {"net": "model"})
    done = ct.prune(tmp_path / "ckpt-1", slots=True, in_place=True)
    assert done.destination == str(tmp_path / "ckpt-1")
    assert {change.kind for change in done.changes} == {"slot"}
    assert ct.verify(tmp_path / "ckpt-1").verdict == "ok"


def test_gc(folder: Path) -> None:
    source = folder / "ckpts"
    found = ct.gc(source, 2, keep_every=1.5, keep_every_steps=100, all=True)
    words = ("gc", source, "--keep", "2", "--keep-every", "90min", "--keep-every-steps", "100")
    assert found.to_dict() == printed(*words, "--all", "-n")
    assert found.sweep.dry_run and found.sweep.policy.unlisted


def test_convert_legacy(folder: Path, tmp_path: Path) -> None:
    source = folder / "old.ckpt-7"
    told: list[object] = []
    done = ct.convert_legacy(source, tmp_path / "a" / "m", on_done=told.append)
    found = printed("convert-legacy", source, "-o", tmp_path / "b" / "m")
    mine = done.to_dict()
    for document in (mine, found):
        document["conversions"] = [without_places(each) for each in document["conversions"]]
    assert mine == found
    assert told == list(done.done)
    runs = ct.convert_legacy(folder / "runs", tmp_path / "runs", dry_run=True)
    words = ("convert-legacy", folder / "runs", "-o", tmp_path / "runs", "-n")
    assert runs.to_dict() == printed(*words)


def test_convert_exports(folder: Path, tmp_path: Path) -> None:
    done = ct.convert_legacy(folder / "exports", tmp_path / "models", dry_run=True)
    words = ("convert-legacy", folder / "exports", "-o", tmp_path / "models", "-n")
    assert done.to_dict() == printed(*words)


def test_export_meta_json(folder: Path, tmp_path: Path) -> None:
    meta = folder / "model.ckpt-3.meta"
    options = ("--decode-collections", "--elide-constants=8")
    graph = ct.export_meta_json(meta, decode_collections=True, elide_constants=8)
    outcome = ckpt("export-meta-json", str(meta), *options)
    assert str(graph) == outcome.out
    assert graph.to_dict() == json.loads(outcome.out)
    made = ct.export_meta_json(meta, tmp_path / "g.pbtxt")
    assert (made.form, made.destination) == ("pbtxt", str(tmp_path / "g.pbtxt"))
    assert (tmp_path / "g.pbtxt").read_bytes() == made.to_bytes()
    with pytest.raises(ct.DestinationError):
        ct.export_meta_json(meta, tmp_path / "g.pbtxt")


def test_tables_and_short_forms(folder: Path) -> None:
    a, b = folder / "ckpts" / "ckpt-8", folder / "ckpts" / "ckpt-10"
    answers = {
        ("diff", a, b): ct.diff(a, b),
        ("verify", folder / "ckpts"): ct.verify(folder / "ckpts"),
        ("rename", a, "net=model", "-n"): ct.rename(a, rules={"net": "model"}, dry_run=True),
        ("prune", a, "--slots", "-n"): ct.prune(a, slots=True, dry_run=True),
        ("check", a, "--finite"): ct.check(a, finite=True),
    }
    for words, answer in answers.items():
        outcome = ckpt(*map(str, words), "--format", "table")
        assert str(answer) == outcome.out.rstrip("\n"), words
        assert "\n" not in repr(answer) and len(repr(answer)) < 400, words
