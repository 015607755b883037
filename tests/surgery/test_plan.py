"""Plans: what they say of a checkpoint and of what shall become of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import CorruptError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.surgery.plan import Change, Plan
from tests.support import encoder
from tests.support.fixtures import BundleFixture, bundle, bundles
from tests.support.handmade import Bundle
from tests.support.sweeps import each_bundle

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def plan_of(name: str) -> Plan:
    return Plan.of(open_checkpoint(bundle(name).prefix))


def names(mapping: dict[str, str], plan: Plan) -> Plan:
    """Return the plan with other keys; "" drops a tensor."""
    tensors = [replace(one, key=mapping.get(one.key, one.key)) for one in plan.tensors]
    return replace(plan, tensors=tuple(one for one in tensors if one.key))


@each_bundle
def test_a_plan_that_changes_nothing(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        keys = [key for key in ckpt.entries if key != GRAPH_KEY]
        assert [tensor.key for tensor in plan.tensors] == keys
        assert [tensor.source_key for tensor in plan.tensors] == keys
        assert all(tensor.entry == ckpt.entries[tensor.key] for tensor in plan.tensors)
        assert set(plan.kinds) >= set(keys)
        assert plan.changes == ()
        assert not plan.keys_changed
        assert not plan.graph_changed
        assert plan.notes == ()
        assert plan.graph is ckpt.object_graph
        assert (plan.graph is None) == (GRAPH_KEY not in ckpt.entries)
        for tensor in plan.tensors:
            slices = ckpt.bundle.index.slice_entries(tensor.key) if tensor.entry.slices else []
            assert list(tensor.slices) == list(slices)
            parts = [entry for _, entry in slices] if tensor.entry.slices else [tensor.bundle_entry]
            assert list(tensor.parts) == parts
            assert tensor.bytes == sum(part.size for part in parts)


def test_changes() -> None:
    plan = plan_of("v2/tf2.21/root_attributes/ckpt")
    keys = [tensor.key for tensor in plan.tensors]
    assert keys[-1] == "v" + VALUE
    changed = names({keys[-1]: "u" + VALUE, keys[0]: ""}, plan)
    kinds = plan.kinds
    sizes = {tensor.key: tensor.bytes for tensor in plan.tensors}
    assert changed.changes == (
        Change("drop", keys[0], None, kinds[keys[0]], sizes[keys[0]]),
        Change("rename", keys[-1], "u" + VALUE, kinds[keys[-1]], sizes[keys[-1]]),
    )
    assert changed.keys_changed
    assert not changed.graph_changed


def test_changes_are_in_the_order_of_key_bytes() -> None:
    plan = plan_of("v2/tf2.21/odd_keys/odd")
    renamed = names({one.key: one.key + "_" for one in plan.tensors}, plan)
    found = [change.key for change in renamed.changes]
    assert found == sorted(found, key=lambda key: key.encode("utf-8", "surrogateescape"))
    assert len(found) == len(plan.tensors)


def test_keys_that_are_not_utf8() -> None:
    (fixture,) = (one for one in bundles() if "keys_not_utf8" in one.name)
    plan = plan_of(fixture.name)
    renamed = names({one.key: one.key + "_" for one in plan.tensors}, plan)
    assert [change.new_key for change in renamed.changes] == [one.key for one in renamed.tensors]


def test_bytes_of_a_dropped_partitioned_tensor() -> None:
    plan = plan_of("v2/tf2.21/partitioned_sharded/model")
    (tensor,) = (one for one in plan.tensors if one.key == "w")
    assert tensor.entry.size == 0
    assert tensor.bytes == 5 * 3 * 4
    (change,) = names({"w": ""}, plan).changes
    assert (change.action, change.key, change.bytes) == ("drop", "w", 60)


def test_swapped_keys() -> None:
    plan = plan_of("v2/tf2.21/merged/model")
    swapped = names({"a": "b", "b": "a"}, plan)
    assert {(change.key, change.new_key) for change in swapped.changes} == {("a", "b"), ("b", "a")}
    assert swapped.keys_changed


def test_a_key_that_is_taken_over_counts_as_changed() -> None:
    plan = plan_of("v2/tf2.21/merged/model")
    assert names({"a": "b", "b": ""}, plan).keys_changed


@pytest.mark.parametrize(
    ("name", "key", "short"),
    [
        ("v2/tf2.21/tables/ckpt-1", "v" + VALUE, "v"),
        ("v2/tf2.21/tables/ckpt-1", "dense/.ATTRIBUTES/table-keys", "dense/.table-keys"),
        ("v2/tf2.21/root_variable/ckpt", VALUE, ".VARIABLE_VALUE"),
        ("v2/tf2.21/registered_saver/ckpt-1", "custom/registered", "custom/registered"),
        ("v2/tf2.21/merged/model", "a" + VALUE, "a" + VALUE),
    ],
)
def test_short_names(name: str, key: str, short: str) -> None:
    assert plan_of(name).short_name(key) == short


def test_an_equal_graph_is_no_change() -> None:
    plan = plan_of("v2/tf2.21/tables/ckpt-1")
    assert plan.graph is not None
    same = ObjectGraph.from_bytes(plan.graph.to_bytes())
    assert not replace(plan, graph=same).graph_changed
    other = ObjectGraph((same.nodes[0]._replace(unknown=b"\xf8\x01\x07"), *same.nodes[1:]))
    assert replace(plan, graph=other).graph_changed


def test_notes_add_up() -> None:
    plan = plan_of("v2/tf2.21/merged/model")
    assert plan.with_notes("a").with_notes().with_notes("b", "c").notes == ("a", "b", "c")
    assert plan.notes == ()


def test_a_slice_that_is_listed_twice(tmp_path: Path) -> None:
    half = ((0, 2),)
    made = Bundle().add_slices(b"p", 4, (2,), [(half, b"ab")])
    made.records[b"p"] = encoder.entry(4, (2,), slices=[half, half])
    prefix = made.write(tmp_path / "twice")
    with pytest.raises(CorruptError, match="listed twice") as caught:
        Plan.of(open_checkpoint(prefix))
    assert caught.value.key == "p"
    assert caught.value.path == f"{prefix}.index"
