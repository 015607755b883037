"""`ckpt rename` on object-based checkpoints, where the object graph follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ckpttool
from tests.support.command import ckpt
from tests.support.fixtures import bundle
from tests.support.surgery import make, refuse, renaming, run

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
NEW = ("-o", "new")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a run of training in it."""
    return make(tmp_path)


def plan(folder: Path, *words: str) -> dict[str, str | None]:
    """Return what a dry run says of every tensor that gets another name."""
    return renaming(run(folder, "rename", *words, "-o", "planned", "-n"))


def test_objects_are_renamed_with_all_that_is_below(here: Path) -> None:
    found = plan(here, "ckpts", "net/l1=net/dense")
    assert found == {
        f"net/l1/{each}": f"net/dense/{each}"
        for name in ("bias", "kernel")
        for each in (
            f"{name}{VALUE}",
            f"{name}/.OPTIMIZER_SLOT/optimizer/m{VALUE}",
            f"{name}/.OPTIMIZER_SLOT/optimizer/v{VALUE}",
        )
    }
    run(here, "rename", "ckpts", "net/l1=net/dense", *NEW)
    paths = ckpt("ls", "new", "--tree", folder=str(here)).out
    assert "dense" in paths and "l1" not in paths


def test_slots_follow_their_optimizer(here: Path) -> None:
    found = plan(here, "ckpts", "optimizer=opt")
    kernel = "net/l1/kernel/.OPTIMIZER_SLOT"
    assert found[f"{kernel}/optimizer/m{VALUE}"] == f"{kernel}/opt/m{VALUE}"
    assert found[f"optimizer/iter{VALUE}"] == f"opt/iter{VALUE}"
    run(here, "rename", "ckpts", "optimizer=opt", *NEW)
    slots = ckpt("ls", "new", "--kind", "slot", "--format", "names", folder=str(here)).out
    assert len(slots.splitlines()) == 4 and "optimizer" not in slots.replace("OPTIMIZER", "")


@pytest.mark.parametrize(
    "rule",
    [
        "net/l1/kernel=net/l1/k",
        f"net/l1/kernel{VALUE}=net/l1/k",
        f"net/l1/kernel{VALUE}=net/l1/k{VALUE}",
    ],
)
def test_keys_and_object_paths_are_as_good(rule: str, here: Path) -> None:
    found = plan(here, "ckpts", rule)
    assert found[f"net/l1/kernel{VALUE}"] == f"net/l1/k{VALUE}" and len(found) == 3


def test_objects_move_into_others(here: Path) -> None:
    wrapped = plan(here, "ckpts", "net=net/inner")
    assert wrapped[f"net/l1/bias{VALUE}"] == f"net/inner/l1/bias{VALUE}"
    run(here, "rename", "ckpts", "net/l1=tower/deep/l1", "step=tower/step", *NEW)
    with ckpttool.open_checkpoint(here / "new") as new:
        assert f"tower/deep/l1/kernel{VALUE}" in new and f"tower/step{VALUE}" in new
        assert new.object_graph is not None and new.object_graph.node_at("net") is None


def test_prefixes_leave_the_save_counter(here: Path) -> None:
    found = plan(here, "ckpts", "--prefix", "model/")
    assert f"save_counter{VALUE}" not in found and len(found) == 13
    run(here, "rename", "ckpts", "--prefix", "model/", *NEW)
    back = plan(here, "new", "--strip-prefix", "model/")
    assert back == {new: old for old, new in found.items()}
    assert plan(here, "ckpts", "save_counter=c") == {f"save_counter{VALUE}": f"c{VALUE}"}


def test_any_path_to_an_object_names_its_edge(tmp_path: Path) -> None:
    prefix = bundle("v2/tf2.21/references/ckpt-1").prefix
    tree = ckpt("ls", prefix, "--tree", "--json")
    shared = [node for node in json.loads(tree.out)["tree"] if node["same_as"]]
    node = next(node for node in shared if node["same_as"] not in ("", "."))
    alias, home = node["path"], node["same_as"]
    # The keys follow the path that comes first; the other one is an edge and nothing else.
    done = run(tmp_path, "rename", prefix, f"{alias}={alias}_renamed", *NEW)
    with ckpttool.open_checkpoint(tmp_path / "new") as new, ckpttool.open_checkpoint(prefix) as old:
        assert new.object_graph is not None and old.object_graph is not None
        assert new.object_graph.node_at(alias) is None
        assert new.object_graph.node_at(f"{alias}_renamed") == old.object_graph.node_at(alias)
        assert new.object_graph.node_at(home) == old.object_graph.node_at(home)
    assert "wrote new" in done.err


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["net=step"], "two objects would be called 'step'"),
        (["net/l1/.OPTIMIZER_SLOT/optimizer/m=x"], "slot variables follow their variable"),
        ([f"net/l1/kernel{VALUE}=k/.ATTRIBUTES/other"], "an attribute cannot be renamed"),
        (["nte=x"], "the rule 'nte=x' matches nothing; nearest: 'net'"),
        (["net=a", "net/l1=b"], "matches nothing that an earlier rule has not"),
        (["net=a//b"], "a name in it is empty"),
        (["net=model", "--strict"], "no rule matches 'iterator', 'optimizer/beta_1'"),
        (["--promote-ema"], "no averages"),
    ],
)
def test_what_cannot_be_done_to_objects(rules: list[str], message: str, here: Path) -> None:
    refuse(here, "rename", "ckpts", *rules, *NEW, message=message)
