"""Trees of name-based keys."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.query.rows import TensorRow
from ckpttool.query.tree.nodes import MAX_DEPTH, TreeNode
from ckpttool.query.tree.scopes import ScopeTree
from tests.support.limits import time_limit

_KEYS = st.sets(
    st.lists(st.sampled_from(["a", "b", "a-b", "", "a\0", "\1"]), min_size=1, max_size=4).map(
        "/".join
    ),
    max_size=12,
)


def _rows(keys: Iterable[str]) -> list[TensorRow]:
    return [
        TensorRow(key, None, "float32", (), "weight", 1, 4, 0, 0, 0)
        for key in sorted(keys, key=str.encode)
    ]


def _ways(nodes: Iterable[TreeNode]) -> list[tuple[str, ...]]:
    """Return the names on the way to each node, by depth alone."""
    way: list[str] = []
    found = []
    for node in nodes:
        way[max(node.depth - 1, 0) :] = [node.name] * bool(node.depth)
        assert len(way) == node.depth
        found.append(tuple(way))
    return found


def _scopes(keys: Iterable[str]) -> set[tuple[str, ...]]:
    split = [key.split("/") for key in keys]
    return {tuple(parts[:at]) for parts in split for at in range(len(parts) + 1)} | {()}


@given(_KEYS)
def test_each_scope_stands_once_in_order(keys: set[str]) -> None:
    nodes = list(ScopeTree(_rows(keys)))
    ways = _ways(nodes)
    assert ways == sorted(_scopes(keys))
    assert [node.path for node in nodes] == ["/".join(way) for way in ways]
    held = {"/".join(way): node for way, node in zip(ways, nodes, strict=True) if node.tensors}
    assert {path: node.tensors[0].key for path, node in held.items()} == {k: k for k in keys}
    for at, way in enumerate(ways[1:], 1):
        siblings = [other for other in ways[at + 1 :] if other[:-1] == way[:-1] and other]
        assert nodes[at].last == (not siblings)


@given(_KEYS, st.integers(1, 3))
def test_a_limit_counts_what_is_below(keys: set[str], limit: int) -> None:
    whole = list(ScopeTree(_rows(keys)))
    cut = list(ScopeTree(_rows(keys), limit))
    shown = [node for node in whole if node.depth <= limit]
    assert [node._replace(hidden=0) for node in cut] == shown
    ways = _ways(whole)
    for node, way in zip(cut, _ways(cut), strict=True):
        below = [other for other in ways if other[: len(way)] == way and other != way]
        assert node.hidden == (len(below) if node.depth == limit else 0)


def test_a_key_of_very_many_segments_ends_in_one() -> None:
    key = "a/" * 100_000 + "w"
    nodes = list(ScopeTree(_rows([key, "a/b"])))
    assert max(node.depth for node in nodes) == MAX_DEPTH + 1
    assert [node.path for node in nodes if node.tensors] == [key, "a/b"]


@pytest.mark.large
def test_nothing_is_held_of_the_nodes() -> None:
    rows = _rows(f"s{at // 10}/t{at}/x/y/z" for at in range(20_000))
    tracemalloc.start()
    try:
        with time_limit(20):
            assert sum(1 for _ in ScopeTree(rows)) == 1 + 2_000 + 4 * 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
