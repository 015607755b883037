"""The steps of TensorFlow's checkpoint guide, with a model trained by hand on NumPy.

Each step runs with TensorFlow's checkpoints and with ours, and each goes on from what either left.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool.train.manager import CheckpointManager
from tests.interop.train_faces import ours, theirs


def new_net(m: Any, *, zeros: bool = False) -> Any:
    """One dense layer, from one number to five."""
    net = m.Module()
    net.l1 = m.Module()
    start = np.zeros((1, 5)) if zeros else np.linspace(-1, 1, 5).reshape(1, 5)
    net.l1.kernel = m.Variable(start.astype("float32"), name="net/l1/kernel")
    net.l1.bias = m.Variable(np.zeros(5, "float32"), name="net/l1/bias")
    return net


def new_optimizer(m: Any) -> Any:
    optimizer = m.SlotOwner()
    optimizer.rate = m.Variable(0.1, name="rate")
    return optimizer


def train_step(net: Any, optimizer: Any, x: Any) -> float:
    """Fit y = 5x + (0, 1, 2, 3, 4) with momentum; return the loss before the step."""
    wanted = x * 5 + np.arange(5, dtype="float32")
    error = x * net.l1.kernel.numpy() + net.l1.bias.numpy() - wanted
    sign = np.sign(error) / error.size
    steps = ((net.l1.kernel, (x * sign).sum(0, keepdims=True)), (net.l1.bias, sign.sum(0)))
    for variable, gradient in steps:
        momentum = optimizer.add_slot(variable, "momentum")
        momentum.assign(momentum.numpy() * np.float32(0.9) + gradient.astype("float32"))
        variable.assign_sub(momentum.numpy() * optimizer.rate.numpy())
    return float(np.abs(error).mean())


def train_and_checkpoint(m: Any, folder: str) -> list[Any]:
    net, optimizer = new_net(m), new_optimizer(m)
    ckpt = m.Checkpoint(step=m.Variable(1), optimizer=optimizer, net=net)
    manager = m.CheckpointManager(ckpt, folder, max_to_keep=3)
    ckpt.restore(manager.latest_checkpoint)
    told: list[Any] = [manager.latest_checkpoint]
    x = np.array([[0.5], [1.5]], "float32")
    for _ in range(50):
        loss = train_step(net, optimizer, x)
        ckpt.step.assign_add(1)
        if int(ckpt.step.numpy()) % 10 == 0:
            told += [manager.save(), int(ckpt.step.numpy()), round(loss, 3)]
    return [*told, manager.checkpoints, sorted(path.name for path in Path(folder).iterdir())]


def loading_mechanics(m: Any, folder: str) -> list[Any]:
    latest = f"{folder}/ckpt-10"
    to_restore = m.Variable(np.zeros(5, "float32"))
    told: list[Any] = [to_restore.numpy().tolist()]
    fake_layer = m.Checkpoint(bias=to_restore)
    fake_net = m.Checkpoint(l1=fake_layer)
    new_root = m.Checkpoint(net=fake_net)
    status = new_root.restore(latest)
    told.append(to_restore.numpy().tolist())
    late = m.Variable(np.zeros((1, 5), "float32"))
    fake_layer.kernel = late
    told.append(late.numpy().tolist())
    status.assert_existing_objects_matched()
    with pytest.raises(AssertionError):
        status.assert_consumed()
    status.expect_partial()
    return told


def resuming_in_part(m: Any, folder: str) -> list[Any]:
    """Weights into a net of the same layers, and the optimizer into one of its own."""
    net, optimizer = new_net(m, zeros=True), new_optimizer(m)
    m.Checkpoint(net=net).restore(f"{folder}/ckpt-9").expect_partial()
    ckpt = m.Checkpoint(net=net, optimizer=optimizer, step=m.Variable(0))
    ckpt.restore(f"{folder}/ckpt-10").assert_consumed()
    momentum = optimizer.get_slot(net.l1.bias, "momentum").numpy()
    return [net.l1.kernel.numpy().tolist(), momentum.tolist(), int(ckpt.step.numpy())]


def lists_and_dicts(m: Any, folder: str) -> list[Any]:
    save = m.Checkpoint()
    save.listed = [m.Variable(1.0)]
    save.listed.append(m.Variable(2.0))
    save.mapped = {"one": save.listed[0]}
    save.mapped["two"] = save.listed[1]
    path = save.save(f"{folder}/list_example")
    restore = m.Checkpoint()
    second = m.Variable(0.0)
    restore.mapped = {"two": second}
    restore.restore(path).expect_partial()
    told = [path, float(second.numpy())]
    restore.listed = []
    told.append(repr(restore.listed))
    first = m.Variable(0.0)
    restore.listed.append(first)
    return [*told, float(first.numpy())]


STEPS: list[Callable[[Any, str], list[Any]]] = [
    train_and_checkpoint,
    train_and_checkpoint,
    loading_mechanics,
    resuming_in_part,
    lists_and_dicts,
]


@pytest.mark.filterwarnings("ignore::ckpttool.errors.UnrestoredWarning")
def test_each_step_goes_on_from_either(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faces = {"theirs": theirs(tf), "ours": ours()}
    faces["theirs"].CheckpointManager = tf.train.CheckpointManager
    faces["ours"].CheckpointManager = CheckpointManager
    wanted: list[Any] = []
    for first, second in product(faces, faces):
        home = tmp_path / f"{first}-{second}"
        home.mkdir()
        monkeypatch.chdir(home)
        order = [first, second, first, second, second]
        answers = [step(faces[name], "tf_ckpts") for step, name in zip(STEPS, order, strict=True)]
        wanted = wanted or answers
        assert answers == wanted, (first, second)
    assert wanted[0][0] is None
    assert wanted[0][-1] == [
        "checkpoint",
        *(f"ckpt-{n}.{end}" for n in (3, 4, 5) for end in ("data-00000-of-00001", "index")),
    ]
    assert wanted[1][0] == "tf_ckpts/ckpt-5"
    assert wanted[1][-3] < wanted[0][3], "it did not learn"


def test_tensorflow_reads_what_a_program_on_numpy_saved(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    face = ours()
    face.CheckpointManager = CheckpointManager
    monkeypatch.chdir(tmp_path)
    train_and_checkpoint(face, "tf_ckpts")
    reader = tf.train.load_checkpoint("tf_ckpts")
    shapes = reader.get_variable_to_shape_map()
    assert shapes["net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"] == [1, 5]
    assert "net/l1/kernel/.OPTIMIZER_SLOT/optimizer/momentum/.ATTRIBUTES/VARIABLE_VALUE" in shapes
    assert tf.train.latest_checkpoint("tf_ckpts") == "tf_ckpts/ckpt-5"
    shutil.move("tf_ckpts", "moved")
    assert tf.train.latest_checkpoint("moved") == "moved/ckpt-5"
