"""Programs that restore, one for each rule.

Each takes the names to use and a folder in which its checkpoints were saved, and answers what it
found. The functions in `saves` write these checkpoints; a rule names the ones that it wants.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Save = Callable[[Any, Path], object]


class Rule(NamedTuple):
    save: Save
    restore: Callable[[Any, Path], object]


RULES: list[Rule] = []


def after(save: Save) -> Callable[[Callable[[Any, Path], object]], Callable[[Any, Path], object]]:
    def note(function: Callable[[Any, Path], object]) -> Callable[[Any, Path], object]:
        RULES.append(Rule(save, function))
        return function

    return note


def holds(assertion: Callable[[], object]) -> bool:
    try:
        assertion()
    except (AssertionError, ValueError):
        return False
    return True


def verdict(status: Any) -> str:
    """Which assertions of a status hold."""
    told = {
        "existing": status.assert_existing_objects_matched,
        "consumed": status.assert_consumed,
        "nontrivial": status.assert_nontrivial_match,
    }
    return " ".join(name for name, assertion in told.items() if holds(assertion)) or "none"


def raises(function: Callable[..., object], *arguments: object) -> bool:
    try:
        function(*arguments)
    except Exception:  # of either system
        return True
    return False


def value(variable: Any) -> Any:
    return np.asarray(variable.numpy()).tolist()


def values(*variables: Any) -> list[Any]:
    return [value(variable) for variable in variables]


def zeros(m: Any) -> Any:
    return m.Variable([0.0, 0.0])


def module(m: Any, **attributes: Any) -> Any:
    made = m.Module()
    for name, attribute in attributes.items():
        setattr(made, name, attribute)
    return made


# ---------------------------------------------------------------------------------- what is saved


def a_net(m: Any, folder: Path) -> None:
    net = module(m, a=m.Variable([1.0, 2.0], name="a"), b=m.Variable([3.0, 4.0], name="b"))
    net.inner = module(m, c=m.Variable([5.0, 6.0]))
    net.list = [m.Variable(1.0), module(m, v=m.Variable(2.0)), [m.Variable(3.0)]]
    net.dict = {"x": m.Variable(4.0), "y": {"z": m.Variable(5.0)}}
    net.pair = (m.Variable(6.0), m.Variable(7.0))
    ckpt = m.Checkpoint(net=net, step=m.Variable(1, dtype="int64"))
    ckpt.write(folder / "written")
    ckpt.save(folder / "ckpt")
    net.a.assign([10.0, 20.0])
    net.b.assign([30.0, 40.0])
    net.inner.c.assign([50.0, 60.0])
    net.list[0].assign(10.0)
    ckpt.step.assign(2)
    ckpt.save(folder / "ckpt")
    m.Checkpoint(net=module(m, a=m.Variable([100.0, 200.0]))).save(folder / "less")


def with_slots(m: Any, folder: Path) -> None:
    net, optimizer = module(m, a=m.Variable([1.0, 2.0]), b=m.Variable(3.0)), m.SlotOwner()
    optimizer.rate = m.Variable(0.5)
    for name in ("m", "v"):
        optimizer.add_slot(net.a, name, [4.0, 5.0] if name == "m" else [6.0, 7.0])
    optimizer.add_slot(net.b, "m", 8.0)
    m.Checkpoint(net=net, optimizer=optimizer).save(folder / "ckpt")


def shared_objects(m: Any, folder: Path) -> None:
    v = m.Variable(1.0)
    m.Checkpoint(a=v, b=v, m=module(m, v=v)).write(folder / "one")
    m.Checkpoint(a=m.Variable(2.0), b=m.Variable(3.0)).write(folder / "two")
    knot = module(m, v=v)
    knot.other = module(m, back=knot, w=m.Variable(4.0))
    knot.itself = knot
    m.Checkpoint(knot=knot).write(folder / "knot")


def states(m: Any, folder: Path) -> None:
    state, table = python_state(m), tensor_state(m)
    state.value, table.tensors = b"saved\xff\0", {"keys": np.array([1, 2, 3]), "n": np.float32(4.5)}
    table.inside = m.Variable(5.0)
    m.Checkpoint(state=state, table=table).save(folder / "ckpt")
    table.tensors["more"] = np.float32(0)
    m.Checkpoint(table=table, state=module(m, x=m.Variable(1))).save(folder / "other")


def python_state(m: Any) -> Any:
    class Bytes(m.PythonState):  # type: ignore[misc]
        value = b"first"

        def serialize(self) -> bytes:
            return self.value

        def deserialize(self, string_value: bytes) -> None:
            self.value = string_value

    return Bytes()


def tensor_state(m: Any) -> Any:
    class Table(m.TensorState):  # type: ignore[misc]
        def to_tensors(self) -> dict[str, Any]:
            return dict(self.tensors)

        def from_tensors(self, tensors: dict[str, Any]) -> None:
            self.tensors = m.NoDependency({k: np.asarray(v) for k, v in tensors.items()})

    made = Table()
    made.tensors = m.NoDependency({"keys": np.array([0, 0]), "n": np.float32(0)})
    return made


def with_roots(m: Any, folder: Path) -> None:
    root = module(m, v=m.Variable(1.0), w=m.Variable(2.0))
    m.Checkpoint(root, step=m.Variable(3), w=root.w).save(folder / "ckpt")
    m.Checkpoint(root).write(folder / "bare")
    m.Checkpoint(m.Variable(4.0)).save(folder / "variable")
    inner = m.Checkpoint(v=m.Variable(5.0))
    inner.save(folder / "inner")
    m.Checkpoint(inner=inner, v=m.Variable(6.0)).save(folder / "outer")


def odd_objects(m: Any, folder: Path) -> None:
    m.Checkpoint(a=m.Module(), b=m.Variable(1.0), c=[], d=m.Variable([1.0, 2.0])).write(
        folder / "ckpt"
    )
    m.Checkpoint().save(folder / "nothing")
    deep = module(m, leaf=m.Variable(1.0))
    for _ in range(50):
        deep = module(m, below=deep)
    m.Checkpoint(deep=deep).write(folder / "deep")
    names = {
        "a/b": m.Variable(1.0),
        ".S": m.Variable(2.0),
        "": m.Variable(3.0),
        "é.": m.Variable(4.0),
    }
    m.Checkpoint(names=names).write(folder / "names")


# --------------------------------------------------------------------------------------- the rules


def same_net(m: Any) -> Any:
    net = module(m, a=zeros(m), b=zeros(m))
    net.inner = module(m, c=zeros(m))
    net.list = [m.Variable(0.0), module(m, v=m.Variable(0.0)), [m.Variable(0.0)]]
    net.dict = {"x": m.Variable(0.0), "y": {"z": m.Variable(0.0)}}
    net.pair = (m.Variable(0.0), m.Variable(0.0))
    return net


def of_net(net: Any) -> list[Any]:
    return [
        *values(net.a, net.b, net.inner.c, net.list[0], net.list[1].v, net.list[2][0]),
        *values(net.dict["x"], net.dict["y"]["z"], *net.pair),
    ]


@after(a_net)
def the_same_program(m: Any, folder: Path) -> object:
    told = []
    for way, name in (
        ("restore", "ckpt-1"),
        ("restore", "ckpt-2"),
        ("read", "ckpt-1"),
        ("restore", "written"),
        ("read", "written"),
    ):
        net = same_net(m)
        ckpt = m.Checkpoint(net=net, step=m.Variable(0, dtype="int64"))
        status = getattr(ckpt, way)(str(folder / name))
        told.append([verdict(status), of_net(net), value(ckpt.step), verdict(status)])
        told.append(value(ckpt.save_counter))
    return told


@after(a_net)
def paths_of_all_kinds(m: Any, folder: Path) -> object:
    ckpt = m.Checkpoint(step=m.Variable(0, dtype="int64"))
    told: list[object] = [raises(ckpt.restore, str(folder / "missing"))]
    status = ckpt.restore(folder / "ckpt-2")
    told.append([value(ckpt.step), value(ckpt.save_counter)])
    told.append(verdict(status.expect_partial()))
    told.append(verdict(ckpt.restore(None)))
    told.append(verdict(m.Checkpoint().read(None)))
    return told


@after(a_net)
def less_and_more_than_was_saved(m: Any, folder: Path) -> object:
    ckpt = m.Checkpoint(net=module(m, b=zeros(m)))
    told: list[object] = [verdict(ckpt.restore(str(folder / "ckpt-1"))), value(ckpt.net.b)]
    ckpt.net.new = zeros(m)
    told.append(verdict(ckpt.restore(str(folder / "ckpt-1"))))
    ckpt = m.Checkpoint(other=zeros(m))
    told.append(verdict(ckpt.restore(str(folder / "ckpt-1"))))
    ckpt = m.Checkpoint(other=zeros(m))
    told.append(verdict(ckpt.read(str(folder / "ckpt-1"))))
    ckpt = m.Checkpoint()
    told.append(verdict(ckpt.read(str(folder / "ckpt-1"))))
    told.append(verdict(ckpt.restore(str(folder / "ckpt-1"))))
    return told


@after(a_net)
def deferred(m: Any, folder: Path) -> object:
    ckpt = m.Checkpoint()
    status = ckpt.restore(str(folder / "ckpt-2"))
    told: list[object] = [verdict(status)]
    ckpt.net = m.Module()
    ckpt.net.a = zeros(m)
    told += [value(ckpt.net.a), verdict(status)]
    inner = module(m, c=zeros(m))
    ckpt.net.inner = inner
    told += [value(inner.c)]
    ckpt.net.list = []
    ckpt.net.list.append(m.Variable(0.0))
    ckpt.net.list.append(module(m, v=m.Variable(0.0)))
    ckpt.net.list.append([m.Variable(0.0)])
    ckpt.net.dict = {}
    ckpt.net.dict["x"] = m.Variable(0.0)
    ckpt.net.dict["y"] = {"z": m.Variable(0.0)}
    ckpt.net.pair = (m.Variable(0.0), m.Variable(0.0))
    told += [verdict(status)]
    ckpt.net.b = zeros(m)
    ckpt.step = m.Variable(0, dtype="int64")
    told += [of_net(ckpt.net), verdict(status)]
    ckpt.net.extra = zeros(m)
    told += [verdict(status)]
    return told


@after(a_net)
def only_the_first_of_a_name(m: Any, folder: Path) -> object:
    ckpt = m.Checkpoint()
    ckpt.restore(str(folder / "ckpt-1")).expect_partial()
    ckpt.net = m.Module()
    ckpt.net.a = zeros(m)
    ckpt.net.a = second = zeros(m)
    told = [value(second)]
    del ckpt.net.a
    ckpt.net.a = third = zeros(m)
    told.append(value(third))
    ckpt.net.b = None
    ckpt.net.b = fourth = zeros(m)
    told.append(value(fourth))
    ckpt.net.inner = 5
    ckpt.net.inner = module(m, c=zeros(m))
    told.append(value(ckpt.net.inner.c))
    return told


@after(a_net)
def several_wait(m: Any, folder: Path) -> object:
    told: list[object] = []
    for order in (("ckpt-1", "ckpt-2"), ("ckpt-2", "ckpt-1"), ("ckpt-1", "less-1")):
        ckpt = m.Checkpoint()
        statuses = [ckpt.restore(str(folder / name)) for name in order]
        ckpt.net = m.Module()
        ckpt.net.a, ckpt.net.b = zeros(m), zeros(m)
        told += [values(ckpt.net.a, ckpt.net.b, ckpt.save_counter), *map(verdict, statuses)]
        ckpt.net.a.assign([-1.0, -1.0])
        statuses.append(ckpt.restore(str(folder / "less-1")))
        ckpt.step = m.Variable(0, dtype="int64")
        told += [values(ckpt.net.a, ckpt.net.b, ckpt.step), *map(verdict, statuses)]
    return told


@after(a_net)
def built_before_it_is_tracked(m: Any, folder: Path) -> object:
    ckpt = m.Checkpoint()
    status = ckpt.restore(str(folder / "ckpt-1"))
    net = same_net(m)
    told: list[object] = [of_net(net)]
    ckpt.net = net
    told += [of_net(net), verdict(status)]
    return told


@after(a_net)
def restored_twice(m: Any, folder: Path) -> object:
    net = same_net(m)
    ckpt = m.Checkpoint(net=net)
    first = ckpt.restore(str(folder / "ckpt-1"))
    net.a.assign([7.0, 7.0])
    second = ckpt.restore(str(folder / "less-1"))
    return [of_net(net), verdict(first), verdict(second)]


@after(a_net)
def dropped_objects(m: Any, folder: Path) -> object:
    ckpt = m.Checkpoint(net=same_net(m), step=m.Variable(0, dtype="int64"))
    status = ckpt.restore(str(folder / "ckpt-1"))
    kept = ckpt.net
    ckpt.net = module(m, a=zeros(m))
    return [verdict(status), value(ckpt.net.a), value(kept.a)]


@after(a_net)
def what_does_not_fit(m: Any, folder: Path) -> object:
    told = []
    for wrong in ([0.0], [0.0, 0.0, 0.0], [[0.0, 0.0]], [0, 0], np.zeros(2), "text", 0.0):
        ckpt = m.Checkpoint(net=module(m, a=m.Variable(wrong)))
        told.append(raises(ckpt.restore, str(folder / "ckpt-1")))
        late = m.Checkpoint()
        late.restore(str(folder / "ckpt-1")).expect_partial()
        late.net = m.Module()
        told.append(raises(setattr, late.net, "a", m.Variable(wrong)))
    return told


@after(a_net)
def open_shapes(m: Any, folder: Path) -> object:
    told = []
    for shape in ([None], [2]):
        v = m.Variable([0.0, 0.0], shape=shape)
        m.Checkpoint(net=module(m, a=v)).restore(str(folder / "ckpt-1")).expect_partial()
        told.append(value(v))
    v = m.Variable([0.0, 0.0, 0.0], shape=[None])
    m.Checkpoint(net=module(m, a=v)).restore(str(folder / "ckpt-1")).expect_partial()
    told.append(value(v))
    v = m.Variable([[0.0]], shape=[None, None])
    ckpt = m.Checkpoint(net=module(m, a=v))
    told.append(raises(ckpt.restore, str(folder / "ckpt-1")))
    return told


@after(a_net)
def changed_containers(m: Any, folder: Path) -> object:
    told: list[object] = []

    def reversed_list(net: Any) -> None:
        net.list.reverse()

    def popped(net: Any) -> None:
        net.dict.pop("x")

    def replaced(net: Any) -> None:
        net.list[0] = m.Variable(9.0)

    def appended(net: Any) -> None:
        net.list.append(m.Variable(9.0))

    for change in (reversed_list, popped, replaced, appended):
        net = same_net(m)
        ckpt = m.Checkpoint(net=net)
        status = ckpt.restore(str(folder / "ckpt-1"))
        change(net)
        told.append([verdict(status), raises(ckpt.restore, str(folder / "ckpt-1"))])
    return told


@after(a_net)
def other_kinds_of_containers(m: Any, folder: Path) -> object:
    net = m.Module()
    ckpt = m.Checkpoint(net=net)
    status = ckpt.restore(str(folder / "ckpt-1"))
    net.list = {"0": m.Variable(0.0), "1": module(m, v=m.Variable(0.0))}
    net.dict = module(m, x=m.Variable(0.0))
    net.pair = [m.Variable(0.0)]
    told = [values(net.list["0"], net.list["1"].v, net.dict.x, net.pair[0]), verdict(status)]
    net.pair.append(m.Variable(0.0))
    return [*told, value(net.pair[1])]


def slot_values(optimizer: Any, net: Any) -> list[Any]:
    found = []
    for name in ("m", "v"):
        for variable in (net.a, net.b):
            slot = optimizer.get_slot(variable, name)
            found.append(None if slot is None else value(slot))
    return found


@after(with_slots)
def slots_that_are_there(m: Any, folder: Path) -> object:
    net, optimizer = module(m, a=zeros(m), b=m.Variable(0.0)), m.SlotOwner()
    optimizer.add_slot(net.a, "m")
    ckpt = m.Checkpoint(net=net, optimizer=optimizer)
    status = ckpt.restore(str(folder / "ckpt-1"))
    told = [slot_values(optimizer, net), verdict(status)]
    optimizer.rate = m.Variable(0.0)
    told += [value(optimizer.rate), verdict(status)]
    optimizer.add_slot(net.b, "other")
    return [*told, verdict(status)]


@after(with_slots)
def slots_to_come(m: Any, folder: Path) -> object:
    told: list[object] = []
    for order in ("net optimizer", "optimizer net"):
        net, optimizer = module(m, a=zeros(m), b=m.Variable(0.0)), m.SlotOwner()
        ckpt = m.Checkpoint()
        status = ckpt.restore(str(folder / "ckpt-1"))
        for name in order.split():
            setattr(ckpt, name, {"net": net, "optimizer": optimizer}[name])
            told += [slot_values(optimizer, net), verdict(status)]
        optimizer.rate = m.Variable(0.0)
        told += [verdict(status)]
    net, optimizer = m.Module(), m.SlotOwner()
    ckpt = m.Checkpoint(net=net, optimizer=optimizer)
    status = ckpt.restore(str(folder / "ckpt-1"))
    optimizer.rate = m.Variable(0.0)
    told += [verdict(status)]
    net.a = zeros(m)
    told += [verdict(status)]
    net.b = m.Variable(0.0)
    return [*told, slot_values(optimizer, net), verdict(status)]


@after(with_slots)
def no_owner_of_slots(m: Any, folder: Path) -> object:
    net = module(m, a=zeros(m), b=m.Variable(0.0))
    ckpt = m.Checkpoint(optimizer=module(m, rate=m.Variable(0.0)), net=net)
    status = ckpt.restore(str(folder / "ckpt-1"))
    told = [value(ckpt.optimizer.rate), verdict(status)]
    ckpt = m.Checkpoint(net=net)
    status = ckpt.restore(str(folder / "ckpt-1"))
    return [*told, verdict(status), value(net.a)]


@after(with_slots)
def slots_left_out(m: Any, folder: Path) -> object:
    told: list[object] = []
    options = m.CheckpointOptions(experimental_skip_slot_variables=True)
    for make in (m.SlotOwner, m.Module):
        net, optimizer = module(m, a=zeros(m), b=m.Variable(0.0)), make()
        optimizer.rate = m.Variable(0.0)
        ckpt = m.Checkpoint(net=net, optimizer=optimizer)
        status = ckpt.restore(str(folder / "ckpt-1"), options=options)
        told.append([verdict(status), value(net.a)])
        if make is m.SlotOwner:
            told.append(slot_values(optimizer, net))
            optimizer.add_slot(net.a, "new")
            told.append(verdict(status))  # slots of the program are left out too
    return told


@after(with_slots)
def slots_restored_twice(m: Any, folder: Path) -> object:
    net, optimizer = module(m, a=zeros(m), b=m.Variable(0.0)), m.SlotOwner()
    optimizer.rate = m.Variable(0.0)
    ckpt = m.Checkpoint(net=net, optimizer=optimizer)
    first = ckpt.restore(str(folder / "ckpt-1"))
    optimizer.get_slot(net.a, "m").assign([0.0, 0.0])
    second = ckpt.restore(str(folder / "ckpt-1"))
    return [slot_values(optimizer, net), verdict(first), verdict(second)]


@after(shared_objects)
def split_and_joined(m: Any, folder: Path) -> object:
    told: list[object] = []
    a, b, c = (m.Variable(0.0) for _ in range(3))
    status = m.Checkpoint(a=a, b=b, m=module(m, v=c)).read(str(folder / "one"))
    told += [values(a, b, c), verdict(status)]
    v = m.Variable(0.0)
    status = m.Checkpoint(a=v, b=v).read(str(folder / "two"))
    told += [value(v), verdict(status)]
    ckpt = m.Checkpoint()
    status = ckpt.read(str(folder / "one"))
    ckpt.b = m.Variable(0.0)
    ckpt.a = m.Variable(0.0)
    told += [values(ckpt.a, ckpt.b), verdict(status)]
    ckpt = m.Checkpoint()
    status = ckpt.read(str(folder / "one"))
    ckpt.m = module(m, v=m.Variable(0.0))
    ckpt.b = ckpt.m.v
    told += [values(ckpt.b), verdict(status)]
    ckpt.a = ckpt.b
    told += [verdict(status)]
    return told


@after(shared_objects)
def knots(m: Any, folder: Path) -> object:
    knot = module(m, v=m.Variable(0.0))
    status = m.Checkpoint(knot=knot).read(str(folder / "knot"))
    told: list[object] = [value(knot.v), verdict(status)]
    knot.other = module(m, w=m.Variable(0.0))
    told += [value(knot.other.w), verdict(status)]
    knot.other.back = knot
    knot.itself = knot
    told += [verdict(status)]
    other = module(m, v=m.Variable(0.0))
    ckpt = m.Checkpoint(knot=other)
    other.itself = module(m, v=m.Variable(0.0))
    return [*told, verdict(ckpt.read(str(folder / "knot"))), value(other.itself.v)]


@after(states)
def states_of_all_kinds(m: Any, folder: Path) -> object:
    state, table = python_state(m), tensor_state(m)
    table.inside = m.Variable(0.0)
    status = m.Checkpoint(state=state, table=table).restore(str(folder / "ckpt-1"))
    told = [state.value, values_of(table), value(table.inside), verdict(status)]
    ckpt = m.Checkpoint()
    status = ckpt.restore(str(folder / "ckpt-1"))
    ckpt.state, ckpt.table = python_state(m), tensor_state(m)
    told += [ckpt.state.value, values_of(ckpt.table), verdict(status)]
    return told


def values_of(table: Any) -> dict[str, Any]:
    return {name: np.asarray(each).tolist() for name, each in table.tensors.items()}


@after(states)
def states_in_other_places(m: Any, folder: Path) -> object:
    told: list[object] = []
    table = tensor_state(m)  # asks for fewer names than there are
    status = m.Checkpoint(table=table).restore(str(folder / "other-1"))
    told += [values_of(table), verdict(status)]
    table = tensor_state(m)
    table.tensors["absent"] = np.float32(1)
    ckpt = m.Checkpoint(table=table)
    told.append(raises(ckpt.restore, str(folder / "ckpt-1")))
    ckpt = m.Checkpoint(table=m.Module(), state=m.Module())
    told.append(verdict(ckpt.restore(str(folder / "ckpt-1"))))
    ckpt = m.Checkpoint(table=m.Variable(0.0))
    told.append(raises(ckpt.restore, str(folder / "ckpt-1")))
    state = python_state(m)
    status = m.Checkpoint(state=state).restore(str(folder / "other-1"))
    told += [state.value, verdict(status)]
    return told


@after(with_roots)
def roots(m: Any, folder: Path) -> object:
    told: list[object] = []
    for name in ("ckpt-1", "bare"):
        root, step = module(m, v=m.Variable(0.0), w=m.Variable(0.0)), m.Variable(0)
        ckpt = m.Checkpoint(root, step=step)
        told.append(verdict(ckpt.restore(str(folder / name))))
        told.append(values(root.v, root.w, step, ckpt.save_counter))
        ckpt = m.Checkpoint(module(m, v=m.Variable(0.0)))
        status = ckpt.read(str(folder / name))
        told.append(verdict(status))
        told.append(value(ckpt.save_counter))
        told.append(verdict(status))
        plain = m.Checkpoint(v=m.Variable(0.0))
        status = plain.restore(str(folder / name))
        told += [value(plain.v), verdict(status)]
        plain.w = m.Variable(0.0)
        told += [value(plain.w), verdict(status)]
    return told


@after(with_roots)
def roots_of_other_kinds(m: Any, folder: Path) -> object:
    told: list[object] = []
    v = m.Variable(9.0)  # TensorFlow takes 0 for no root
    told += [verdict(m.Checkpoint(v).restore(str(folder / "variable-1"))), value(v)]
    root = module(m, v=m.Variable(0.0), w=m.Variable(0.0))
    ckpt = m.Checkpoint(weakref.ref(root))
    status = ckpt.restore(str(folder / "ckpt-1"))
    told += [value(root.v), verdict(status)]
    inner = m.Checkpoint(v=m.Variable(0.0))
    ckpt = m.Checkpoint(inner=inner, v=m.Variable(0.0))
    status = ckpt.restore(str(folder / "outer-1"))
    told += [values(inner.v, ckpt.v, ckpt.save_counter), verdict(status)]
    told += [value(inner.save_counter), verdict(status)]
    told += [verdict(inner.restore(str(folder / "inner-1"))), value(inner.v)]
    root = m.Module()
    ckpt = m.Checkpoint(root)
    status = ckpt.restore(str(folder / "ckpt-1"))
    root.v = m.Variable(0.0)
    root.step = m.Variable(0)
    return [*told, values(root.v, root.step, ckpt.save_counter), verdict(status)]


@after(odd_objects)
def hollow(m: Any, folder: Path) -> object:
    told: list[object] = []
    a = m.Variable(7.0)
    ckpt = m.Checkpoint(a=a, b=m.Variable(0.0), c=[], d=zeros(m))
    status = ckpt.read(str(folder / "ckpt"))
    told += [value(a), verdict(status)]
    ckpt = m.Checkpoint(b=m.Module(), d=[m.Variable(0.0)])
    told += [verdict(ckpt.read(str(folder / "ckpt")))]
    ckpt = m.Checkpoint(c=m.Variable(1.0))
    told += [verdict(ckpt.read(str(folder / "ckpt"))), value(ckpt.c)]
    ckpt = m.Checkpoint()
    status = ckpt.read(str(folder / "ckpt"))
    ckpt.a = m.Variable(2.0)
    ckpt.b = m.Variable(0.0)
    return [*told, values(ckpt.a, ckpt.b), verdict(status)]


@after(odd_objects)
def odd_places(m: Any, folder: Path) -> object:
    told: list[object] = []
    told.append(verdict(m.Checkpoint().restore(str(folder / "nothing-1"))))
    told.append(verdict(m.Checkpoint(v=m.Variable(0.0)).restore(str(folder / "nothing-1"))))
    top = deep = m.Module()
    for _ in range(49):
        deep.below = m.Module()
        deep = deep.below
    ckpt = m.Checkpoint(deep=top)
    status = ckpt.read(str(folder / "deep"))
    deep.below = module(m, leaf=m.Variable(0.0))
    told += [value(deep.below.leaf), verdict(status)]
    names = {name: m.Variable(0.0) for name in ("a/b", ".S", "", "é.")}
    ckpt = m.Checkpoint(names=names)
    status = ckpt.read(str(folder / "names"))
    return [*told, values(*ckpt.names.values()), verdict(status)]


@after(a_net)
def statuses_outlive_names(m: Any, folder: Path) -> object:
    status = m.Checkpoint(net=same_net(m)).restore(str(folder / "ckpt-1"))
    gc.collect()
    return [holds(status.assert_existing_objects_matched), holds(status.assert_nontrivial_match)]


# ------------------------------------------------------------------------ checkpoints without graph


def of_names(m: Any, folder: Path) -> None:
    """Both formats, by TensorFlow's own operations."""
    import tensorflow as tf

    names = ["a", "net/b", "text", "Variable"]
    tensors = [[1.0, 2.0], [[3, 4]], ["x", "y"], 5.0]
    raw = tf.raw_ops
    raw.SaveV2(
        prefix=str(folder / "two"),
        tensor_names=names,
        shape_and_slices=[""] * 4,
        tensors=[tf.constant(each) for each in tensors],
    )
    raw.Save(
        filename=str(folder / "one"),
        tensor_names=names,
        data=[tf.constant(each) for each in tensors],
    )


