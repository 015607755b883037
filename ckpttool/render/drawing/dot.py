"""A drawing for Graphviz.

Labels are quoted strings, never HTML-like ones, in which names could hold markup.
"""

from __future__ import annotations

from collections.abc import Iterator

from ckpttool.printable import printable
from ckpttool.query.drawing.build import Drawing, DrawnNode
from ckpttool.query.drawing.outline import Look
from ckpttool.render.drawing.labels import (
    elided,
    label_of,
    left_out,
    more_label,
    reference_label,
    slot_label,
    what_it_is,
)
from ckpttool.render.drawing.palette import FLAT, FLAT_INK

_EDGE = "#808080"
_SHAPES: dict[Look, str] = {
    "root": 'shape=box, style="rounded,filled"',
    "object": 'shape=box, style="rounded,filled"',
    "slot": 'shape=box, style="dashed,filled"',
    "optimizer": "shape=hexagon, style=filled",
    "other": "shape=note, style=filled",
}
_BOX = "shape=box, style=filled"
_BREAK = r"\n"


def dot_text(drawing: Drawing) -> str:
    """Return a drawing in the language of Graphviz.

    Args:
        drawing: what to draw.
    """
    note = left_out(drawing)
    head = [
        "digraph checkpoint {",
        "  rankdir=LR;",
        "  bgcolor=transparent;",
        "  nodesep=0.12;",
        f'  node [fontname=Helvetica, fontsize=11, fontcolor="{FLAT_INK}", height=0.3];',
        f'  edge [fontname=Helvetica, fontsize=9, color="{_EDGE}", fontcolor="{_EDGE}"];',
    ]
    if note is not None:
        head.append(f'  label={_quoted(note)}; fontname=Helvetica; fontcolor="{_EDGE}";')
    return "\n".join([*head, *_statements(drawing), "}", ""])


def _statements(drawing: Drawing) -> Iterator[str]:
    drawn = {node.number for node in drawing.root.walk()}
    for node in drawing.root.walk():
        here = f"n{node.number}"
        name, detail = label_of(node)
        more = ", peripheries=2" if node.copies > 1 else ""
        yield _node(here, (name, detail), node.look, node.path, more)
        for child in node.children:
            yield f"  {here} -> n{child.number};"
        if node.more:
            yield _word(f"{here}m", more_label(node))
            yield f"  {here} -> {here}m [style=dotted];"
        yield from _slots(node, here, drawn)
        for at, each in enumerate(node.references):
            if each.target in drawn:
                name = _quoted(elided(each.name))
                yield (
                    f"  {here} -> n{each.target} [style=dotted, label={name}, constraint=false];"
                )
            else:
                yield _word(f"{here}r{at}", reference_label(each.name, each.path))
                yield f"  {here} -> {here}r{at} [style=dotted];"


def _slots(node: DrawnNode, here: str, drawn: set[int]) -> Iterator[str]:
    for at, slot in enumerate(node.slots):
        detail = "" if slot.row is None else what_it_is(slot.row, slot.row.bytes)
        lines, tooltip = (slot_label(slot), detail), f"{', '.join(slot.names)} of {node.path}"
        border = FLAT[slot.look].border
        yield _node(f"{here}s{at}", lines, slot.look, tooltip, "")
        yield f'  {here} -> {here}s{at} [style=dashed, color="{border}", dir=none];'
        if slot.row is not None and slot.owner in drawn:
            red = FLAT["optimizer"].border
            yield (
                f'  n{slot.owner} -> {here}s{at} [style=dashed, color="{red}", constraint=false];'
            )


def _node(name: str, lines: tuple[str, str], look: Look, tooltip: str, more: str) -> str:
    border, fill, width = FLAT[look]
    return (
        f'  {name} [{_SHAPES.get(look, _BOX)}, label={_quoted(*lines)}, color="{border}",'
        f' fillcolor="{fill}", penwidth={width}, tooltip={_quoted(tooltip or " ")},'
        f' class="{look}"{more}];'
    )


def _word(name: str, label: str) -> str:
    """Return a node that is words alone."""
    return f'  {name} [shape=plaintext, fontcolor="{_EDGE}", label={_quoted(label)}];'


def _quoted(*lines: str) -> str:
    """Return text as a string; Graphviz reads escapes and entities in it."""
    escaped = (
        printable(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
        for line in lines
        if line
    )
    return f'"{_BREAK.join(escaped)}"'
