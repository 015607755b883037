"""Plain objects and trees, with the arrays in them."""

from __future__ import annotations

import copy
import gc
import logging
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import InvalidTensorError, UntrackableError
from ckpttool.objects.keys import VARIABLE_VALUE
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.module import Module
from ckpttool.train.plain import PlainArray, track
from ckpttool.train.snapshot import snapshot_of
from ckpttool.train.variable import Variable


class Frozen:
    """An array that cannot be written to, as those of JAX."""

    def __init__(self, value: Any) -> None:
        self._value = np.array(value)
        self._value.flags.writeable = False
        self.dtype, self.shape = self._value.dtype, self._value.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._value


class Moments(NamedTuple):
    mu: Any
    nu: Any


@dataclass(frozen=True)
class State:
    params: dict[Any, Any]
    opt: Any
    step: Any
    names: list[str] = field(default_factory=list)


def values(root: Any) -> dict[str, Any]:
    saved = snapshot_of(root).tensors[:-1]
    return {key.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE"): np.asarray(v) for key, v in saved}


def put(root: Any, path: str, value: Any) -> None:
    node = root
    for name in path.split("/"):
        node = node._trackable_edges()[name]
    node._trackable_assign({VARIABLE_VALUE: np.asarray(value)})


@pytest.fixture
def state() -> State:
    shared = np.arange(3.0)
    params = {"dense": {"w": shared, "b": Frozen([1.0])}, "a/b": np.float32(2), 3: shared}
    opt = (Moments({"w": np.zeros(3)}, [Frozen([5])]), None)
    return State(params, opt, np.int64(0), names=["x"])


def test_what_is_saved(state: State) -> None:
    root = track(state)
    saved = values(root)
    assert list(saved) == [
        *("step", "params/a.Sb", "params/3", "params/dense/b", "opt/0/mu/w", "opt/0/nu/0"),
    ]
    graph = snapshot_of(root).graph
    names = {a.checkpoint_key: a.full_name for node in graph.nodes for a in node.attributes}
    assert names["params/dense/b/.ATTRIBUTES/VARIABLE_VALUE"] == "b"
    assert names["params/a.Sb/.ATTRIBUTES/VARIABLE_VALUE"] == "a/b"


def test_values_are_put_in_place_or_replaced(state: State) -> None:
    root = track(state, convert=Frozen)
    shared = state.params[3]
    put(root, "params/3", [7.0, 8.0, 9.0])
    assert state.params[3] is shared is state.params["dense"]["w"]
    assert shared.tolist() == [7.0, 8.0, 9.0]
    put(root, "params/dense/b", [2.0])
    assert isinstance(state.params["dense"]["b"], Frozen)
    put(root, "opt/0/nu/0", [6])
    put(root, "opt/0/mu/w", [1.0, 1.0, 1.0])
    assert state.opt[0].mu["w"].tolist() == [1.0, 1.0, 1.0] and type(state.opt[0]) is Moments
    put(root, "step", np.int64(4))
    saved = values(root)
    assert saved["opt/0/nu/0"].tolist() == [6] and saved["step"] == 4


def test_tuples_are_made_anew() -> None:
    tree = {"t": (np.float32(1), (Frozen([1]), Moments(Frozen([2]), 3)))}
    root = track(tree)
    before = root._trackable_edges()["t"]
    put(root, "t/0", np.float32(2))
    put(root, "t/1/1/mu", [9])
    assert root._trackable_edges()["t"] is before
    assert tree["t"][0] == 2 and isinstance(tree["t"][0], np.float32)
    assert type(tree["t"][1][1]) is Moments and tree["t"][1][1].mu.tolist() == [9]


def test_one_object_one_node() -> None:
    inner = SimpleNamespace(w=np.zeros(2))
    root = track([inner, {"again": inner}])
    assert track(inner) is root._trackable_edges()["0"]
    assert list(values(root)) == ["0/w"]
    module = Module()
    module.state = track(inner)
    assert list(values(module)) == ["state/w"]
    node = track(inner)
    array = node._trackable_edges()["w"]
    put(root, "0/w", [1.0, 2.0, 3.0])
    assert node._trackable_edges()["w"] is array and inner.w.shape == (3,)


def test_edges_are_listed_anew() -> None:
    tree: dict[str, Any] = {"a": np.zeros(1)}
    root = track(tree)
    assert list(values(root)) == ["a"]
    tree["b"] = [np.zeros(2)]
    del tree["a"]
    assert list(values(root)) == ["b/0"]


def test_trackables_in_it_are_followed(tmp_path: Path) -> None:
    v = Variable(1.0)
    module = Module()
    module.v = v
    tree = {"v": v, "m": module, "l": logging.getLogger(), "f": len, "c": Module, "n": 1}
    assert list(values(track(tree))) == ["v"]
    prefix = Checkpoint(track(tree)).write(tmp_path / "ckpt")
    with ckpttool.open_checkpoint(prefix) as opened:
        assert opened["v"] == 1.0
    assert track(module) is module


def test_circles() -> None:
    tree: dict[str, Any] = {"a": np.zeros(1)}
    tree["itself"] = [tree]
    assert list(values(track(tree))) == ["a"]


def test_copies(state: State) -> None:
    root = track(state)
    values(root)
    made: Any = copy.deepcopy(root)
    assert list(values(made)) == list(values(root))
    put(made, "params/3", [7.0, 8.0, 9.0])
    assert made.value.params["dense"]["w"].tolist() == [7.0, 8.0, 9.0]
    assert state.params[3].tolist() == [0.0, 1.0, 2.0]
    assert track(made.value) is made


def test_what_cannot_be_tracked() -> None:
    for wrong in (1, "a", len, Module, logging, None, np.zeros(3)):
        with pytest.raises(UntrackableError, match="cannot be tracked"):
            track(wrong)
    with pytest.raises(UntrackableError, match="two keys of a dict have the name '1'"):
        values(track({1: np.zeros(1), "1": np.zeros(1)}))
    with pytest.raises(InvalidTensorError, match="datetime64"):
        PlainArray(np.zeros(1, "datetime64[s]"), "when")._trackable_values()


@pytest.mark.large
def test_nodes_do_not_outlive_their_objects() -> None:
    from ckpttool.train import plain

    gc.collect()
    before = len(plain._nodes)
    root = track({"a": [np.zeros(1)]})
    values(root)
    assert len(plain._nodes) == before + 3
    del root
    gc.collect()
    assert len(plain._nodes) == before


class Opaque:
    """An array that gives no values, as the random keys of JAX."""

    dtype, shape = "key<fry>", ()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("a random key cannot be converted")


def test_arrays_without_values_are_named() -> None:
    with pytest.raises(InvalidTensorError, match=r"^key 'a/rng': 'rng': a random key cannot"):
        values(track({"a": {"rng": Opaque()}}))
