"""TensorFlow restores what was left by pruning, and trains on with other optimizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ckpttool
from ckpttool.checkpoint.kinds.rules import OPTIMIZER_KINDS, SLOT_KINDS
from ckpttool.surgery.pruning import WEIGHT_KINDS
from ckpttool.surgery.rules import parse_move
from tests.interop import surgery_keras as keras_models
from tests.interop import surgery_objects as objects
from tests.interop.corpus import FIXTURES
from tests.interop.surgery_compare import operate, pruning, renaming, restored, stored, structure
from tests.interop.surgery_programs import (
    LEGACY,
    Program,
    Side,
    keras_families,
    legacy_net,
    new_optimizer_net,
    trainer,
)
from tests.interop.values import content
from tests.support.command import ckpt

SLOTS: dict[str, Any] = {"drop_kinds": SLOT_KINDS}
OPTIMIZER: dict[str, Any] = {"drop_kinds": OPTIMIZER_KINDS}
WEIGHTS: dict[str, Any] = {"only_kinds": WEIGHT_KINDS}
WAYS = pytest.mark.parametrize("compact", [False, True], ids=["linked", "compact"])
ANY_OPTIMIZER: dict[str, Callable[[Any, Any], Any]] = {
    "legacy_adam": lambda old, new: old.optimizers.legacy.Adam(0.1),
    "legacy_momentum": lambda old, new: old.optimizers.legacy.SGD(0.1, momentum=0.5),
    "tf_keras_adam": lambda old, new: old.optimizers.Adam(0.1),
    "tf_keras_sgd": lambda old, new: old.optimizers.SGD(0.1),
    "keras3_adam": lambda old, new: new.optimizers.Adam(0.1),
    "keras3_momentum": lambda old, new: new.optimizers.SGD(0.1, momentum=0.5),
}
LABELS = ("kernel", "bias", "kernel2")


def save(program: Program, folder: Path) -> str:
    """Train two steps and save; return the prefix."""
    for _ in range(2):
        if program.step is not None:
            program.step()
    prefix: str = program.checkpoint.save(str(folder / "source" / "ckpt"))
    return prefix


def pruned(source: str, *, compact: bool = False, **what: Any) -> str:
    """Prune to another folder; return the prefix."""
    target = str(Path(source).parent.parent / "pruned" / "ckpt-1")
    operate(source, target, pruning(**what), compact=compact)
    before, after = stored(source), stored(target)
    assert after.items() <= before.items()
    assert len(after) < len(before)
    return target


def net_alone(side: Side, *, step: bool = True) -> tuple[Any, list[Any]]:
    """Return the checkpoint of the net of `legacy_net` without its optimizer, and its variables."""
    kernel, bias = side.var("kernel", (3, 2)), side.var("bias", (2,))
    l1, l2 = side.module(kernel=kernel, bias=bias), side.module(kernel=side.var("kernel2", (2, 2)))
    parts = {"net": side.module(l1=l1, l2=l2)}
    if step:
        parts["step"] = side.var("step", (), "int64")
    return side.tf.train.Checkpoint(**parts), [kernel, bias, l2.kernel]


def blank(tf: Any) -> Side:
    """Return a side whose variables are all -1."""
    return Side(tf, True)


def assert_same(before: Program, after: Side | Program, labels: tuple[str, ...] = LABELS) -> None:
    ours, theirs = before.values(), after.values()
    for label in labels:
        assert content(theirs[label]) == content(ours[label]), label


@WAYS
@pytest.mark.parametrize("name", LEGACY)
def test_without_slots_into_the_same_program(
    tf: Any, tmp_path: Path, name: str, compact: bool
) -> None:
    before = legacy_net(Side(tf, False), LEGACY[name])
    target = pruned(save(before, tmp_path), compact=compact, **SLOTS)
    fresh = legacy_net(Side(tf, False), LEGACY[name])
    for each in fresh.checkpoint.net.l1.variables:
        each.assign(each * 0)
    restored(fresh.checkpoint, target)
    assert_same(before, fresh_values(fresh), ("kernel", "bias", "kernel2", "step"))
    assert int(fresh.checkpoint.optimizer.iterations) == 2
    theirs = fresh.checkpoint.write(str(tmp_path / "theirs"))
    assert structure(target) == structure(theirs)
    assert fresh.step is not None
    fresh.step()
    assert int(fresh.checkpoint.optimizer.iterations) == 3


def fresh_values(program: Program) -> Program:
    """Return the program with the values of its variables alone, not asking for slots."""
    net = program.checkpoint.net
    found = {
        "kernel": net.l1.kernel,
        "bias": net.l1.bias,
        "kernel2": net.l2.kernel,
        "step": program.checkpoint.step,
    }
    return Program(program.checkpoint, lambda: {name: v.numpy() for name, v in found.items()})


@WAYS
@pytest.mark.parametrize("what", [OPTIMIZER, WEIGHTS], ids=["optimizer", "weights"])
@pytest.mark.parametrize("name", LEGACY)
def test_without_an_optimizer(
    tf: Any, tmp_path: Path, name: str, what: dict[str, Any], compact: bool
) -> None:
    before = legacy_net(Side(tf, False), LEGACY[name])
    target = pruned(save(before, tmp_path), compact=compact, **what)
    after = blank(tf)
    checkpoint, _ = net_alone(after, step=what is OPTIMIZER)
    restored(checkpoint, target)
    assert_same(before, after)
    theirs = checkpoint.write(str(tmp_path / "theirs"))
    assert structure(target) == structure(theirs)


@pytest.mark.parametrize("other", ANY_OPTIMIZER)
@pytest.mark.parametrize("what", [SLOTS, OPTIMIZER, WEIGHTS], ids=["slots", "optimizer", "weights"])
def test_another_optimizer_for_a_legacy_one(
    tf: Any, tmp_path: Path, what: dict[str, Any], other: str
) -> None:
    before = legacy_net(Side(tf, False))
    target = pruned(save(before, tmp_path), **what)
    after = blank(tf)
    checkpoint, variables = net_alone(after, step=what is not WEIGHTS)
    restored(checkpoint, target, everything=False)
    assert_same(before, after)
    checkpoint.optimizer = ANY_OPTIMIZER[other](*keras_families())
    trainer(after, checkpoint.optimizer, variables)()
    for label, value in before.values().items():
        if label in LABELS:
            assert content(after.values()[label]) != content(value)


def test_slots_are_what_new_optimizers_refuse(tf: Any, tmp_path: Path) -> None:
    source = save(legacy_net(Side(tf, False)), tmp_path)
    after = blank(tf)
    checkpoint, _ = net_alone(after)
    checkpoint.optimizer = ANY_OPTIMIZER["tf_keras_adam"](*keras_families())
    with pytest.raises(ValueError, match="legacy"):
        checkpoint.restore(source).expect_partial()
    checkpoint.restore(pruned(source, **SLOTS)).expect_partial()
    target = str(tmp_path / "no_optimizer" / "ckpt-1")
    operate(source, target, pruning(**OPTIMIZER))
    checkpoint.restore(target).assert_nontrivial_match().expect_partial()


@WAYS
@pytest.mark.parametrize("other", ANY_OPTIMIZER)
@pytest.mark.parametrize("name", ["tf_keras_adam", "keras3_adam", "keras3_momentum"])
def test_another_optimizer_for_a_new_one(
    tf: Any, tmp_path: Path, name: str, other: str, compact: bool
) -> None:
    before = new_optimizer_net(Side(tf, False), ANY_OPTIMIZER[name])
    target = pruned(save(before, tmp_path), compact=compact, **OPTIMIZER)
    after = blank(tf)
    kernel, bias = after.var("kernel", (3, 2)), after.var("bias", (2,))
    net = after.module(l1=after.module(kernel=kernel, bias=bias))
    checkpoint = tf.train.Checkpoint(net=net)
    restored(checkpoint, target)
    assert_same(before, after, ("kernel", "bias"))
    checkpoint.optimizer = ANY_OPTIMIZER[other](*keras_families())
    trainer(after, checkpoint.optimizer, [kernel, bias])()
    assert content(kernel.numpy()) != content(before.values()["kernel"])


@pytest.mark.parametrize("what", [SLOTS, OPTIMIZER, WEIGHTS], ids=["slots", "optimizer", "weights"])
@pytest.mark.parametrize("shape", [keras_models.subclassed, keras_models.sequential])
def test_keras_models(tf: Any, tmp_path: Path, what: dict[str, Any], shape: Any) -> None:
    def adam(keras: Any) -> Any:
        return keras.optimizers.Adam(0.1)

    before = keras_models.model_beside_optimizer(Side(tf, False), adam, shape=shape)
    target = pruned(save(before, tmp_path), **what)
    model = shape(keras_families()[1], Side(tf, False))
    checkpoint = tf.train.Checkpoint(model=model)
    restored(checkpoint, target, everything=False)
    for at, value in enumerate(model.get_weights()):
        assert content(value) == content(before.values()[f"weight/{at}"])
    checkpoint.optimizer = keras_families()[1].optimizers.SGD(0.1, momentum=0.5)
    trainer(Side(tf, False), checkpoint.optimizer, model.trainable_variables)()


@pytest.mark.parametrize("three", [True, False], ids=["keras3", "tf_keras"])
def test_compiled_models(tf: Any, tmp_path: Path, three: bool) -> None:
    def adam(keras: Any) -> Any:
        return keras.optimizers.Adam(0.1)

    before = keras_models.compiled(Side(tf, False), adam, three=three)
    target = pruned(save(before, tmp_path), **OPTIMIZER)
    keras = keras_families()[three]
    model = keras_models.sequential(keras, Side(tf, False))
    checkpoint = tf.train.Checkpoint(model=model)
    restored(checkpoint, target)
    for at, value in enumerate(model.get_weights()):
        assert content(value) == content(before.values()[f"weight/{at}"])
    model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.5), loss="mse")
    trainer(Side(tf, False), model.optimizer, model.trainable_variables)()


@WAYS
def test_scopes(tf: Any, tmp_path: Path, compact: bool) -> None:
    before = legacy_net(Side(tf, False))
    source = save(before, tmp_path)
    target = pruned(source, compact=compact, drop=("net/l1", "step"))
    side = blank(tf)
    tf_keras, _ = keras_families()
    optimizer = keras_models.built(tf_keras.optimizers.legacy.Adam(0.1), [])
    net = side.module(l2=side.module(kernel=side.var("kernel2", (2, 2))))
    checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer)
    restored(checkpoint, target)
    assert_same(before, side, ("kernel2",))
    slot = optimizer.get_slot(net.l2.kernel, "m").numpy()
    assert content(slot) == content(before.values()["kernel2/m"])
    assert structure(target) == structure(checkpoint.write(str(tmp_path / "theirs")))


def test_keep(tf: Any, tmp_path: Path) -> None:
    before = legacy_net(Side(tf, False))
    target = pruned(save(before, tmp_path), keep=("net/l1/kernel", "save_counter"))
    side = blank(tf)
    net = side.module(l1=side.module(kernel=side.var("kernel", (3, 2))))
    restored(tf.train.Checkpoint(net=net), target)
    assert_same(before, side, ("kernel",))


@WAYS
def test_shared_objects_go_under_all_their_names(tf: Any, tmp_path: Path, compact: bool) -> None:
    before = objects.shared(Side(tf, False))
    target = pruned(save(before, tmp_path), compact=compact, drop=("net/weight",))
    side = blank(tf)
    module = side.module(b=side.var("b"))
    net = side.module(main=module, holder=side.module(held=module))
    checkpoint = tf.train.Checkpoint(net=net)
    restored(checkpoint, target)
    assert_same(before, side, ("b",))
    assert structure(target) == structure(checkpoint.write(str(tmp_path / "theirs")))


def test_one_of_a_circle(tf: Any, tmp_path: Path) -> None:
    before = objects.cyclic(Side(tf, False))
    target = pruned(save(before, tmp_path), drop=("b/v",))
    side = blank(tf)
    a, b = side.module(w=side.var("w")), side.module()
    a.other, a.me, b.other = b, a, a
    checkpoint = tf.train.Checkpoint(a=a, b=b)
    restored(checkpoint, target)
    assert_same(before, side, ("w",))
    assert structure(target) == structure(checkpoint.write(str(tmp_path / "theirs")))


@WAYS
@pytest.mark.parametrize(
    "dropped", [("table", "box/dense"), ("data",), ("generator",), ("text",)], ids=" ".join
)
def test_tables_and_other_state(
    tf: Any, tmp_path: Path, dropped: tuple[str, ...], compact: bool
) -> None:
    side = Side(tf, False)
    before = objects.states(side)
    before.checkpoint.weight = side.var("w", (2,))
    target = pruned(save(before, tmp_path), compact=compact, drop=dropped)
    again = Side(tf, False)
    after = objects.states(again)
    after.checkpoint.weight = again.var("w", (2,))
    after.checkpoint.weight.assign([0, 0])
    for name in dropped:
        owner = after.checkpoint.box if "/" in name else after.checkpoint
        delattr(owner, name.rpartition("/")[2])
    restored(after.checkpoint, target)
    assert_same(Program(before.checkpoint, side.values), again, ("w",))
    assert structure(target) == structure(after.checkpoint.write(str(tmp_path / "theirs")))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("options", [("--slots",), ("--optimizer",), ("--weights-only",)])
def test_the_command_in_place(
    tf: Any, tmp_path: Path, options: tuple[str, ...], compact: bool
) -> None:
    before = legacy_net(Side(tf, False))
    source = save(before, tmp_path)
    words = (*options, "--in-place", *(("--compact",) if compact else ()))
    outcome = ckpt("prune", str(tmp_path / "source"), *words)
    assert outcome.code == 0, outcome.err
    after = blank(tf)
    checkpoint, _ = net_alone(after, step=options != ("--weights-only",))
    latest = tf.train.latest_checkpoint(str(tmp_path / "source"))
    assert latest == source
    restored(checkpoint, latest, everything=options != ("--slots",))
    assert_same(before, after)


def test_the_command_over_its_own_output(tf: Any, tmp_path: Path) -> None:
    before = legacy_net(Side(tf, False))
    source, target = save(before, tmp_path), str(tmp_path / "out" / "ckpt")
    for option in ("--slots", "--optimizer"):
        outcome = ckpt("prune", source, option, "-o", target, "--force")
        assert outcome.code == 0, outcome.err
    after = blank(tf)
    checkpoint, _ = net_alone(after)
    restored(checkpoint, target)
    assert_same(before, after)
    restored(legacy_net(Side(tf, False)).checkpoint, source, everything=False)


RENAME = [parse_move(text) for text in ("net/l1/kernel=model/l1/w", "net=model", "optimizer=opt")]
BOTH = {
    "slots": pruning(**SLOTS),
    "optimizer": pruning(**OPTIMIZER),
    "scope": pruning(drop=("net/l2", "step")),
}


@pytest.mark.parametrize("name", BOTH)
def test_pruned_and_renamed_in_either_order(tf: Any, tmp_path: Path, name: str) -> None:
    before = legacy_net(Side(tf, False))
    source = save(before, tmp_path)
    rules = [rule for rule in RENAME if name != "optimizer" or rule.old != "optimizer"]
    targets = [str(tmp_path / f"{order}" / "ckpt-1") for order in ("one", "other")]
    operate(source, targets[0], BOTH[name], renaming(rules))
    operate(source, targets[1], renaming(rules), BOTH[name])
    assert structure(targets[0]) == structure(targets[1])
    assert stored(targets[0]) == stored(targets[1])
    side = blank(tf)
    l1 = side.module(w=side.var("kernel", (3, 2)), bias=side.var("bias", (2,)))
    model = side.module(l1=l1)
    restored(tf.train.Checkpoint(model=model), targets[1], everything=False)
    assert_same(before, side, ("kernel", "bias"))


@WAYS
def test_graph_of_tensorflow_1(tf: Any, tmp_path: Path, compact: bool) -> None:
    source = str(FIXTURES / "v2/tf1.15/v1_optimizer_objects/model-1")
    for name, what in (("slots", SLOTS), ("optimizer", OPTIMIZER)):
        target = str(tmp_path / name / "ckpt-1")
        operate(source, target, pruning(**what), compact=compact)
        side = blank(tf)
        w = side.var("w", (2, 2))
        checkpoint = tf.train.Checkpoint(w=w)
        checkpoint.listed = [w, {"key": w}]
        restored(checkpoint, target, everything=name == "optimizer")
        checkpoint.optimizer = ANY_OPTIMIZER["tf_keras_adam"](*keras_families())
        with ckpttool.open_checkpoint(source) as ckpt:
            assert content(w.numpy()) == content(ckpt["w"])
        trainer(side, checkpoint.optimizer, [w])()


@pytest.mark.parametrize("what", [SLOTS, OPTIMIZER, WEIGHTS], ids=["slots", "optimizer", "weights"])
def test_saved_weights(tf: Any, tmp_path: Path, what: dict[str, Any]) -> None:
    keras, _ = keras_families()
    source, target = str(tmp_path / "weights"), str(tmp_path / "pruned")
    program = keras_models.compiled(
        Side(tf, False), lambda keras: keras.optimizers.legacy.Adam(0.1), three=False
    )
    assert program.step is not None
    program.step()
    program.checkpoint.model.save_weights(source, save_format="tf")
    operate(source, target, pruning(**what))
    model = keras_models.sequential(keras, Side(tf, False))
    status = model.load_weights(target)
    status.assert_existing_objects_matched().expect_partial()
    for at, value in enumerate(model.get_weights()):
        assert content(value) == content(program.values()[f"weight/{at}"])


def test_variables_of_a_saved_model(tf: Any, tmp_path: Path) -> None:
    keras, _ = keras_families()
    program = keras_models.compiled(
        Side(tf, False), lambda keras: keras.optimizers.legacy.Adam(0.1), three=False
    )
    assert program.step is not None
    program.step()
    program.checkpoint.model.save(str(tmp_path / "model"), save_format="tf")
    target = str(tmp_path / "plain" / "ckpt")
    operate(str(tmp_path / "model"), target, pruning(**OPTIMIZER))
    model = keras_models.sequential(keras, Side(tf, False))
    status = tf.train.Checkpoint(model).read(target)
    status.assert_existing_objects_matched().expect_partial()
    for at, value in enumerate(model.get_weights()):
        assert content(value) == content(program.values()[f"weight/{at}"])
