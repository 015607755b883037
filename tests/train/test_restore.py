"""Restoring: all or nothing, what is told, and values in place."""

from __future__ import annotations

import gc
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool.checkpoint.save import save_checkpoint
from ckpttool.errors import (
    ChecksumError,
    ContainerChangedError,
    MismatchError,
    MissingFileError,
    MissingKeyError,
    NotFoundError,
    UnrestoredError,
    UnrestoredWarning,
)
from ckpttool.train import reading
from ckpttool.train.checkpoint import Checkpoint
from ckpttool.train.containers import NoDependency
from ckpttool.train.module import Module
from ckpttool.train.options import CheckpointOptions
from ckpttool.train.plain import track
from ckpttool.train.slots import SlotOwner
from ckpttool.train.states import PythonState, TensorState
from ckpttool.train.status import (
    CheckpointLoadStatus,
    InitializationOnlyStatus,
    NameBasedSaverStatus,
)
from ckpttool.train.trackable import tracking
from ckpttool.train.variable import Variable
from tests.support import fixtures


def net(**values: Any) -> Module:
    made = Module()
    for name, value in values.items():
        setattr(made, name, value if isinstance(value, Module) else Variable(value, name=name))
    return made


@pytest.fixture
def saved(tmp_path: Path) -> str:
    model = net(a=[1.0, 2.0], b=[3.0, 4.0, 5.0], inner=net(c=6))
    return Checkpoint(net=model).save(tmp_path / "ckpt")


def test_buffers_keep_their_identity(saved: str) -> None:
    model: Any = net(a=[0.0, 0.0], b=[0.0] * 3, inner=net(c=0))
    before = model.a.array
    status = Checkpoint(net=model).restore(saved).assert_consumed()
    assert before.tolist() == [1.0, 2.0]
    assert model.a.array is before
    assert (status.unmatched, status.unresolved, status.hollow) == ((), (), ())


def test_nothing_is_restored_if_something_does_not_fit(saved: str) -> None:
    model = net(a=[0.0, 0.0], b=[0, 0, 0], inner=net(c=[0]))
    ckpt: Any = Checkpoint(net=model, empty=Module())
    with pytest.raises(MismatchError) as caught:
        ckpt.restore(saved)
    assert [each["path"] for each in caught.value.mismatches] == ["net/b", "net/inner/c"]
    assert caught.value.mismatches[0] == {
        "path": "net/b",
        "key": "net/b/.ATTRIBUTES/VARIABLE_VALUE",
        "dtype": "float32",
        "shape": [3],
        "target_dtype": "int32",
        "target_shape": [3],
    }
    assert "'net/b' is float32 [3] in the checkpoint, int32 [3] in the program" in str(caught.value)
    assert ckpt.net.a.numpy().tolist() == [0.0, 0.0]
    assert tracking(ckpt).update_number == -1
    assert tracking(ckpt.net).pending == {}
    assert "save_counter" not in tracking(ckpt).edges


def test_nothing_is_restored_from_damaged_bytes(saved: str) -> None:
    shard = Path(saved + ".data-00000-of-00001")
    data = bytearray(shard.read_bytes())
    data[8 + 8 + 4] ^= 1  # behind the save counter and a
    shard.write_bytes(data)
    model = net(a=[0.0, 0.0], b=[0.0] * 3, inner=net(c=0))
    ckpt: Any = Checkpoint(net=model)
    with pytest.raises(ChecksumError, match="net/b"):
        ckpt.restore(saved)
    assert ckpt.net.a.numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("held", [0, 8, 1 << 20])
