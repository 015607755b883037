"""A program is refactored, `ckpt match` says what to do, and then TensorFlow restores all."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.wild import run

# What a story is made of: the root that saved, the root of the program now, and how to train one.
Roots = tuple[dict[str, Any], dict[str, Any]]
DATA = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def printed(*words: str) -> tuple[int, str]:
    done = run("match", *words, "--format", "table")
    assert not done.err, done.err
    return done.code, done.out


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in re.findall(r"^  (ckpt .*)$", text, re.MULTILINE)]


def modules(tf: Any) -> Roots:
    """Modules whose attributes were renamed, with the moments of an optimizer."""

    def net(first: str, second: str) -> Any:
        root = tf.Module()
        for name, size in ((first, 3), (second, 5)):
            layer = tf.Module()
            layer.kernel, layer.bias = tf.Variable(tf.ones([3, size])), tf.Variable(tf.ones([size]))
            setattr(root, name, layer)
        root.scales = [tf.Variable(1.0), tf.Variable([1.0, 2.0])]
        return root

    return {"net": net("first", "second")}, {"model": net("encoder", "head")}


def tf_keras_models(tf_keras: Any, optimizers: Any) -> Roots:
    def model(names: tuple[str, str]) -> Any:
        class Net(tf_keras.Model):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                for name, size in zip(names, (7, 2), strict=True):
                    setattr(self, name, tf_keras.layers.Dense(size))

            def call(self, inputs: Any) -> Any:
                return getattr(self, names[1])(getattr(self, names[0])(inputs))

        made = Net()
        made.compile(optimizers.Adam(0.1), "mse")
        made.fit(DATA, np.zeros((4, 2), np.float32), verbose=0)
        return made

    old, new = model(("dense_a", "dense_b")), model(("hidden", "out"))
    return {"model": old}, {"net": new}


def keras_3_models(tf: Any) -> Roots:
    keras: Any = tf.keras

    def model(names: tuple[str, str]) -> Any:
        class Net(keras.Model):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                for name, size in zip(names, (7, 2), strict=True):
                    setattr(self, name, keras.layers.Dense(size))

            def call(self, inputs: Any) -> Any:
                return getattr(self, names[1])(getattr(self, names[0])(inputs))

        made = Net()
        made.compile(keras.optimizers.Adam(0.1), "mse")
        made.fit(DATA, np.zeros((4, 2), np.float32), verbose=0)
        return made

    return {"model": model(("dense_a", "dense_b"))}, {"net": model(("hidden", "out"))}


def story(tf: Any, roots: Roots, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Save the one, follow what is told for the other, and let TensorFlow restore it."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    old, new = roots
    saved = tf.train.Checkpoint(**old).save("old/ckpt")
    program = tf.train.Checkpoint(**new)
    fresh = program.write("fresh")
    code, text = printed(saved, fresh)
    assert code == 1
    with pytest.raises(AssertionError):
        program.restore(saved).assert_consumed()
    # By the command that is printed, and by a map.
    told = commands(text)
    assert told[-1] == ["match", "NEW", "fresh"], text
    for line in told:
        done = run(*line)
        assert done.code == (1 if "--rename-map" in line else 0), (line, done, text)
    assert run("match", saved, fresh, "--rename-map", "map.json").code == 1
    assert json.loads(Path("map.json").read_text())
    assert run("rename", saved, "--map", "map.json", "-o", "by-map").code == 0
    for made in ("NEW", "by-map"):
        program.restore(made).assert_consumed()
    return text


STORIES: dict[str, Callable[[Any], Roots]] = {
    "modules": modules,
    "tf_keras": lambda tf: tf_keras_models(
        pytest.importorskip("tf_keras"), pytest.importorskip("tf_keras").optimizers
    ),
    "tf_keras legacy": lambda tf: tf_keras_models(
        pytest.importorskip("tf_keras"), pytest.importorskip("tf_keras").optimizers.legacy
    ),
    "keras 3": keras_3_models,
}


@pytest.mark.parametrize("name", STORIES)
def test_a_refactored_program(
    name: str, tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = STORIES[name](tf)
    before = [each.numpy() for each in next(iter(old.values())).variables]
    story(tf, (old, new), tmp_path, monkeypatch)
    after = [each.numpy() for each in next(iter(new.values())).variables]
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one, other)


def test_slots_of_variables_that_move(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf_keras = pytest.importorskip("tf_keras")

    def program(name: str) -> tuple[Any, Any]:
        net = tf.Module()
        setattr(net, name, tf.Variable([1.0, 2.0]))
        adam = tf_keras.optimizers.legacy.Adam(0.1)
        adam.apply_gradients([(tf.constant([0.5, 0.25]), getattr(net, name))])
        return net, adam

    (old, old_adam), (new, new_adam) = program("w"), program("kernel")
    roots = {"net": old, "opt": old_adam}, {"net": new, "opt": new_adam}
    text = story(tf, roots, tmp_path, monkeypatch)
    assert "and 2 slots of them" in text
    for slot in ("m", "v"):
        moved = new_adam.get_slot(new.kernel, slot)
        assert np.array_equal(moved, old_adam.get_slot(old.w, slot))


def test_weights_into_a_checkpoint_with_a_keyword(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`save_weights` here, `Checkpoint(model=…)` there: the advice is about the program."""
    tf_keras = pytest.importorskip("tf_keras")
    monkeypatch.chdir(tmp_path)
    layers = [tf_keras.layers.Dense(3, input_shape=(3,)), tf_keras.layers.Dense(2)]
    model = tf_keras.Sequential(layers)
    model.save_weights("weights")
    tf.train.Checkpoint(model=model).write("fresh")
    code, text = printed("weights", "fresh", "--read")
    assert code == 1 and "at its root what the program has below 'model'" in text
    tf.train.Checkpoint(model).read("weights").assert_existing_objects_matched()
    tf.train.Checkpoint(model=model).save("ckpt")
    code, text = printed("ckpt-1", "weights", "--read")
    assert "Checkpoint(model=net)" in text
    for line in commands(text):
        assert run(*line).code in (0, 1)


