"""Where everything stands in a picture: a tidy tree from left to right.

    .------.     .-----.     .-------------------.   .---.
    | root |--.--| net |-----| kernel float32 .. |---| m |--.
    '------'  |  '-----'     '-------------------'   '---'  |
              |  .-----------.     .-------------------.    |
              '--| optimizer |-----| m  slot variables |----'
                 '-----------'     '-------------------'

A leaf owns its row, and a parent stands midway between its first and its last child, so nothing
overlaps. A child starts where its parent ends. Nothing here recurses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ckpttool.query.drawing.build import DrawnNode, DrawnSlot
from ckpttool.query.drawing.outline import Look
from ckpttool.render.drawing.labels import (
    Label,
    elided,
    label_of,
    more_label,
    owned_slots,
    reference_label,
    shown_width,
    slot_label,
    what_it_is,
)

ROW = 27.0
HEIGHT = 21.0
_GAP = 26.0
_CHIP_GAP = 14.0
_LINE_GAP = 10.0
MARGIN = 12.0
COLUMN = 7.23  # of a monospaced font of 12 px
PADDING = 9.0


@dataclass(slots=True, eq=False)
class Chip:
    """A slot variable beside its variable."""

    text: str
    look: Look
    owner: int
    tooltip: str
    x: float = 0.0

    @property
    def width(self) -> float:
        """Its width."""
        return COLUMN * shown_width(self.text) + 2 * PADDING


@dataclass(slots=True, eq=False)
class Box:
    """A node of the picture.

    Attributes:
        label: its words.
        look: how to draw it; None for words alone.
        tooltip: the full name.
        folded: whether it stands for several objects.
        owner: the number of the optimizer whose slot variables it stands for; -1 for none.
        x: its left edge.
        y: its middle.
    """

    label: Label
    look: Look | None
    tooltip: str = ""
    folded: bool = False
    owner: int = -1
    children: list[Box] = field(default_factory=list)
    chips: list[Chip] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        """Its width; words alone have no border."""
        name, detail = self.label
        columns = shown_width(name) + (2 if name and detail else 0) + shown_width(detail)
        return COLUMN * columns + 2 * PADDING

    @property
    def right(self) -> float:
        """Its right edge, chips included."""
        return self.chips[-1].x + self.chips[-1].width if self.chips else self.x + self.width


@dataclass(frozen=True, slots=True)
class Rail:
    """The vertical line that joins an optimizer to its slot variables.

    Attributes:
        x: where it stands.
        ends: right edge and middle of what it joins.
    """

    x: float
    ends: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: boxes, each before its children, rails, and the size of all."""

    boxes: tuple[Box, ...]
    rails: tuple[Rail, ...]
    width: float
    height: float


def picture_of(root: DrawnNode) -> Picture:
    """Return where everything of a drawing stands."""
    boxes = _boxes(root)
    row = 0
    for box in boxes:
        if not box.children:
            box.y = MARGIN + ROW * row + HEIGHT / 2
            row += 1
    for box in reversed(boxes):
        if box.children:
            box.y = (box.children[0].y + box.children[-1].y) / 2
    boxes[0].x = MARGIN
    for box in boxes:
        for child in box.children:
            child.x = box.x + box.width + _GAP
        right = box.x + box.width
        for chip in box.chips:
            chip.x = right + _CHIP_GAP
            right = chip.x + chip.width
    rails = _rails(boxes)
    right = max(*(box.right for box in boxes), *(rail.x for rail in rails), 0.0)
    return Picture(tuple(boxes), tuple(rails), right + MARGIN, row * ROW + 2 * MARGIN)


def _boxes(root: DrawnNode) -> list[Box]:
    """Return the boxes from top to bottom, each before its children."""
    owned = owned_slots(root)
    first = _box(root)
    waiting = [(root, first)]
    while waiting:
        node, box = waiting.pop()
        if node.number in owned:
            label = Label(elided(", ".join(owned[node.number])), "slot variables")
            box.children.append(Box(label, "slot", owner=node.number))
        for each in node.references:
            words = Label("", reference_label(each.name, each.path))
            box.children.append(Box(words, None, each.path))
        for child in node.children:
            box.children.append(_box(child))
            waiting.append((child, box.children[-1]))
        if node.more:
            box.children.append(Box(Label("", more_label(node)), None))
    return _in_order(first)


def _in_order(first: Box) -> list[Box]:
    """Return a box and all below it, top to bottom, each before its children."""
    found, waiting = [], [first]
    while waiting:
        box = waiting.pop()
        found.append(box)
        waiting.extend(reversed(box.children))
    return found


def _box(node: DrawnNode) -> Box:
    chips = [
        Chip(slot_label(slot), slot.look, slot.owner, _slot_tooltip(node, slot))
        for slot in node.slots
    ]
    return Box(label_of(node), node.look, node.path, node.copies > 1, chips=chips)


def _slot_tooltip(node: DrawnNode, slot: DrawnSlot) -> str:
    names = f"{', '.join(slot.names)} of {node.path}"
    return names if slot.row is None else f"{names}: {what_it_is(slot.row, slot.row.bytes)}"


def _rails(boxes: list[Box]) -> list[Rail]:
    ends: dict[int, list[tuple[float, float]]] = {}
    for box in boxes:
        owners = {box.owner, *(chip.owner for chip in box.chips)} - {-1}
        for owner in owners:
            ends.setdefault(owner, []).append((box.right, box.y))
    right = max(box.right for box in boxes)
    return [
        Rail(right + _CHIP_GAP + _LINE_GAP * at, tuple(joined))
        for at, joined in enumerate(ends.values())
    ]
