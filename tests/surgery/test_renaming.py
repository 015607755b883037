"""Renaming plans: which rule takes which name, what is refused, what is left alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.errors import KeyCollisionError, SelectionError, SurgeryError
from ckpttool.objects.graph import ObjectGraph
from ckpttool.objects.keys import ATTRIBUTES, GRAPH_KEY, escape, object_path
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import promote_averages, rename
from ckpttool.surgery.rules import (
    MoveRule,
    PrefixRule,
    RenameRule,
    StripPrefixRule,
    SubstituteRule,
    parse_move,
)
from tests.support.fixtures import bundle, bundles

ALL = bundles()
OBJECTS = [fixture for fixture in ALL if GRAPH_KEY in fixture.tensors]
NAMES = [fixture for fixture in ALL if GRAPH_KEY not in fixture.tensors]
VALUE = f"{ATTRIBUTES}VARIABLE_VALUE"
GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"
SAVER = "v2/tf1.15/estimator/run/model.ckpt-10"
ODD = "v2/tf2.21/edge_names/ckpt-1"
SHARED = "v2/tf2.21/references/ckpt-1"


def plan_of(name: str) -> Plan:
    return Plan.of(open_checkpoint(bundle(name).prefix))


def moves(*texts: str) -> list[RenameRule]:
    return [parse_move(text) for text in texts]


def sub(regex: str, replacement: str) -> SubstituteRule:
    return SubstituteRule(re.compile(regex), replacement)


def renamed(plan: Plan) -> dict[str, str]:
    """Return the new names of what was renamed, by object path or key."""
    return {
        plan.short_name(change.key): plan.short_name(change.new_key or "")
        for change in plan.changes
    }


SLOTS = [f"net/l1/{v}/.OPTIMIZER_SLOT/optimizer/{s}" for v in ("kernel", "bias") for s in "mv"]


def everything_called(name: str) -> dict[str, str]:
    """Return what becomes of the guide's net if it is called otherwise."""
    old = ["net/l1/kernel", "net/l1/bias", *SLOTS]
    return {path: name + path[len("net") :] for path in old}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (moves("net=model"), everything_called("model")),
        (moves("net=a/b/c"), everything_called("a/b/c")),
        (moves("step=epoch"), {"step": "epoch"}),
        ([MoveRule("step" + VALUE, "epoch" + VALUE)], {"step": "epoch"}),
        ([MoveRule("step" + VALUE, "epoch")], {"step": "epoch"}),
        ([MoveRule("step", "epoch" + VALUE)], {"step": "epoch"}),
        (moves("/step/=/epoch/"), {"step": "epoch"}),
        (moves("save_counter=saves"), {"save_counter": "saves"}),
        (moves("iterator=data"), {"iterator/.ITERATOR_STATE": "data/.ITERATOR_STATE"}),
        (
            moves("optimizer=opt"),
            {path: path.replace("optimizer", "opt") for path in SLOTS}
            | {
                f"optimizer/{name}": f"opt/{name}"
                for name in ("iter", "beta_1", "beta_2", "decay", "learning_rate")
            },
        ),
        (moves("optimizer/beta_1=optimizer/b"), {"optimizer/beta_1": "optimizer/b"}),
        (moves("net=net"), {}),
        ([sub("^net", "model")], everything_called("model")),
        ([sub("^step$", "epoch")], {"step": "epoch"}),
        (
            [sub("^(step|iterator)$", r"x_\1")],
            {"step": "x_step", "iterator/.ITERATOR_STATE": "x_iterator/.ITERATOR_STATE"},
        ),
        ([StripPrefixRule("st")], {"step": "ep"}),
        (moves("step=net", "net=step"), everything_called("step") | {"step": "net"}),
    ],
)
def test_objects(rules: list[RenameRule], expected: dict[str, str]) -> None:
    plan = rename(plan_of(GUIDE), rules)
    assert renamed(plan) == expected
    assert {tensor.source_key for tensor in plan.tensors} == set(plan.source.entries) - {GRAPH_KEY}


def test_the_first_rule_that_matches_a_name_decides() -> None:
    plan = plan_of(GUIDE)
    inner = moves("net/l1/bias=b", "net/l1=net/dense", "net=model")
    found = renamed(rename(plan, inner))
    assert found["net/l1/kernel"] == "net/dense/kernel"
    assert found["net/l1/bias"] == "b"
    assert (
        renamed(rename(plan, [sub("^step$", "one"), *moves("step=two", "net=n")[1:]]))["step"]
        == "one"
    )


