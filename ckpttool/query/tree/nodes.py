"""The nodes of a tree.

A tree is its nodes in the order in which they are drawn, each with its depth, since a graph from a
file may be deeper than a program may recurse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ckpttool.query.rows import TensorRow

# What lies deeper is counted, not drawn. A line is as long as its node is deep, so a chain of
# objects, or of segments, would take room by the square of its length.
MAX_DEPTH = 128


class SlotNode(NamedTuple):
    """A slot variable: its name, and its tensor if that is in the checkpoint."""

    name: str
    tensor: TensorRow | None


class TreeNode(NamedTuple):
    """A node of the tree.

    Attributes:
        depth: 0 for the root.
        name: of the edge that leads to it, or the last segment of a scope; empty for the root.
        path: from the root, escaped; empty for the root.
        last: whether no sibling follows.
        tensors: what is stored for the object itself; several for a table.
        slots: slot variables of a variable.
        same_as: path of the place where the object stands, if that is another; it is drawn there.
        hidden: nodes below that a depth limit cut off.
    """

    depth: int
    name: str
    path: str
    last: bool
    tensors: tuple[TensorRow, ...] = ()
    slots: tuple[SlotNode, ...] = ()
    same_as: str | None = None
    hidden: int = 0


# What the class itself would call, without the time that takes.
new_node: Callable[[tuple[object, ...]], TreeNode] = partial(tuple.__new__, TreeNode)
