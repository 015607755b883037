"""Saving: the counter, the state file, what a failure leaves behind, errors."""

from __future__ import annotations

import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import DestinationError, UnsavedWarning, UntrackableError
from ckpttool.train.checkpoint import Checkpoint, save_weights
from ckpttool.train.module import Module
from ckpttool.train.options import CheckpointOptions
from ckpttool.train.saving import write_snapshot
from ckpttool.train.slots import SlotOwner
from ckpttool.train.snapshot import snapshot_of
from ckpttool.train.states import PythonState, TensorState
from ckpttool.train.trackable import add_edge
from ckpttool.train.variable import Variable
from tests.support import fixtures


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["references", "write_after_save", "root_variable"])
def test_as_tensorflow_wrote_it(name: str, tmp_path: Path) -> None:
    bundle = next(b for b in fixtures.bundles() if f"/tf2.21/{name}/" in b.prefix)
    with ckpttool.open_checkpoint(bundle.prefix) as opened:
        graph = opened.object_graph
        assert graph is not None
        made: dict[int, Any] = {}
        for node in graph.nodes:
            made[node.id] = Module()
            for one in node.attributes:
                value = opened.read(one.checkpoint_key)
                made[node.id] = Variable(value, name=one.full_name)
        for node in graph.nodes[1:]:
            for edge in node.children:
                add_edge(made[node.id], edge.name, made[edge.node_id])
        attached = [(edge.name, made[edge.node_id]) for edge in graph.nodes[0].children]
    write_snapshot(str(tmp_path / "ckpt"), snapshot_of(made[0], attached))
    for suffix in (".data-00000-of-00001", ".index"):
        expected = Path(bundle.prefix + suffix).read_bytes()
        assert (tmp_path / f"ckpt{suffix}").read_bytes() == expected


def test_folders_are_made_and_overwriting_replaces(tmp_path: Path) -> None:
    checkpoint = Checkpoint(v=Variable(1.0))
    prefix = checkpoint.write(tmp_path / "a" / "b" / "ckpt")
    assert prefix == str(tmp_path / "a" / "b" / "ckpt")
    checkpoint.v.assign(2.0)
    for _ in range(3):
        checkpoint.write(prefix)
        with ckpttool.open_checkpoint(prefix) as opened:
            assert opened["v"] == 2.0
    assert not (tmp_path / "a" / "b" / "checkpoint").exists()


def test_a_failed_save_leaves_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(v=Variable(1.0))
    checkpoint.save(tmp_path / "ckpt")
    before = written(tmp_path)
    state = (tmp_path / "checkpoint").read_bytes()
    checkpoint.bad = track_bad = Bad()
    with pytest.raises(ValueError, match="cannot hold object"):
        checkpoint.save(tmp_path / "new" / "deep" / "ckpt")
    assert int(checkpoint.save_counter) == 1
    assert written(tmp_path) == before and not (tmp_path / "new").exists()
    track_bad.value = b""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ckpttool.CkptError):
        checkpoint.save(tmp_path / "file" / "ckpt")
    assert int(checkpoint.save_counter) == 1
    assert (tmp_path / "checkpoint").read_bytes() == state


class Bad(PythonState):
    value: Any = object()

    def serialize(self) -> Any:
        return self.value

    def deserialize(self, string_value: bytes) -> None:
        raise NotImplementedError


def test_a_name_that_no_state_file_can_hold(tmp_path: Path) -> None:
    checkpoint = Checkpoint(v=Variable(1.0))
    with pytest.raises(DestinationError, match="a state file cannot name it"):
        checkpoint.save(tmp_path / "a\udcff")
    assert written(tmp_path) == [] and int(checkpoint.save_counter) == 0
    checkpoint.write(tmp_path / "a\udcff")


def test_a_callback_that_raises(tmp_path: Path) -> None:
    def fail() -> None:
        raise KeyError("mine")

    checkpoint = Checkpoint(v=Variable(1.0))
    options = CheckpointOptions(experimental_write_callbacks=[fail])
    with pytest.raises(KeyError, match="mine"):
        checkpoint.save(tmp_path / "ckpt", options)
    assert int(checkpoint.save_counter) == 1
    assert written(tmp_path) == ["ckpt-1.data-00000-of-00001", "ckpt-1.index"]
    with pytest.raises(ValueError, match="takes the path or nothing"):
        CheckpointOptions(experimental_write_callbacks=[lambda a, b: None])


def test_what_cannot_be_a_keyword() -> None:
    v = Variable(1.0)
    for name, value in [("a", 1), ("a", None), ("a", np.zeros(1)), ("a", (1, 2)), ("a", {1})]:
        with pytest.raises(UntrackableError, match=r"'a' is .*, which cannot be tracked"):
            Checkpoint(**{name: value})
    with pytest.raises(UntrackableError, match="'save_counter' is the checkpoint's own name"):
        Checkpoint(save_counter=v)
    root = Module()
    root.a = v
    Checkpoint(root, a=v)
    with pytest.raises(UntrackableError, match="has another child 'a'"):
        Checkpoint(root, a=Variable(1.0))
    with pytest.raises(UntrackableError, match="'root' is list"):
        Checkpoint([v])


