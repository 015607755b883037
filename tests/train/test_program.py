"""A program made of a checkpoint: its objects, its values, and the same bytes again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool import train
from ckpttool.bundle.writer import BundleWriter
from ckpttool.errors import CorruptError, UnsavedWarning, UnsupportedError
from ckpttool.objects.graph import Attribute, Edge, Node, ObjectGraph
from ckpttool.objects.keys import GRAPH_KEY, attribute_key
from ckpttool.tensor.values import object_array
from ckpttool.train.program import load_objects
from tests.support import fixtures
from tests.support.wild import WILD, artefacts

FILES = (".index", ".data-00000-of-00001")
# Several shards become one, and slices become whole.
OTHER_LAYOUT = [
    "v2/tf1.15/graph_mode_objects/ckpt-1",
    "v2/tf1.15/graph_mode_objects/weights",
    "v2/tf1.15/v1_optimizer_objects/model-1",
    "v2/tf2.21/max_shard_size_300/ckpt-1",
    "v2/tf2.21/max_shard_size_64/ckpt-1",
    "v2/tf2.21/registered_saver/ckpt-1",
    "v2/tf2.21/sharded_variable/ckpt-1",
]


def fixture(name: str) -> str:
    return [each.prefix for each in fixtures.bundles() if f"tf2.21/{name}/" in each.prefix][-1]


def write(prefix: Path, nodes: list[Node], values: dict[str, Any]) -> str:
    graph = object_array([ObjectGraph(nodes).to_bytes()], ())
    with BundleWriter(str(prefix)) as writer:
        for key, value in {**values, GRAPH_KEY: graph}.items():
            writer.add(key, value)
    return str(prefix)


def test_writing_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    different = []
    for number, bundle in enumerate(fixtures.bundles()):
        name = bundle.prefix.partition("fixtures/")[2]
        if GRAPH_KEY not in bundle.tensors or "max_shard_size_lost" in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsavedWarning)
            out = load_objects(bundle.prefix).write(tmp_path / f"{number}")
        pairs = [(Path(bundle.prefix + each), Path(out + each)) for each in FILES]
        if not all(old.exists() and old.read_bytes() == new.read_bytes() for old, new in pairs):
            different.append(name)
            assert ckpttool.diff(bundle.prefix, out).counts.keys() <= {"equal", "removed"}
    assert different == OTHER_LAYOUT


@pytest.mark.sweep(20)
@pytest.mark.parametrize("name", artefacts())
def test_objects_of_others(name: str, tmp_path: Path) -> None:
    try:
        with ckpttool.open_checkpoint(WILD / name) as opened:
            graph, prefix = opened.object_graph, opened.prefix
    except ckpttool.CkptError:
        return
    if graph is not None:
        out = load_objects(WILD / name).write(tmp_path / "ckpt")
        found = ckpttool.diff(prefix, out, exact=True, exclude=f"={GRAPH_KEY}")
        assert found.verdict == "equal"
        with ckpttool.open_checkpoint(out) as opened:
            assert opened.object_graph is not None
            # Whether there are values below an object is not stored by older TensorFlow.
            for old, new in zip(graph.nodes, opened.object_graph.nodes, strict=True):
                assert new._replace(has_values=old.has_values) == old


def test_objects_are_attributes(tmp_path: Path) -> None:
    ckpt = load_objects(fixture("guide_legacy_adam"))
    kernel = ckpt.net.l1.kernel
    assert isinstance(ckpt.net, train.Module) and isinstance(kernel, train.Variable)
    assert isinstance(ckpt.optimizer, train.SlotOwner) and isinstance(ckpt.iterator, train.Carried)
    slot = ckpt.optimizer.get_slot(kernel, "m")
    assert slot is not None and slot.shape == kernel.shape
    assert kernel.full_name == "net/dense/kernel"
    with ckpttool.open_checkpoint(fixture("guide_legacy_adam")) as opened:
        assert np.array_equal(kernel, opened["net/l1/kernel"])
    number = int(ckpt.save_counter)
    kernel.assign(2 * kernel.numpy())
    saved = ckpt.save(tmp_path / "ckpt")
    assert saved == str(tmp_path / f"ckpt-{number + 1}")
    again = load_objects(saved)
    assert np.array_equal(again.net.l1.kernel, kernel)
    assert again.restore(fixture("guide_legacy_adam")).assert_consumed()
    assert int(again.save_counter) == number


def test_a_root_with_values_of_its_own(tmp_path: Path) -> None:
    value = train.Variable([1.0, 2.0], name="v")
    saved = train.Checkpoint(value, other=train.Variable(3)).save(tmp_path / "ckpt")
    found = load_objects(saved)
    again = found.save(tmp_path / "ckpt")
    fresh, other = train.Variable([0.0, 0.0]), train.Variable(0)
    train.Checkpoint(fresh, other=other).restore(again).assert_consumed()
    assert (fresh.numpy().tolist(), int(other), int(found.save_counter)) == ([1.0, 2.0], 3, 2)


HOSTILE = [
    *("save", "read", "restore", "_ckpttool_tracking", "_ckpttool_root", "__class__", "__dict__"),
    *("", "a/b", "0", "_carried_slots", "_tracked_root"),
]


def test_no_name_of_an_edge_breaks_an_object(tmp_path: Path) -> None:
    edges = [*(Edge(name, 1) for name in HOSTILE), Edge("save_counter", 2)]
    key = attribute_key("save")
    nodes = [
        Node(0, tuple(edges)),
        Node(1, tuple(edges), (Attribute("VARIABLE_VALUE", "w", key),)),
        Node(2, (Edge("back", 0),)),
    ]
    path = write(tmp_path / "odd", nodes, {key: np.ones(1, np.float32)})
    found = load_objects(path)
    children = train.TrackableView.children(found)
    assert list(children) == [*HOSTILE, "save_counter"]
    out = found.write(tmp_path / "again")
    with ckpttool.open_checkpoint(path) as old, ckpttool.open_checkpoint(out) as new:
        assert list(old) == list(new)
        assert old.object_graph is not None and new.object_graph is not None
        for one, other in zip(old.object_graph.nodes, new.object_graph.nodes, strict=True):
            assert one.children == other.children
            assert one.attributes == other.attributes


def test_values_that_several_objects_name(tmp_path: Path) -> None:
    one = Attribute("VARIABLE_VALUE", "w", attribute_key("a"))
    nodes = [Node(0, (Edge("a", 1), Edge("b", 2))), Node(1, (), (one,)), Node(2, (), (one,))]
    path = write(tmp_path / "odd", nodes, {attribute_key("a"): np.ones(1, np.float32)})
    out = load_objects(path).write(tmp_path / "again")
    with ckpttool.open_checkpoint(out) as opened:
        assert opened["a"].tolist() == opened["b"].tolist() == [1.0]


def test_tensors_of_no_object() -> None:
    with pytest.warns(UnsavedWarning, match=r"no object.*'custom/registered'"):
        load_objects(fixture("registered_saver"))


def test_refusals(tmp_path: Path) -> None:
    ckpttool.save_checkpoint(tmp_path / "names", {"w": np.zeros(1)})
    with pytest.raises(UnsupportedError, match=r"no object graph.*convert-legacy --like"):
        load_objects(tmp_path / "names")
    saved = train.Checkpoint(v=train.Variable(1.0)).write(tmp_path / "ckpt")
    data = Path(saved + FILES[1])
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    with pytest.raises(CorruptError):
        load_objects(saved)
