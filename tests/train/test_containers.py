"""Lists, dicts and tuples on attributes: edges, marks, and being like the raw ones."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ckpttool.errors import ContainerChangedError
from ckpttool.train.containers import NoDependency, node_of
from ckpttool.train.module import Module
from ckpttool.train.snapshot import snapshot_of
from ckpttool.train.trackable import tracking
from ckpttool.train.variable import Variable


class Pair(NamedTuple):
    left: Any
    right: Any


class Stubborn(NamedTuple("Stubborn", [("left", Any)])):
    def __new__(cls, value: Any) -> Stubborn:
        return super().__new__(cls, value)


def edges(value: Any) -> list[str]:
    node = node_of(value)
    assert node is not None
    return list(node._trackable_edges())


@pytest.fixture
def owner() -> Module:
    return Module()


def test_a_list_is_like_the_one_assigned(owner: Any) -> None:
    raw: list[Any] = [1, [2], Variable(3.0)]
    owner.l = raw
    assert isinstance(owner.l, list) and owner.l == raw and raw == owner.l
    assert repr([*owner.l[:2]]) == "[1, ListWrapper([2])]"
    assert repr(owner.l).startswith("ListWrapper([1, ListWrapper([2]), <Variable")
    raw[1].append(4)
    assert owner.l[1] == [2, 4] and len(owner.l) == 3 and 1 in owner.l
    for plain in (
        owner.l[:],
        owner.l.__add__([1]),
        [1] + owner.l,  # noqa: RUF005 - that is what is tested
        owner.l * 2,
        2 * owner.l,
    ):
        assert type(plain) is list and len(plain) >= 3
    assert list(reversed(owner.l)) == raw[::-1]
    assert edges(owner.l) == ["1", "2"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(owner.l)
    owner.m = [3, 1]
    assert owner.m < [3, 2] and owner.m <= [3, 1] and owner.m > [2] and owner.m >= [3, 1]
    assert owner.m != [3] and owner.m.index(1) == 1 and owner.m.count(3) == 1
    assert owner.m.copy() == owner.m and owner.m.copy() is not owner.m


def test_a_dict_is_like_the_one_assigned(owner: Any) -> None:
    raw = {"a": Variable(1.0), "b": {"c": 2}, 3: 4}
    owner.d = raw
    assert isinstance(owner.d, dict) and owner.d == raw and raw == owner.d
    assert repr(owner.d).startswith("DictWrapper({'a': <Variable")
    assert list(owner.d) == list(owner.d.keys()) == ["a", "b", 3]
    assert dict(owner.d) == raw and {**owner.d} == raw and owner.d | {} == raw
    assert type(owner.d | {}) is dict and type({} | owner.d) is dict
    assert owner.d.get("x", 1) == 1 and 3 in owner.d and len(owner.d) == 3
    assert [*owner.d.values()][-1] == 4 and next(reversed(owner.d.items())) == (3, 4)
    owner.o = OrderedDict(z=Variable(1.0), y=Variable(2.0))
    owner.o.move_to_end("z")
    assert isinstance(owner.o, OrderedDict) and list(owner.o) == ["y", "z"]
    assert edges(owner.o) == ["z", "y"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(owner.d)


def test_a_tuple_stays_one(owner: Any) -> None:
    v = Variable(1.0)
    raw = Pair(v, [v])
    owner.t = raw
    assert type(owner.t) is Pair and owner.t is not raw and owner.t.left is v
    assert edges(owner.t) == ["left", "right", "0", "1"]
    owner.again, owner.other = owner.t, raw
    nodes = [tracking(owner).edges[name] for name in ("t", "again", "other")]
    assert nodes[0] is nodes[1] is not nodes[2]
    owner.plain = plain = (1, (2,))
    assert owner.plain is plain and "plain" not in tracking(owner).edges
    owner.bad = Stubborn(v)
    with pytest.raises(ContainerChangedError, match="'bad': the tuple cannot be saved"):
        snapshot_of(owner)


def remove_from_dict(d: Any) -> None:
    d.pop("a")


V = Variable(0.0)

LIST_CHANGES: list[tuple[str, Callable[[Any, list[Any]], object]]] = [
    ("element 0 was replaced", lambda it, raw: it.__setitem__(0, Variable(2.0))),
    ("a slice of it was replaced", lambda it, raw: it.__setitem__(slice(2, 2), [Variable(2.0)])),
    ("an element was removed", lambda it, raw: it.__delitem__(1)),
    ("an element was removed", lambda it, raw: it.pop()),
    ("an element was removed", lambda it, raw: it.remove(1)),
    ("an element was removed", lambda it, raw: it.clear()),
    ("an element was removed", lambda it, raw: it.__imul__(0)),
    ("an element was inserted", lambda it, raw: it.insert(2, 1)),
    ("it was sorted", lambda it, raw: it.sort(key=id)),
    ("element 0 was replaced", lambda it, raw: it.reverse()),
    ("without the wrapper", lambda it, raw: raw.append(1)),
    ("without the wrapper", lambda it, raw: raw.__setitem__(0, Variable(0.0))),
    ("without the wrapper", lambda it, raw: (raw.__setitem__(0, Variable(0.0)), it.append(1))),
    ("without the wrapper", lambda it, raw: (raw.__iadd__([1]), it.__iadd__([1]))),
]


@pytest.mark.parametrize(("told", "change"), LIST_CHANGES)
def test_changes_of_a_list_with_something_trackable(
    told: str, change: Callable[[Any, list[Any]], object], owner: Any
) -> None:
    raw = [Variable(0.0), 1]
    owner.x = Module()
    owner.x.l = raw
    snapshot_of(owner)
    change(owner.x.l, raw)
    with pytest.raises(ContainerChangedError, match=f"^'x/l': the list .*{told}.*NoDependency"):
        snapshot_of(owner)
    owner.x.l = list(raw)
    snapshot_of(owner)


DICT_CHANGES: list[tuple[str, Callable[[Any, dict[Any, Any]], object]]] = [
    ("without the wrapper", lambda d, raw: d.pop("a")),
    ("without the wrapper", lambda d, raw: d.popitem()),
    ("without the wrapper", lambda d, raw: d.clear()),
    ("without the wrapper", lambda d, raw: d.setdefault("x", 1)),
    ("without the wrapper", lambda d, raw: d.__ior__({"x": 1})),
    ("without the wrapper", lambda d, raw: raw.update(a=Variable(0.0))),
    ("without the wrapper", lambda d, raw: (raw.update(a=1), d.update(a=2))),
    ("without the wrapper", lambda d, raw: (raw.pop("a"), d.update(a=2, c=3))),
    ("without the wrapper", lambda d, raw: (raw.pop("a"), d.__delitem__("b"))),
    ("the key 3 of something trackable", lambda d, raw: d.__setitem__(3, Variable(0.0))),
    ("the key 3 of something trackable", lambda d, raw: d.__setitem__(3, [])),
]


@pytest.mark.parametrize(("told", "change"), DICT_CHANGES)
def test_changes_of_a_dict(
    told: str, change: Callable[[Any, dict[Any, Any]], object], owner: Any
) -> None:
    raw: dict[Any, Any] = {"a": Variable(0.0), "b": 1}
    owner.d = raw
    snapshot_of(owner)
    change(owner.d, raw)
    with pytest.raises(ContainerChangedError, match=f"^'d': the dict .*{told}"):
        snapshot_of(owner)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_edges_and_values(copied: Callable[[Any], Any], owner: Any) -> None:
    v = Variable([1.0, 2.0], name="v")
    owner.b, owner.l, owner.d = v, [0, v], {"k": {"n": v}}
    owner.l[0] = Variable(3.0)
    owner.a, owner.t = (v, [v]), Pair(v, owner)
    owner.b = None
    owner.d["k"] = 1
    made = copied(owner)
    before, after = snapshot_of(owner), snapshot_of(made)
    assert after.graph == before.graph
    assert [key for key, _ in after.tensors] == [key for key, _ in before.tensors]
    made.a[0].assign([5.0, 6.0])
    assert v.numpy().tolist() == [1.0, 2.0]
    assert made.a[0] is made.l[1] is made.t.left and made.t.right is made
    assert edges(made.l) == ["1", "0"] and node_of(made.a) is tracking(made).edges["a"]
    made.l.pop()
    changed = copied(made)
    with pytest.raises(ContainerChangedError):
        snapshot_of(changed)


def test_no_dependency(owner: Any) -> None:
    v = Variable(1.0)
    owner.a, owner.l = NoDependency([v]), [NoDependency([v]), v]
    owner.t, owner.d = (NoDependency(v), v), {"a": NoDependency(v), 1: NoDependency(v)}
    assert type(owner.a) is list and type(owner.l[0]) is list and owner.t == (v, v)
    assert list(tracking(owner).edges) == ["l", "t", "d"]
    assert (edges(owner.l), edges(owner.t), edges(owner.d)) == (["1"], ["1"], [])
