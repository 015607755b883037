"""A tree drawn with lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TextIO

from ckpttool.printable import printable
from ckpttool.query.listing import TensorRow
from ckpttool.query.tree import SlotNode, TreeNode
from ckpttool.render import humanize
from ckpttool.render.console import Terminal

_BRANCH, _CORNER, _PASS, _SPACE = "├── ", "└── ", "│   ", "    "


def write_tree(nodes: Iterable[TreeNode], root: str, stream: TextIO, terminal: Terminal) -> None:
    """Draw a tree.

    Args:
        nodes: in the order they are drawn, the root first.
        root: what to call the root.
        stream: where to.
        terminal: whether `stream` shows colour. Lines are not fitted to its width: a tree that is
            folded is none.
    """
    for line in _lines(nodes, root, terminal):
        stream.write(line + "\n")


def _lines(nodes: Iterable[TreeNode], root: str, terminal: Terminal) -> Iterator[str]:
    open_levels: list[bool] = []
    for node in nodes:
        name = printable(node.name) if node.depth else printable(root)
        lead = ""
        if node.depth:
            del open_levels[node.depth - 1 :]
            lead = "".join(_PASS if still_open else _SPACE for still_open in open_levels)
            lead += _CORNER if node.last else _BRANCH
            open_levels.append(not node.last)
        notes = list(_notes(node, terminal))
        yield (
            terminal.style(lead, "dim")
            + terminal.style(name, "bold")
            + "".join(f"  {note}" for note in notes)
        )


def _notes(node: TreeNode, terminal: Terminal) -> Iterator[str]:
    """Say what is stored for a node."""
    if node.same_as is not None:
        yield terminal.style(f"→ {printable(node.same_as) or '(root)'}", "dim")
    for row in node.tensors:
        yield _tensor(row, terminal)
    if node.slots:
        yield terminal.style(_slots(node.slots), "dim")
    if node.hidden:
        yield terminal.style(f"… {humanize.counted(node.hidden, 'object')} below", "dim")


def _tensor(row: TensorRow, terminal: Terminal) -> str:
    label = f"{row.dtype} {humanize.shape(row.shape)}"
    attribute = row.object_path.rpartition("/.")[2] if row.object_path else ""
    if row.object_path and "/." in row.object_path and ".OPTIMIZER_SLOT" not in row.object_path:
        label = f"{printable(attribute)}: {label}"
    return (
        terminal.style(label, "green")
        + f"  {terminal.style(row.kind, 'cyan')}  {humanize.size(row.bytes)}"
    )


def _slots(slots: tuple[SlotNode, ...]) -> str:
    """Sum slot variables up: `slots m, v: 40 B`."""
    names = Counter(slot.name for slot in slots)
    listed = ", ".join(
        printable(name) if count == 1 else f"{printable(name)} × {count}"
        for name, count in names.items()
    )
    size = sum(slot.tensor.bytes or 0 for slot in slots if slot.tensor is not None)
    return f"+ slots {listed}: {humanize.size(size)}"
