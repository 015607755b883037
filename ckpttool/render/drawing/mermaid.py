"""A drawing for Mermaid, which GitHub and many wikis draw.

Every character with a meaning is written by its number, so that a name can neither end its label
nor give a directive.
"""

from __future__ import annotations

import re
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

# What Mermaid draws by default; beyond, its reader has to raise the limits.
MOST_CHARACTERS = 50_000
MOST_EDGES = 500
_SHAPES: dict[Look, tuple[str, str]] = {
    "root": ("([", "])"),
    "object": ("(", ")"),
    "optimizer": ("{{", "}}"),
    "other": ("[/", "/]"),
}
_BOX = ("[", "]")
_FOLDED = ("[[", "]]")
_HARMLESS = re.compile(r"[A-Za-z0-9 _,:+/()\[\]·…×]")


def mermaid_text(drawing: Drawing) -> str:
    """Return a drawing in the language of Mermaid.

    Args:
        drawing: what to draw.
    """
    name = _words(f"Objects of the checkpoint {drawing.root.name}")
    note = left_out(drawing)
    lines = [
        "flowchart LR",
        f"  accTitle: {name}",
        f"  accDescr: {_words(note or 'all objects are drawn')}",
        *_statements(drawing),
        *_classes(drawing),
    ]
    return "\n".join(lines) + "\n"


def fenced(text: str) -> str:
    """Return a drawing in a code block of Markdown."""
    return f"```mermaid\n{text}```\n"


def beyond_limits(text: str) -> str | None:
    """Return why Mermaid would not draw a text by default; None if it would."""
    edges = sum(text.count(arrow) for arrow in ("-->", "-.-"))
    if len(text) > MOST_CHARACTERS:
        return f"{len(text):,} characters are more than the {MOST_CHARACTERS:,} that Mermaid takes"
    if edges > MOST_EDGES:
        return f"{edges:,} edges are more than the {MOST_EDGES} that Mermaid takes"
    return None


def _statements(drawing: Drawing) -> Iterator[str]:
    drawn = {node.number for node in drawing.root.walk()}
    for node in drawing.root.walk():
        here = f"n{node.number}"
        left, right = _FOLDED if node.copies > 1 else _SHAPES.get(node.look, _BOX)
        yield f"  {here}{left}{_label(*label_of(node))}{right}"
        for child in node.children:
            yield f"  {here} --> n{child.number}"
        if node.more:
            yield f"  {here}m[{_label(more_label(node))}]"
            yield f"  {here} --> {here}m"
        yield from _slots(node, here, drawn)
        for at, each in enumerate(node.references):
            if each.target in drawn:
                yield f'  {here} -. "{_words(elided(each.name))}" .-> n{each.target}'
            else:
                yield f"  {here}r{at}[{_label(reference_label(each.name, each.path))}]"
                yield f"  {here} -.-> {here}r{at}"


def _slots(node: DrawnNode, here: str, drawn: set[int]) -> Iterator[str]:
    for at, slot in enumerate(node.slots):
        detail = "" if slot.row is None else what_it_is(slot.row, slot.row.bytes)
        yield f"  {here}s{at}[{_label(slot_label(slot), detail)}]"
        yield f"  {here} -.- {here}s{at}"
        if slot.row is not None and slot.owner in drawn:
            yield f"  n{slot.owner} -.- {here}s{at}"


def _classes(drawing: Drawing) -> Iterator[str]:
    members: dict[Look, list[str]] = {}
    for node in drawing.root.walk():
        members.setdefault(node.look, []).append(f"n{node.number}")
        for at, slot in enumerate(node.slots):
            members.setdefault(slot.look, []).append(f"n{node.number}s{at}")
    for look, names in members.items():
        border, fill, width = FLAT[look]
        dashed = ",stroke-dasharray:5 3" if look == "slot" else ""
        style = f"fill:{fill},stroke:{border},stroke-width:{width}px,color:{FLAT_INK}{dashed}"
        kind = look.replace("-", "")
        yield f"  classDef {kind} {style}"
        yield f"  class {','.join(names)} {kind}"


def _label(name: str, detail: str = "") -> str:
    return f'"{"<br/>".join(_words(text) for text in (name, detail) if text)}"'


def _words(text: str) -> str:
    """Return text for a label."""
    text = printable(text)
    if not text.strip():
        return f"#{ord(text[0])};" if text else "#32;"
    out = "".join(
        char if _HARMLESS.match(char) or (char > "\x7f" and char.isalpha()) else f"#{ord(char)};"
        for char in text
    )
    # A label that starts like a list would become one.
    return f"#{ord(out[0])};{out[1:]}" if out[0] in "+" else out
