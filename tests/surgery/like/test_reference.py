"""Name-based checkpoints that follow an object-based one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.writer import BundleWriter
from ckpttool.errors import KeyCollisionError, SelectionError, SurgeryError
from ckpttool.objects.graph import Attribute, ObjectGraph, RegisteredSaver
from ckpttool.objects.keys import GRAPH_KEY, attribute_key
from ckpttool.surgery.flattening import flatten
from ckpttool.surgery.like.reference import follow
from ckpttool.surgery.plan import AddedTensor, Plan
from ckpttool.surgery.values import int64_value
from ckpttool.surgery.writing.prepare import prepare
from tests.support.fixtures import BundleFixture, bundle, bundles
from tests.surgery.graphs import VARIABLE, Slot, graph_of
from tests.surgery.references import (
    STEP,
    VECTOR,
    check_graph,
    followed,
    name_based,
    object_based,
    opened,
    placed,
)

V = VARIABLE
NET = {"net": {"w": V, "b": V}}
NAMES = {"net/w": "dense/kernel", "net/b": "dense/bias"}
WEIGHTS = {"dense/kernel": "net/w", "dense/bias": "net/b"}
OBJECTS = [fixture for fixture in bundles() if GRAPH_KEY in fixture.tensors]


def slots(*names: str, optimizer: str = "opt", variables: tuple[str, ...] = ("w",)) -> list[Slot]:
    return [(optimizer, variable, name) for name in names for variable in variables]


def test_full_names(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", NET, names=NAMES)
    source = name_based(tmp_path / "src", list(WEIGHTS))
    plan = followed(source, reference)
    assert placed(plan) == WEIGHTS
    assert plan.notes == ()
    assert plan.graph_changed
    check_graph(plan)
    with open_checkpoint(reference) as ckpt:
        assert plan.graph == ckpt.object_graph


def test_object_paths(tmp_path: Path) -> None:
    """What is called by a path of the reference has that place, whatever full names say."""
    tree = {"net": {"w": V, "b": V, "c": V}, "opt": {"v": V}}
    names = {"net/w": "dense/kernel", "net/b": "dense/kernel", "net/c": "", "opt/v": "net/w/m"}
    links = slots("m", variables=("net/b",))
    reference = object_based(tmp_path / "ref", tree, names=names, slots=links)
    sources = ["net/w", "net/b", "net/c", "net/b/m", "opt/v"]
    plan = followed(name_based(tmp_path / "src", sources), reference)
    slot = "net/b/.OPTIMIZER_SLOT/opt/m"
    assert placed(plan) == {name: name for name in sources} | {"net/b/m": slot}
    assert plan.notes == ()


def test_a_path_of_another_shape_is_no_more_than_a_likeness(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", NET, names=NAMES)
    values = {"dense/kernel": VECTOR, "net/b": np.zeros(3, np.float32)}
    plan = followed(name_based(tmp_path / "src", values), reference)
    assert placed(plan) == {"dense/kernel": "net/w"}
    assert "no place in the reference, left out: weight (1): 'net/b'" in plan.notes


def test_what_is_left_over(tmp_path: Path) -> None:
    tree = {"net": {"w": V, "b": V, "c": V}, "opt": {"iter": V}, "save_counter": V}
    reference = object_based(
        tmp_path / "ref",
        tree,
        [("opt", "net/w", "m"), ("opt", "net/b", "m")],
        names=NAMES,
        values={"save_counter": STEP, "opt/iter": STEP},
    )
    source = name_based(
        tmp_path / "src",
        {
            "dense/kernel": VECTOR,
            "dense/bias_": VECTOR,
            "dense/kernel/ExponentialMovingAverage": VECTOR,
            "beta1_power": np.float32(0.9),
        },
    )
    plan = followed(source, reference)
    assert placed(plan) == {"dense/kernel": "net/w"}
    assert plan.added == (AddedTensor("save_counter/.ATTRIBUTES/VARIABLE_VALUE", int64_value(1)),)
    check_graph(plan)
    assert plan.graph is not None
    assert plan.graph.node_at("opt") is None
    assert plan.graph.node_at("net/b") is None
    assert plan.notes == (
        "no place in the reference, left out: weight (1): 'dense/bias_'; "
        "near to 'dense/bias_': 'dense/bias'",
        "no place in the reference, left out: optimizer (1): 'beta1_power'",
        "no place in the reference, left out: ema (1): 'dense/kernel/ExponentialMovingAverage'",
        "no value in the source, left out of the graph: weight (2): 'net/b', 'net/c'",
        "no value in the source, left out of the graph: slot (2): "
        "'net/w/.OPTIMIZER_SLOT/opt/m', 'net/b/.OPTIMIZER_SLOT/opt/m'",
        "no value in the source, left out of the graph: optimizer (1): 'opt/iter'",
    )
    assert {change.key for change in plan.changes if change.action == "drop"} == {
        "dense/bias_",
        "dense/kernel/ExponentialMovingAverage",
        "beta1_power",
    }


def test_long_lists_are_cut(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", {"w": V, **{f"x{at}": V for at in range(7)}})
    source = name_based(tmp_path / "src", ["w", *(f"y{at}" for at in range(8))])
    left, missing = followed(source, reference).notes
    assert "weight (8): 'y0', 'y1', 'y2', 'y3', 'y4' and 3 more" in left
    assert missing.endswith("weight (7): 'x0', 'x1', 'x2', 'x3', 'x4' and 2 more")


@pytest.mark.parametrize(
    ("found", "kept", "wanted"),
    [
        (["w/Adam", "w/Adam_1"], ["m", "v"], ["m", "v"]),
        (["w/Adam_1", "w/Adam"], ["v", "m", "vhat"], ["v", "m"]),
        (["w/AdamW", "w/AdamW_1"], ["m", "v"], ["m", "v"]),
        (["w/AdaMax", "w/AdaMax_1"], ["m", "v"], ["m", "v"]),
        (["w/Adam_1"], ["m", "v"], ["v"]),
        (["w/Momentum"], ["momentum"], ["momentum"]),
        (["w/RMSProp", "w/RMSProp_1"], ["rms", "momentum"], ["rms", "momentum"]),
        (["w/RMSProp", "w/RMSProp_1"], ["momentum", "mg", "rms"], ["rms", "momentum"]),
        (
            ["w/RMSProp", "w/RMSProp_1", "w/RMSProp_2"],
            ["rms", "momentum", "mg"],
            ["rms", "mg", "momentum"],
        ),
        (["w/RMSProp", "w/RMSProp_1"], ["rms"], ["rms", None]),
        (["w/RMSProp", "w/RMSProp_2"], ["rms", "mg", "momentum"], ["rms", "momentum"]),
        (["w/RMSProp"], ["rms"], ["rms"]),
        (["w/Adagrad"], ["accumulator"], ["accumulator"]),
        (["w/Adadelta", "w/Adadelta_1"], ["accum_grad", "accum_var"], ["accum_grad", "accum_var"]),
        (["w/Adadelta", "w/Adadelta_1"], ["accum", "accum_update"], ["accum", "accum_update"]),
        (["w/Ftrl", "w/Ftrl_1"], ["accumulator", "linear"], ["accumulator", "linear"]),
        (["w/Ftrl", "w/Ftrl_1"], ["accum", "linear"], ["accum", "linear"]),
        (["w/AddSignOptimizer"], ["m"], ["m"]),
        (["train/w/Adam", "train/w/Adam_1"], ["m", "v"], ["m", "v"]),
        (["a/b/c/w/Adam", "a/b/c/w/Adam_1"], ["m", "v"], ["m", "v"]),
        (["training/Adam/w/m", "training/Adam/w/v"], ["m", "v"], ["m", "v"]),
        (["RMSprop/w/rms", "RMSprop/w/momentum"], ["rms", "momentum"], ["rms", "momentum"]),
        (["w/adam_m", "w/adam_v"], ["m", "v"], ["m", "v"]),
        # Of other optimizers, or too many.
        (["w/Adam", "w/Adam_1"], ["momentum"], [None, None]),
        (["w/Adam", "w/Adam_1"], ["m"], [None, None]),
        (["w/Momentum"], ["rms", "momentum"], [None]),
        (["w/Adagrad"], ["accumulator", "linear"], [None]),
        (["w/Ftrl", "w/Ftrl_1"], ["accumulator"], [None, None]),
        (["RMSprop/w/rms", "RMSprop/w/momentum"], ["momentum"], [None, None]),
        (["w/Adam", "w/Adam_1", "w/Adam_2"], ["m", "v"], ["m", "v", None]),
        (["w/Adam", "w/Adam_1", "w/Adam_007"], ["m", "v"], ["m", "v", None]),
        (["w/Adam", "w/Adam_1"], ["m", "v", "else"], [None, None]),
        (["other/Adam", "other/Adam_1"], ["m", "v"], [None, None]),
        (["x/w_/Adam"], ["m", "v"], [None]),
        (["Adam", "Adam_1"], ["m", "v"], [None, None]),
    ],
)
def test_slots(tmp_path: Path, found: list[str], kept: list[str], wanted: list[str | None]) -> None:
    reference = object_based(tmp_path / "ref", {"w": V, "opt": {"x": V}}, slots(*kept))
    plan = followed(name_based(tmp_path / "src", ["w", *found]), reference)
    went = placed(plan)
    assert went.pop("w") == "w"
    assert went == {
        name: f"w/.OPTIMIZER_SLOT/opt/{slot}"
        for name, slot in zip(found, wanted, strict=True)
        if slot is not None
    }
    check_graph(plan)


def test_slots_by_full_names(tmp_path: Path) -> None:
    names = {"w/.OPTIMIZER_SLOT/opt/m": "w/Mine", "w/.OPTIMIZER_SLOT/opt/v": "w/Mine_1"}
    reference = object_based(
        tmp_path / "ref", {"w": V, "opt": {"x": V}}, slots("m", "v"), names=names
    )
    plan = followed(name_based(tmp_path / "src", ["w", "w/Mine", "w/Mine_1"]), reference)
    assert placed(plan) == {"w": "w"} | {name: path for path, name in names.items()}


def test_numbers_of_slots_that_mislead(tmp_path: Path) -> None:
    """The reference was made after another optimizer of the same name."""
    order = ["rms", "mg", "momentum"]
    names = {f"w/.OPTIMIZER_SLOT/opt/{slot}": f"w/RMSProp_{at}" for at, slot in enumerate(order, 2)}
    reference = object_based(
        tmp_path / "ref", {"w": V, "opt": {"x": V}}, slots(*order), names=names
    )
    for name in ("w", "old"):
        found = [f"{name}/RMSProp{number}" for number in ("", "_1", "_2")]
        source = name_based(tmp_path / name, [name, *found])
        assert placed(followed(source, reference, {"old": "w"} if name == "old" else {})) == {
            name: "w",
            **{
                old: f"w/.OPTIMIZER_SLOT/opt/{slot}" for old, slot in zip(found, order, strict=True)
            },
        }


def test_a_rule_for_slots_of_other_names(tmp_path: Path) -> None:
    names = {"w/.OPTIMIZER_SLOT/opt/m": "w/Mine"}
    reference = object_based(tmp_path / "ref", {"w": V, "opt": {"x": V}}, slots("m"), names=names)
    source = name_based(tmp_path / "src", ["old", "old/Mine"])
    assert placed(followed(source, reference, {"old": "w"})) == {
        "old": "w",
        "old/Mine": "w/.OPTIMIZER_SLOT/opt/m",
    }


def test_the_longest_name_of_a_variable_counts(tmp_path: Path) -> None:
    variables = ("w", "a/w")
    reference = object_based(
        tmp_path / "ref",
        {"w": V, "a": {"w": V}, "opt": {"x": V}},
        slots("momentum", variables=variables),
    )
    plan = followed(name_based(tmp_path / "src", [*variables, "a/w/Momentum"]), reference)
    assert placed(plan)["a/w/Momentum"] == "a/w/.OPTIMIZER_SLOT/opt/momentum"


def test_slots_under_two_names(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", {"w": V, "opt": {"x": V}}, slots("momentum"))
    plan = followed(name_based(tmp_path / "src", ["w", "a/w/Momentum", "w/Momentum"]), reference)
    assert set(placed(plan)) == {"w", "w/Momentum"}


def test_slots_of_two_optimizers(tmp_path: Path) -> None:
    tree = {"w": V, "b": V, "one": {"x": V}, "two": {"x": V}}
    both = slots("m", "v", optimizer="one", variables=("w",))
    both += slots("m", "v", optimizer="two", variables=("w", "b"))
    reference = object_based(tmp_path / "ref", tree, both)
    source = name_based(tmp_path / "src", ["w", "b", "w/Adam", "w/Adam_1", "b/Adam", "b/Adam_1"])
    plan = followed(source, reference)
    assert set(placed(plan)) == {"w", "b", "b/Adam", "b/Adam_1"}
    assert plan.notes[0] == (
        "several optimizers of the reference could take 'w/Adam', 'w/Adam_1'; name one by a rule"
    )
    numbered = {
        f"w/.OPTIMIZER_SLOT/{optimizer}/{slot}": f"w/Adam_{at}" if at else "w/Adam"
        for at, (optimizer, slot) in enumerate((o, s) for o in ("one", "two") for s in "mv")
    }
    known = object_based(tmp_path / "known", tree, both, names=numbered)
    plan = followed(source, known)
    assert placed(plan)["w/Adam_1"] == "w/.OPTIMIZER_SLOT/one/v"
    assert not any("several optimizers" in note for note in plan.notes)
    rules = {
        name: f"w/.OPTIMIZER_SLOT/one/{slot}" for name, slot in (("w/Adam", "m"), ("w/Adam_1", "v"))
    }
    assert placed(followed(source, reference, rules)).items() >= rules.items()


@pytest.mark.parametrize("edge", ["iter", "x"])
def test_momentum_of_keras(tmp_path: Path, edge: str) -> None:
    reference = object_based(
        tmp_path / "ref",
        {"w": V, "opt": {edge: V}},
        slots("momentum"),
        values={f"opt/{edge}": STEP},
    )
    plan = followed(name_based(tmp_path / "src", ["w", "w/Momentum"]), reference)
    assert "w/Momentum" in placed(plan)
    assert any("negative learning rate" in note for note in plan.notes) == (edge == "iter")
    plan = followed(name_based(tmp_path / "keras", ["w", "SGD/w/momentum"]), reference)
    assert "SGD/w/momentum" in placed(plan)
    assert not any("negative learning rate" in note for note in plan.notes)


KERAS = {
    "v2/tf2.21/keras3_adam/ckpt-1": ("sequential/dense/kernel", "Adam", ["2", "3"]),
    "v2/tf2.21/keras3_sgd_momentum/ckpt-1": ("sequential_2/dense_4/kernel", "Momentum", ["2"]),
    "v2/tf2.21/tf_keras_new_adam_ema/ckpt-1": ("dense_11/kernel", "Adam", ["5", "6"]),
    "v2/tf2.21/guide_new_adam/tf_ckpts/ckpt-5": ("net_2/dense_2/kernel", "Adam", ["1", "2"]),
}


@pytest.mark.parametrize("name", KERAS)
@pytest.mark.parametrize("own", [True, False])
def test_slots_in_lists(tmp_path: Path, name: str, own: bool) -> None:
    variable, optimizer, numbers = KERAS[name]
    reference = bundle(name).prefix
    if not own:
        optimizer = "Adagrad"
    slot_names = [f"{variable}/{optimizer}", f"{variable}/{optimizer}_1"][: len(numbers)]
    with open_checkpoint(reference) as ckpt:
        assert ckpt.object_graph is not None
        owners = ckpt.object_graph.claims(set(ckpt.entries)).owners
        shape = next(
            ckpt.entries[k].shape for k, (_, a) in owners.items() if a.full_name == variable
        )
    value = np.zeros(shape, np.float32)
    source = name_based(tmp_path / "src", dict.fromkeys([variable, *slot_names], value))
    plan = followed(source, reference)
    went = placed(plan)
    went.pop(variable)
    wanted = dict(zip(slot_names, (f"optimizer/_variables/{n}" for n in numbers), strict=True))
    assert went == (wanted if own else {})
    check_graph(plan)


def test_a_rule_for_a_scope(tmp_path: Path) -> None:
    reference = object_based(
        tmp_path / "ref", {**NET, "opt": {"x": V}}, [("opt", "net/w", "momentum")]
    )
    source = name_based(tmp_path / "src", ["old/w", "old/b", "old/w/Momentum"])
    plan = followed(source, reference, {"old": "net"})
    assert placed(plan) == {
        "old/w": "net/w",
        "old/b": "net/b",
        "old/w/Momentum": "net/w/.OPTIMIZER_SLOT/opt/momentum",
    }


@pytest.mark.parametrize("target", ["dense/kernel", "net/w", attribute_key("same"), "same"])
def test_what_a_rule_may_name(tmp_path: Path, target: str) -> None:
    tree = {**NET, "same": "@net/w"}
    names = {"same": "dense/kernel", "net/b": "dense/bias"}
    reference = object_based(tmp_path / "ref", tree, names=names)
    plan = followed(name_based(tmp_path / "src", ["old", "dense/bias"]), reference, {"old": target})
    assert placed(plan) == {"old": "same", "dense/bias": "net/b"}


def test_rules_swap(tmp_path: Path) -> None:
    reference = object_based(
        tmp_path / "ref", {"a": V, "b": V, "opt": {"x": V}}, slots("momentum", variables=("a", "b"))
    )
    source = name_based(tmp_path / "src", ["a", "b", "a/Momentum", "b/Momentum"])
    assert placed(followed(source, reference, {"a": "b", "b": "a"})) == {
        "a": "b",
        "b": "a",
        "a/Momentum": "b/.OPTIMIZER_SLOT/opt/momentum",
        "b/Momentum": "a/.OPTIMIZER_SLOT/opt/momentum",
    }


def test_the_longest_rule_decides(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", {"x": {"b": V}, "y": V})
    source = name_based(tmp_path / "src", ["s/a", "s/b"])
    assert placed(followed(source, reference, {"s": "x", "s/a": "y"})) == {"s/a": "y", "s/b": "x/b"}


def test_a_rule_takes_a_place_from_a_name(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", {"w": V})
    plan = followed(name_based(tmp_path / "src", ["w", "old"]), reference, {"old": "w"})
    assert placed(plan) == {"old": "w"}
    assert "weight (1): 'w'" in plan.notes[0]


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({"wx": "net/w"}, SelectionError, "'wx=net/w': it matches nothing; nearest: 'w'"),
        ({"w": "net/x"}, SelectionError, "'w=net/x': the reference has no 'net/x'; nearest: 'net/"),
        ({"s": "nowhere"}, SelectionError, "the reference has no 'nowhere'"),
        ({"w": "net/w", "v": "net/w"}, KeyCollisionError, "'v' and 'w' would both become 'net/w'"),
        ({"w": "twice"}, SurgeryError, "'p', 'q' of the reference have the same full name 'twice'"),
        ({"w": GRAPH_KEY}, SelectionError, f"the reference has no '{GRAPH_KEY}'"),
    ],
)
def test_rules_that_cannot_be(
    tmp_path: Path, rules: dict[str, str], error: type[Exception], message: str
) -> None:
    names = {"p": "twice", "q": "twice"}
    reference = object_based(tmp_path / "ref", {**NET, "p": V, "q": V}, names=names)
    source = name_based(tmp_path / "src", ["w", "v", "s/w"])
    with pytest.raises(error) as caught:
        followed(source, reference, rules)
    assert message in str(caught.value)


def test_full_names_that_agree(tmp_path: Path) -> None:
    names = {"p": "Variable", "q": "Variable", "w": "w"}
    reference = object_based(tmp_path / "ref", {"p": V, "q": V, "w": V}, names=names)
    assert placed(followed(name_based(tmp_path / "one", ["w"]), reference)) == {"w": "w"}
    source = name_based(tmp_path / "two", ["w", "Variable", "Variable_1"])
    with pytest.raises(SurgeryError, match="'p', 'q' of the reference have the same full name"):
        followed(source, reference)
    # What is left when a rule took one of the two is certain.
    for rules in ({"Variable": "p", "Variable_1": "q"}, {"Variable_1": "q"}):
        found = placed(followed(source, reference, rules))
        assert found == {"w": "w", "Variable": "p", "Variable_1": "q"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3, np.float32), "'w' is float32 [3], but 'w' of the reference is float32 [2]"),
        (np.zeros((2, 1), np.float32), "'w' is float32 [2, 1], but 'w' of the"),
        (np.zeros(2, np.float64), "'w' is float64 [2], but 'w' of the reference is float32 [2]"),
    ],
)
def test_other_shapes_and_dtypes(tmp_path: Path, value: Any, message: str) -> None:
    reference = object_based(tmp_path / "ref", {"w": V, "b": V})
    source = name_based(tmp_path / "src", {"b": VECTOR, "w": value})
    with pytest.raises(SurgeryError) as caught:
        followed(source, reference)
    assert message in str(caught.value)
    assert caught.value.path == source


def test_no_weight_fits(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", {"net": {"w": V}, "step": V}, values={"step": STEP})
    given = ({"w": VECTOR}, {"w": VECTOR, "step": STEP}, {"w": VECTOR, "a": VECTOR, "step": STEP})
    for number, values in enumerate(given):
        source = name_based(tmp_path / f"src{number}", values)
        with pytest.raises(SurgeryError, match=r"no weight of the ref.*near to 'w': 'net/w'"):
            followed(source, reference)


def test_a_weight_that_becomes_a_counter_is_none(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", {"w": V, "step": V}, values={"step": np.int64(1)})
    source = name_based(tmp_path / "src", {"Variable": np.int64(3)})
    with pytest.raises(SurgeryError, match="no weight of the reference"):
        followed(source, reference, {"Variable": "step"})


def test_a_source_without_weights(tmp_path: Path) -> None:
    source = name_based(tmp_path / "steps", {"step": STEP})
    trained = object_based(tmp_path / "trained", {"w": V, "step": V}, values={"step": STEP})
    with pytest.raises(SurgeryError, match="no weight of the reference is called as a tensor"):
        followed(source, trained)
    counting = object_based(tmp_path / "counting", {"step": V}, values={"step": STEP})
    assert placed(followed(source, counting)) == {"step": "step"}


def test_wrong_styles(tmp_path: Path) -> None:
    names = name_based(tmp_path / "names", ["w"])
    with pytest.raises(SurgeryError, match="the reference has no object graph") as caught:
        followed(names, names)
    assert caught.value.path == names


@pytest.mark.parametrize(
    ("tree", "names", "values", "target"),
    [
        ({"s": V}, {"s": "global_step"}, {"s": STEP}, "s"),
        ({"global_step": V}, {"global_step": "Variable"}, {"global_step": STEP}, "global_step"),
        ({"opt": {"iter": V}}, {}, {"opt/iter": STEP}, "opt/iter"),
        ({"opt": {"_iterations": V}}, {}, {"opt/_iterations": STEP}, "opt/_iterations"),
        (
            {"global_step": V, "opt": {"iter": V}},
            {"global_step": "Variable"},
            {"opt/iter": STEP, "global_step": STEP},
            "global_step",
        ),
        ({"opt": {"iter": V}}, {}, {"opt/iter": np.int32(1)}, None),
        ({"opt": {"iter": V}}, {}, {"opt/iter": np.zeros(1, np.int64)}, None),
        (
            {"one": {"iter": V}, "two": {"iter": V}},
            {},
            {"one/iter": STEP, "two/iter": STEP},
            None,
        ),
        ({"step": V}, {}, {"step": STEP}, None),
    ],
)
def test_the_step(
    tmp_path: Path,
    tree: dict[str, Any],
    names: dict[str, str],
    values: dict[str, Any],
    target: str | None,
) -> None:
    reference = object_based(tmp_path / "ref", {"w": V, **tree}, names=names, values=values)
    plan = followed(name_based(tmp_path / "src", {"w": VECTOR, "global_step": STEP}), reference)
    assert placed(plan).get("global_step") == target
    told = f"the step 'global_step' became '{target}'" in plan.notes
    named = target == "global_step" or "global_step" in names.values()
    assert told == (target is not None and not named)
    left = "no place in the reference, left out: step (1): 'global_step'" in plan.notes
    assert left == (target is None)


def test_powers(tmp_path: Path) -> None:
    power = np.float32(0.5)
    values = {"opt/beta1_power": power, "opt/beta2_power": power}
    reference = object_based(
        tmp_path / "ref", {"w": V, "opt": {"beta1_power": V, "beta2_power": V}}, values=values
    )
    found = {"train/beta1_power": power, "train/beta2_power": power}
    plan = followed(name_based(tmp_path / "one", {"w": VECTOR, **found}), reference)
    assert placed(plan) == {"w": "w"} | {f"train/{n}": f"opt/{n}" for n in tree_names(values)}
    two = {"w": VECTOR, "again/beta1_power": power, **found}
    plan = followed(name_based(tmp_path / "two", two), reference)
    assert set(placed(plan)) == {"w", "train/beta2_power"}


def tree_names(values: dict[str, Any]) -> list[str]:
    return [path.rpartition("/")[2] for path in values]


def test_hyper_parameters_of_keras(tmp_path: Path) -> None:
    number = np.float32(0.5)
    hypers = {"iter": STEP, "beta_1": number, "decay": number}
    values = {f"opt/{name}": value for name, value in hypers.items()}
    reference = object_based(
        tmp_path / "ref", {"w": V, "opt": dict.fromkeys(hypers, V)}, values=values
    )
    found = {f"training/Adam/{name}": value for name, value in hypers.items()}
    plan = followed(name_based(tmp_path / "one", {"w": VECTOR, **found}), reference)
    assert placed(plan) == {"w": "w"} | {f"training/Adam/{n}": f"opt/{n}" for n in hypers}
    # Without a counter, or with another optimizer, they may be anything's.
    del found["training/Adam/iter"]
    plan = followed(name_based(tmp_path / "two", {"w": VECTOR, **found}), reference)
    assert set(placed(plan)) == {"w"}


def with_attributes(prefix: Path, *, saver: bool = False) -> str:
    """Write a reference with a hash table, and perhaps an object that a function saves."""
    graph = graph_of({"w": V, "words": {}, "own": {}})
    words, own = graph.node_at("words"), graph.node_at("own")
    assert words is not None
    assert own is not None
    nodes = list(graph.nodes)
    key = attribute_key("words", "table")
    nodes[words] = nodes[words]._replace(attributes=(Attribute("table", "", key),), has_values=True)
    if saver:
        nodes[own] = nodes[own]._replace(saver=RegisteredSaver("a.b", "own"), has_values=True)
    with BundleWriter(str(prefix)) as writer:
        writer.add(attribute_key("w"), VECTOR)
        writer.add(key + "-keys", VECTOR)
        writer.add(key + "-values", VECTOR)
        if saver:
            writer.add("own/tensor", VECTOR)
        writer.add(GRAPH_KEY, np.array(ObjectGraph(tuple(nodes)).to_bytes(), object))
    return str(prefix)


def test_hash_tables(tmp_path: Path) -> None:
    reference = with_attributes(tmp_path / "ref")
    source = name_based(tmp_path / "src", ["name_1", "t-keys", "t-values"])
    halves = {f"t-{half}": f"words/.table-{half}" for half in ("keys", "values")}
    plan = followed(source, reference, halves)
    assert placed(plan) == {"name_1": "w", **halves}
    check_graph(plan)
    with pytest.raises(SurgeryError, match="together or not at all; there is none for"):
        followed(source, reference, {"t-keys": halves["t-keys"]})
    plan = followed(source, reference)
    assert plan.graph is not None
    assert plan.graph.node_at("words") is None


def test_what_a_function_of_the_program_saves(tmp_path: Path) -> None:
    reference = with_attributes(tmp_path / "ref", saver=True)
    plan = followed(name_based(tmp_path / "src", ["name_1"]), reference)
    assert plan.graph is not None
    assert plan.graph.node_at("own") is None
    assert not any(node.saver for node in plan.graph.nodes)
    assert "objects that a function of the program saves are left out of the graph" in plan.notes
    check_graph(plan)


def test_only_the_graph_of_the_reference_is_read(tmp_path: Path) -> None:
    reference = object_based(tmp_path / "ref", NET, names=NAMES)
    os.unlink(f"{reference}.data-00000-of-00002")
    source = name_based(tmp_path / "src", list(WEIGHTS))
    with opened(source, reference) as (ours, theirs):
        plan = follow(Plan.of(ours), theirs)
        assert placed(plan) == WEIGHTS
        prepare(plan, str(tmp_path / "out")).write()
    with open_checkpoint(tmp_path / "out") as ckpt:
        assert ckpt["net/w"].tolist() == VECTOR.tolist()


@pytest.mark.parametrize("fixture", OBJECTS, ids=lambda fixture: fixture.name)
def test_there_and_back(fixture: BundleFixture, tmp_path: Path) -> None:
    """What was made name-based takes its old places again, with all its bytes."""
    with open_checkpoint(fixture.prefix) as first:
        plan = Plan.of(first)
        graph = plan.graph
        assert graph is not None
        owners = graph.claims({t.key for t in plan.tensors}).owners
        unclaimed = {t.key for t in plan.tensors} - owners.keys()
        back = {}
        try:
            flat = flatten(plan)
        except KeyCollisionError:
            back = {f"name/{at}": t.key for at, t in enumerate(plan.tensors)}
            flat = flatten(plan, {key: name for name, key in back.items()})
        if not flat.tensors or not owners:
            return
        prepare(flat, str(tmp_path / "flat")).write()
        with open_checkpoint(tmp_path / "flat") as second:
            found = follow(Plan.of(second), first, back)
            assert {t.key for t in found.tensors} == {t.key for t in plan.tensors} - unclaimed
            crcs = {t.key: [part.crc32c for part in t.parts] for t in plan.tensors}
            assert all([p.crc32c for p in t.parts] == crcs[t.key] for t in found.tensors)
            check_graph(found)
            prepare(found, str(tmp_path / "back")).write()
    with open_checkpoint(tmp_path / "back") as third:
        assert set(third.entries) == {t.key for t in found.tensors} | {GRAPH_KEY}
        assert third.object_graph == found.graph


def test_names_of_a_partitioned_variable(tmp_path: Path) -> None:
    source = bundle("v2/tf1.15/partitioned/model.ckpt-7").prefix
    with open_checkpoint(source) as ckpt:
        shape = ckpt.entries["rows"].shape
    reference = object_based(
        tmp_path / "ref", {"rows": V}, values={"rows": np.zeros(shape, np.float32)}
    )
    with opened(source, reference) as (ours, theirs):
        plan = follow(Plan.of(ours), theirs)
        prepare(plan, str(tmp_path / "out")).write()
        with open_checkpoint(tmp_path / "out") as ckpt:
            assert np.array_equal(ckpt["rows"], ours["rows"])
            assert ckpt.entries[attribute_key("rows")].slices
