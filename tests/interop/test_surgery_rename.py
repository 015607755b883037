"""TensorFlow restores what was renamed, into programs with the other names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckpttool
from ckpttool.errors import SurgeryError
from ckpttool.surgery.rules import PrefixRule, RenameRule, StripPrefixRule
from tests.interop.corpus import FIXTURES
from tests.interop.surgery_cases import CASES, NET, Case, moves
from tests.interop.surgery_compare import operate, renaming, restored, stored, structure
from tests.interop.surgery_programs import Program, Side, legacy_net
from tests.interop.values import content
from tests.support.command import ckpt


def save(program: Program, folder: Path) -> str:
    """Train two steps and save; return the prefix."""
    for _ in range(2):
        if program.step is not None:
            program.step()
    prefix: str = program.checkpoint.save(str(folder / "source" / "ckpt"))
    return prefix


def assert_same_values(one: Program, other: Program) -> None:
    ours, theirs = one.values(), other.values()
    assert ours.keys() == theirs.keys()
    for label, value in ours.items():
        assert content(theirs[label]) == content(value), label


def check(
    case: Case, tf: Any, tmp_path: Path, rename: Callable[[str, list[RenameRule]], str]
) -> None:
    """Rename what one form saves, restore it into the other, and compare them."""
    before, after = case.build(Side(tf, False)), case.build(Side(tf, True))
    renamed = rename(save(before, tmp_path), case.rules)
    restored(after.checkpoint, renamed)
    theirs = after.checkpoint.write(str(tmp_path / "theirs"))
    assert_same_values(before, after)
    if before.step is not None and after.step is not None:
        before.step()
        after.step()
        assert_same_values(before, after)
    assert structure(renamed) == structure(theirs)


def elsewhere(tmp_path: Path, prefix: str, rules: list[RenameRule], **how: Any) -> str:
    destination = str(tmp_path / "renamed" / "ckpt-1")
    operate(prefix, destination, renaming(rules), **how)
    return destination


@pytest.mark.parametrize("name", CASES)
def test_renamed_objects(tf: Any, tmp_path: Path, name: str) -> None:
    check(CASES[name], tf, tmp_path, partial(elsewhere, tmp_path))


@pytest.mark.parametrize("data", ["copy", "hardlink"])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("name", ["legacy_adam", "states", "cut"])
def test_however_the_shards_get_there(
    tf: Any, tmp_path: Path, name: str, compact: bool, data: str
) -> None:
    check(CASES[name], tf, tmp_path, partial(elsewhere, tmp_path, data=data, compact=compact))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(
    "name", ["legacy_adam", "keras3_adam_compiled", "states", "cut", "sharded"]
)
def test_in_place(tf: Any, tmp_path: Path, name: str, compact: bool) -> None:
    def in_place(prefix: str, rules: list[RenameRule]) -> str:
        operate(prefix, None, renaming(rules), compact=compact)
        latest: str = tf.train.latest_checkpoint(str(Path(prefix).parent))
        assert latest == prefix
        return latest

    check(CASES[name], tf, tmp_path, in_place)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_the_command(tf: Any, tmp_path: Path, in_place: bool, compact: bool) -> None:
    def command(prefix: str, rules: list[RenameRule]) -> str:
        target = prefix if in_place else str(tmp_path / "out" / "ckpt-9")
        words = ["--in-place"] if in_place else ["-o", target]
        words += ["--compact"] if compact else []
        outcome = ckpt("rename", prefix, *(rule.text for rule in rules), *words)
        assert outcome.code == 0, outcome.err
        return target

    check(CASES["legacy_adam"], tf, tmp_path, command)


def test_the_command_with_rules_of_every_kind(tf: Any, tmp_path: Path) -> None:
    rules = tmp_path / "rules.tsv"
    rules.write_text("net/l1/kernel\tmodel/dense/w\nnet/l1\tmodel/dense\n")

    def command(prefix: str, _: list[RenameRule]) -> str:
        target = str(tmp_path / "out" / "ckpt-9")
        words = ("--map", str(rules), "--sub", "^net", "model", "--sub", "^optimizer", "opt")
        outcome = ckpt("rename", prefix, *words, "-o", target, "--update-state")
        assert outcome.code == 0, outcome.err
        latest: str = tf.train.latest_checkpoint(str(tmp_path / "out"))
        assert latest == target
        return target

    check(CASES["legacy_adam"], tf, tmp_path, command)


BACK: dict[str, list[RenameRule]] = {
    "legacy_adam": moves("model/dense/w=net/l1/kernel", "model/dense=net/l1", "model=net")
    + moves("opt=optimizer"),
    "moved_into_new": moves("deep/below/w=w", "deep/v=old/v"),
    "moved_out": moves("net/body/output=net/head/proj", "norm=net/head/norm"),
    "crossed": moves("left/x=left/x", "right/y=right/y", "left=right", "right=left"),
    "prefix": [StripPrefixRule("tower/")],
    "cyclic": moves("x/peer=a/other", "x/self_=a/me", "x=a"),
}


@pytest.mark.parametrize("name", BACK)
def test_there_and_back(tf: Any, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    before, again = case.build(Side(tf, False)), case.build(Side(tf, False))
    source = save(before, tmp_path)
    there = elsewhere(tmp_path, source, case.rules)
    back = str(tmp_path / "back" / "ckpt-1")
    operate(there, back, renaming(BACK[name]))
    restored(again.checkpoint, back)
    assert_same_values(before, again)
    assert structure(back) == structure(source)
    assert stored(back) == stored(source)


def test_objects_made_after_restoring(tf: Any, tmp_path: Path) -> None:
    before = legacy_net(Side(tf, False))
    renamed = elsewhere(tmp_path, save(before, tmp_path), NET)
    root = tf.train.Checkpoint()
    status = root.restore(renamed)
    after = Side(tf, True)
    later = legacy_net(after)
    root.opt, root.model, root.step = (
        later.checkpoint.opt,
        later.checkpoint.model,
        later.checkpoint.step,
    )
    status.assert_consumed()
    assert_same_values(before, later)


def test_variables_of_a_saved_model(tf: Any, tmp_path: Path) -> None:
    side, other = Side(tf, False), Side(tf, True)
    module = side.module(w=side.var("w", (2, 3)), inner=side.module(b=side.var("b")))
    module.double = tf.function(lambda x: x * module.w, [tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "model"))
    renamed = str(tmp_path / "plain" / "ckpt")
    rules = moves("w=kernel", "inner=below")
    operate(str(tmp_path / "model"), renamed, renaming(rules))
    after = other.module(kernel=other.var("w", (2, 3)), below=other.module(b=other.var("b")))
    status = tf.train.Checkpoint(after).read(renamed)
    status.assert_existing_objects_matched().assert_consumed()
    assert_same_values(side.program(), other.program())
    with pytest.raises(SurgeryError, match="tied to its graph"):
        operate(str(tmp_path / "model"), None, renaming(rules))


def test_sharded_variable_into_a_plain_one(tf: Any, tmp_path: Path) -> None:
    case = CASES["sharded"]
    before = case.build(Side(tf, False))
    renamed = elsewhere(tmp_path, save(before, tmp_path), case.rules)
    side = Side(tf, True)
    net = side.module(embeddings=side.var("table", (6, 2)), bias=side.var("bias", (2,)))
    restored(side.program(net=net).checkpoint, renamed)
    rows = [before.values()[f"rows{at}"] for at in range(3)]
    assert content(net.embeddings.numpy()) == content(np.concatenate(rows))


def test_registered_saver(tf: Any, tmp_path: Path) -> None:
    from tensorflow.python.saved_model import registration

    class Kept(tf.Module):  # type: ignore[misc]
        value = 0.0

    def save_all(trackables: dict[str, Any], file_prefix: Any) -> list[Any]:
        for name, each in trackables.items():
            value = [tf.constant(each.value)]
            tf.raw_ops.SaveV2(
                prefix=file_prefix,
                tensor_names=[name + "/kept"],
                shape_and_slices=[""],
                tensors=value,
            )
        return [file_prefix]

    def restore_all(trackables: dict[str, Any], merged_prefix: Any) -> None:
        for name, each in trackables.items():
            (value,) = tf.raw_ops.RestoreV2(
                prefix=merged_prefix,
                tensor_names=[name + "/kept"],
                shape_and_slices=[""],
                dtypes=[tf.float32],
            )
            each.value = float(value)

    registration.register_tf_checkpoint_saver(
        name="test_registered_saver",
        predicate=lambda each: isinstance(each, Kept),
        save_fn=save_all,
        restore_fn=restore_all,
    )
    before, after = Side(tf, False), Side(tf, True)
    kept, same = Kept(), Kept()
    kept.value = 5.0
    program = before.program(custom=kept, v=before.var("v"))
    renamed = elsewhere(tmp_path, save(program, tmp_path), moves("custom=own", "v=w"))
    restored(after.program(own=same, w=after.var("v")).checkpoint, renamed)
    assert same.value == 5.0
    assert_same_values(program, after.program())


def test_a_saver_finds_variables_by_their_full_names(tf: Any, tmp_path: Path) -> None:
    before = CASES["legacy_adam"].build(Side(tf, False))
    renamed = elsewhere(tmp_path, save(before, tmp_path), NET)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        kernel = tf.compat.v1.get_variable("kernel_0", (3, 2))
        step = tf.compat.v1.get_variable("step_0", (), tf.int64)
        tf.compat.v1.train.Saver([kernel, step]).restore(session, renamed)
        values = session.run({"kernel": kernel, "step": step})
    expected = before.values()
    for label, value in values.items():
        assert content(value) == content(expected[label])


def test_graph_of_tensorflow_1(tf: Any, tmp_path: Path) -> None:
    source = str(FIXTURES / "v2/tf1.15/v1_optimizer_objects/model-1")
    rules = moves("w=x", "optimizer=opt", "listed/1/key=listed/1/other", "listed=items")
    renamed = elsewhere(tmp_path, source, rules)
    side = Side(tf, True)
    x, extra = side.var("w", (2, 2)), tf.compat.v1.train.AdamOptimizer(0.1)
    root = tf.train.Checkpoint(x=x, opt=extra)
    root.items = [x, {"other": x}]
    extra._create_slots([x])
    restored(root, renamed)
    with ckpttool.open_checkpoint(source) as ckpt:
        assert content(x.numpy()) == content(ckpt["w"])
        for name in ("m", "v"):
            slot = ckpt[f"w/.OPTIMIZER_SLOT/optimizer/{name}"]
            assert content(extra.get_slot(x, name).numpy()) == content(slot)
        powers = extra._get_beta_accumulators()
        for power, name in zip(powers, ("beta1_power", "beta2_power"), strict=True):
            assert content(power.numpy()) == content(ckpt[f"optimizer/{name}"])


def test_a_prefix_where_objects_lead_back_to_the_root(tf: Any, tmp_path: Path) -> None:
    before, after = Side(tf, False), Side(tf, True)
    for side in (before, after):
        child = side.module(v=side.var("v"))
        root = side.module(w=side.var("w"), child=child)
        child.parent = root
        if side is before:
            prefix = save(side.program(root), tmp_path)
        else:
            program = side.program(tower=root)
    renamed = elsewhere(tmp_path, prefix, [PrefixRule("tower/")])
    restored(program.checkpoint, renamed)
    assert_same_values(before.program(), program)


def test_a_variable_of_two_equally_long_names(tf: Any, tmp_path: Path) -> None:
    before, after = Side(tf, False), Side(tf, True)
    old, new = before.var("w"), after.var("w")
    first = before.program(a=before.module(w=old), m=before.module(w=old))
    renamed = elsewhere(tmp_path, save(first, tmp_path), moves("a=z"))
    second = after.program(z=after.module(w=new), m=after.module(w=new))
    restored(second.checkpoint, renamed)
    assert_same_values(first, second)
    # TensorFlow sorts the parts of a checkpoint and so comes upon "m" first; either key is right.
    theirs = structure(second.checkpoint.write(str(tmp_path / "theirs")))
    ours = structure(renamed)
    value = "/w/.ATTRIBUTES/VARIABLE_VALUE"
    assert ours.keys - theirs.keys == {"z" + value}
    assert theirs.keys - ours.keys == {"m" + value}