def test_large_variables_are_filled_in_place(
    held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MOST_HELD", held)
    values = {
        "big": np.arange(1000.0),
        "bools": np.array([True, False] * 9),
        "text": np.array(["a", "é"]),
        "scalar": np.float64(3),
        "order": np.arange(6.0).reshape(2, 3),
    }
    path = Checkpoint(net=net(**values)).write(tmp_path / "ckpt")
    model: Any = net(**{name: np.zeros_like(value) for name, value in values.items()})
    model.order = Variable(np.asfortranarray(np.zeros((2, 3))))
    Checkpoint(net=model).read(path).assert_consumed()
    assert model.big.numpy().tolist() == values["big"].tolist()
    assert model.bools.numpy().tolist() == [True, False] * 9
    assert model.text.numpy().tolist() == [b"a", "é".encode()]
    assert model.order.numpy().tolist() == values["order"].tolist()
    shard = Path(path + ".data-00000-of-00001")
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    model = net(**{name: np.zeros_like(value) for name, value in values.items()})
    with pytest.raises(ChecksumError):
        Checkpoint(net=model).read(path)
    assert not model.big.numpy().any()
    assert float(model.scalar) == 0


def test_a_late_mismatch_changes_nothing(saved: str) -> None:
    ckpt: Any = Checkpoint()
    status = ckpt.restore(saved).expect_partial()
    ckpt.net = Module()
    with pytest.raises(MismatchError):
        ckpt.net.a = Variable([0, 0])
    assert not hasattr(ckpt.net, "a")
    assert "net/a" in status.unresolved
    ckpt.net.a = Variable([0.0, 0.0])
    assert ckpt.net.a.numpy().tolist() == [1.0, 2.0]
    with pytest.raises(MismatchError):  # one of several that come at once
        ckpt.net.inner = net(c=[1.0])
    assert "net/inner/c" in status.unresolved
    ckpt.net.inner = net(c=0)
    assert int(ckpt.net.inner.c) == 6


def test_pending_restores_are_done_together(saved: str, tmp_path: Path) -> None:
    other = Checkpoint(net=net(inner=net(c=7, d=[1.0]))).save(tmp_path / "other")
    ckpt: Any = Checkpoint()
    first, second = ckpt.restore(other).expect_partial(), ckpt.restore(saved).expect_partial()
    ckpt.net = Module()
    with pytest.raises(MismatchError):  # the newer one fits, the older one does not
        ckpt.net.inner = net(c=0, d=0)
    assert "net/inner/c" in second.unresolved
    ckpt.net.inner = net(c=0, d=[0.0])
    assert (int(ckpt.net.inner.c), ckpt.net.inner.d.numpy().tolist()) == (6, [1.0])
    assert first.unresolved == ()


def test_assertions_say_what_is_wrong(saved: str) -> None:
    ckpt: Any = Checkpoint(net=net(a=[0.0, 0.0], other=net(c=0), new=1.0))
    status = ckpt.restore(saved).expect_partial()
    with pytest.raises(UnrestoredError) as caught:
        status.assert_existing_objects_matched()
    assert caught.value.unmatched == ("net/new", "net/other/c") == status.unmatched
    assert caught.value.unresolved == ("net/b", "net/inner/c") == status.unresolved
    told = str(caught.value)
    assert "'net/inner/c' int32 [] waits in the checkpoint" in told
    assert "(the program has 'net/other/c' int32 [])" in told
    assert f"write(\"fresh\") with this program, and run 'ckpt match {saved} fresh'" in told
    del ckpt.net.new, ckpt.net.other
    with pytest.raises(UnrestoredError, match="did not take all"):
        status.assert_existing_objects_matched().assert_consumed()
    assert isinstance(caught.value, AssertionError)


def test_unused_attributes_and_hollow_objects(tmp_path: Path) -> None:
    path = Checkpoint(a=Variable(1.0), b=Module(), v=Variable(2.0)).write(tmp_path / "ckpt")
    status = Checkpoint(a=Module(), b=Variable(3.0), v=Variable(0.0)).read(path).expect_partial()
    assert status.unused_attributes == ("a:VARIABLE_VALUE",)
    assert status.hollow == ("b",)
    with pytest.raises(UnrestoredError, match="'a:VARIABLE_VALUE' is not taken") as caught:
        status.assert_consumed()
    assert caught.value.hollow == ("b",)


def test_a_warning_at_the_end(saved: str) -> None:
    ckpt: Any = Checkpoint(net=Module())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ckpt.restore(saved)
        gc.collect()
        assert caught == []  # the program may still take what waits
        ckpt.net.a = Variable([0.0, 0.0])
        del ckpt
        gc.collect()
    (warning,) = caught
    assert isinstance(warning.message, UnrestoredWarning)
    assert warning.message.paths == ("net/b", "net/inner/c")
    assert "'net/b', 'net/inner/c'" in str(warning.message)


def test_no_warning_if_it_was_meant(saved: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Checkpoint(net=Module()).restore(saved).expect_partial()
        model = net(a=[0.0, 0.0], b=[0.0] * 3, inner=net(c=0))
        Checkpoint(net=model).restore(saved)
        gc.collect()


def test_restoring_from_nothing() -> None:
    ckpt = Checkpoint(v=Variable(1.0))
    status = ckpt.restore(None)
    assert isinstance(status, InitializationOnlyStatus)
    for assertion in (
        status.assert_consumed,
        status.assert_existing_objects_matched,
        status.assert_nontrivial_match,
    ):
        with pytest.raises(UnrestoredError, match="no checkpoint was loaded"):
            assertion()
    assert int(ckpt.save_counter) == 0


def test_a_missing_checkpoint_is_told_with_the_number_it_lacks(saved: str) -> None:
    with pytest.raises(MissingFileError, match="ckpt-1"):
        Checkpoint().restore(saved.removesuffix("-1"))
    status = Checkpoint().restore(Path(saved).parent).expect_partial()  # its latest
    assert "net/a" in status.unresolved


def test_a_saved_model_is_an_address(tmp_path: Path) -> None:
    models = Path(fixtures.ROOT) / "fixtures/saved_model/tf2.21"
    status = Checkpoint().restore(models / "module/model").expect_partial()
    assert isinstance(status, CheckpointLoadStatus)
    assert status.unresolved
    shutil.copy(models / "no_variables/model/saved_model.pb", tmp_path)
    with pytest.raises(NotFoundError, match="without variables"):
        Checkpoint().restore(tmp_path)


def test_by_name(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "names", {"a": np.float32(1), "net/b": np.array([2, 3], "int32")})
    ckpt: Any = Checkpoint(x=Variable(0.0, name="a"), y=Variable([0, 0], name="net/b"))
    status = ckpt.restore(tmp_path / "names").assert_consumed().assert_nontrivial_match()
    assert isinstance(status, NameBasedSaverStatus)
    assert (float(ckpt.x), ckpt.y.numpy().tolist()) == (1.0, [2, 3])
    ckpt.later = Variable(0.0, name="a")
    assert float(ckpt.later) == 1.0
    holder = Module()
    holder.inside = Variable(5.0, name="a")
    ckpt.holder = holder
    assert float(holder.inside) == 5.0
    assert status.unmatched == ("holder/inside",)
    ckpt.holder.again = Variable(0.0, name="a")
    assert float(ckpt.holder.again) == 1.0
    with pytest.raises(MismatchError):
        ckpt.wrong = Variable([0.0], name="a")
    assert not hasattr(ckpt, "wrong")
    ckpt.absent = Variable(0.0, name="absent")
    assert set(status.unmatched) == {"absent", "holder/inside"}
    with pytest.raises(UnrestoredError, match="'absent'"):
        status.assert_existing_objects_matched()


def test_a_name_based_mismatch_restores_nothing(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "names", {"a": np.float32(1), "b": np.array([2, 3], "int32")})
    ckpt: Any = Checkpoint(x=Variable(0.0, name="a"), y=Variable([0, 0, 0], name="b"))
    with pytest.raises(MismatchError):
        ckpt.restore(tmp_path / "names")
    assert float(ckpt.x) == 0.0
    ckpt.z = Variable(0.0, name="a")
    assert float(ckpt.z) == 0.0  # nothing waits either


def test_changed_containers_are_not_restored_into(tmp_path: Path) -> None:
    path = Checkpoint(l=[Variable(1.0), Variable(2.0)], v=Variable(3.0)).write(tmp_path / "c")
    ckpt: Any = Checkpoint(l=[Variable(0.0), Variable(0.0)], v=Variable(0.0))
    ckpt.l.reverse()
    with pytest.raises(ContainerChangedError, match="'l'"):
        ckpt.read(path)
    assert float(ckpt.v) == 0.0


def test_an_attribute_without_a_tensor(tmp_path: Path) -> None:
    class Table(TensorState):
        tensors: Any

        def to_tensors(self) -> dict[str, Any]:
            return dict(self.tensors)

        def from_tensors(self, tensors: dict[str, Any]) -> None:
            self.tensors = NoDependency(tensors)

    table = Table()
    table.tensors = NoDependency({"a.b": 1.0, "c/d": "x"})
    path = Checkpoint(t=table).write(tmp_path / "c")
    table.tensors = NoDependency({"a.b": 0.0, "c/d": ""})
    Checkpoint(t=table).read(path).assert_consumed()
    assert {name: each.item() for name, each in table.tensors.items()} == {"a.b": 1.0, "c/d": b"x"}
    table.tensors = NoDependency({"other": 0.0})
    with pytest.raises(MissingKeyError, match="nothing was restored"):
        Checkpoint(t=table).read(path)


def test_states_are_restored_first(tmp_path: Path) -> None:
    order: list[str] = []

    class State(PythonState):
        def serialize(self) -> str:
            return "x"

        def deserialize(self, string_value: bytes) -> None:
            order.append(f"{string_value!r} {float(v)}")

    v = Variable(1.0)
    path = Checkpoint(a=v, s=State()).write(tmp_path / "c")
    v.assign(0.0)
    Checkpoint(a=v, s=State()).read(path).assert_consumed()
    assert order == ["b'x' 0.0"]
    assert float(v) == 1.0


def test_slots_wait_for_their_owner(tmp_path: Path) -> None:
    v, owner = Variable([1.0, 2.0]), SlotOwner()
    owner.add_slot(v, "m", [3.0, 4.0])
    path = Checkpoint(v=v, owner=owner).write(tmp_path / "c")
    ckpt: Any = Checkpoint(v=Variable([0.0, 0.0]))
    status = ckpt.read(path)
    assert status.unresolved == ("v/.OPTIMIZER_SLOT/owner/m",)
    ckpt.owner = SlotOwner()
    slot = ckpt.owner.get_slot(ckpt.v, "m")
    assert slot.numpy().tolist() == [3.0, 4.0]
    status.assert_consumed()
    wrong: Any = SlotOwner()
    target = Variable([0.0, 0.0])
    wrong.add_slot(target, "m", 0.0)
    with pytest.raises(MismatchError):
        Checkpoint(v=target, owner=wrong).read(path)
    assert target.numpy().tolist() == [0.0, 0.0]


def test_plain_objects_take_what_they_have(tmp_path: Path) -> None:
    tree = {"w": np.arange(3.0), "layers": [{"k": np.ones(2)}, {"k": np.zeros(2)}]}
    path = Checkpoint(params=track(tree)).write(tmp_path / "c")
    other: Any = {"w": np.zeros(3), "layers": [{"k": np.zeros(2)}]}
    there = other["w"]
    status = Checkpoint(params=track(other)).read(path).expect_partial()
    assert there.tolist() == [0.0, 1.0, 2.0]
    assert status.unresolved == ("params/layers/1/k",)
    other["layers"].append({"k": np.ones(2)})
    assert other["layers"][1]["k"].tolist() == [1.0, 1.0]


def test_a_newer_graph_wins_over_an_older_reading_by_name(tmp_path: Path) -> None:
    # The state is met by both when it is set; the newer reading has its value.
    class State(PythonState):
        text = "fresh"

        def serialize(self) -> str:
            return self.text

        def deserialize(self, string_value: bytes) -> None:
            self.text = string_value.decode()

    saved = Checkpoint(state=State())
    saved.state.text = "saved"
    saved.write(tmp_path / "graph")
    save_checkpoint(tmp_path / "by_name", {"v": np.zeros(2, np.float32)})
    program = Checkpoint()
    by_name = program.read(tmp_path / "by_name")
    program.read(tmp_path / "graph").expect_partial()
    program.state = State()
    assert program.state.text == "saved"
    by_name.assert_consumed()


def test_a_changed_container_without_edges_in_the_checkpoint_fails(tmp_path: Path) -> None:
    Checkpoint(list=[]).write(tmp_path / "ckpt")
    raw: list[object] = []
    program = Checkpoint(list=raw)
    raw.append(1)
    with pytest.raises(ContainerChangedError):
        program.read(tmp_path / "ckpt")


def test_slots_that_are_left_out_are_not_missed(tmp_path: Path) -> None:
    Checkpoint(v=Variable(1.0)).write(tmp_path / "ckpt")
    program = Checkpoint(v=Variable(0.0), owner=SlotOwner())
    program.owner.add_slot(program.v, "m")
    options = CheckpointOptions(experimental_skip_slot_variables=True)
    program.read(tmp_path / "ckpt", options).assert_existing_objects_matched()
    with pytest.raises(UnrestoredError):
        program.read(tmp_path / "ckpt").assert_existing_objects_matched()


def test_a_damaged_save_counter_leaves_all_as_it_was(tmp_path: Path) -> None:
    saved = Checkpoint(v=Variable([1.0, 2.0]))
    prefix = saved.save(tmp_path / "ckpt")
    data = Path(prefix + ".data-00000-of-00001")
    damaged = bytearray(data.read_bytes())
    damaged[damaged.index(bytes([1, 0, 0, 0, 0, 0, 0, 0]))] ^= 1
    data.write_bytes(damaged)
    for root in (None, net()):
        v = Variable([0.0, 0.0])
        with pytest.raises(ChecksumError):
            Checkpoint(root, v=v).restore(prefix)
        assert v.numpy().tolist() == [0.0, 0.0]


def test_statuses_say_briefly_what_they_are(tmp_path: Path) -> None:
    saved = Checkpoint(v=Variable(1.0, name="v"), w=Variable(2.0)).save(tmp_path / "ckpt")
    status = Checkpoint(v=Variable(0.0)).restore(saved).expect_partial()
    assert repr(status) == "<CheckpointLoadStatus of 'ckpt-1': 2 matched, 1 unresolved>"
    told = repr(Checkpoint(v=Variable(0.0)).restore(None))
    assert told == "<InitializationOnlyStatus: no checkpoint was loaded>"
    save_checkpoint(tmp_path / "names", {"v": np.ones((), np.float32)})
    status = Checkpoint(v=Variable(0.0, name="v"), x=Variable(0.0, name="x")).restore(
        tmp_path / "names"
    )
    told = "<NameBasedSaverStatus of 'names': restored by name, 1 unmatched>"
    assert repr(status) == told
