"""A tree drawn with lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import TextIO

from ckpttool.printable import printable
from ckpttool.query.rows import TensorRow, descriptions_of
from ckpttool.query.tree.nodes import TreeNode
from ckpttool.query.tree.objects import ObjectTree
from ckpttool.query.tree.scopes import ScopeTree, segments_of
from ckpttool.render import humanize
from ckpttool.render.cells import kind_style
from ckpttool.render.console import Terminal
from ckpttool.tensor.shape import Shape

_BRANCH, _CORNER, _PASS, _SPACE = "├── ", "└── ", "│   ", "    "
_BATCH = 2048
_CACHED = 4096
_MAX_KEPT = 1024  # the lines of a key, in characters


def write_tree(nodes: Iterable[TreeNode], root: str, stream: TextIO, terminal: Terminal) -> None:
    """Draw a tree.

    Args:
        nodes: in the order they are drawn, the root first.
        root: what to call the root.
        stream: where to.
        terminal: whether `stream` shows colour. Lines are not fitted to its width: a tree that is
            folded is none.
    """
    if isinstance(nodes, ScopeTree) and nodes.limit is None:
        lines = _scope_lines(nodes, root, terminal)
    elif isinstance(nodes, ObjectTree):
        lines = _object_lines(nodes, root, terminal)
    else:
        lines = _lines(nodes, root, terminal)
    while batch := list(islice(lines, _BATCH)):
        stream.write("\n".join(batch) + "\n")


def _lines(nodes: Iterable[TreeNode], root: str, terminal: Terminal) -> Iterator[str]:
    # By depth, what stands before the children of the node that is open there.
    leads = [""]
    notes = _Notes(terminal)
    dim, plain = terminal.style("|", "dim").split("|")
    # Segments recur: looking one up takes less time than making sure that it can be printed.
    bold = lru_cache(_CACHED)(lambda text: terminal.style(printable(text), "bold"))
    for node in nodes:
        depth = node.depth
        if depth:
            lead = leads[depth - 1]
            leads[depth:] = [lead + (_SPACE if node.last else _PASS)]
            line = f"{dim}{lead}{_CORNER if node.last else _BRANCH}{plain}{bold(node.name)}"
        else:
            line = bold(root)
        for row in node.tensors:
            line += "  " + notes.tensor(row)
        if node.hidden:
            line += "  " + notes.hidden(node.hidden)
        yield line


def _scope_lines(tree: ScopeTree, root: str, terminal: Terminal) -> Iterator[str]:
    """Draw a tree of keys, key by key: what `_lines` does, several times as fast."""
    notes = _Notes(terminal)
    dim, plain = terminal.style("|", "dim").split("|")
    bold = lru_cache(_CACHED)(lambda text: terminal.style(printable(text), "bold"))
    leads = [""]
    # Layers are alike: what is drawn below the part that a key shares with the one before it.
    drawn: dict[tuple[str, str, int], tuple[str, list[str]]] = {}
    yield bold(root)
    for row, known, siblings in tree.branches():
        lead, rest = leads[known], row.key.split("/", known)[known]
        here = lead, rest, siblings >> known + 1
        found = drawn.get(here)
        if found is None:
            lines, below = [], []
            for depth, name in enumerate(segments_of(rest, known), known + 1):
                follows = siblings >> depth & 1
                lines.append(f"{dim}{lead}{_BRANCH if follows else _CORNER}{plain}{bold(name)}")
                lead += _PASS if follows else _SPACE
                below.append(lead)
            found = "\n".join(lines), below
            if len(found[0]) <= _MAX_KEPT:
                if len(drawn) >= _CACHED:
                    drawn.clear()
                drawn[here] = found
        text, leads[known + 1 :] = found
        yield f"{text}  {notes.tensor(row)}"


def _object_lines(tree: ObjectTree, root: str, terminal: Terminal) -> Iterator[str]:
    """Draw an object graph: what `_lines` does, without making a node of everything."""
    notes = _Notes(terminal)
    dim, plain = terminal.style("|", "dim").split("|")
    bold = lru_cache(_CACHED)(lambda text: terminal.style(printable(text), "bold"))
    dtypes, shapes, kinds, sizes = descriptions_of(tree.rows)
    # By depth, what stands before the children of the node that is open there.
    leads = [""]
    for depth, name, last, node_id, row, stands, opens in tree.walk():
        line = bold(name) if depth else bold(root)
        if depth:
            lead = leads[depth - 1]
            line = f"{dim}{lead}{_CORNER if last else _BRANCH}{plain}{line}"
            if opens:
                leads[depth:] = [lead + (_SPACE if last else _PASS)]
        if row >= 0:
            line = f"{line}  {notes.usual(dtypes[row], shapes[row], kinds[row], sizes[row])}"
        elif stands:
            for each in tree.rows_of(node_id) if node_id >= 0 else (-1 - row,):
                line += "  " + notes.tensor(tree.rows[each])
        else:
            line += "  " + notes.elsewhere(tree.path(node_id))
        if tree.has_slots(node_id) and stands:
            slots = tree.slots_of(node_id)
            names = tuple(each for each, _ in slots)
            line += "  " + notes.slots(names, sum(sizes[at] or 0 for _, at in slots if at >= 0))
        if not opens and stands:
            hidden = tree.hidden(depth, node_id)
            if hidden:
                line += "  " + notes.hidden(hidden)
        yield line


class _Notes:
    """What is said behind the names; tensors by the hundred thousand share a few texts."""

    def __init__(self, terminal: Terminal) -> None:
        self._style = terminal.style
        self._label = lru_cache(_CACHED)(self._make_label)
        self._rest = lru_cache(_CACHED)(self._make_rest)
        self.usual = lru_cache(_CACHED)(self._make_usual)
        self.slots = lru_cache(_CACHED)(self._make_slots)

    def elsewhere(self, path: str) -> str:
        """Say where an object has its place."""
        return self._style(f"→ {printable(path) or '(root)'}", "dim")

    def hidden(self, count: int) -> str:
        """Say how many nodes are not drawn."""
        return self._style(f"… {humanize.counted(count, 'object')} below", "dim")

    def tensor(self, row: TensorRow) -> str:
        """Say what a tensor is."""
        label = self._label(row.dtype, row.shape, _attribute(row))
        return label + self._rest(row.kind, row.bytes)

    def _make_label(self, dtype: str, shape: Shape, attribute: str) -> str:
        label = f"{dtype} {humanize.shape(shape)}"
        return self._style(f"{printable(attribute)}: {label}" if attribute else label, "green")

    def _make_usual(self, dtype: str, shape: Shape, kind: str, size: int | None) -> str:
        return self._label(dtype, shape, "") + self._rest(kind, size)

    def _make_slots(self, names: tuple[str, ...], size: int) -> str:
        """Sum slot variables up: `slots m, v: 40 B`."""
        listed = ", ".join(
            printable(name) if count == 1 else f"{printable(name)} × {count}"
            for name, count in Counter(names).items()
        )
        return self._style(f"+ slots {listed}: {humanize.size(size)}", "dim")

    def _make_rest(self, kind: str, size: int | None) -> str:
        return f"  {self._style(kind, kind_style(kind))}  {humanize.size(size)}"


def _attribute(row: TensorRow) -> str:
    """Return the name of an attribute that is not the usual one."""
    path = row.object_path
    if path and "/." in path and ".OPTIMIZER_SLOT" not in path:
        return path.rpartition("/.")[2]
    return ""