def both_formats(read: Callable[[Any, str], object]) -> Callable[[Any, Path], object]:
    def run(m: Any, folder: Path) -> object:
        return [read(m, str(folder / name)) for name in ("two", "one")]

    run.__name__ = read.__name__
    return run


@after(of_names)
@both_formats
def by_name(m: Any, path: str) -> object:
    net = module(m, x=m.Variable([0.0, 0.0], name="a"), y=m.Variable([[0, 0]], name="net/b"))
    ckpt = m.Checkpoint(net=net, text=m.Variable(["", ""], name="text"), d=m.Variable(0.0))
    status = ckpt.restore(path)
    told = [values(net.x, net.y, ckpt.text, ckpt.d), verdict(status), value(ckpt.save_counter)]
    status = m.Checkpoint(net=net).read(path)
    return [*told, verdict(status)]


@after(of_names)
@both_formats
def by_name_later(m: Any, path: str) -> object:
    ckpt = m.Checkpoint()
    status = ckpt.restore(path)
    told: list[object] = [verdict(status)]
    ckpt.x = m.Variable([0.0, 0.0], name="a")
    told += [value(ckpt.x), verdict(status)]
    ckpt.net = module(m, inside=m.Variable([[0, 0]], name="net/b"))
    told += [value(ckpt.net.inside), verdict(status)]
    ckpt.net.again = m.Variable([[0, 0]], name="net/b")
    told += [value(ckpt.net.again), verdict(status)]
    ckpt.list = [m.Variable([[0, 0]], name="net/b")]
    told += [value(ckpt.list[0]), verdict(status)]
    ckpt.list.append(m.Variable([[0, 0]], name="net/b"))
    return [*told, value(ckpt.list[1]), verdict(status)]


