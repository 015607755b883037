"""Programs that save, one for each rule; each takes the names to use and a folder to save in."""

from __future__ import annotations

import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

Program = Callable[[Any, Path], object]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


class Pair(NamedTuple):
    left: Any
    right: Any


@program
def keywords_in_sorted_order(m: Any, folder: Path) -> None:
    ckpt = m.Checkpoint(b=m.Variable(1.0, name="first"), a=m.Variable([1, 2]))
    ckpt.later = m.Variable("text", name="x:0")
    ckpt.a2 = m.Variable(True)
    ckpt.write(folder / "ckpt")


@program
def dtypes(m: Any, folder: Path) -> None:
    module = m.Module()
    for name in ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32"):
        setattr(module, name, m.Variable(np.arange(6).reshape(2, 3).astype(name)))
    for name in ("uint32", "int64", "uint64", "complex64", "complex128", "bool"):
        setattr(module, name, m.Variable(np.arange(6).reshape(2, 3).astype(name)))
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "int4", "uint4"):
        setattr(module, name, m.Variable(np.arange(6).astype(getattr(ml_dtypes, name))))
    module.text = m.Variable(["é", b"\xff\0", ""])
    module.nothing = m.Variable(np.zeros((0, 3), "float32"))
    module.order = m.Variable(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    module.big = m.Variable(np.arange(3, dtype=">i4"))
    for index, value in enumerate([1, 1.5, 1 << 40, True, 1j, b"a", [1, 2.5], [], [[]]]):
        setattr(module, f"python{index}", m.Variable(value))
    m.Checkpoint(module=module).write(folder / "ckpt")


@program
def full_names(m: Any, folder: Path) -> None:
    names = [None, "w", "w:0", "a:1", "w/", "a/b/", "x y", "w//"]
    m.Checkpoint(v=[m.Variable(0.0, name=name) for name in names]).write(folder / "ckpt")


@program
def save_counts_and_names_the_latest(m: Any, folder: Path) -> list[str]:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    ckpt.write(folder / "before")
    paths = [ckpt.save(folder / "deep" / "er" / "ckpt"), ckpt.save(str(folder / "ckpt"))]
    ckpt.v.assign(2.0)
    ckpt.later = m.Variable(3)
    paths += [ckpt.save(folder / "ckpt"), ckpt.write(folder / "written")]
    assert int(ckpt.save_counter) == 3
    return [str(path) for path in paths]


@program
def assigned_again_keeps_its_place(m: Any, folder: Path) -> None:
    c = m.Checkpoint()
    c.a, c.b, c.c = m.Variable(1.0), m.Variable(2.0), m.Variable(3.0)
    c.a = m.Variable(4.0)
    c.b = None
    del c.c
    c.d = m.Variable(5.0)
    c.c = m.Variable(6.0)
    c.write(folder / "ckpt")


@program
def names_of_all_kinds(m: Any, folder: Path) -> None:
    c = m.Checkpoint()
    for name in ("_x", "0", "a/b", "a.b", ".S", "..S", "S", "é", "with space", "k/2."):
        setattr(c, name, m.Variable(1.0))
        module = m.Module()
        module.inside = m.Variable(2)
        setattr(c, name + "!", module)
    c.write(folder / "ckpt")


@program
def an_empty_name(m: Any, folder: Path) -> None:
    c, inner = m.Checkpoint(), m.Module()
    inner.v = m.Variable(1.0)
    setattr(c, "", inner)
    c.write(folder / "ckpt")


@program
def shared_and_circular(m: Any, folder: Path) -> None:
    a, b = m.Module(), m.Module()
    shared = m.Variable(1.0, name="shared")
    a.b, b.a, a.itself = b, a, a
    a.deep, b.v, a.v = [shared], shared, shared
    a.t = (shared, b)
    m.Checkpoint(z=a, y=b).write(folder / "ckpt")


@program
def ignored(m: Any, folder: Path) -> None:
    class Plain:
        v = 1

    class Listed(list):  # type: ignore[type-arg]
        pass

    c = m.Checkpoint()
    v = m.Variable(1.0)
    c.number, c.text, c.array, c.function = 1, "a", np.zeros(3), len
    c.plain, c.kinds, c.deque = Plain(), {1, 2}, deque([v])
    c.default, c.listed = defaultdict(list, a=[v]), Listed([v])
    c.pair, c.none = (1, 2), None
    c.no = m.NoDependency(v)
    c.no_list = m.NoDependency([v])
    assert c.no is v
    c.write(folder / "ckpt")


@program
def lists(m: Any, folder: Path) -> None:
    c = m.Checkpoint()
    v = [m.Variable(float(i)) for i in range(9)]
    c.all = v[:3]
    c.gaps = [1, v[3], None, v[4], "x", [v[5]], {"a": v[6]}]
    c.gaps.append(v[7])
    c.gaps.extend([2, v[8]])
    c.gaps += [v[0]]
    c.empty = []
    c.plain = [3, 1, 2]
    c.plain.sort()
    c.plain.reverse()
    c.plain.pop()
    c.plain.insert(0, 7)
    c.plain.remove(7)
    del c.plain[0]
    c.plain[0] = v[1]
    c.negative = [1, 2, 3]
    c.negative[-1] = v[2]
    c.times = [v[3], 1]
    c.times *= 3
    c.sliced = [1, 2, 3]
    c.sliced[1:2] = [v[4], v[5]]
    c.cleared = [1, 2]
    c.cleared.clear()
    c.cleared.append(v[6])
    c.no = [m.NoDependency(v[0]), v[1], m.NoDependency([v[2]])]
    c.again = c.all
    raw = [v[7]]
    c.raw1, c.raw2 = raw, raw
    c.odd = [1, v[0], 2]
    c.odd.reverse()
    c.write(folder / "ckpt")


@program
def dicts(m: Any, folder: Path) -> None:
    c = m.Checkpoint()
    v = [m.Variable(float(i)) for i in range(9)]
    c.d = {"b": v[0], "a": v[1], "plain": 1, 3: "x", "n": {"m": v[2]}, "l": [v[3]]}
    c.d["c"] = v[4]
    c.d["b"] = v[5]
    c.d["a"] = None
    c.d["plain"] = v[6]
    del c.d["n"]
    c.d.update(e=v[7], f=2)
    c.d.update({"g": (v[8],)})
    c.empty = {}
    c.ordered = OrderedDict([("z", v[0]), ("y", v[1])])
    c.no = {"a": m.NoDependency(v[0]), 1: m.NoDependency(v[1]), "b": v[2]}
    c.slash = {"a/b": v[3], "": v[4], ".": v[5]}
    c.same = {"a": v[6]}
    c.same.setdefault("a", v[7])
    c.same.pop("none", None)
    c.write(folder / "ckpt")


@program
def tuples(m: Any, folder: Path) -> None:
    c = m.Checkpoint()
    v = [m.Variable(float(i)) for i in range(9)]
    point = namedtuple("point", "x y")
    c.t = (v[0], 1, v[1])
    c.named = Pair(v[2], [v[3]])
    c.point = point(1, v[4])
    c.nested = ((v[5], (v[6],)), 2, {"a": v[7]})
    c.only_list = ([],)
    c.plain = (1, (2, 3))
    c.again = c.t
    raw = (v[8],)
    c.raw1, c.raw2 = raw, raw
    c.no = (m.NoDependency(v[0]), v[1])
    c.nothing = (m.NoDependency(v[0]),)
    c.lists = [(v[0], v[1]), (1, 2), Pair(1, v[2])]
    c.write(folder / "ckpt")


@program
def states(m: Any, folder: Path) -> None:
    class Bytes(m.PythonState):  # type: ignore[misc]
        def __init__(self, value: Any) -> None:
            self.value = value
            self.untracked = m.Variable(1.0)

        def serialize(self) -> Any:
            return self.value

        def deserialize(self, string_value: bytes) -> None:
            self.value = string_value

    class Table(m.TensorState):  # type: ignore[misc]
        def to_tensors(self) -> dict[str, Any]:
            return {
                "keys": np.array(["a", "b"]),
                "a.b": 1.5,
                "c/d": [1, 2],
                "values": np.arange(2),
                "e.f/g": "text",
            }

        def from_tensors(self, tensors: dict[str, Any]) -> None:
            pass

    table = Table()
    table.inner = m.Variable(2.0, name="inner")
    c = m.Checkpoint(b=Bytes(b"\xff\0"), a=Bytes("é"), table=table, v=m.Variable(1.0))
    c.last = Bytes(b"")
    c.save(folder / "ckpt")


@program
def slots(m: Any, folder: Path) -> None:
    net, optimizer, other = m.Module(), m.SlotOwner(), m.SlotOwner()
    net.b = m.Variable([1.0, 2.0], name="net/b")
    net.a = m.Variable(np.zeros((2, 3)), name="net/a")
    unreached = m.Variable(1.0)
    optimizer.rate = m.Variable(0.1)
    optimizer.add_slot(net.a, "v")
    for name in ("m", "v.w/x"):
        for variable in (net.a, unreached, net.b):
            optimizer.add_slot(variable, name)
    optimizer.add_slot(optimizer.rate, "m", [1.0, 2.0])
    other.add_slot(net.b, "m", 3.0, "named")
    m.Checkpoint(net=net, z=optimizer, other=other).save(folder / "ckpt")
    net.optimizer = optimizer
    m.Checkpoint(net).write(folder / "inside")
    optimizer.net = net
    m.Checkpoint(optimizer).write(folder / "owner_as_root")


@program
def roots(m: Any, folder: Path) -> None:
    root = m.Module()
    root.v, root.z = m.Variable(1.0), m.Variable(2.0)
    extra = m.Variable(3.0)
    ckpt = m.Checkpoint(root, z=root.z, step=extra, a=[m.Variable(4.0)])
    ckpt.write(folder / "written")
    ckpt.save(folder / "ckpt")
    root.later = m.Variable(5.0)
    ckpt.save(folder / "ckpt")
    m.Checkpoint(root=weakref.ref(root)).save(folder / "weak")
    m.Checkpoint(m.Variable(6.0, name="v"), s=extra).save(folder / "variable")
    inner = m.Checkpoint(v=m.Variable(1.0))
    inner.save(folder / "inner")
    m.Checkpoint(inner).save(folder / "counted")
    m.Checkpoint(nested=inner, rooted=ckpt).save(folder / "nested")


@program
def a_root_with_a_child_root(m: Any, folder: Path) -> None:
    root = m.Module()
    root.root = root
    m.Checkpoint(root).save(folder / "ckpt")


@program
def zero_is_a_root_too(m: Any, folder: Path) -> None:
    m.Checkpoint(m.Variable(1), v=m.Variable(0)).write(folder / "ckpt")


@program
def callbacks(m: Any, folder: Path) -> list[str]:
    told: list[str] = []

    def with_path(path: str) -> None:
        told.append(path)
        assert Path(path + ".index").exists()
        assert not (folder / "checkpoint").exists()

    options = m.CheckpointOptions(
        experimental_write_callbacks=[with_path, lambda: told.append("called")]
    )
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    ckpt.write(folder / "written", options)
    ckpt.save(folder / "ckpt", options=options)
    return told


@program
def nothing_at_all(m: Any, folder: Path) -> None:
    m.Checkpoint().save(folder / "ckpt")
    m.Checkpoint(a=m.Module(), l=[], d={}).save(folder / "empty")


@program
def many_nodes(m: Any, folder: Path) -> None:
    c = m.Checkpoint()
    c.layers = [m.Module() for _ in range(60)]
    for index, layer in enumerate(c.layers):
        layer.w, layer.b = m.Variable(np.full((3, 2), index)), m.Variable(np.zeros(2))
        layer.next = c.layers[(index + 1) % 60]
    c.save(folder / "ckpt")


# What is done to a list `it`, or a dict, whose raw form is `raw`; `v` are variables.
LIST_CHANGES = """
it[0] = v[3]; it[0] = None; it[1] = v[3]; del it[0]; del it[1]; it.pop(); it.pop(0)
it.insert(3, 1); it.insert(0, v[3]); it.insert(0, [1]); it.remove(1); it.reverse(); it.clear()
it *= 0; it *= -1; it *= 1; it *= 2; it[0:0] = [v[4]]; it[1:2] = [v[3]]; it[1:] = []; it[:] = it[:]
it.extend([v[3], [v[4]]]); it.extend(it[:]); raw.append(v[3]); raw.append(1); raw.pop()
raw[1] = 5; raw[0] = v[4]; it[0] = it[0]; it[1] = it[1]; it[-1] = v[3]; it[2] = [v[3]]
it[2] = m.NoDependency(v[3]); it.append(m.NoDependency(v[3])); it.append((v[3], [1]))
it[2] = (1, 2); owner.it = raw; owner.it = it; owner.it = list(it)
"""
DICT_CHANGES = """
it["a"] = v[3]; it["a"] = None; it["z"] = v[3]; del it["a"]; del it["p"]; it.pop("a")
it.pop("q", 1); it.popitem(); it.clear(); it.setdefault("a", 1); it.setdefault("z", 1)
it.setdefault("z", v[3]); it |= {"z": 1}; it.update(z=v[3]); it.update({"z": [v[3]]})
it[3] = v[3]; it[3] = 1; it[3] = []; it[3] = m.NoDependency(v[3]); raw["z"] = 1; raw["a"] = v[3]
raw["p"] = 1; raw.pop("a"); raw.clear(); it["a"] = it["a"]; raw["z"] = 1 + raw.pop("z", 0)
owner.it = raw; owner.it = it; owner.it = dict(it)
"""
RAW: list[tuple[Callable[[list[Any]], Any], str]] = [
    (lambda v: [v[0], 1, "x"], LIST_CHANGES),
    (lambda v: [3, 1, 2], LIST_CHANGES),
    (lambda v: [1, v[0], 2], LIST_CHANGES),
    (lambda v: [[v[0]], 1, 2], LIST_CHANGES),
    (lambda v: [(v[0], 1), 1, "x"], LIST_CHANGES),
    (lambda v: {"a": v[0], "p": 1}, DICT_CHANGES),
    (lambda v: {"a": 1, "p": 2}, DICT_CHANGES),
    (lambda v: {"a": {"b": v[0]}, "p": (v[1],)}, DICT_CHANGES),
    (lambda v: OrderedDict(a=v[0], p=1), DICT_CHANGES),
]


def changed(m: Any, folder: Path, raw_of: Callable[[list[Any]], Any], change: str) -> str:
    """Change a container and save; tell what came of it."""
    v = [m.Variable(float(10 + index)) for index in range(9)]
    owner = m.Checkpoint()
    raw = raw_of(v)
    owner.it = raw
    names = {"owner": owner, "it": owner.it, "raw": raw, "v": v, "m": m}
    try:
        exec(change, names)
    except (TypeError, ValueError, IndexError, KeyError) as error:
        return type(error).__name__
    try:
        owner.write(folder / "ckpt")
    except ValueError:
        return "not saved"
    return "saved"
