"""Weights of Keras models here and back, and object graphs to look at, beside TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import save_checkpoint, train
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
    save_checkpoint(tmp_path / "names", {"w": np.zeros(1)})
    with pytest.raises(ValueError, match="has no object graph"):
        train.CheckpointView(tmp_path / "names")
    with pytest.raises(ValueError, match="int is not trackable"):
        train.CheckpointView(prefix).match(1)


def view_programs(m: Any) -> list[Any]:
    """Return roots of many sorts, with the same objects whichever module makes them."""
    net, other = m.Module(), m.Module()
    net.v, net.pair, net.named = m.Variable(1.0), (m.Variable(2.0), [m.Variable(3.0)]), {"a": {}}
    net.named["b"] = net.v
    net.again = net.named
    other.v, other.pair = m.Variable(0.0), [m.Variable(0.0), m.Module()]
    owner = m.SlotOwner()
    owner.add_slot(net.v, "m")
    rooted = m.Checkpoint(net, owner=owner, x=m.Variable(5))
    rooted.save_counter  # noqa: B018 - made on first use
    return [net, other, owner, m.Checkpoint(net=net, owner=owner, other=other), rooted]


def test_views_of_any_program_on_any_checkpoint(tf: Any, tmp_path: Path) -> None:
    mine = view_programs(ours())
    saved = [train.Checkpoint(root).write(tmp_path / f"{at}") for at, root in enumerate(mine[:4])]
    saved.append(mine[4].write(tmp_path / "rooted"))
    answers = []
    for views, roots in ((tf.train, view_programs(theirs(tf))), (train, mine)):
        told: list[Any] = []
        for root in roots:
            listed = views.TrackableView(root).descendants()
            objects = {id(one): at for at, one in enumerate(listed)}
            for each in listed:
                children = views.TrackableView.children(each)
                told.append({name: objects[id(child)] for name, child in children.items()})
            for path in saved:
                view = views.CheckpointView(path)
                match, there, here = view.diff(root)
                told.append({number: objects[id(each)] for number, each in match.items()})
                told.append((view.descendants(), there, [objects[id(each)] for each in here]))
        answers.append(told)
    assert answers[0] == answers[1]


def test_objects_of_a_checkpoint_go_back(tf: Any, tmp_path: Path) -> None:
    """A program is made of TensorFlow's checkpoint, changed, saved, and restored there."""
    tf_keras = pytest.importorskip("tf_keras")
    for number, optimizer in enumerate(
        (
            tf_keras.optimizers.legacy.Adam(0.1),
            tf_keras.optimizers.Adam(0.1),
            tf.keras.optimizers.Adam(0.1),
        )
    ):
        v = tf.Variable([1.0, 2.0], name="v")
        data = iter(tf.data.Dataset.range(9))
        next(data)
        ckpt = tf.train.Checkpoint(v=v, optimizer=optimizer, data=data)
        optimizer.apply_gradients([(tf.constant([0.5, 0.5]), v)])
        saved = ckpt.save(str(tmp_path / "ckpt"))
        mine = train.load_objects(saved)
        mine.v.assign([7.0, 8.0])
        again = mine.save(tmp_path / "again")
        ckpt.restore(again).assert_consumed()
        assert v.numpy().tolist() == [7.0, 8.0] and next(data).numpy() == 1
        mine.v.assign(train.load_variable(saved, "v/.ATTRIBUTES/VARIABLE_VALUE"))
        mine.save_counter.assign_sub(1)
        same = mine.write(tmp_path / f"same{number}")
        for end in (".index", ".data-00000-of-00001"):
            assert Path(same + end).read_bytes() == Path(saved + end).read_bytes()
