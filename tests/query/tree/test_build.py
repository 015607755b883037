"""Trees of real object graphs and of name-based checkpoints."""

from __future__ import annotations

from ckpttool import open_checkpoint
from ckpttool.checkpoint.selection.select import SelectionRule, Selector
from ckpttool.query.listing import list_tensors
from ckpttool.query.tree.build import build_tree
from ckpttool.query.tree.nodes import TreeNode
from tests.support.fixtures import BundleFixture, bundle
from tests.support.sweeps import each_bundle

GUIDE = "v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5"


def _tree(
    name: str, *, depth: int | None = None, selector: Selector | None = None
) -> list[TreeNode]:
    with open_checkpoint(bundle(name).prefix) as ckpt:
        return list(build_tree(ckpt, list_tensors(ckpt, selector).rows, depth=depth))


def test_slots_are_folded_into_their_variable() -> None:
    nodes = {node.path: node for node in _tree(GUIDE)}
    kernel = nodes["net/l1/kernel"]
    assert [slot.name for slot in kernel.slots] == ["m", "v"]
    assert all(slot.tensor is not None and slot.tensor.kind == "slot" for slot in kernel.slots)
    assert kernel.tensors[0].key == "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    assert nodes["optimizer/iter"].tensors[0].dtype == "int64"


@each_bundle
def test_every_tensor_stands_in_the_tree_once(fixture: BundleFixture) -> None:
    with open_checkpoint(fixture.prefix) as ckpt:
        rows = list_tensors(ckpt).rows
        nodes = list(build_tree(ckpt, rows))
    placed = [row.key for node in nodes for row in node.tensors]
    placed += [slot.tensor.key for node in nodes for slot in node.slots if slot.tensor]
    expected = [row.key for row in rows if not (ckpt.style == "object" and row.kind == "graph")]
    assert sorted(placed) == sorted(expected)
    assert nodes[0].depth == 0 and all(node.depth > 0 for node in nodes[1:])


def test_shared_and_cyclic_references_point_to_one_place() -> None:
    nodes = _tree("v2/tf2.21/references/ckpt-1")
    paths = {node.path for node in nodes if node.same_as is None}
    references = [node for node in nodes if node.same_as is not None]
    assert references
    assert all(node.same_as in paths and not node.tensors for node in references)


def test_a_depth_limit_counts_what_it_hides() -> None:
    whole, cut = _tree(GUIDE), _tree(GUIDE, depth=1)
    assert max(node.depth for node in cut) == 1
    assert sum(1 + node.hidden for node in cut) == len(whole)


def test_a_selection_keeps_only_the_way_to_it() -> None:
    nodes = _tree(GUIDE, selector=Selector([SelectionRule("net/l1/kernel")]))
    assert [node.path for node in nodes] == ["", "net", "net/l1", "net/l1/kernel"]


def test_scopes_of_a_name_based_checkpoint() -> None:
    nodes = _tree("v2/tf2.21/saver_v2/model.ckpt-3")
    assert nodes[0].path == ""
    leaves = [node for node in nodes if node.tensors]
    assert all(node.path == node.tensors[0].key for node in leaves)
