"""What is carried along is written again as it was: TensorFlow's checkpoints, by the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

import ckpttool
from ckpttool.objects.keys import GRAPH_KEY
from ckpttool.train.carried import Carried
from ckpttool.train.checkpoint import Checkpoint, save_weights
from ckpttool.train.module import Module
from ckpttool.train.restore import read_program
from ckpttool.train.saving import write_snapshot
from ckpttool.train.snapshot import snapshot_of
from ckpttool.train.variable import Variable
from tests.support import fixtures

WHOLE = [
    *("containers", "edge_names", "guide_legacy_adam", "guide_new_adam", "iterators"),
    *("keras3_adam", "keras3_sgd_momentum", "legacy_adam_amsgrad", "legacy_rmsprop"),
    *("no_values", "object_dtypes", "python_state", "references", "root_attributes"),
    *("root_variable", "save_weights", "tables", "tf_keras_new_adam_ema", "write_after_save"),
]


def carried(prefix: str) -> Carried:
    root = Carried()
    read_program(prefix, lambda: (root, ())).assert_consumed()
    return root


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_checkpoint(name: str, tmp_path: Path) -> None:
    (prefix,) = [
        bundle.prefix
        for bundle in fixtures.bundles()
        if f"/v2/tf2.21/{name}/" in bundle.prefix and GRAPH_KEY in bundle.tensors
    ][-1:]
    write_snapshot(str(tmp_path / "ckpt"), snapshot_of(carried(prefix)))
    for suffix in (".data-00000-of-00001", ".index"):
        assert (tmp_path / f"ckpt{suffix}").read_bytes() == Path(prefix + suffix).read_bytes()


def test_save_weights_of_a_keras_model(tmp_path: Path) -> None:
    (prefix,) = [b.prefix for b in fixtures.bundles() if "tf2.21/save_weights/" in b.prefix]
    save_weights(carried(prefix), tmp_path / Path(prefix).name)
    for path in Path(prefix).parent.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_it_follows_its_new_place(tmp_path: Path) -> None:
    (prefix,) = [b.prefix for b in fixtures.bundles() if "tf2.21/tables/" in b.prefix][-1:]
    module = Module()
    module.v = Variable(1.0)
    module.old = carried(prefix)
    with ckpttool.open_checkpoint(prefix) as opened:
        keys = {key for key in opened.entries if key != GRAPH_KEY}
    saved = dict(snapshot_of(module).tensors)
    assert {f"old/{key}" for key in keys} <= set(saved)


def test_slots_are_made_on_demand() -> None:
    root, child = Carried(), Carried()
    slot = root.create_slot(child, "m", None, ())
    assert root.get_slot(child, "m") is slot is root.create_slot(child, "m", None, ())
    assert root.get_slot_names() == ["m"]
    assert root.get_slot(slot, "m") is None


def test_a_root_that_carries_everything(tmp_path: Path) -> None:
    module = Module()
    module.a, module.b = Variable(1.0, name="a"), Variable(2.0, name="b")
    saved = Checkpoint(module, step=Variable(3)).save(tmp_path / "ckpt")
    step = Variable(0)
    ckpt = Checkpoint(Carried(), step=step)
    ckpt.restore(saved).assert_consumed()
    assert (int(ckpt.save_counter), int(step)) == (1, 3)
    step.assign(4)
    again = ckpt.save(tmp_path / "ckpt")
    assert ckpttool.verify(again).verdict == "ok"
    other = Module()
    other.a, other.b, step = Variable(0.0), Variable(0.0), Variable(0)
    Checkpoint(other, step=step).restore(again).assert_consumed()
    assert (float(other.a), float(other.b), int(step)) == (1.0, 2.0, 4)