def test_a_prefix_spares_the_save_counter() -> None:
    found = renamed(rename(plan_of(GUIDE), [PrefixRule("tower/")]))
    assert "save_counter" not in found
    assert found["step"] == "tower/step"
    assert found[SLOTS[0]] == "tower/net/l1/kernel/.OPTIMIZER_SLOT/tower/optimizer/m"
    back = rename(rename(plan_of(GUIDE), [PrefixRule("tower/")]), [StripPrefixRule("tower/")])
    assert back.changes == ()
    assert renamed(rename(plan_of(GUIDE), [PrefixRule("my_")]))["net/l1/bias"] == "my_net/l1/bias"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            moves("linear=dense"),
            {
                "linear/kernel": "dense/kernel",
                "linear/bias": "dense/bias",
                "linear/kernel/Adagrad": "dense/kernel/Adagrad",
                "linear/bias/Adagrad": "dense/bias/Adagrad",
            },
        ),
        (moves("linear/kernel=w"), {"linear/kernel": "w", "linear/kernel/Adagrad": "w/Adagrad"}),
        (moves("global_step=linear/step"), {"global_step": "linear/step"}),
        ([StripPrefixRule("global_")], {"global_step": "step"}),
        (
            [sub("Adagrad$", "acc")],
            {
                "linear/kernel/Adagrad": "linear/kernel/acc",
                "linear/bias/Adagrad": "linear/bias/acc",
            },
        ),
        (
            moves("linear/bias=linear/kernel", "linear/kernel=linear/bias"),
            {
                "linear/kernel": "linear/bias",
                "linear/bias": "linear/kernel",
                "linear/kernel/Adagrad": "linear/bias/Adagrad",
                "linear/bias/Adagrad": "linear/kernel/Adagrad",
            },
        ),
    ],
)
def test_names(rules: list[RenameRule], expected: dict[str, str]) -> None:
    plan = rename(plan_of(SAVER), rules)
    assert renamed(plan) == expected
    assert plan.graph is None


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("a/other=a/peer", {}),
        ("z=y", {"z": "y"}),
        ("deep/x=deep/v", {}),
        ("deep=more", {}),
        ("deep/below/w=deep/below/v", {"again/below/w": "again/below/v"}),
        ("deep/below/up/below/w=deep/below/up/below/v", {"again/below/w": "again/below/v"}),
        ("again=far/away/again", {"again/below/w": "deep/below/w"}),
    ],
)
def test_other_paths_of_shared_objects(rule: str, expected: dict[str, str]) -> None:
    plan = plan_of(SHARED)
    after = rename(plan, moves(rule))
    assert renamed(after) == expected
    assert plan.graph is not None
    assert after.graph is not None
    old, new = rule.split("=")
    assert after.graph.node_at(old) is None
    if "/up/" not in rule:
        assert after.graph.node_at(new) == plan.graph.node_at(old)


@pytest.mark.parametrize("scope", ["again", "deep"])
def test_a_rule_by_another_path_holds_for_all_that_is_below(scope: str) -> None:
    plan = plan_of(SHARED)
    after = rename(plan, moves(f"{scope}/below=q", "again=z2"))
    assert renamed(after) == {"again/below/w": "q/w"}
    assert plan.graph is not None
    assert after.graph is not None
    for old, new in (("again", "z2"), ("deep", "deep"), ("again/below", "q"), ("again/x", "z2/x")):
        assert after.graph.node_at(new) == plan.graph.node_at(old)
    assert after.graph.node_at("z2/below") is None


def test_a_scope_before_a_rule_by_another_path() -> None:
    with pytest.raises(SelectionError, match="'deep/below=q' matches nothing that an earlier"):
        rename(plan_of(SHARED), moves("again=z2", "deep/below=q"))


def test_two_names_of_one_object_become_one() -> None:
    after = rename(plan_of(SHARED), moves("again=q", "deep=q"))
    assert renamed(after) == {"again/below/w": "q/below/w"}


def with_two_claims(plan: Plan) -> Plan:
    """Return a plan in which the object `z` claims the tensor of `again/below/w` as well."""
    graph = plan.graph
    assert graph is not None
    nodes = list(graph.nodes)
    at, other = graph.node_at("z"), graph.node_at("again/below/w")
    assert at is not None
    assert other is not None
    nodes[at] = nodes[at]._replace(attributes=nodes[other].attributes)
    kept = tuple(tensor for tensor in plan.tensors if tensor.key != "z" + VALUE)
    return replace(plan, graph=ObjectGraph(tuple(nodes), graph.unknown), tensors=kept)


@pytest.mark.parametrize("rule", ["z=y", "again/below/w=again/below/v", "b=c", "again=q"])
def test_a_tensor_that_two_objects_claim(rule: str) -> None:
    with pytest.raises(SurgeryError, match="claim the same tensor") as caught:
        rename(with_two_claims(plan_of(SHARED)), moves(rule))
    assert caught.value.key == "again/below/w" + VALUE
    assert "'again/below/w'" in str(caught.value)
    assert "'z'" in str(caught.value)