def test_a_root(tmp_path: Path) -> None:
    root = Module()
    checkpoint = Checkpoint(weakref.ref(root), v=Variable(1.0))
    with pytest.warns(UnsavedWarning, match=r"'late' is not saved"):
        checkpoint.late = Variable(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint.number = 1
        root.late = Variable(2.0)
    prefix = checkpoint.write(tmp_path / "ckpt")
    with ckpttool.open_checkpoint(prefix) as opened:
        assert opened["late"] == 2.0
    del root
    with pytest.raises(UntrackableError, match="'root' no longer exists"):
        checkpoint.write(tmp_path / "ckpt")


def test_save_weights(tmp_path: Path) -> None:
    model = Module()
    model.w = Variable(1.0)
    save_weights(model, tmp_path / "w" / "weights")
    assert written(tmp_path / "w")[0] == "checkpoint"
    with pytest.raises(DestinationError, match=r"weights\.index: already exists"):
        save_weights(model, tmp_path / "w" / "weights", overwrite=False)
    with ckpttool.open_checkpoint(tmp_path / "w") as opened:
        graph = opened.object_graph
        assert graph is not None
        edges = [(edge.name, edge.node_id) for edge in graph.nodes[0].children]
    assert edges == [("w", 1), ("root", 0)]


def test_a_slot_that_is_an_attribute_too() -> None:
    root, owner = Module(), SlotOwner()
    root.v, root.owner = Variable(1.0), owner
    owner.m = owner.add_slot(root.v, "m")
    with pytest.raises(UntrackableError, match=r"'v/.OPTIMIZER_SLOT/owner/m' is also .* 'owner/m'"):
        snapshot_of(root)


def test_a_copied_snapshot_is_of_its_moment() -> None:
    v = Variable([1.0, 2.0])
    root = Module()
    root.v = v
    copied, live = snapshot_of(root, copy=True), snapshot_of(root)
    v.assign([3.0, 4.0])
    assert copied.tensors[0][1].tolist() == [1.0, 2.0]
    assert live.tensors[0][1] is v.array


def test_a_deep_chain() -> None:
    root = node = Module()
    for _ in range(3000):
        node.n = following = Module()
        node = following
    node.v = Variable(1.0)
    key, _ = snapshot_of(root).tensors[0]
    assert key.count("n/") == 3000


class Table(TensorState):
    def __init__(self) -> None:
        self.taken: dict[str, Any] = {}

    def to_tensors(self) -> dict[str, Any]:
        return {"a.b": 1.5, "c/d": [1, 2]}

    def from_tensors(self, tensors: dict[str, Any]) -> None:
        self.taken = tensors


def test_the_names_of_a_tensor_state() -> None:
    table = Table()
    values = table._trackable_values()
    assert {name: spec.dtype.name for name, spec in values.items()} == {
        "a..b": "float32",
        "c.Sd": "int32",
    }
    assert values["c.Sd"].fits(values["c.Sd"].dtype, (7, 7))
    table._trackable_assign({"a..b": np.float32(1), "c.Sd": np.zeros(2)})
    assert list(table.taken) == ["a.b", "c/d"]


def test_names_of_the_program_stay_its_own() -> None:
    root = Module()
    root._tracking, root._slots, root._changed = Variable(1.0), [Variable(2.0)], Variable(3.0)
    assert len(snapshot_of(root).tensors) == 4


def test_what_no_checkpoint_can_hold() -> None:
    root, v = Module(), Variable(1.0)
    setattr(root, "\udcff", v)
    with pytest.raises(UntrackableError, match="not Unicode: '"):
        snapshot_of(root)
    root = node = Module()
    for _ in range(60):
        following = Module()
        setattr(node, "n" * 100_000, following)
        node = following
    with pytest.raises(UntrackableError, match="have no room"):
        snapshot_of(root)
    root = Module()
    root.inner, root.inner.state = Module(), Bad()
    with pytest.raises(ckpttool.InvalidTensorError, match=r"^key 'inner/state': .* hold object"):
        snapshot_of(root)
    root.inner.state = BadTable()
    with pytest.raises(ckpttool.InvalidTensorError, match="'inner/state': 'when' of to_tensors"):
        snapshot_of(root)


class BadTable(TensorState):
    def to_tensors(self) -> dict[str, Any]:
        return {"when": np.zeros(1, "datetime64[s]")}

    def from_tensors(self, tensors: dict[str, Any]) -> None:
        raise NotImplementedError


def test_children_that_the_root_gets_later(tmp_path: Path) -> None:
    root, v = Module(), Variable(1.0)
    checkpoint = Checkpoint(root, v=v)
    root.v = v
    with ckpttool.open_checkpoint(checkpoint.write(tmp_path / "ckpt")) as opened:
        assert opened["v"] == 1.0 and opened.object_graph is not None
    root.v = Variable(2.0)
    with pytest.raises(UntrackableError, match="has got another child 'v' meanwhile"):
        checkpoint.write(tmp_path / "ckpt")
    root.save_counter = Module()
    with pytest.raises(UntrackableError, match="'save_counter' of the root is no Variable"):
        Checkpoint(root)
