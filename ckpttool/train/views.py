"""The object graphs of a checkpoint and of a program, to look at and to compare."""

from __future__ import annotations

import weakref
from typing import Any

from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import UntrackableError
from ckpttool.storage.paths import StrPath
from ckpttool.train.containers import node_of
from ckpttool.train.snapshot import reached_from
from ckpttool.train.trackable import Trackable, edges_at


class CheckpointView:
    """The object graph of a checkpoint.

    Args:
        save_path: the address of the checkpoint.

    Raises:
        ValueError: it has no object graph.
        CkptError: it cannot be read.
    """

    def __init__(self, save_path: StrPath) -> None:
        with Checkpoint(locate(save_path)) as opened:
            graph = opened.object_graph
            if graph is None:
                raise ValueError(f"'{opened.prefix}' has no object graph: it holds names alone")
        self._nodes = graph.nodes

    def children(self, node_id: int) -> dict[str, int]:
        """Return the ids of a node's children by name.

        Args:
            node_id: of the node; 0 is the root.
        """
        return {edge.name: edge.node_id for edge in self._nodes[node_id].children}

    def descendants(self) -> list[int]:
        """Return the ids of all nodes, breadth first; those of slots are not among them."""
        found = {0: None}
        for node_id in (queue := [0]):
            for child in self.children(node_id).values():
                if child not in found:
                    found[child] = None
                    queue.append(child)
        return list(found)

    def match(self, obj: Any) -> dict[int, Trackable]:
        """Return the objects of a program that nodes stand for, by id.

        Args:
            obj: the program's root.

        Raises:
            UntrackableError: it is not trackable.
        """
        root = node_of(obj)
        if root is None:
            raise UntrackableError(f"{type(obj).__name__} is not trackable")
        found = {0: root}
        for node_id in (queue := [0]):
            theirs = edges_at(found[node_id], "")
            for name, child in self.children(node_id).items():
                if child not in found and name in theirs:
                    found[child] = theirs[name]
                    queue.append(child)
        return found

    def diff(self, obj: Any) -> tuple[dict[int, Trackable], list[int], list[Trackable]]:
        """Compare with a program.

        Args:
            obj: the program's root.

        Returns:
            What matches, as `match`; ids of nodes that do not; objects that do not.
        """
        found = self.match(obj)
        seen = {id(each) for each in found.values()}
        return (
            found,
            [node_id for node_id in self.descendants() if node_id not in found],
            [each for each in reached_from(found[0]).nodes if id(each) not in seen],
        )


class TrackableView:
    """The objects of a program.

    Args:
        root: the first of them, or a weak reference to it; it is not kept alive.
    """

    def __init__(self, root: Any) -> None:
        self._root = root if isinstance(root, weakref.ref) else weakref.ref(root)

    @property
    def root(self) -> Trackable:
        """The first object.

        Raises:
            UntrackableError: it no longer exists.
        """
        root = node_of(self._root())
        if root is None:
            raise UntrackableError("the root no longer exists, or is not trackable")
        return root

    @classmethod
    def children(cls, obj: Trackable) -> dict[str, Trackable]:
        """Return the objects that an object has edges to, by name.

        Args:
            obj: the object.
        """
        return dict(edges_at(obj, ""))

    def descendants(self) -> list[Trackable]:
        """Return all objects that edges lead to, breadth first."""
        return reached_from(self.root).nodes