def odd_paths() -> list[str]:
    graph = plan_of(ODD).graph
    assert graph is not None
    at = graph.node_at("d")
    assert at is not None
    return [f"d/{escape(edge.name)}" for edge in graph.nodes[at].children]


@pytest.mark.parametrize("path", odd_paths(), ids=ascii)
def test_odd_names(path: str) -> None:
    plan = plan_of(ODD)
    there = rename(plan, [MoveRule(path, "d/quite plain")])
    assert renamed(there) == {path: "d/quite plain"}
    back = rename(there, [MoveRule("d/quite plain", path)])
    assert back.changes == ()
    assert not back.graph_changed
    only = rename(
        plan,
        [MoveRule(path, "d/x"), sub("^(nested|state|att)", r"\1_"), sub("^d/", "d/")],
        strict=True,
    )
    assert renamed(only)[path] == "d/x"


@pytest.mark.parametrize("name", [GUIDE, SAVER, "v2/tf2.21/tables/ckpt-1"])
@pytest.mark.parametrize(
    "rule",
    [
        MoveRule("nowhere", "x"),
        MoveRule("net/l9", "x"),
        MoveRule("linear/kerne", "x"),
        sub("nowhere", "x"),
        StripPrefixRule("nowhere/"),
    ],
)
def test_rules_that_match_nothing(name: str, rule: RenameRule) -> None:
    with pytest.raises(SelectionError) as caught:
        rename(plan_of(name), [rule])
    assert f"the rule '{rule.text}' matches nothing" in str(caught.value)


def test_near_misses_are_named() -> None:
    with pytest.raises(SelectionError, match=r"nearest: .*'net/l1/kernel'"):
        rename(plan_of(GUIDE), moves("net/l1/kernl=x"))
    with pytest.raises(SelectionError, match=r"nearest: .*'linear/kernel'"):
        rename(plan_of(SAVER), moves("linear/kernl=x"))


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        (GUIDE, moves("net=model", "net/l1=x")),
        (GUIDE, [sub("^net", "model"), MoveRule("net/l1", "x")]),
        (GUIDE, [PrefixRule("x/"), sub("net", "model")]),
        (GUIDE, moves("step=a", "step=b")),
        (SAVER, moves("linear=model", "linear/kernel=x")),
        (SAVER, [PrefixRule("x/"), sub("linear", "model")]),
        (SAVER, [PrefixRule("x/"), PrefixRule("y/")]),
    ],
)
def test_rules_that_earlier_ones_leave_nothing(name: str, rules: list[RenameRule]) -> None:
    with pytest.raises(
        SelectionError, match="matches nothing that an earlier rule has not"
    ) as caught:
        rename(plan_of(name), rules)
    assert f"'{rules[1].text}'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "rules", "both"),
    [
        (GUIDE, moves("step=net/l1/bias"), "net/l1/bias"),
        (GUIDE, moves("net/l1/bias=net/l1/kernel"), "net/l1/kernel"),
        (GUIDE, moves("optimizer=step"), "step"),
        (GUIDE, [sub("beta_.", "beta")], "optimizer/beta"),
        (SAVER, moves("global_step=linear/bias"), "linear/bias"),
        (SAVER, [sub("linear/.*", "all")], "all"),
        (SAVER, moves("linear/kernel/Adagrad=global_step"), "global_step"),
    ],
)
def test_collisions(name: str, rules: list[RenameRule], both: str) -> None:
    with pytest.raises(KeyCollisionError, match=r"would (both )?be called") as caught:
        rename(plan_of(name), rules)
    assert f"'{both}'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "rules", "message"),
    [
        (GUIDE, moves("net=/"), "a name in it is empty"),
        (GUIDE, [sub("^net$", "")], "a name in it is empty"),
        (GUIDE, [sub("l1$", "")], "a name in it is empty"),
        (GUIDE, moves("net=a//b"), "a name in it is empty"),
        (SAVER, [sub("^global_step$", "")], "a rule makes the name empty"),
        (SAVER, moves(f"global_step={GRAPH_KEY}"), "that key is reserved for the object graph"),
        (GUIDE, moves(f"{SLOTS[0]}=x"), "slot variables follow their variable"),
        (GUIDE, moves(f"step={SLOTS[0]}x"), "slot variables follow their variable"),
        (GUIDE, [MoveRule(SLOTS[0] + VALUE, "x")], "slot variables follow their variable"),
        (GUIDE, moves("iterator/.ITERATOR_STATE=iterator/.X"), "an attribute cannot be renamed"),
        (GUIDE, [MoveRule(f"iterator{ATTRIBUTES}ITERATOR_STATE", "x")], "an attribute cannot be"),
        (GUIDE, moves("step=.x"), "an attribute cannot be renamed"),
    ],
)
def test_what_cannot_be_done(name: str, rules: list[RenameRule], message: str) -> None:
    with pytest.raises(SurgeryError, match=message):
        rename(plan_of(name), rules)


