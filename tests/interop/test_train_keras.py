"""Weights of Keras models here and back, and object graphs to look at, beside TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import train
from tests.interop.train_faces import ours, theirs


def model(tf_keras: Any, tf: Any) -> Any:
    class Net(tf_keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.hidden = tf_keras.layers.Dense(3, name="hidden")
            self.out = tf_keras.layers.Dense(2)
            self.scales = [tf.Variable(1.0), tf.Variable(2.0)]

        def call(self, inputs: Any) -> Any:
            return self.out(self.hidden(inputs))

    made = Net()
    made(np.ones((1, 4), "float32"))
    return made


def twin() -> Any:
    made = train.Module()
    for name, shape in (("hidden", (4, 3)), ("out", (3, 2))):
        layer = train.Module()
        layer.kernel = train.Variable(np.zeros(shape, "float32"))
        layer.bias = train.Variable(np.zeros(shape[1], "float32"))
        setattr(made, name, layer)
    made.scales = [train.Variable(0.0), train.Variable(0.0)]
    return made


def test_weights_of_a_model(tf: Any, tmp_path: Path) -> None:
    tf_keras = pytest.importorskip("tf_keras")
    net, mine = model(tf_keras, tf), twin()
    net.save_weights(str(tmp_path / "theirs"))
    status = train.load_weights(mine, tmp_path / "theirs")
    status.assert_existing_objects_matched()
    assert np.array_equal(mine.hidden.kernel.numpy(), net.hidden.kernel.numpy())
    assert float(mine.scales[1]) == 2.0
    mine.out.bias.assign([5.0, 6.0])
    mine.scales[0].assign(9.0)
    train.save_weights(mine, tmp_path / "ours")
    net.load_weights(str(tmp_path / "ours")).expect_partial().assert_nontrivial_match()
    assert net.out.bias.numpy().tolist() == [5.0, 6.0] and net.scales[0].numpy() == 9.0
    with pytest.raises(train.UnrestoredError):
        train.load_weights(train.Module(), tmp_path / "ours")


def programs(m: Any) -> tuple[Any, Any]:
    first, second = m.Module(), m.Module()
    first.v, first.l, first.inner = m.Variable(1.0), [m.Variable(2.0), {"a": []}], m.Module()
    first.inner.back, first.inner.w, first.both = first, m.Variable(3.0), first.l
    second.v, second.l, second.inner = m.Variable(0.0), [1, {"a": [m.Variable(4.0)]}], m.Module()
    second.inner.back, second.inner.x, second.other = second, second.v, m.Variable(5.0)
    return first, second


def test_views(tf: Any, tmp_path: Path) -> None:
    first, _ = programs(ours())
    prefix = train.Checkpoint(first, step=train.Variable(1)).save(tmp_path / "ckpt")
    told = []
    for m in (tf.train, train):
        _, second = programs(theirs(tf) if m is tf.train else ours())
        view, live = m.CheckpointView(prefix), m.TrackableView(second)
        assert live.root is second
        objects = {id(each): number for number, each in enumerate(live.descendants())}
        match, only_there, only_here = view.diff(second)
        assert view.match(second).keys() == match.keys()
        told.append(
            (
                [view.children(number) for number in range(4)],
                view.descendants(),
                {name: objects[id(each)] for name, each in live.children(second).items()},
                {number: objects[id(each)] for number, each in match.items()},
                only_there,
                [objects[id(each)] for each in only_here],
            )
        )
    assert told[0] == told[1]
    assert told[0][4] and told[0][5]
    from ckpttool import save_checkpoint

    save_checkpoint(tmp_path / "names", {"w": np.zeros(1)})
    with pytest.raises(ValueError, match="has no object graph"):
        train.CheckpointView(tmp_path / "names")
    with pytest.raises(ValueError, match="int is not trackable"):
        train.CheckpointView(prefix).match(1)
