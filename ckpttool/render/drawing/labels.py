"""The words of a drawing, the same in every form."""

from __future__ import annotations

from typing import NamedTuple

from ckpttool.printable import printable
from ckpttool.query.drawing.build import Drawing, DrawnNode, DrawnSlot
from ckpttool.query.drawing.outline import Look
from ckpttool.query.rows import TensorRow
from ckpttool.render import humanize
from ckpttool.render.wrap import text_width

LONGEST = 44  # columns of a name
LEGEND: dict[Look, str] = {
    "object": "object",
    "weight": "weight",
    "slot": "slot variable",
    "ema": "moving average",
    "optimizer": "optimizer",
    "hyper-parameter": "hyper-parameter",
    "step": "step, counter",
    "other": "table, iterator, other",
}


class Label(NamedTuple):
    """What a node says, not printable yet: its name, and what it is."""

    name: str
    detail: str


def label_of(node: DrawnNode) -> Label:
    """Return the label of a node."""
    name = elided(node.name or "(root)")
    if node.copies > 1:
        name += f" ×{node.copies}"
    details = [
        _tensors(node) if node.tensors else "",
        f"{node.more_references} references" if node.more_references else "",
        f"… {humanize.number(node.below)} below" if node.below else "",
    ]
    return Label(name, " · ".join(filter(None, details)))


def more_label(node: DrawnNode) -> str:
    """Return the words for the children of a node that are not drawn."""
    return f"… {humanize.number(node.more)} more"


def slot_label(slot: DrawnSlot) -> str:
    """Return the words for a slot variable, or for several."""
    return elided(", ".join(slot.names))


def reference_label(name: str, path: str) -> str:
    """Return the words for an edge to an object that is drawn elsewhere."""
    return f"{elided(name)} → {elided(path or '(root)')}"


def left_out(drawing: Drawing) -> str | None:
    """Return what was left out, in a line; None if nothing was."""
    folded = [
        f"{humanize.number(drawing.alike)} in layers alike" if drawing.alike else "",
        f"{humanize.number(drawing.empty)} empty" if drawing.empty else "",
        f"{humanize.number(drawing.beyond)} for want of room" if drawing.beyond else "",
    ]
    chosen = [
        f"{humanize.number(drawing.unselected)} not selected" if drawing.unselected else "",
        f"{humanize.number(drawing.deeper)} deeper" if drawing.deeper else "",
    ]
    if not any(folded + chosen):
        return None
    drawn, total = humanize.number(drawing.drawn), humanize.number(drawing.total)
    listed = ", ".join(filter(None, folded + chosen))
    hint = "; --all draws all" if any(folded) else ""
    return f"{drawn} of {total} objects drawn: {listed}{hint}"


def looks_in(drawing: Drawing) -> list[Look]:
    """Return the looks that occur, in the order of the legend."""
    found = {node.look for node in drawing.root.walk()}
    found |= {slot.look for node in drawing.root.walk() for slot in node.slots}
    return [look for look in LEGEND if look in found]


def owned_slots(root: DrawnNode) -> dict[int, list[str]]:
    """Return the names of the slot variables of each optimizer, by its number."""
    found: dict[int, dict[str, None]] = {}
    for node in root.walk():
        for slot in node.slots:
            if slot.owner >= 0:
                found.setdefault(slot.owner, {}).update(dict.fromkeys(slot.names))
    return {owner: [*names] for owner, names in found.items()}


def what_it_is(row: TensorRow, size: int | None) -> str:
    """Return what a tensor is: `float32 [3, 4] · 48 B`."""
    return f"{row.dtype} {humanize.shape(row.shape)} · {humanize.size(size)}"


def elided(text: str) -> str:
    """Return text as it is, of a long one beginning and end; not printable yet."""
    if len(text) <= LONGEST and shown_width(text) <= LONGEST:
        return text
    # Marks that take no column may be many.
    half = LONGEST // 2 - 1
    return f"{_fitted(text[:LONGEST], half)}…{_fitted(text[-LONGEST:][::-1], half)[::-1]}"


def shown_width(text: str) -> int:
    """Return how many columns a text takes when it is made printable."""
    return text_width(printable(text))


def _fitted(text: str, width: int) -> str:
    """Return the beginning of a text that fits into some columns."""
    for at, char in enumerate(text):
        width -= shown_width(char)
        if width < 0:
            return text[:at]
    return text


def _tensors(node: DrawnNode) -> str:
    if len(node.tensors) > 1:
        return f"{len(node.tensors)} tensors · {humanize.size(node.bytes)}"
    return what_it_is(node.tensors[0], node.bytes)
