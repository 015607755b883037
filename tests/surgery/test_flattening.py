"""Object-based checkpoints made name-based."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.bundle.entry import BundleEntry
from ckpttool.errors import KeyCollisionError, SelectionError, SurgeryError
from ckpttool.objects.keys import GRAPH_KEY, attribute_key
from ckpttool.surgery.flattening import flatten
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import prepare
from tests.support.fixtures import BundleFixture, bundle, bundles
from tests.surgery.graphs import VARIABLE
from tests.surgery.references import name_based, object_based

V = VARIABLE
OBJECTS = [fixture for fixture in bundles() if GRAPH_KEY in fixture.tensors]
HYPERS = ("beta_1", "beta_2", "decay", "iter", "learning_rate")


def flattened(prefix: str, rules: Mapping[str, str] | None = None) -> Plan:
    with open_checkpoint(prefix) as ckpt:
        return flatten(Plan.of(ckpt), rules or {})


def names(plan: Plan) -> dict[str, str]:
    """Return the new names by object path."""
    found = {}
    for tensor in plan.tensors:
        path = plan.source.object_path(tensor.source_key)
        found[path or tensor.source_key] = tensor.key
    return found


@pytest.mark.parametrize(
    ("fixture", "wanted"),
    [
        (
            "v2/tf1.15/v1_optimizer_objects/model-1",
            {
                "w": "w",
                "save_counter": "save_counter",
                "optimizer/beta1_power": "beta1_power",
                "optimizer/beta2_power": "beta2_power",
                "w/.OPTIMIZER_SLOT/optimizer/m": "w/Adam",
                "w/.OPTIMIZER_SLOT/optimizer/v": "w/Adam_1",
            },
        ),
        (
            "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5",
            {
                "step": "Variable",
                "save_counter": "save_counter",
                "iterator/.ITERATOR_STATE": "iterator_STATE",
                **{f"optimizer/{name}": f"Adam/{name}" for name in HYPERS},
                **{f"net/l1/{name}": f"net/dense/{name}" for name in ("kernel", "bias")},
                **{
                    f"net/l1/{at}/.OPTIMIZER_SLOT/optimizer/{slot}": f"Adam/net/dense/{at}/{slot}"
                    for at in ("kernel", "bias")
                    for slot in "mv"
                },
            },
        ),
        (
            "v2/tf2.21/tables/ckpt-1",
            {
                "v": "v",
                "save_counter": "save_counter",
                **{
                    f"{table}/.table-{half}": f"{table}-{half}"
                    for table in ("mutable", "dense", "empty")
                    for half in ("keys", "values")
                },
            },
        ),
        (
            "v2/tf2.21/python_state/ckpt-1",
            {
                "odd/.py_state": "odd/py_state",
                "state/.py_state": "state/py_state",
                "save_counter": "save_counter",
                "generator/_state_var": "StateVar",
            },
        ),
        (
            "v2/tf2.21/sharded_variable/ckpt-1",
            {"net/table": "table", "net/bias": "bias", "save_counter": "save_counter"},
        ),
    ],
)
def test_full_names(fixture: str, wanted: dict[str, str]) -> None:
    plan = flattened(bundle(fixture).prefix)
    assert names(plan) == wanted
    assert plan.graph is None
    assert plan.graph_changed
    unnamed = [path for path in wanted if "/." in path and "SLOT/" not in path]
    assert len(plan.notes) == bool(unnamed)
    assert sum(path in plan.notes[0] for path in unnamed) == min(len(unnamed), 5)


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/b", "a/b"), ("k.S2/x..y", "k/2/x.y"), ("w/.OPTIMIZER_SLOT/a/m", "w/m")],
)
def test_no_full_name(tmp_path: Path, path: str, name: str) -> None:
    tree = {"a": {"b": V}, "k/2": {"x.y": V}, "w": V}
    prefix = object_based(tmp_path / "src", tree, [("a", "w", "m")], names={path: ""})
    plan = flattened(prefix)
    assert names(plan)[path] == name
    assert plan.notes == (f"without a full name, called by their object paths: '{path}'",)


def test_a_tensor_of_the_root(tmp_path: Path) -> None:
    plan = flattened(bundle("v2/tf2.21/root_attributes/ckpt").prefix)
    # An attribute's name is escaped once more in its key.
    assert set(names(plan).values()) == {"Variable", "c.Sd", "a..b", "own"}
    prefix = object_based(tmp_path / "root", V)
    with open_checkpoint(prefix) as ckpt:
        assert set(ckpt.entries) == {GRAPH_KEY, attribute_key("")}
    assert names(flattened(prefix)) == {".VARIABLE_VALUE": "VARIABLE_VALUE"}


def test_what_a_function_of_the_program_wrote() -> None:
    plan = flattened(bundle("v2/tf2.21/registered_saver/ckpt-1").prefix)
    assert names(plan)["custom/registered"] == "custom/registered"


def test_collisions(tmp_path: Path) -> None:
    tree = {"p": V, "q": V, "opt": {"x": V}}
    twice = {"p": "Variable", "q": "Variable"}
    slots = [("opt", "p", "m"), ("opt", "q", "m")]
    mine = {f"{name}/.OPTIMIZER_SLOT/opt/m": "Variable/Adam" for name in "pq"}
    theirs = {f"{name}/.OPTIMIZER_SLOT/opt/m": "Adam/Variable/m" for name in "pq"}
    for at, (given, wanted) in enumerate(((mine, "other/Adam"), (theirs, "Adam/other/m"))):
        prefix = object_based(tmp_path / f"src{at}", tree, slots, names=twice | given)
        plan = flattened(prefix)
        assert names(plan) == {
            "opt/x": "opt/x",
            "p": "p",
            "p/.OPTIMIZER_SLOT/opt/m": "p/m",
            "q": "q",
            "q/.OPTIMIZER_SLOT/opt/m": "q/m",
        }
        (note,) = plan.notes
        assert note.startswith("with a full name that others have too, called by their object path")
        assert all(f"'{name}'" in note for name in names(plan) if name != "opt/x")
        found = names(flattened(prefix, {"q": "other"}))
        assert found["p"] == "Variable"
        assert found["q"] == "other"
        assert found["q/.OPTIMIZER_SLOT/opt/m"] == wanted
        assert found["p/.OPTIMIZER_SLOT/opt/m"] == given["p/.OPTIMIZER_SLOT/opt/m"]


def test_metrics_of_one_name(tmp_path: Path) -> None:
    metrics = {"0": {"total": V, "count": V}, "1": {"total": V, "count": V}}
    both = {f"metrics/{at}/{name}": name for at in "01" for name in ("total", "count")}
    prefix = object_based(tmp_path / "src", {"kernel": V, "metrics": metrics}, names=both)
    plan = flattened(prefix)
    assert names(plan) == {name: name for name in ("kernel", *both)}
    # A rule for one of two leaves the full name to the other.
    found = names(flattened(prefix, {"metrics/1/total": "mae"}))
    assert (found["metrics/0/total"], found["metrics/1/total"]) == ("total", "mae")
    assert found["metrics/0/count"] == "metrics/0/count"


def test_a_path_that_is_the_name_of_another(tmp_path: Path) -> None:
    tree = {"a": V, "b": V, "c": V}
    prefix = object_based(tmp_path / "src", tree, names={"a": "x", "b": "x", "c": "a"})
    with pytest.raises(KeyCollisionError, match="'a', 'c' would both be called 'a'") as caught:
        flattened(prefix)
    assert caught.value.path == prefix
    assert names(flattened(prefix, {"a": "one"})) == {"a": "one", "b": "x", "c": "a"}


@pytest.mark.parametrize("old", ["net/w", attribute_key("net/w"), "same/w"])
def test_rules(tmp_path: Path, old: str) -> None:
    prefix = object_based(tmp_path / "src", {"net": {"w": V, "b": V}, "same": "@net"})
    assert names(flattened(prefix, {old: "x", "net/b": "net/w"})) == {
        "net/w": "x",
        "net/b": "net/w",
    }


def test_rules_that_cannot_be(tmp_path: Path) -> None:
    prefix = object_based(tmp_path / "src", {"net": {"w": V, "b": V}})
    for old in ("net/x", "net", GRAPH_KEY):
        with pytest.raises(SelectionError, match=f"the rule '{old}=x' matches nothing"):
            flattened(prefix, {old: "x"})
    with pytest.raises(KeyCollisionError, match="'net/b', 'net/w' would both be called 'net/b'"):
        flattened(prefix, {"net/w": "net/b"})
    with pytest.raises(SurgeryError, match="that name is reserved for the object graph"):
        flattened(prefix, {"net/w": GRAPH_KEY})


def test_wrong_style(tmp_path: Path) -> None:
    with pytest.raises(SurgeryError, match="already name-based"):
        flattened(name_based(tmp_path / "src", ["w"]))


@pytest.mark.parametrize("fixture", OBJECTS, ids=lambda fixture: fixture.name)
def test_written(fixture: BundleFixture, tmp_path: Path) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        plan = Plan.of(ckpt)
        try:
            flat = flatten(plan)
        except KeyCollisionError:
            assert plan.graph is not None
            owners = plan.graph.claims({t.key for t in plan.tensors}).owners.values()
            full = [attribute.full_name for _, attribute in owners if attribute.full_name]
            assert len(set(full)) < len(full)
            return
        assert [replace(t, key="") for t in flat.tensors] == [
            replace(t, key="") for t in plan.tensors
        ]
        if not flat.tensors:
            return
        prepare(flat, str(tmp_path / "flat")).write()
    with open_checkpoint(tmp_path / "flat") as written:
        assert written.style == "name"
        assert set(written.entries) == {tensor.key for tensor in flat.tensors}
        for tensor in flat.tensors:
            entry = written.bundle.entries[tensor.key]
            assert (entry.dtype, entry.shape) == (tensor.entry.dtype, tensor.entry.shape)
            assert isinstance(tensor.entry, BundleEntry)
            assert entry.crc32c == tensor.entry.crc32c