@after(of_names)
@both_formats
def by_name_what_is_missing(m: Any, path: str) -> object:
    ckpt = m.Checkpoint(x=m.Variable([0.0, 0.0], name="a"), y=m.Variable([7.0], name="missing"))
    status = ckpt.restore(path)
    told: list[object] = [values(ckpt.x, ckpt.y), verdict(status)]
    del ckpt.y
    told.append(verdict(ckpt.restore(path)))
    for wrong in ([0.0], [0, 0]):
        ckpt = m.Checkpoint(x=m.Variable(wrong, name="a"))
        told.append(raises(ckpt.restore, path))
    owner, v = m.SlotOwner(), m.Variable([0.0, 0.0], name="v")
    slot = owner.add_slot(v, "m", name="a")
    ckpt = m.Checkpoint(owner=owner, v=v)
    ckpt.restore(path)
    return [*told, value(slot)]


@after(of_names)
@both_formats
def by_name_and_by_object(m: Any, path: str) -> object:
    other = m.Checkpoint(x=m.Variable([8.0, 9.0]))
    saved = other.save(path + "-objects")
    told: list[object] = []
    for order in ((path, saved), (saved, path)):
        ckpt = m.Checkpoint()
        statuses = [ckpt.restore(each) for each in order]
        ckpt.x = m.Variable([0.0, 0.0], name="a")
        told += [value(ckpt.x), *map(verdict, statuses)]
    return told