@pytest.mark.parametrize(
    ("name", "rules", "left"),
    [
        (GUIDE, moves("net=model"), ["iterator", "optimizer/beta_1", "optimizer/iter"]),
        (GUIDE, moves("net=model", "iterator=data", "optimizer=opt"), ["step"]),
        (
            GUIDE,
            moves("net/l1/kernel=net/l1/w", "iterator=d", "optimizer=o", "step=s"),
            ["net/l1/bias"],
        ),
        (SAVER, moves("linear=dense"), ["global_step"]),
        (ODD, [sub("^(nested|state|attribute)", r"x\1"), *moves("d/..S=d/x")], ["d/..", "d/...."]),
    ],
)
def test_strict(name: str, rules: list[RenameRule], left: list[str]) -> None:
    rename(plan_of(name), rules)
    with pytest.raises(SelectionError, match="no rule matches") as caught:
        rename(plan_of(name), rules, strict=True)
    assert all(f"'{each}'" in str(caught.value) for each in left)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        (GUIDE, moves("net=model", "iterator=data", "optimizer=opt", "step=step")),
        (GUIDE, [PrefixRule("x/")]),
        (GUIDE, [sub("^", "x_")]),
        (SAVER, moves("linear=linear", "global_step=step")),
        (ODD, [PrefixRule("x")]),
        (ODD, [sub("^d/", "e/"), sub("^(nested|state|attribute)", r"x\1")]),
        ("v2/tf2.21/tables/ckpt-1", moves("dense=a", "mutable=b", "empty=c", "v=d")),
    ],
)
def test_strict_and_all_matched(name: str, rules: list[RenameRule]) -> None:
    plan = plan_of(name)
    strict, loose = rename(plan, rules, strict=True), rename(plan, rules)
    assert strict.tensors == loose.tensors


def test_keys_that_are_not_utf8() -> None:
    plan = plan_of("v2/tf2.21/keys_not_utf8/bytes")
    after = rename(plan, [PrefixRule("x/")])
    assert [tensor.key for tensor in after.tensors] == [f"x/{t.key}" for t in plan.tensors]


def test_promoted_averages() -> None:
    plan = plan_of("v2/tf2.21/merged/model")
    with pytest.raises(SurgeryError, match="no averages"):
        promote_averages(plan)
    with pytest.raises(SurgeryError, match="no averages"):
        promote_averages(plan_of(GUIDE))


@pytest.mark.parametrize("alone", [False, True])
def test_averages_and_weights_are_exchanged(tmp_path: Path, alone: bool) -> None:
    import ckpttool

    ema = "/ExponentialMovingAverage"
    values = {"a/w": 1.0, f"a/w{ema}": 2.0, "b": 3.0, f"c{ema}": 4.0, "a/w/Adam": 5.0}
    if not alone:
        values |= {f"b{ema}": 6.0, "c": 7.0}
    prefix = str(tmp_path / "averaged")
    ckpttool.save_checkpoint(prefix, {key: [value] for key, value in values.items()})
    with open_checkpoint(prefix) as ckpt:
        plan = promote_averages(Plan.of(ckpt))
        found = {tensor.key: values[tensor.source_key] for tensor in plan.tensors}
        again = promote_averages(plan) if not alone else plan
    expected = {"a/w": 2.0, f"a/w{ema}": 1.0, "a/w/Adam": 5.0}
    if alone:  # the only copy of what "c" was averaged to is a weight, and stays
        expected |= {"b": 3.0, f"c{ema}": 4.0}
    else:
        expected |= {"b": 6.0, f"b{ema}": 3.0, "c": 4.0, f"c{ema}": 7.0}
    assert found == expected
    (note, *_) = plan.notes
    replaced = "1 weight" if alone else "3 weights"
    assert note.startswith(f"averages took the place of {replaced}")
    assert ("without an average: 'b'" in note) == alone
    if not alone:
        assert again.changes == ()


def test_a_weight_with_two_averages(tmp_path: Path) -> None:
    import ckpttool

    ema = "ExponentialMovingAverage"
    names = ("w", f"w/{ema}", f"w/{ema}_1")
    ckpttool.save_checkpoint(str(tmp_path / "m"), {name: [1.0, 2.0] for name in names})
    with open_checkpoint(str(tmp_path / "m")) as ckpt:
        plan = Plan.of(ckpt)
    with pytest.raises(SurgeryError, match="several averages"):
        promote_averages(plan)


def test_object_paths_of_renamed_keys() -> None:
    plan = rename(plan_of(ODD), [PrefixRule("x.y/")])
    assert all(
        (object_path(tensor.key) or "").startswith(("x..y/", "save_c")) for tensor in plan.tensors
    )
