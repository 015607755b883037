"""The tree of a checkpoint: its object graph, or the scopes of a name-based one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpttool.checkpoint.open import Checkpoint
from ckpttool.query.rows import TensorRow
from ckpttool.query.tree.nodes import TreeNode
from ckpttool.query.tree.scopes import ScopeTree


def build_tree(
    ckpt: Checkpoint, rows: Sequence[TensorRow], *, depth: int | None = None
) -> Iterable[TreeNode]:
    """Return the nodes of the tree that holds these tensors, in the order they are drawn.

    Args:
        ckpt: the checkpoint; of an object-based one the object graph is read.
        rows: the tensors to show, as `list_tensors` gives them. If they are all there are,
            objects without tensors are shown too.
        depth: how many levels below the root; without one `nodes.MAX_DEPTH`.

    Raises:
        CkptError: the object graph is missing or damaged, before the first node is returned.
    """
    graph = ckpt.object_graph
    if graph is None:
        return ScopeTree(rows, depth)
    from ckpttool.query.tree.objects import ObjectTree

    return ObjectTree(graph, rows, depth, everything=len(rows) == len(ckpt))
