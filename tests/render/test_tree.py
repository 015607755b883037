"""Trees drawn with lines."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpttool.query.rows import TensorRow
from ckpttool.query.tree.nodes import MAX_DEPTH, TreeNode
from ckpttool.query.tree.scopes import ScopeTree
from ckpttool.render import tree
from ckpttool.render.console import Terminal

_NAMES = st.sampled_from(["a", "b", "a-b", "", "\0", "\n", "\udc80"])
_KEYS = st.sets(st.lists(_NAMES, min_size=1, max_size=5).map("/".join), max_size=20)


def _rows(keys: Iterable[str]) -> list[TensorRow]:
    return [
        TensorRow(key, None, "float32", (len(key),), "weight", 1, 4, 0, 0, 0)
        for key in sorted(keys, key=lambda key: key.encode("utf-8", "surrogateescape"))
    ]


def _drawn(nodes: Iterable[TreeNode], terminal: Terminal) -> str:
    stream = io.StringIO()
    tree.write_tree(nodes, "model.ckpt", stream, terminal)
    return stream.getvalue()


@pytest.mark.parametrize("color", [False, True])
@given(keys=_KEYS)
def test_keys_are_drawn_as_their_nodes_are(color: bool, keys: set[str]) -> None:
    terminal = Terminal(color=color)
    scopes = ScopeTree(_rows(keys))
    assert _drawn(scopes, terminal) == _drawn(iter(scopes), terminal)


def test_deep_keys_and_what_is_kept_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = "/".join(["s"] * (MAX_DEPTH - 1))
    keys = {f"{start}{deep}{end}" for start in ("", "t/") for end in ("", "/x", "/x/y", "/x/y/z")}
    keys |= {f"layer_{at}/{name}" for at in range(20) for name in ("w", "b", "w/m", "x/y")}
    scopes = ScopeTree(_rows(keys))
    whole = _drawn(iter(scopes), Terminal())
    for kept, cached in ((0, 8), (40, 3), (1 << 20, 4096)):
        monkeypatch.setattr(tree, "_MAX_KEPT", kept)
        monkeypatch.setattr(tree, "_CACHED", cached)
        assert _drawn(scopes, Terminal()) == whole
