"""Pruning plans: what is selected, and what is left."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpttool import open_checkpoint
from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.kinds.rules import KINDS, OPTIMIZER_KINDS, SLOT_KINDS
from ckpttool.checkpoint.selection.graph_names import GraphNames
from ckpttool.errors import CkptError, SelectionError, SurgeryError
from ckpttool.objects.graph import Node, ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.pruning import WEIGHT_KINDS, drop_tensors, note_staying, select_drops
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule, SubstituteRule
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.support.fixtures import BundleFixture, bundle, bundles
from tests.support.sweeps import each_bundle
from tests.surgery.graphs import VARIABLE, graph_of, holding, keys_of

OBJECTS = [fixture for fixture in bundles() if GRAPH_KEY in fixture.tensors]
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
SAVER = "v2/tf1.15/estimator/run/model.ckpt-10"
SLOTS = {
    f"net/l1/{variable}/.OPTIMIZER_SLOT/optimizer/{slot}"
    for variable in ("kernel", "bias")
    for slot in "mv"
}
V_SLOTS = {name for name in SLOTS if name.endswith("v")}
HYPERS = {f"optimizer/{name}" for name in ("iter", "beta_1", "beta_2", "decay", "learning_rate")}
NET = {"net/l1/kernel", "net/l1/bias"}
REST = {"step", "save_counter", "iterator/.ITERATOR_STATE"}


def plan_of(name: str) -> Plan:
    return Plan.of(open_checkpoint(bundle(name).prefix))


def short(plan: Plan, keys: Any) -> set[str]:
    return {plan.short_name(key) for key in keys}


@pytest.mark.parametrize(
    ("what", "dropped"),
    [
        ({}, set()),
        ({"drop_kinds": SLOT_KINDS}, SLOTS),
        ({"drop_kinds": OPTIMIZER_KINDS}, SLOTS | HYPERS),
        ({"only_kinds": WEIGHT_KINDS}, SLOTS | HYPERS | REST - {"save_counter"}),
        ({"drop": ("step",)}, {"step"}),
        ({"drop": ("=step", "optimizer/")}, {"step"} | HYPERS | SLOTS),
        ({"drop": ("optimizer/**",)}, HYPERS | SLOTS),
        ({"drop": ("re:^optimizer/",)}, HYPERS | SLOTS),
        ({"drop": ("optimizer",), "keep": ("re:SLOT/optimizer/m$",)}, HYPERS | V_SLOTS),
        ({"drop": ("optimizer/iter",)}, {"optimizer/iter"}),
        ({"drop": ("net",)}, NET | SLOTS),
        ({"drop": ("net/l1/kernel",)}, {"net/l1/kernel"} | {s for s in SLOTS if "kernel" in s}),
        ({"drop": ("re:SLOT/optimizer/m$",)}, {s for s in SLOTS if s.endswith("m")}),
        ({"drop": ("re:beta",), "keep": ("**/beta_2",)}, {"optimizer/beta_1"}),
        ({"drop": ("save_counter",)}, {"save_counter"}),
        ({"keep": ("net/l1/*",)}, SLOTS | HYPERS | REST - {"save_counter"}),
        ({"keep": ("net",)}, HYPERS | REST - {"save_counter"}),
        ({"keep": ("net", "optimizer", "step")}, REST - {"step", "save_counter"}),
        (
            {"drop_kinds": OPTIMIZER_KINDS, "keep": ("optimizer/iter",)},
            SLOTS | HYPERS - {"optimizer/iter"},
        ),
        (
            {"only_kinds": WEIGHT_KINDS, "keep": ("step",)},
            SLOTS | HYPERS | {"iterator/.ITERATOR_STATE"},
        ),
        ({"drop": ("step",), "drop_kinds": SLOT_KINDS}, SLOTS | {"step"}),
        ({"drop": ("step",), "keep": ("step",)}, set()),
    ],
)
def test_what_is_dropped(what: dict[str, Any], dropped: set[str]) -> None:
    plan = plan_of(GUIDE)
    found = select_drops(plan, **what)
    assert short(plan, found) == dropped
    left = drop_tensors(plan, found) if dropped else plan
    assert short(plan, (one.key for one in left.tensors)) == (SLOTS | HYPERS | NET | REST) - dropped
    assert {change.key for change in left.changes} == found
    assert {change.action for change in left.changes} <= {"drop"}


@pytest.mark.parametrize(
    ("what", "left"),
    [
        ({"drop_kinds": SLOT_KINDS}, {"global_step", "linear/bias", "linear/kernel"}),
        ({"only_kinds": WEIGHT_KINDS}, {"linear/bias", "linear/kernel"}),
        ({"keep": ("linear/kernel",)}, {"linear/kernel"}),
        ({"drop": ("linear",)}, {"global_step"}),
    ],
)
def test_names(what: dict[str, Any], left: set[str]) -> None:
    plan = plan_of(SAVER)
    pruned = drop_tensors(plan, select_drops(plan, **what))
    assert {tensor.key for tensor in pruned.tensors} == left
    assert pruned.graph is None


@pytest.mark.parametrize("name", [GUIDE, SAVER])
@pytest.mark.parametrize("what", [{"drop": ("nowhere",)}, {"keep": ("nowhere/*",)}])
def test_patterns_that_select_nothing(name: str, what: dict[str, Any]) -> None:
    with pytest.raises(SelectionError, match="nowhere"):
        select_drops(plan_of(name), **what)


@pytest.mark.parametrize("name", [GUIDE, SAVER, "v2/tf2.21/no_values/ckpt"])
def test_nothing_left(name: str) -> None:
    plan = plan_of(name)
    with pytest.raises(SurgeryError, match="nothing would be left"):
        drop_tensors(plan, {tensor.source_key for tensor in plan.tensors})


def test_the_graph_itself_is_not_selected() -> None:
    plan = plan_of(GUIDE)
    assert GRAPH_KEY not in select_drops(plan, drop=("**",))
    with pytest.raises(SelectionError):
        select_drops(plan, drop=(f"={GRAPH_KEY}",))


@pytest.mark.parametrize("half", ["table-keys", "table-values"])
def test_half_a_table(half: str) -> None:
    plan = plan_of("v2/tf2.21/tables/ckpt-1")
    key = f"mutable/.ATTRIBUTES/{half}"
    with pytest.raises(SurgeryError, match="together or not at all") as caught:
        drop_tensors(plan, {key})
    assert caught.value.key == key
    whole = drop_tensors(plan, select_drops(plan, drop=("mutable",)))
    assert whole.graph is not None
    assert whole.graph.node_at("mutable") is None
    assert whole.graph.node_at("dense") is not None


def test_a_tensor_that_two_objects_claim() -> None:
    plan = plan_of("v2/tf2.21/references/ckpt-1")
    assert plan.graph is not None
    nodes = list(plan.graph.nodes)
    at, other = plan.graph.node_at("z"), plan.graph.node_at("again/below/w")
    assert at is not None
    assert other is not None
    nodes[at] = nodes[at]._replace(attributes=nodes[other].attributes)
    both = "again/below/w" + VALUE
    left = tuple(tensor for tensor in plan.tensors if tensor.key != "z" + VALUE)
    damaged = replace(plan, graph=ObjectGraph(tuple(nodes)), tensors=left)
    mended = drop_tensors(damaged, {both})
    assert mended.graph is not None
    assert mended.graph.node_at("z") is None
    assert mended.graph.claims({one.key for one in mended.tensors}).missing == ()
    with pytest.raises(SurgeryError, match="claim the same tensor") as caught:
        drop_tensors(damaged, {"save_counter" + VALUE})
    assert caught.value.key == both


KERAS3 = "v2/tf2.21/keras3_adam/ckpt-1"
KERAS3_WEIGHTS = {f"optimizer/_trainable_variables/{at}" for at in range(4)}


@pytest.mark.parametrize(
    "what",
    [
        {"drop": ("optimizer/**",)},
        {"drop": ("optimizer",)},
        {"drop": ("re:^optimizer/",)},
        {"drop": ("optimizer/*", "optimizer/*/*")},
        {"keep": ("model",)},
        {"keep": ("model/**",)},
        {"keep": ("re:^model/",)},
    ],
)
def test_weights_that_an_optimizer_refers_to_stay(what: dict[str, Any]) -> None:
    plan = plan_of(KERAS3)
    dropped = select_drops(plan, **what)
    assert {name for name in short(plan, dropped) if "_trainable" in name} == set()
    left = {one.source_key for one in drop_tensors(plan, dropped).tensors}
    assert short(plan, left) == KERAS3_WEIGHTS | {"save_counter"}
    (note,) = note_staying(plan, what.get("drop", ()), dropped).notes or ("'model/",)
    assert "'model/" in note


def test_scopes_that_go_together() -> None:
    plan = plan_of(KERAS3)
    assert short(plan, select_drops(plan, drop=("optimizer", "model"))) >= KERAS3_WEIGHTS
    named = select_drops(plan, drop=("=optimizer/_trainable_variables/1", "optimizer"))
    assert short(plan, named) & KERAS3_WEIGHTS == {"optimizer/_trainable_variables/1"}
    with pytest.raises(SelectionError, match=r"nothing to drop: .*'model/"):
        select_drops(plan, drop=("optimizer/_trainable_variables/*",))


def test_what_several_paths_lead_to() -> None:
    plan = plan_of("v2/tf2.21/references/ckpt-1")
    assert short(plan, select_drops(plan, keep=("again",))) == set()
    assert short(plan, select_drops(plan, keep=("a/shared",))) == {"again/below/w"}
    for scope in ("again", "deep", "deep/**"):
        dropped = select_drops(plan, drop=(scope,))
        assert short(plan, dropped) == {"again/below/w"}
        assert "stays" in note_staying(plan, (scope,), dropped).notes[0]
    assert short(plan, select_drops(plan, drop=("a/shared",))) == {"z"}


def test_slots_go_with_one_of_two_optimizers() -> None:
    plan = plan_of("v2/tf2.21/references/ckpt-1")
    tree = {"w": VARIABLE, "one": {"lr": VARIABLE}, "two": {"lr": VARIABLE}, "m": {"opt": "@one"}}
    graph = graph_of(tree, [("one", "w", "m"), ("two", "w", "m")])
    keys = sorted(keys_of(graph))
    tensors = tuple(replace(plan.tensors[0], key=key, source_key=key) for key in keys)
    both = replace(plan, graph=graph, tensors=tensors, kinds=dict.fromkeys(keys, "weight"))
    both.source.__dict__["object_graph"] = graph
    both.source.__dict__["graph_names"] = GraphNames(graph, set(keys))
    slot = "w/.OPTIMIZER_SLOT/one/m"
    assert short(both, select_drops(both, drop=("one",))) == {"one/lr", slot}
    assert short(both, select_drops(both, drop=("m/opt",))) == {"one/lr", slot}
    with pytest.raises(SelectionError, match="nothing to drop"):
        select_drops(both, drop=("m",))


def test_what_a_saver_of_the_program_wrote() -> None:
    plan = plan_of("v2/tf2.21/registered_saver/ckpt-1")
    pruned = drop_tensors(plan, {"custom/registered"})
    assert pruned.notes == ("tensors that a saver of the program's own wrote were dropped",)
    assert drop_tensors(plan, {"v" + VALUE}).notes == ()


@each_bundle
def test_nothing_dropped_changes_nothing(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        if plan.tensors:
            assert drop_tensors(plan, frozenset()) is plan
            assert drop_tensors(plan, {"no such key"}) is plan
        assert select_drops(plan) == frozenset()


@each_bundle
def test_kinds(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        for kind in KINDS:
            dropped = select_drops(plan, drop_kinds={kind})
            wanted = {key for key, its in plan.kinds.items() if its == kind and key != GRAPH_KEY}
            assert dropped >= wanted
            assert all(plan.kinds[key] in ("slot", "ema") for key in dropped - wanted)
            if wanted and len(dropped) < len(plan.tensors):
                check_pruned(plan, drop_tensors(plan, dropped), dropped)


def check_pruned(plan: Plan, pruned: Plan, dropped: frozenset[str]) -> None:
    """Check that what is left is as it was, and that the graph speaks of nothing else."""
    left = [one for one in plan.tensors if one.source_key not in dropped]
    assert list(pruned.tensors) == left
    if plan.graph is None or pruned.graph is None:
        assert plan.graph is pruned.graph
        return
    graph = pruned.graph
    keys = {tensor.key for tensor in left}
    claims = graph.claims(keys)
    gone = {
        node for _, (node, _) in plan.graph.claims({t.key for t in plan.tensors}).owners.items()
    }
    gone -= {node for node, _ in claims.owners.values()}
    before = plan.graph.claims({tensor.key for tensor in plan.tensors})
    assert {owner[0] for owner in claims.missing} <= {owner[0] for owner in before.missing}
    assert set(claims.unclaimed) <= set(before.unclaimed)
    assert not any(link.slot_id in gone for link in graph.slots)
    holders = holding(graph)
    for node in graph.nodes:
        assert node.has_values in (None, node.id in holders)
    for node, old in zip(graph.nodes, plan.graph.nodes, strict=True):
        lost = {edge.node_id for edge in old.children} - {edge.node_id for edge in node.children}
        assert not lost & holders
        assert [edge for edge in old.children if edge.node_id not in lost] == list(node.children)
    for node_id, _ in claims.owners.values():
        assert graph.paths[node_id] is not None or plan.graph.paths[node_id] is None
        assert graph.paths[node_id] == plan.graph.paths[node_id]


@pytest.mark.parametrize("compact", [False, True])
@each_bundle
def test_bytes_of_what_is_left(fixture: BundleFixture, tmp_path: Path, compact: bool) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        dropped = frozenset(tensor.key for tensor in plan.tensors[::2])
        try:
            pruned = drop_tensors(plan, dropped)
        except SurgeryError as error:
            assert re.search("nothing would be left|together or not at all", str(error))
            return
        target = str(tmp_path / "pruned")
        prepare(pruned, target, WriteOptions(compact=compact)).write()
        with BundleReader(target) as written:
            assert set(written.entries) - {GRAPH_KEY} == {one.key for one in pruned.tensors}
            for one in pruned.tensors:
                entry = written.entries[one.key]
                assert entry.crc32c == one.bundle_entry.crc32c
                assert (entry.dtype, entry.shape) == (one.entry.dtype, one.entry.shape)
                if one.slices:
                    theirs = written.index.slice_entries(one.key)
                    assert [part for part, _ in theirs] == [part for part, _ in one.slices]
                    assert [e.crc32c for _, e in theirs] == [e.crc32c for _, e in one.slices]


@settings(max_examples=150)
@given(st.sampled_from(OBJECTS), st.data())
def test_any_drops(fixture: BundleFixture, data: st.DataObject) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        keys = [tensor.key for tensor in plan.tensors]
        chosen = data.draw(st.sets(st.sampled_from(keys))) if keys else set()
        patterns = tuple("=" + key for key in chosen)
        dropped = select_drops(plan, drop=patterns)
        assert dropped >= chosen
        try:
            pruned = drop_tensors(plan, dropped)
        except CkptError:
            return
        if dropped:
            check_pruned_loosely(plan, pruned, dropped)
            halves = frozenset(list(dropped)[: len(dropped) // 2])
            assert_same(prune_twice(plan, halves, dropped - halves), pruned)


def prune_twice(plan: Plan, first: frozenset[str], second: frozenset[str]) -> Plan | None:
    try:
        return drop_tensors(drop_tensors(plan, first), second)
    except SurgeryError:
        return None  # a table goes whole


def assert_same(one: Plan | None, other: Plan) -> None:
    if one is None:
        return
    assert one.tensors == other.tensors
    assert one.graph is not None
    assert other.graph is not None
    assert one.graph.to_bytes() == other.graph.to_bytes()


def check_pruned_loosely(plan: Plan, pruned: Plan, dropped: frozenset[str]) -> None:
    assert [one.source_key for one in pruned.tensors] == [
        one.key for one in plan.tensors if one.key not in dropped
    ]
    graph = pruned.graph
    assert graph is not None
    holders = holding(graph)
    assert all(node.has_values in (None, node.id in holders) for node in graph.nodes)
    assert not set(graph.claims({one.key for one in pruned.tensors}).unclaimed) - set(
        plan.graph.claims({one.key for one in plan.tensors}).unclaimed if plan.graph else ()
    )


CHANGES: list[Callable[[Plan], Plan]] = [
    lambda plan: rename(plan, [SubstituteRule(re.compile(r"^([^/]+)"), r"\1_new")]),
    lambda plan: rename(plan, [SubstituteRule(re.compile("([aeiou])"), r"\1\1")]),
]


@pytest.mark.parametrize("change", CHANGES)
@each_bundle
def test_pruning_and_renaming_commute(
    fixture: BundleFixture, change: Callable[[Plan], Plan]
) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        patterns = tuple("=" + tensor.key for tensor in plan.tensors[1::3])
        dropped = select_drops(plan, drop=patterns)
        try:
            pruned = drop_tensors(plan, dropped)
        except SurgeryError as error:
            assert re.search("nothing would be left|together or not at all", str(error))
            return
        if dropped or plan.tensors:
            check_commuting(plan, pruned, dropped, change)


def check_commuting(
    plan: Plan, pruned: Plan, dropped: frozenset[str], change: Callable[[Plan], Plan]
) -> None:
    try:
        renamed = change(plan)
    except SelectionError as error:
        assert "matches nothing" in str(error)
        return
    one, other = change(pruned), drop_tensors(renamed, dropped)
    assert one.tensors == other.tensors
    assert one.changes == other.changes
    if one.graph is not None and other.graph is not None:
        assert reachable(one.graph) == reachable(other.graph)


def reachable(graph: ObjectGraph) -> list[Node]:
    return [node for node in graph.nodes if graph.paths[node.id] is not None]


def test_a_moved_plan_is_pruned_by_the_keys_of_its_source() -> None:
    plan = plan_of(GUIDE)
    renamed = rename(plan, [MoveRule("net", "step"), MoveRule("step", "net")])
    pruned = drop_tensors(renamed, select_drops(renamed, drop=("step",)))
    assert "step/l1/kernel" in short(plan, (one.key for one in pruned.tensors))
    assert {change.key for change in pruned.changes if change.action == "drop"} == {"step" + VALUE}


def test_kept_slots_of_a_dropped_variable() -> None:
    plan = plan_of(GUIDE)
    slot = "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m"
    found = select_drops(plan, drop=("net/l1/kernel",), keep=(slot,))
    assert short(plan, found) == {"net/l1/kernel", slot[:-1] + "v"}
    pruned = drop_tensors(plan, found)
    assert replace(pruned, graph=None).tensors == pruned.tensors
    assert slot in short(plan, (one.key for one in pruned.tensors))
