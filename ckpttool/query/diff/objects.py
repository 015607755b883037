"""Two object graphs compared object by object.

Objects are matched by walking both graphs from their roots along edges of the same name. For
renamed scopes the walk continues after the moved edges. Node numbers do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from ckpttool.objects.graph import Attribute, ObjectGraph
from ckpttool.objects.keys import escape
from ckpttool.query.diff.results import GraphChange, GraphDiff


def diff_graphs(
    a: ObjectGraph | None, b: ObjectGraph | None, moves: Mapping[str, str]
) -> GraphDiff:
    """Compare two object graphs.

    Args:
        a: that of A; None if it has none.
        b: that of B.
        moves: known renames: path in A -> path in B.

    Raises:
        CorruptError: the paths of one are too long for those of a program's objects.
    """
    objects = tuple(None if graph is None else len(graph.nodes) for graph in (a, b))
    slots = tuple(None if graph is None else len(graph.slots) for graph in (a, b))
    changes: list[GraphChange] = []
    if a is not None and b is not None:
        walk = _Walk(a, b, moves)
        changes = [*walk.run(), *walk.slots(), *walk.attributes()]
    return GraphDiff((objects[0], objects[1]), (slots[0], slots[1]), tuple(changes))


class _Walk:
    """Matches the objects of two graphs."""

    def __init__(self, a: ObjectGraph, b: ObjectGraph, moves: Mapping[str, str]) -> None:
        self._a = a
        self._b = b
        self._moves = moves
        self._to_b = {0: 0}
        self._to_a = {0: 0}
        self._queue = deque([(0, 0)])
        self._removed: dict[str, int] = {}
        self._added: dict[str, int] = {}
        self._found: list[GraphChange] = []

    def run(self) -> Iterator[GraphChange]:
        """Walk; yield the differences in edges."""
        self._follow()
        for old, new in self._moves.items():
            self._match_moved(old, new)
            self._follow()
        yield from self._found
        seen = set(self._to_b)
        for path, node in self._removed.items():
            yield GraphChange("edge", "removed", path, objects=_count_below(self._a, node, seen))
        seen = set(self._to_a)
        for path, node in self._added.items():
            yield GraphChange("edge", "added", path, objects=_count_below(self._b, node, seen))

    def slots(self) -> Iterator[GraphChange]:
        """Yield the differences in slot variables, and match them."""
        of_b = {(one.optimizer_id, one.variable_id, one.slot_name): one for one in self._b.slots}
        for link in self._a.slots:
            optimizer = self._to_b.get(link.optimizer_id, -1)
            variable = self._to_b.get(link.variable_id, -1)
            other = of_b.pop((optimizer, variable, link.slot_name), None)
            if other is None:
                yield self._slot(self._a, link.variable_id, link.optimizer_id, link.slot_name)
            else:
                self._match(link.slot_id, other.slot_id)
        for optimizer, variable, name in of_b:
            yield self._slot(self._b, variable, optimizer, name)

    def attributes(self) -> Iterator[GraphChange]:
        """Yield the differences in the objects themselves."""
        for node_a, node_b in self._to_b.items():
            one, other = self._a.nodes[node_a], self._b.nodes[node_b]
            path = self._a.paths[node_a] or ""
            of_a = {attribute.name: attribute for attribute in one.attributes}
            of_b = {attribute.name: attribute for attribute in other.attributes}
            for name in dict.fromkeys((*of_a, *of_b)):
                yield from self._attribute(node_b, path, of_a.get(name), of_b.get(name))
            savers = [node.saver.name if node.saver else None for node in (one, other)]
            if savers[0] != savers[1]:
                yield GraphChange("saver", "changed", path, a=savers[0], b=savers[1])

    def _follow(self) -> None:
        """Match the objects along edges of the same name."""
        while self._queue:
            node_a, node_b = self._queue.popleft()
            children_a = dict(self._a.columns.children(node_a))
            children_b = dict(self._b.columns.children(node_b))
            for name, child in children_a.items():
                path = _join(self._a.paths[node_a], name)
                if name in children_b:
                    self._compare_ends(path, child, children_b[name])
                else:
                    self._removed[path] = child
            for name, child in children_b.items():
                if name not in children_a:
                    self._added[_join(self._b.paths[node_b], name)] = child

    def _compare_ends(self, path: str, child_a: int, child_b: int) -> None:
        if not self._match(child_a, child_b):
            self._found.append(
                GraphChange(
                    "sharing",
                    "changed",
                    path,
                    a=self._a.paths[child_a],
                    b=self._b.paths[child_b],
                )
            )

    def _match(self, node_a: int, node_b: int) -> bool:
        """Match two objects unless they are matched with others; those found first are walked."""
        known_a, known_b = self._to_b.get(node_a), self._to_a.get(node_b)
        if known_a is None and known_b is None:
            self._to_b[node_a], self._to_a[node_b] = node_b, node_a
            self._queue.append((node_a, node_b))
            return True
        return known_a == node_b

    def _match_moved(self, old: str, new: str) -> None:
        """Match the objects at two paths, unless either has a counterpart already."""
        node_a, node_b = self._a.node_at(old), self._b.node_at(new)
        if node_a is None or node_b is None:
            return
        if self._match(node_a, node_b):
            self._removed.pop(old, None)
            self._added.pop(new, None)
            self._found.append(GraphChange("edge", "renamed", old, new))

    def _slot(self, graph: ObjectGraph, variable: int, optimizer: int, name: str) -> GraphChange:
        return GraphChange(
            "slot",
            "removed" if graph is self._a else "added",
            graph.paths[variable] or "",
            name=name,
            optimizer=graph.paths[optimizer],
        )

    def _attribute(
        self, node_b: int, path: str, a: Attribute | None, b: Attribute | None
    ) -> Iterator[GraphChange]:
        if a is None or b is None:
            one = a if a is not None else b
            name = one.name if one is not None else None
            yield GraphChange("attribute", "added" if a is None else "removed", path, name=name)
            return
        if a.full_name != b.full_name:
            yield GraphChange(
                "attribute", "changed", path, name=a.name, a=a.full_name, b=b.full_name
            )
        # A key follows the path of its object.
        if a.checkpoint_key != b.checkpoint_key and path == (self._b.paths[node_b] or ""):
            yield GraphChange(
                "attribute", "changed", path, name=a.name, a=a.checkpoint_key, b=b.checkpoint_key
            )


def _join(base: str | None, name: str) -> str:
    return f"{base}/{escape(name)}" if base else escape(name)


def _count_below(graph: ObjectGraph, node: int, seen: set[int]) -> int:
    """Return how many unseen objects an edge leads to, directly or not."""
    before = len(seen)
    queue = [node] if node not in seen else []
    seen.add(node)
    while queue:
        for _, child in graph.columns.children(queue.pop()):
            if child not in seen:
                seen.add(child)
                queue.append(child)
    return len(seen) - before
