"""Renaming whatever TensorFlow wrote: what must hold for any checkpoint and any rules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpttool import open_checkpoint
from ckpttool.bundle.reader import BundleReader
from ckpttool.errors import CkptError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import ATTRIBUTES, GRAPH_KEY, escape
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule, RenameRule, SubstituteRule
from ckpttool.surgery.writing.prepare import prepare
from tests.support.fixtures import BundleFixture, bundles, folder_contents
from tests.support.sweeps import each_bundle

ALL = bundles()
OBJECTS = [fixture for fixture in ALL if GRAPH_KEY in fixture.tensors]
NAMES = [fixture for fixture in ALL if GRAPH_KEY not in fixture.tensors]


def sub(regex: str, replacement: str) -> SubstituteRule:
    return SubstituteRule(re.compile(regex), replacement)


def identity(plan: Plan) -> list[RenameRule]:
    """Return rules that call everything what it is called."""
    if plan.graph is None:
        return [MoveRule(tensor.key, tensor.key) for tensor in plan.tensors]
    return [MoveRule(escape(edge.name), escape(edge.name)) for edge in plan.graph.nodes[0].children]


@each_bundle
def test_identity(fixture: BundleFixture, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(Path(fixture.prefix).parent, folder)
    before = folder_contents(folder)
    with open_checkpoint(str(folder / Path(fixture.prefix).name)) as ckpt:
        plan = Plan.of(ckpt)
        rules = [rule for rule in identity(plan) if not hidden(rule, plan)]
        same = rename(plan, rules) if rules else plan
        assert same.tensors == plan.tensors
        assert same.changes == ()
        assert not same.graph_changed
        prepare(same, None).write()
    after = folder_contents(folder)
    assert {name: after.get(name) for name in before} == before


def hidden(rule: RenameRule, plan: Plan) -> bool:
    """Tell whether a rule's name stands below that of another rule, which takes it first."""
    names = {tensor.key for tensor in plan.tensors}
    assert isinstance(rule, MoveRule)
    above = [rule.old[:at] for at, char in enumerate(rule.old) if char == "/"]
    return plan.graph is None and any(name in names for name in above)


@each_bundle
def test_there_and_back(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        if not plan.tensors:
            return
        there = rename(plan, [sub(r"^([^/]*)", r"\1~r")])
        assert len(there.changes) >= len([t for t in plan.tensors if not rooted(plan, t.key)])
        back = rename(there, [sub("^([^/]*)~r", r"\1")])
        assert back.tensors == plan.tensors
        assert back.changes == ()
        if plan.graph is not None:
            assert there.graph is not None
            assert back.graph is not None
            assert back.graph.to_bytes() == plan.graph.to_bytes()
            check_graph(plan, there)


def rooted(plan: Plan, key: str) -> bool:
    """Tell whether a tensor keeps its name whatever objects are called."""
    if plan.graph is None:
        return False
    owner = plan.graph.claims({tensor.key for tensor in plan.tensors}).owners.get(key)
    return owner is None or owner[0] == 0


def check_graph(before: Plan, after: Plan) -> None:
    """Check that a graph names the tensors of its plan, as the graph before named its own."""
    old, new = before.graph, after.graph
    assert old is not None
    assert new is not None
    ObjectGraph.from_bytes(new.to_bytes())
    theirs = old.claims({tensor.key for tensor in before.tensors})
    ours = new.claims({tensor.key for tensor in after.tensors})
    assert len(ours.unclaimed) == len(theirs.unclaimed)
    assert [one for one, _ in ours.missing] == [one for one, _ in theirs.missing]
    for one, other in zip(before.tensors, after.tensors, strict=True):
        owner = theirs.owners.get(one.key)
        if owner is None:
            assert other.key == one.key
            continue
        node_id, attribute = ours.owners[other.key]
        assert (node_id, attribute.name) == (owner[0], owner[1].name)
        path = new.paths[node_id]
        assert path is None or other.key.startswith(path + ATTRIBUTES)


@each_bundle
def test_bytes_stay(fixture: BundleFixture, tmp_path: Path) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        if not plan.tensors:
            return
        after = rename(plan, [sub(r"^([^/]*)", r"\1.new")])
        target = str(tmp_path / "renamed")
        prepare(after, target).write()
        with BundleReader(target) as written:
            keys = {tensor.key for tensor in after.tensors}
            assert set(written.entries) - {GRAPH_KEY} == keys
            for tensor in after.tensors:
                entry, old = written.entries[tensor.key], tensor.bundle_entry
                assert (entry.dtype, entry.shape, entry.size, entry.offset, entry.crc32c) == (
                    old.dtype,
                    old.shape,
                    old.size,
                    old.offset,
                    old.crc32c,
                )
                if tensor.slices:
                    parts = written.index.slice_entries(tensor.key)
                    assert [(p, e.crc32c) for p, e in parts] == [
                        (p, e.crc32c) for p, e in tensor.slices
                    ]
                theirs = ckpt.bundle.read(tensor.source_key)
                assert digest(written.read(tensor.key)) == digest(theirs)


def digest(array: object) -> object:
    value = np.asarray(array)
    if value.dtype != object:
        return value.dtype, value.shape, value.tobytes()
    return value.shape, [str(each) for each in value.reshape(-1).tolist()]


SEGMENTS = st.sampled_from(["a", "b", "net", "x.y", "..", "p.Sq", "0", "ü"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)


@settings(max_examples=200)
@given(st.sampled_from(OBJECTS), st.data())
def test_any_moves(fixture: BundleFixture, data: st.DataObject) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        graph = plan.graph
        assert graph is not None
        paths = sorted({path for node in graph.nodes for path in ways(graph, node.id)})
        if not paths:
            return
        chosen = data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=4, unique=True))
        rules = [MoveRule(path, data.draw(PATHS)) for path in chosen]
        try:
            after = rename(plan, rules)
        except CkptError:
            return
        keys = [tensor.key for tensor in after.tensors]
        assert len(set(keys)) == len(keys)
        assert [tensor.source_key for tensor in after.tensors] == [t.key for t in plan.tensors]
        assert [tensor.entry for tensor in after.tensors] == [t.entry for t in plan.tensors]
        check_graph(plan, after)


def ways(graph: ObjectGraph, node_id: int) -> Sequence[str]:
    """Return some paths of a node that edges make up."""
    return [
        path for path in graph.paths_of(node_id, limit=3) if path and ".OPTIMIZER_SLOT" not in path
    ]


@settings(max_examples=100)
@given(st.sampled_from(NAMES), st.data())
def test_any_names(fixture: BundleFixture, data: st.DataObject) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        keys = [tensor.key for tensor in plan.tensors if not scoped(plan, tensor.key)]
        if not keys:
            return
        chosen = data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=3, unique=True))
        fresh = data.draw(st.permutations(chosen))
        rules = [MoveRule(old, new) for old, new in zip(chosen, fresh, strict=True)]
        after = rename(plan, rules)
        assert {one.source_key: one.key for one in after.tensors} == {
            key: dict(zip(chosen, fresh, strict=True)).get(key, key) for key in plan.source.entries
        }
        back = rename(after, [MoveRule(new, old) for old, new in zip(chosen, fresh, strict=True)])
        assert back.tensors == plan.tensors


def scoped(plan: Plan, key: str) -> bool:
    """Tell whether a name is the scope of another, or has one that is a name."""
    others = [tensor.key for tensor in plan.tensors if tensor.key != key]
    return any(f"{one}/".startswith(f"{key}/") or key.startswith(f"{one}/") for one in others)
