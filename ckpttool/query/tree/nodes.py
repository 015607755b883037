"""The nodes of a tree.

A tree is the sequence of its nodes in drawing order, each with its depth, because a graph from a
file may be too deep for recursion.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ckpttool.query.rows import TensorRow

# Deeper nodes are counted, not drawn. A line is as long as its node is deep, so a long chain would
# take space quadratic in its length.
MAX_DEPTH = 128


class SlotNode(NamedTuple):
    """A slot variable: its name, and its tensor if that is in the checkpoint."""

    name: str
    tensor: TensorRow | None


class TreeNode(NamedTuple):
    """A node of the tree.

    Attributes:
        depth: 0 for the root.
        name: of its edge, or the last segment of a scope; empty for the root.
        path: from the root, escaped; empty for the root.
        last: whether no sibling follows.
        tensors: of the object itself; several for a table.
        slots: slot variables of a variable.
        same_as: path of the object's own place, if this node only refers to it.
        hidden: number of nodes below that a depth limit cut off.
    """

    depth: int
    name: str
    path: str
    last: bool
    tensors: tuple[TensorRow, ...] = ()
    slots: tuple[SlotNode, ...] = ()
    same_as: str | None = None
    hidden: int = 0


# Faster than the constructor.
new_node: Callable[[tuple[object, ...]], TreeNode] = partial(tuple.__new__, TreeNode)
