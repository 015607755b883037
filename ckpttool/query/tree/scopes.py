"""The scopes of a name-based checkpoint as a tree.

Keys in the order of their segments already form the tree: the part in common with the key before is
drawn already. No nodes are held, because there may be several for each of millions of keys.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from ckpttool.query.rows import TensorRow, keys_of
from ckpttool.query.tree.nodes import MAX_DEPTH, TreeNode, new_node


class ScopeTree:
    """The nodes of a tree of keys, the leaves, and all their scopes.

    Args:
        rows: the tensors by key bytes.
        limit: how many levels below the root; without one, `MAX_DEPTH`, and the rest of a deeper
            key is one segment.
    """

    def __init__(self, rows: Sequence[TensorRow], limit: int | None = None) -> None:
        self._rows = rows
        self.limit = limit

    def __iter__(self) -> Iterator[TreeNode]:
        return _nodes(self.branches(), MAX_DEPTH + 1 if self.limit is None else self.limit)

    def branches(self) -> Iterator[tuple[TensorRow, int, int]]:
        """Yield the tensors in drawing order, each with what it shares with its neighbours.

        These are the number of segments in common with the key before, and, as bits, the depths
        at which a sibling follows the node on the way to the key.
        """
        rows = self._rows
        keys = keys_of(rows)
        order = _order(keys)
        common, following = _neighbours([keys[at] for at in order])
        drawn = rows if isinstance(order, range) else map(rows.__getitem__, order)
        return zip(drawn, common, following, strict=True)


def _nodes(branches: Iterable[tuple[TensorRow, int, int]], deepest: int) -> Iterator[TreeNode]:
    yield TreeNode(0, "", "", last=True)
    # A node at the limit waits until it is known how many are below it.
    waiting: TreeNode | None = None
    hidden = 0
    # By depth, the ends of the segments of the key drawn last.
    ends = [-1]
    for row, known, siblings in branches:
        if known < deepest and waiting is not None:
            yield waiting._replace(hidden=hidden) if hidden else waiting
            waiting, hidden = None, 0
        key = row.key
        segments = segments_of(key)
        count = len(segments)
        del ends[known + 1 :]
        for depth in range(known + 1, min(count, deepest) + 1):
            name = segments[depth - 1]
            end = ends[-1] + len(name) + 1
            ends.append(end)
            last = not siblings >> depth & 1
            here = (row,) if depth == count else ()
            node = new_node((depth, name, key[:end], last, here, (), None, 0))
            if depth < deepest:
                yield node
            else:
                waiting = node
        if count > deepest:
            hidden += count - max(known, deepest)
    if waiting is not None:
        yield waiting._replace(hidden=hidden) if hidden else waiting


def segments_of(key: str, known: int = 0) -> list[str]:
    """Return the segments of a key, or of its rest below some segments."""
    # A hostile key may have a million slashes.
    return key.split("/", MAX_DEPTH - known)


def _order(keys: Sequence[str]) -> Sequence[int]:
    """Return the positions of keys in the order of their segments.

    As by their bytes, except that `a/b` comes between `a` and `a-b`.
    """
    if _rises(map(_rank, keys)):
        return range(len(keys))
    return sorted(range(len(keys)), key=[*map(_rank, keys)].__getitem__)


def _rises(ranks: Iterable[str]) -> bool:
    before = ""
    for rank in ranks:
        if rank < before:
            return False
        before = rank
    return True


def _rank(key: str) -> str:
    """Return a text that compares as the segments of the key do: a slash before all else."""
    if "\0" in key or "\1" in key:
        key = key.replace("\1", "\1\2").replace("\0", "\1\1")
    return key.replace("/", "\0")


def _neighbours(keys: Sequence[str]) -> tuple[array[int], list[int]]:
    """Tell for each key how many segments it has in common with the one before it.

    Also tell at which depths a sibling follows the node on the way to the key: as bits.
    """
    common = array("B", bytes(len(keys)))
    following = [0] * len(keys)
    # Tensors by the million share a few patterns of siblings.
    same: dict[int, int] = {}
    siblings = 0
    after: list[str] = []
    for at in range(len(keys) - 1, -1, -1):
        segments = segments_of(keys[at])
        shared = 0
        for mine, theirs in zip(segments, after, strict=False):
            if mine != theirs:
                break
            shared += 1
        if after:
            common[at + 1] = shared
            siblings = siblings & (1 << shared + 1) - 1 | 1 << shared + 1
        following[at] = same.setdefault(siblings, siblings)
        after = segments
    return common, following
