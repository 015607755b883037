"""Object-based checkpoints that follow another program's."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.entry import BundleEntry
from ckpttool.errors import ChecksumError, KeyCollisionError, SelectionError, SurgeryError
from ckpttool.objects.keys import GRAPH_KEY, object_path
from ckpttool.surgery.like.reference import follow
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import prepare
from tests.support.fixtures import BundleFixture, bundle, bundles
from tests.support.refusals import refused
from tests.support.surgery import place, spoil
from tests.surgery.graphs import VARIABLE, Slot, Tree
from tests.surgery.references import (
    STEP,
    check_graph,
    followed,
    object_based,
    opened,
)

V = VARIABLE
SQUARE = np.zeros((2, 2), np.float32)
WIDE = np.zeros((2, 5), np.float32)
RATE = np.float32(0.5)


def pair(
    tmp_path: Path,
    ours: Tree,
    theirs: Tree,
    *,
    names: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
    values: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    slots: tuple[list[Slot], list[Slot]] = ([], []),
    rules: Mapping[str, str] | None = None,
    **how: bool,
) -> Plan:
    """Return the plan of one program's checkpoint that follows another's."""
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    made = [
        object_based(folder / f"side{at}", tree, slots[at], names=names[at], values=values[at])
        for at, tree in enumerate((ours, theirs))
    ]
    plan = followed(made[0], made[1], rules, **how)
    check_graph(plan)
    return plan


def went(plan: Plan) -> dict[str, str]:
    """Return where tensors went: object paths by object paths."""
    return {object_path(t.source_key) or "": object_path(t.key) or "" for t in plan.tensors}


def reasons(plan: Plan) -> dict[str, str]:
    """Return what told the place of each tensor, by its object path in the source."""
    assert plan.placement is not None
    return {object_path(key) or key: why for key, why in plan.placement.reasons.items()}


def test_paths(tmp_path: Path) -> None:
    """Names that programs number themselves say nothing against a path."""
    ours = {"net": {"l1": {"kernel": V, "bias": V}}, "step": V}
    theirs = {"net": {"l1": {"_kernel": V, "bias": V}}, "step": V}
    plan = pair(
        tmp_path,
        ours,
        theirs,
        names=(
            {"net/l1/kernel": "dense_3/kernel", "net/l1/bias": "dense_4/kernel"},
            {"net/l1/_kernel": "dense_4/kernel", "net/l1/bias": "dense/kernel"},
        ),
    )
    assert (
        went(plan)
        == {
            "net/l1/kernel": "net/l1/_kernel",
            "net/l1/bias": "net/l1/bias",
            "step": "step",
        }
        | {}
    )
    assert set(reasons(plan).values()) == {"path"}


@pytest.mark.parametrize("back", [False, True])
def test_the_model_alone(tmp_path: Path, back: bool) -> None:
    """One checkpoint is of the model, as of `save_weights`, the other of what is around it."""
    alone = {"l1": {"w": V, "b": V}, "l2": {"w": V, "b": V}}
    around = {"net": alone, "opt": {"iter": V, "decay": V}}
    values = {"opt/iter": STEP, "opt/decay": RATE}
    sides = (around, alone) if back else (alone, around)
    plan = pair(tmp_path, *sides, values=(values, {}) if back else ({}, values))
    paths = [f"{layer}/{name}" for layer in alone for name in "wb"]
    assert went(plan) == {
        f"net/{path}" if back else path: path if back else f"net/{path}" for path in paths
    }
    # Two nets could be the one that was saved.
    with refused(SurgeryError, "could be 'one/l1/w', 'one/l2/w'"):
        pair(tmp_path, alone, {"one": alone, "two": alone})


def test_path_and_name_disagree(tmp_path: Path) -> None:
    """A layer was put before the others."""
    ours, theirs = {"layers": {"0": V}}, {"layers": {"0": V, "1": V}}
    names = ({"layers/0": "enc/w"}, {"layers/0": "pre/w", "layers/1": "enc/w"})
    message = (
        "path and full name of 'layers/0' lead to different places: 'layers/0', 'layers/1': give "
        "rules"
    )
    with refused(SurgeryError, message):
        pair(tmp_path, ours, theirs, names=names)
    plan = pair(tmp_path, ours, theirs, names=names, rules={"layers/0": "layers/1"})
    assert went(plan) == {"layers/0": "layers/1"}
    assert reasons(plan) == {"layers/0": "rule"}


def layers(count: int, first: int, *, root: str = "a") -> tuple[Tree, dict[str, str]]:
    """Return alike layers, and their names, which are numbered as Keras does."""
    tree = {root: {str(at): {"w": V} for at in range(count)}}
    numbers = [f"dense_{first + at}" if first + at else "dense" for at in range(count)]
    return tree, {f"{root}/{at}/w": f"{name}/kernel" for at, name in enumerate(numbers)}


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [((2, 0), (2, 0), "full name"), ((3, 1), (3, 0), "name"), ((2, 0), (3, 0), "full name")],
)
def test_numbered_names(
    tmp_path: Path, ours: tuple[int, int], theirs: tuple[int, int], reason: str
) -> None:
    tree, names = layers(*ours)
    other, others = layers(*theirs, root="b")
    plan = pair(tmp_path, tree, other, names=(names, others))
    assert went(plan) == {f"a/{at}/w": f"b/{at}/w" for at in range(ours[0])}
    assert set(reasons(plan).values()) == {reason}


@pytest.mark.parametrize(("ours", "theirs"), [((2, 1), (3, 0)), ((2, 3), (4, 4))])
def test_numbers_that_do_not_tell(
    tmp_path: Path, ours: tuple[int, int], theirs: tuple[int, int]
) -> None:
    tree, names = layers(*ours)
    other, others = layers(*theirs, root="b")
    with refused(SurgeryError, r"'a/0/w', 'a/1/w', float32 \[2\], could be 'b/0/w'"):
        pair(tmp_path, tree, other, names=(names, others))


def test_numbers_in_another_order(tmp_path: Path) -> None:
    """What was made first stands last: only one who knows can tell."""
    tree, names = layers(2, 3)
    other, others = layers(2, 0, root="b")
    turned = dict(zip(others, reversed(others.values()), strict=True))
    with refused(SurgeryError, "--by-order"):
        pair(tmp_path, tree, other, names=(names, turned))
    plan = pair(tmp_path, tree, other, names=(names, turned), by_order=True)
    assert went(plan) == {"a/0/w": "b/0/w", "a/1/w": "b/1/w"}
    assert set(reasons(plan).values()) == {"order"}


def test_scopes_before_names(tmp_path: Path) -> None:
    tree, names = layers(3, 2)
    other, others = layers(3, 0, root="b")
    scoped = {path: f"sequential/{name}" for path, name in others.items()}
    plan = pair(tmp_path, tree, other, names=(names, scoped))
    assert went(plan) == {f"a/{at}/w": f"b/{at}/w" for at in range(3)}


def test_names_of_any_length(tmp_path: Path) -> None:
    """Nothing here takes the square of a length that a file chooses."""
    names = ({"a": "n_1/" * 100_000 + "w"}, {"b": "n/" * 100_000 + "v"})
    assert went(pair(tmp_path, {"a": V}, {"b": V}, names=names)) == {"a": "b"}


def test_names_that_nobody_gave(tmp_path: Path) -> None:
    """TensorFlow calls everything "Variable": that says neither yes nor no."""
    ours, theirs = {"a": {"w": V, "b": V}}, {"a": {"w": V}, "c": {"b": V}}
    names = ({"a/w": "Variable", "a/b": "Variable_1"}, {"a/w": "Variable_1", "c/b": "Variable"})
    plan = pair(tmp_path, ours, theirs, names=names)
    assert went(plan) == {"a/w": "a/w", "a/b": "c/b"}
    assert reasons(plan) == {"a/w": "path", "a/b": "shape"}


def test_shapes(tmp_path: Path) -> None:
    """A shape that is there once tells the place, and that the place of its neighbours."""
    ours = {"old": {"one": {"w": V, "b": V}, "two": {"w": V, "b": V}}, "odd": V}
    theirs = {"new": {"x": {"w": V, "b": V}, "y": {"w": V, "b": V}}, "even": V}
    values = (
        {"old/one/w": SQUARE, "old/two/w": WIDE, "odd": np.zeros(3, np.int16)},
        {"new/x/w": WIDE, "new/y/w": SQUARE, "even": np.zeros(3, np.int16)},
    )
    plan = pair(tmp_path, ours, theirs, values=values)
    assert went(plan) == {
        "old/one/w": "new/y/w",
        "old/one/b": "new/y/b",
        "old/two/w": "new/x/w",
        "old/two/b": "new/x/b",
        "odd": "even",
    }
    assert Counter(reasons(plan).values()) == {"shape": 3, "beside": 2}


def test_what_is_beside_has_a_say(tmp_path: Path) -> None:
    """The bias of another layer is no bias of this one, even if it would fit."""
    ours = {"body": {"w": V}, "head": {"w": V, "b": V}}
    theirs = {"body": {"w": V}, "top": {"w": V, "b": V}}
    values = ({"head/w": SQUARE}, {"top/w": WIDE})
    plan = pair(tmp_path, ours, theirs, values=values)
    assert went(plan) == {"body/w": "body/w"}
    assert any("'head/b', 'head/w'" in note for note in plan.notes)


def test_shapes_alone_are_too_little(tmp_path: Path) -> None:
    """Programs with nothing in common have some shape in common."""
    ours, theirs = {"a": {"x": V, "y": V}}, {"b": {"x": V, "z": V}}
    values = ({"a/x": SQUARE, "a/y": WIDE}, {"b/x": SQUARE})
    message = "nothing but shape tells the place of 'a/x', and others have none: give rules"
    with refused(SurgeryError, message):
        pair(tmp_path, ours, theirs, values=values)
    found = pair(tmp_path, ours, {"b": {"x": V}}, values=values)
    assert went(found) == {"a/x": "b/x"}
    assert "nothing but shape told this: 'a/x' became 'b/x'" in found.notes
    assert went(pair(tmp_path, ours, theirs, values=values, rules={"a/x": "b/x"}))


def test_scalars_need_a_name(tmp_path: Path) -> None:
    ours, theirs = {"w": V, "x": {"scale": V}}, {"w": V, "y": {"offset": V}}
    values = ({"x/scale": RATE}, {"y/offset": RATE})
    assert went(pair(tmp_path, ours, theirs, values=values)) == {"w": "w"}
    theirs = {"w": V, "y": {"scale": V}}
    found = went(pair(tmp_path, ours, theirs, values=({"x/scale": RATE}, {"y/scale": RATE})))
    assert found == {"w": "w", "x/scale": "y/scale"}


@pytest.mark.parametrize("by", ["path", "name"])
def test_what_does_not_fit(tmp_path: Path, by: str) -> None:
    ours = {"w": V, "head": {"k": V}}
    theirs: Tree = {"w": V, ("head" if by == "path" else "top"): {"k": V}}
    there = "head/k" if by == "path" else "top/k"
    names = ({"head/k": "out_1/k"}, {there: "out/k"})
    values = ({"head/k": SQUARE}, {there: WIDE})
    message = rf"'head/k' is float32 \[2, 2\], but '{there}' of the reference is float32 \[2, 5\]"
    with refused(SurgeryError, message):
        pair(tmp_path, ours, theirs, names=names, values=values)


def test_rules(tmp_path: Path) -> None:
    ours = {"enc": {"0": {"k": V, "b": V}, "1": {"k": V, "b": V}}, "t": V, "n": {"a": V}}
    theirs = {"dec": {"x": {"_k": V, "b": V}, "y": {"_k": V, "b": V}}, "u": V, "m": {"a": V}}
    names = (
        {"t": "tea", "n/a": "some/scope/a", "enc/0/k": "k", "enc/0/b": "k"},
        {"u": "you", "m/a": "other/a"},
    )
    rules = {"enc/0": "dec/y", "enc/1": "dec/x", "tea": "u", "some/scope": "other"}
    plan = pair(tmp_path, ours, theirs, names=names, rules=rules)
    assert went(plan) == {
        "enc/0/k": "dec/y/_k",
        "enc/0/b": "dec/y/b",
        "enc/1/k": "dec/x/_k",
        "enc/1/b": "dec/x/b",
        "t": "u",
        "n/a": "m/a",
    }
    assert set(reasons(plan).values()) == {"rule"}
    # The rule with the longest name decides.
    rules |= {"enc/0/b": "dec/x/b", "enc/1/b": "dec/y/b"}
    found = went(pair(tmp_path, ours, theirs, names=names, rules=rules))
    assert (found["enc/0/b"], found["enc/0/k"]) == ("dec/x/b", "dec/y/_k")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"nett": "net"}, "the rule 'nett=net': it matches nothing; nearest: 'net"),
        ({"net": "nett"}, "the rule 'net=nett': the reference has no 'nett' for it; nearest: 'net"),
        ({"net/w": "net"}, "the reference has no 'net' for it"),
    ],
)
def test_rules_for_nothing(tmp_path: Path, rules: Mapping[str, str], message: str) -> None:
    tree = {"net": {"w": V, "b": V}}
    with refused(SelectionError, message):
        pair(tmp_path, tree, tree, rules=rules)


def test_two_rules_for_one_place(tmp_path: Path) -> None:
    with refused(KeyCollisionError, "'a', 'b' would both become 'c'"):
        pair(tmp_path, {"a": V, "b": V}, {"c": V, "d": V}, rules={"a": "c", "b": "c"})


def test_strict(tmp_path: Path) -> None:
    with refused(
        SurgeryError,
        r"no place in the reference \(1\): 'old'; no value in the source \(1\): 'new'",
    ):
        values = ({"old": SQUARE}, {"new": WIDE, "save_counter": STEP})
        theirs = {"w": V, "new": V, "save_counter": V}
        pair(tmp_path, {"w": V, "old": V}, theirs, values=values, strict=True)
    counted = {"w": V, "save_counter": V}
    plan = pair(tmp_path, {"w": V}, counted, values=({}, {"save_counter": STEP}), strict=True)
    assert [each.key for each in plan.added] == ["save_counter/.ATTRIBUTES/VARIABLE_VALUE"]
    assert plan.placement is not None
    assert plan.placement.empty == ()


def test_no_weight_is_an_error(tmp_path: Path) -> None:
    values = ({"w": SQUARE, "save_counter": STEP}, {"x": WIDE, "save_counter": STEP})
    with refused(SurgeryError, "no weight of the reference is called as a tensor of the source"):
        pair(tmp_path, {"w": V, "save_counter": V}, {"x": V, "save_counter": V}, values=values)


def test_the_save_counter_of_the_source(tmp_path: Path) -> None:
    tree = {"w": V, "save_counter": V}
    values = {"save_counter": STEP}
    plan = pair(tmp_path, tree, {"x": V, "save_counter": V}, values=(values, values))
    assert went(plan) == {"w": "x", "save_counter": "save_counter"}
    assert plan.added == ()


def test_fill(tmp_path: Path) -> None:
    """What the source has no value for stays as it is in the reference, checked."""
    kept = np.array([3, 4, 5], np.float32)
    ours = object_based(tmp_path / "ours", {"w": V})
    theirs = object_based(
        tmp_path / "theirs",
        {"w": V, "new": V, "save_counter": V},
        values={"new": kept, "save_counter": STEP},
    )
    with opened(ours, theirs) as (one, other):
        plan = follow(Plan.of(one), other, strict=True, fill=True, save_counter=3)
        check_graph(plan)
        assert plan.notes == ("no value in the source, as in the reference: weight (1): 'new'",)
        prepare(plan, str(tmp_path / "out")).write()
    with open_checkpoint(tmp_path / "out") as made:
        assert np.array_equal(made["new"], kept)
        assert made["save_counter"] == 3
    shard, offset = place(Path(theirs), "new/.ATTRIBUTES/VARIABLE_VALUE")
    spoil(Path(f"{theirs}.data-{shard:05}-of-00002"), offset)
    with opened(ours, theirs) as (one, other):
        prepared = prepare(follow(Plan.of(one), other, fill=True), str(tmp_path / "no"))
        with refused(ChecksumError, "the stored bytes are damaged"):
            prepared.write()
    assert not list(tmp_path.glob("no*"))


GAN = {"g": {"w": V}, "d": {"w": V}}
OPTIMIZER = {"iter": V, "decay": V}


def test_two_optimizers(tmp_path: Path) -> None:
    """Each goes where the slots of its variables are, whatever it is called."""
    called = ({"g": "g_opt", "d": "d_opt"}, {"g": "two", "d": "one"})
    ours, theirs = ({**GAN, **dict.fromkeys(sorted(n.values()), OPTIMIZER)} for n in called)
    here, there = (
        {f"{optimizer}/iter": STEP for optimizer in n.values()}
        | {f"{optimizer}/decay": RATE for optimizer in n.values()}
        for n in called
    )
    mine, other = (
        [(optimizer, f"{net}/w", name) for net, optimizer in n.items() for name in "mv"]
        for n in called
    )
    plan = pair(tmp_path, ours, theirs, values=(here, there), slots=(mine, other))
    found = went(plan)
    assert found["g/w/.OPTIMIZER_SLOT/g_opt/m"] == "g/w/.OPTIMIZER_SLOT/two/m"
    assert found["d_opt/iter"] == "one/iter"
    assert len(found) == 10
    assert reasons(plan)["g_opt/decay"] == "hyper-parameter"
    # Without slots nothing tells, but a rule.
    bare = pair(tmp_path, ours, theirs, values=(here, there))
    assert set(went(bare)) == {"g/w", "d/w"}
    told = pair(tmp_path, ours, theirs, values=(here, there), rules={"g_opt": "one"})
    assert went(told)["g_opt/iter"] == "one/iter"
    assert went(told)["d_opt/iter"] == "two/iter"


def test_slots_of_other_optimizers_are_left(tmp_path: Path) -> None:
    tree = {"w": V, "opt": {"iter": V, "decay": V}}
    values = {"opt/iter": STEP, "opt/decay": RATE}
    slots: tuple[list[Slot], list[Slot]] = (
        [("opt", "w", "m"), ("opt", "w", "v")],
        [("opt", "w", "momentum")],
    )
    plan = pair(tmp_path, tree, tree, values=(values, values), slots=slots)
    assert set(went(plan)) == {"w", "opt/iter", "opt/decay"}


@pytest.mark.parametrize("back", [False, True])
def test_momentum_of_tensorflow_1(tmp_path: Path, back: bool) -> None:
    keras = {"w": V, "opt": {"iter": V, "decay": V}}
    values = {"opt/iter": STEP, "opt/decay": RATE}
    sides: tuple[Tree, Tree] = (
        (keras, {"w": V, "opt": {}}) if back else ({"w": V, "opt": {}}, keras)
    )
    slots = ([("opt", "w", "momentum")],) * 2
    plan = pair(
        tmp_path, *sides, values=(values, {}) if back else ({}, values), slots=(slots[0], slots[1])
    )
    assert any("negative learning rate" in note for note in plan.notes)
    plan = pair(tmp_path, keras, keras, values=(values, values), slots=(slots[0], slots[1]))
    assert plan.notes == ()


LEGACY = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
NEW = "v2/tf2.21/guide_new_adam/tf_ckpts/ckpt-5"
AMSGRAD = "v2/tf2.21/legacy_adam_amsgrad/ckpt-1"
EMA = "v2/tf2.21/tf_keras_new_adam_ema/ckpt-1"
KERAS_3 = "v2/tf2.21/keras3_adam/ckpt-1"


@pytest.mark.parametrize(
    ("source", "reference", "slots"),
    [
        (LEGACY, NEW, 4),
        (NEW, LEGACY, 4),
        (AMSGRAD, KERAS_3, 8),
        (AMSGRAD, EMA, 8),
        (EMA, KERAS_3, 8),
        (KERAS_3, EMA, 8),
        (KERAS_3, AMSGRAD, 8),
    ],
)
def test_what_tensorflow_wrote(tmp_path: Path, source: str, reference: str, slots: int) -> None:
    """Weights, slots, iterations and learning rate go from one Keras to another."""
    with opened(bundle(source).prefix, bundle(reference).prefix) as (ours, theirs):
        plan = followed(ours.prefix, theirs.prefix)
        check_graph(plan)
        counts = Counter(reasons(plan).values())
        assert (counts["slot"], counts["counter"], counts["hyper-parameter"]) == (slots, 1, 1)
        prepare(plan, str(tmp_path / "out")).write()
        with open_checkpoint(tmp_path / "out") as made:
            for tensor in plan.tensors:
                before, after = ours.entries[tensor.source_key], made.entries[tensor.key]
                assert isinstance(before, BundleEntry)
                assert isinstance(after, BundleEntry)
                assert after.crc32c == before.crc32c
                there = theirs.entries[tensor.key]
                assert (after.dtype, after.shape) == (there.dtype, there.shape)


# A function of the program saves some of it; and these have no weights.
NOT_ALONE = ("registered_saver", "no_values", "no_variables")


@pytest.mark.parametrize(
    "fixture",
    [f for f in bundles() if GRAPH_KEY in f.tensors and not any(n in f.name for n in NOT_ALONE)],
    ids=lambda fixture: fixture.name,
)
def test_a_checkpoint_follows_itself(fixture: BundleFixture) -> None:
    with opened(fixture.prefix, fixture.prefix) as (one, other):
        plan = follow(Plan.of(one), other, strict=True)
        assert plan.changes == ()
        assert plan.notes == ()