def test_another_head(tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine-tuning: what does not fit is dropped, the rest is restored."""
    monkeypatch.chdir(tmp_path)

    def net(size: int) -> Any:
        made = tf.Module()
        made.body, made.head = tf.Variable(tf.ones([4, 4])), tf.Variable(tf.zeros([size]))
        return made

    tf.train.Checkpoint(net=net(10)).save("old")
    new = net(3)
    program = tf.train.Checkpoint(net=new)
    program.write("fresh")
    code, text = printed("old-1", "fresh")
    assert code == 1 and "cannot be restored" in text
    with pytest.raises(ValueError, match="hape"):
        program.restore("old-1")
    (line,) = commands(text)
    assert run(*line).code == 0
    status = program.restore("NEW").expect_partial()
    assert new.body.numpy().all()
    with pytest.raises(AssertionError):
        status.assert_existing_objects_matched()
    assert printed("NEW", "fresh", "--ignore", "net/head")[0] == 0


def test_an_optimizer_that_is_not_wanted(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf_keras = pytest.importorskip("tf_keras")
    monkeypatch.chdir(tmp_path)
    v = tf.Variable([1.0, 2.0])
    adam = tf_keras.optimizers.legacy.Adam(0.1)
    adam.apply_gradients([(tf.constant([0.5, 0.25]), v)])
    tf.train.Checkpoint(v=v, adam=adam).save("old")
    program = tf.train.Checkpoint(v=v)
    program.write("fresh")
    code, text = printed("old-1", "fresh")
    assert code == 1 and "loads in part" in text
    prune, partial = commands(text)
    assert [run(*line).code for line in (prune, partial)] == [0, 0]
    program.restore("NEW").assert_consumed()


def test_an_optimizer_of_another_generation(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf_keras = pytest.importorskip("tf_keras")
    monkeypatch.chdir(tmp_path)
    data = [(tf.constant([0.5, 0.25]), tf.Variable([1.0, 2.0]))]
    legacy, adam = tf_keras.optimizers.legacy.Adam(0.1), tf_keras.optimizers.Adam(0.1)
    legacy.apply_gradients(data)
    v = data[0][1]
    tf.train.Checkpoint(v=v, optimizer=legacy).save("old")
    adam.build([v])
    program = tf.train.Checkpoint(v=v, optimizer=adam)
    program.write("fresh")
    code, text = printed("old-1", "fresh")
    assert code == 1 and "refuses the slot variables of an older one" in text
    with pytest.raises(ValueError, match="legacy"):
        program.restore("old-1")
    assert len(commands(text)) == 2, text
    convert, prune = commands(text)
    assert run(*convert).code == 0
    # `fresh` has no save counter, and so has the result.
    tf.train.Checkpoint(v=v, optimizer=adam).read("NEW").assert_consumed()
    assert np.array_equal(adam._variables[1], legacy.get_slot(v, "m")) and adam.iterations == 1
    prune[-1] = "WEIGHTS"
    assert run(*prune).code == 0
    program.restore("WEIGHTS").expect_partial()


def test_a_model_that_was_not_called_yet(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf_keras = pytest.importorskip("tf_keras")
    monkeypatch.chdir(tmp_path)

    def model() -> Any:
        return tf_keras.Sequential([tf_keras.layers.Dense(3), tf_keras.layers.Dense(2)])

    old, new = model(), model()
    old(DATA)
    tf.train.Checkpoint(model=old).save("old")
    program = tf.train.Checkpoint(model=new)
    program.write("fresh")
    code, text = printed("old-1", "fresh")
    assert code == 1 and "call the model" in text
    new(DATA)
    program.write("fresh")
    assert printed("old-1", "fresh")[0] == 0


def test_a_checkpoint_of_write_is_read(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = tf.train.Checkpoint(v=tf.Variable(1.0))
    program.write("old")
    program.save("counted")
    with pytest.raises(AssertionError):
        tf.train.Checkpoint(v=tf.Variable(0.0)).restore("old").assert_consumed()
    code, text = printed("old", "counted-1")
    assert code == 1 and "Checkpoint.write leaves none" in text
    (line,) = commands(text)
    assert "goes on counting" in printed(*line[1:])[1]  # the program has saved before
    program.write("fresh")
    tf.train.Checkpoint(v=tf.Variable(0.0)).read("old").assert_consumed()
