"""What becomes of a checkpoint, as text and JSON; the commands themselves are run in tests/cli."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from ckpttool import open_checkpoint
from ckpttool.query.source import Source
from ckpttool.render.console import Terminal
from ckpttool.render.surgery import Changed, summary_line, write_changes
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import drop_tensors, select_drops
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import PrefixRule
from ckpttool.surgery.writing.receipt import Receipt, ShardReceipt
from tests.support.fixtures import bundle, bundles
from tests.support.schemas import validate

SAVER = "v2/tf2.21/saver_v2/model.ckpt-3"
GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
PLAIN = Terminal()
# With something to rename and something to drop besides the object graph.
NAMES = [fixture.name for fixture in bundles() if len(fixture.tensors) > 2]
RECEIPT = Receipt(
    prefix="out/new",
    tensors=12,
    shards=(
        ShardReceipt("out/new.data-00000-of-00002", 300, "hardlink"),
        ShardReceipt("out/new.data-00001-of-00002", 20, "new"),
    ),
    bytes_written=2048,
    bytes_dead=0,
    meta=None,
    state=None,
    notes=(),
)


@contextmanager
def planned(name: str) -> Iterator[Plan]:
    """Open a fixture and yield the plan that changes nothing."""
    with open_checkpoint(bundle(name).prefix) as ckpt:
        yield Plan.of(ckpt)


@contextmanager
def renamed(name: str, prefix: str = "x/") -> Iterator[Plan]:
    """Yield a plan with a prefix before every name."""
    with planned(name) as plan:
        yield rename(plan, [PrefixRule(prefix)])


@contextmanager
def pruned(name: str, *kinds: str) -> Iterator[Plan]:
    """Yield a plan without tensors of some kinds."""
    with planned(name) as plan:
        yield drop_tensors(plan, select_drops(plan, drop_kinds=frozenset(kinds)))


def text(plan: Plan, form: str, receipt: Receipt | None = RECEIPT, command: str = "rename") -> str:
    """Return what is printed on standard output."""
    stream = io.StringIO()
    source = Source.of(plan.source)
    changed = Changed(plan, receipt, source, "out/new")
    write_changes(changed, command, form, stream, PLAIN)
    return stream.getvalue()


def summary(plan: Plan, receipt: Receipt | None) -> str:
    """Return the line on standard error."""
    return summary_line(Changed(plan, receipt, Source.of(plan.source), "out/new"))


def document(plan: Plan, receipt: Receipt | None, command: str) -> dict[str, Any]:
    """Return what is printed as JSON, held to its schema."""
    found: dict[str, Any] = json.loads(text(plan, "json", receipt, command))
    validate(found, f"ckpt.{command}/1")
    return found


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("receipt", [RECEIPT, None])
def test_plans_fit_the_schemas(name: str, receipt: Receipt | None) -> None:
    with renamed(name) as plan:
        found = document(plan, receipt, "rename")
        assert len(found["changes"]) == len(plan.changes)
        assert found["kept"] == len(plan.tensors)
        assert (found["written"] is None) == found["dry_run"] == (receipt is None)
        assert found["source"]["prefix"] == bundle(name).prefix
        assert found["destination"] == "out/new"
    with planned(name) as plan:
        single = next(t.key for t in plan.tensors if plan.kinds[t.key] != "table")
        plan = drop_tensors(plan, {single})
        found = document(plan, receipt, "prune")
        assert [row["new_key"] for row in found["changes"]] == [None]
        assert found["kept"] == len(plan.tensors)
        (sums,) = found["by_kind"].values()
        assert sums == {"tensors": 1, "bytes": found["changes"][0]["bytes"]}


def test_what_was_written() -> None:
    receipt = replace(RECEIPT, meta="out/new.meta", state="out/checkpoint", notes=("by the way",))
    with renamed(SAVER) as plan:
        found = document(plan, receipt, "rename")
    assert found["notes"] == ["by the way"]
    assert found["written"] == {
        "prefix": "out/new",
        "tensors": 12,
        "shards": [
            {"path": "out/new.data-00000-of-00002", "bytes": 300, "how": "hardlink"},
            {"path": "out/new.data-00001-of-00002", "bytes": 20, "how": "new"},
        ],
        "bytes_written": 2048,
        "bytes_dead": 0,
        "meta": "out/new.meta",
        "state": "out/checkpoint",
    }


def test_notes_of_a_plan_are_there_without_a_receipt() -> None:
    with renamed(SAVER) as plan:
        assert document(plan.with_notes("mind this"), None, "rename")["notes"] == ["mind this"]


def test_names_that_are_not_utf8() -> None:
    (name,) = (fixture.name for fixture in bundles() if "keys_not_utf8" in fixture.name)
    with renamed(name) as plan:
        rows = document(plan, None, "rename")["changes"]
    assert all(isinstance(row["key"], dict) == isinstance(row["new_key"], dict) for row in rows)
    assert any(isinstance(row["key"], dict) for row in rows)


@pytest.mark.parametrize("form", ["plain", "csv", "markdown", "names", "table", "jsonl"])
def test_rows(form: str) -> None:
    with renamed(SAVER) as plan:
        shown = text(plan, form)
        for change in plan.changes:
            assert change.key in shown.replace("\\_", "_") or form == "table"
    lines = shown.splitlines()
    heads = {
        "plain": "key\taction\tnew_key\tkind\tbytes",
        "csv": "key,action,new_key,kind,bytes",
        "markdown": "| key | action | new key | kind | bytes |",
        "names": "beta1_power",
        "table": "renamed                      tensors",
    }
    if form in heads:
        assert lines[0] == heads[form]
    if form == "jsonl":
        assert json.loads(lines[0]) == {
            "key": "beta1_power",
            "action": "rename",
            "new_key": "x/beta1_power",
            "object_path": None,
            "name": None,
            "paths": [],
            "new_object_path": None,
            "kind": "optimizer",
            "bytes": 4,
        }


def test_a_table_of_everything() -> None:
    stream = io.StringIO()
    with renamed(SAVER) as plan:
        changed = Changed(plan, None, Source.of(plan.source), None)
        write_changes(changed, "rename", "table", stream, PLAIN, everything=True)
        assert all(change.key in stream.getvalue() for change in plan.changes)
    assert stream.getvalue().split()[:6] == ["key", "action", "new", "key", "kind", "bytes"]


def test_the_table_of_a_plan_that_changes_nothing() -> None:
    with planned(SAVER) as plan:
        assert text(plan, "table") == ""


def test_scopes_and_edges() -> None:
    """Edges that no key shows are told, too."""
    with planned(GUIDE) as plan:
        plan = rename(plan, {"net": "model"})
        assert text(plan, "table").splitlines()[1].split() == ["net", "→", "model", "6"]
        found = document(plan, None, "rename")
        assert found["moves"] == [{"old": "net", "new": "model", "tensors": 6}]
        assert found["edges"] == []
    with planned("v2/tf2.21/keras3_compiled/ckpt-1") as plan:
        weights = select_drops(plan, only_kinds=frozenset({"weight"}))
        plan = drop_tensors(plan, weights)
        lines = text(plan, "table", command="prune").splitlines()
        assert "model/optimizer/_variables      slot             8  208 B" in lines
        assert "model/optimizer/_velocities   removed" in lines
        edges = document(plan, None, "prune")["edges"]
        assert {"path": "model/optimizer/_velocities", "new_path": None} in edges
        renames = rename(Plan.of(plan.source), {"model/optimizer/_velocities": "model/optimizer/v"})
        edges = document(renames, None, "rename")["edges"]
        assert edges == [{"path": "model/optimizer/_velocities", "new_path": "model/optimizer/v"}]
        assert "model/optimizer/_velocities  now model/optimizer/v" in text(renames, "table")


def test_odd_names_are_printable_in_rows() -> None:
    with renamed("v2/tf2.21/odd_keys/odd", "\x1b[31m") as plan:
        for form in ("plain", "csv", "markdown", "names", "table"):
            assert all(char.isprintable() for char in text(plan, form) if char not in "\n\t")


@pytest.mark.parametrize(
    ("receipt", "end"),
    [
        (None, "; dry run, nothing was written"),
        (RECEIPT, "; wrote out/new: data shards 1 hardlink, 1 new; 2.0 KiB written"),
        (
            replace(RECEIPT, bytes_dead=100, bytes_written=7),
            "; wrote out/new: data shards 1 hardlink, 1 new; 7 B written, 100 B dead",
        ),
        (
            replace(RECEIPT, shards=(ShardReceipt("s", 1, "copy"),) * 3),
            "; wrote out/new: data shards 3 copy; 2.0 KiB written",
        ),
    ],
)
def test_summary(receipt: Receipt | None, end: str) -> None:
    with renamed(SAVER) as plan:
        assert summary(plan, receipt) == f"of 12 tensors, 12 renamed{end}"
    with pruned(SAVER, "slot", "ema") as plan:
        dropped = "6 dropped: 112 B (slot 88 B, ema 24 B)"
        assert summary(plan, receipt) == f"of 12 tensors, {dropped}{end}"
        both = rename(plan, [PrefixRule("x/")])
        assert summary(both, receipt) == (f"of 12 tensors, 6 renamed; {dropped}{end}")
    with planned(SAVER) as plan:
        assert summary(plan, receipt) == f"of 12 tensors, none changes{end}"


def test_sums_by_kind_come_from_what_is_dropped() -> None:
    with pruned(GUIDE, "slot", "optimizer") as plan:
        found = document(plan, None, "prune")
    assert found["by_kind"] == {
        "slot": {"tensors": 4, "bytes": 80},
        "optimizer": {"tensors": 5, "bytes": 24},
    }
    for kind, sums in found["by_kind"].items():
        rows = [row for row in found["changes"] if row["kind"] == kind]
        assert sums == {"tensors": len(rows), "bytes": sum(row["bytes"] for row in rows)}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "ckpt.rename/2"},
        {"source": "model"},
        {"destination": None},
        {"dry_run": None},
        {"dry_run": True},
        {"written": None},
        {"written": {}},
        {"kept": -1},
        {"kept": 1.5},
        {"notes": None},
        {"notes": [1]},
        {"changes": [{"action": "drop"}]},
        {"by_kind": {"weights": {"tensors": 1, "bytes": 1}}},
        {"by_kind": {"weight": {"tensors": 0, "bytes": 1}}},
        {"by_kind": {"weight": 1}},
    ],
    ids=str,
)
def test_the_schema_finds_mistakes(change: dict[str, Any]) -> None:
    with renamed(SAVER) as plan:
        good = document(plan, RECEIPT, "rename")
    with pytest.raises(jsonschema.ValidationError):
        validate({**good, **change}, "ckpt.rename/1")
    for name in good:
        with pytest.raises(jsonschema.ValidationError):
            validate({k: v for k, v in good.items() if k != name}, "ckpt.rename/1")


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("rename", {"action": "drop"}),
        ("rename", {"new_key": None}),
        ("rename", {"kind": "weights"}),
        ("rename", {"bytes": "4"}),
        ("rename", {"key": {"base64": 1}}),
        ("prune", {"action": "rename"}),
        ("prune", {"new_key": "x"}),
    ],
)
def test_the_schema_finds_mistakes_in_rows(command: str, change: dict[str, Any]) -> None:
    with renamed(SAVER) if command == "rename" else pruned(SAVER, "slot") as plan:
        good = document(plan, RECEIPT, command)
    rows = [{**good["changes"][0], **change}]
    with pytest.raises(jsonschema.ValidationError):
        validate({**good, "changes": rows}, f"ckpt.{command}/1")


@pytest.mark.parametrize(
    "change",
    [
        {"how": "moved"},
        {"bytes": None},
        {"path": None},
    ],
)
def test_the_schema_finds_mistakes_in_shards(change: dict[str, Any]) -> None:
    with renamed(SAVER) as plan:
        good = document(plan, RECEIPT, "rename")
    for shards in ([{**good["written"]["shards"][0], **change}], []):
        written = {**good["written"], "shards": shards}
        with pytest.raises(jsonschema.ValidationError):
            validate({**good, "written": written}, "ckpt.rename/1")
