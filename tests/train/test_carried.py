"""What is carried along is written again as it was: TensorFlow's checkpoints, by the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.train.carried import Carried
from ckpttool.train.checkpoint import save_weights
from ckpttool.train.module import Module
from ckpttool.train.saving import write_snapshot
from ckpttool.train.snapshot import snapshot_of
from ckpttool.train.trackable import add_edge
from ckpttool.train.variable import Variable
from tests.support import fixtures

WHOLE = [
    *("containers", "edge_names", "guide_legacy_adam", "guide_new_adam", "iterators"),
    *("keras3_adam", "keras3_sgd_momentum", "legacy_adam_amsgrad", "legacy_rmsprop"),
    *("no_values", "object_dtypes", "python_state", "references", "root_attributes"),
    *("root_variable", "save_weights", "tables", "tf_keras_new_adam_ema", "write_after_save"),
]


def tensors_of(checkpoint: Any, key: str) -> list[tuple[str, Any]]:
    if key in checkpoint.entries:
        return [("", checkpoint.read(key))]
    # In the order of the data file, not of the keys.
    keys = [each for each in checkpoint.entries if each.startswith(key)]
    keys.sort(key=lambda each: checkpoint.entries[each].offset)
    return [(each.removeprefix(key), checkpoint.read(each)) for each in keys]


def carried(checkpoint: Any, graph: ObjectGraph) -> Carried:
    """Fill carried objects as restoring does."""
    made = {node.id: Carried() for node in graph.nodes}
    for node in graph.nodes:
        path = graph.paths[node.id] or ""
        tensors = {a.name: tensors_of(checkpoint, a.checkpoint_key) for a in node.attributes}
        made[node.id].carry(node, path, tensors)
        for edge in node.children:
            add_edge(made[node.id], edge.name, made[edge.node_id])
    for link in graph.slots:
        slots = made[link.optimizer_id]._slots()
        slots[link.slot_name][made[link.variable_id]] = made[link.slot_id]
    return made[0]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_checkpoint(name: str, tmp_path: Path) -> None:
    (prefix,) = [
        bundle.prefix
        for bundle in fixtures.bundles()
        if f"/v2/tf2.21/{name}/" in bundle.prefix and GRAPH_KEY in bundle.tensors
    ][-1:]
    with ckpttool.open_checkpoint(prefix) as opened:
        graph = opened.object_graph
        assert graph is not None
        root = carried(opened, graph)
        write_snapshot(str(tmp_path / "ckpt"), snapshot_of(root))
    for suffix in (".data-00000-of-00001", ".index"):
        assert (tmp_path / f"ckpt{suffix}").read_bytes() == Path(prefix + suffix).read_bytes()


def test_save_weights_of_a_keras_model(tmp_path: Path) -> None:
    (prefix,) = [b.prefix for b in fixtures.bundles() if "tf2.21/save_weights/" in b.prefix]
    with ckpttool.open_checkpoint(prefix) as opened:
        graph = opened.object_graph
        assert graph is not None
        save_weights(carried(opened, graph), tmp_path / Path(prefix).name)
    for path in Path(prefix).parent.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_it_follows_its_new_place(tmp_path: Path) -> None:
    (prefix,) = [b.prefix for b in fixtures.bundles() if "tf2.21/tables/" in b.prefix][-1:]
    module = Module()
    module.v = Variable(1.0)
    with ckpttool.open_checkpoint(prefix) as opened:
        graph = opened.object_graph
        assert graph is not None
        module.old = carried(opened, graph)
        keys = {key for key in opened.entries if key != GRAPH_KEY}
        saved = dict(snapshot_of(module).tensors)
    assert {f"old/{key}" for key in keys} <= set(saved)


def test_children_are_made_on_demand() -> None:
    root = Carried()
    child = root._trackable_child("a")
    assert root._trackable_edges() == {"a": child}
    slot = root.create_slot(child, "m", None, ())
    assert root.get_slot(child, "m") is slot is root.create_slot(child, "m", None, ())
    assert root.get_slot_names() == ["m"]
    assert root.get_slot(slot, "m") is None
