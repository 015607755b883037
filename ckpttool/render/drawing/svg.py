"""A drawing as SVG: one picture for light and dark, without scripts, links or fonts of its own."""

from __future__ import annotations

from ckpttool.query.drawing.build import Drawing
from ckpttool.query.drawing.outline import Look
from ckpttool.render.drawing.labels import LEGEND, left_out, looks_in, shown_width
from ckpttool.render.drawing.layout import (
    COLUMN,
    HEIGHT,
    MARGIN,
    PADDING,
    ROW,
    Box,
    Chip,
    Picture,
    Rail,
    picture_of,
)
from ckpttool.render.drawing.palette import DIM, EDGE, GROUND, PAINTS, TEXT
from ckpttool.render.markup import Markup, element
from ckpttool.render.wrap import text_width

_BASELINE = 4.2  # of text below the middle of its box
_ROUND, _CORNER = 10.0, 2.5
_SWATCH = 15.0
_BOLD = frozenset(("root", "weight", "optimizer"))


def svg_text(drawing: Drawing) -> str:
    """Return a drawing as SVG.

    Args:
        drawing: what to draw.
    """
    return svg_element(drawing, element("style", None, Markup(svg_style()))) + "\n"


def svg_element(drawing: Drawing, style: Markup | None = None) -> Markup:
    """Return a drawing as an element.

    Args:
        drawing: what to draw.
        style: an element with its style; none for a page that has `svg_style` in its own.
    """
    picture = picture_of(drawing.root)
    foot, width, height = _foot(drawing, picture)
    name = f"Objects of the checkpoint {drawing.root.name}"
    parts = [
        element("rect", {"class": "ground", "width": "100%", "height": "100%"}),
        *map(_rail, picture.rails),
        *(_edge(box, child) for box in picture.boxes for child in box.children),
        *(part for box in picture.boxes for part in _box(box)),
        *foot,
    ]
    attributes: dict[str, str | float] = {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": "ckpt",
        "role": "img",
        "aria-label": name,
        "width": width,
        "height": height,
        "viewBox": f"0 0 {width:.0f} {height:.0f}",
    }
    lines = Markup("\n" + "\n".join(parts) + "\n")
    return element("svg", attributes, *([] if style is None else [style]), lines)


def svg_style() -> str:
    """Return the rules for all drawings."""
    rules = [
        "svg.ckpt{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}",
        "svg.ckpt text{white-space:pre}",
        "svg.ckpt .bold{font-weight:600}",
        "svg.ckpt path{fill:none}",
        "svg.ckpt .slot,svg.ckpt .rail,svg.ckpt .word{stroke-dasharray:4 2.5}",
        "svg.ckpt .word{stroke-dasharray:1.5 3}",
        "svg.ckpt .optimizer,svg.ckpt .root{stroke-width:2.2}",
    ]
    dark = _colours(1)
    return "".join([*rules, *_colours(0), "@media(prefers-color-scheme:dark){", *dark, "}"])


def _colours(at: int) -> list[str]:
    """Return the rules for colours on a light ground (0) or a dark one (1)."""
    rules = [
        f"svg.ckpt .ground{{fill:{GROUND[at]}}}",
        f"svg.ckpt text{{fill:{TEXT[at]}}}",
        f"svg.ckpt .dim{{fill:{DIM[at]}}}",
        f"svg.ckpt path{{stroke:{EDGE[at]}}}",
        f"svg.ckpt path.rail{{stroke:{PAINTS['slot'][2 * at]}}}",
    ]
    for look, paint in PAINTS.items():
        rules.append(f"svg.ckpt rect.{look}{{stroke:{paint[2 * at]};fill:{paint[2 * at + 1]}}}")
    return rules


def _box(box: Box) -> list[Markup]:
    """Return a box with its tooltip, and its chips."""
    name, detail = box.label
    words, x = [], box.x + PADDING
    if name:
        words.append(_words(x, box.y, name, "bold" if box.look in _BOLD else ""))
        x += COLUMN * (shown_width(name) + 2)
    if detail:
        words.append(_words(x, box.y, detail, "dim"))
    frames = []
    if box.look is not None:
        shifts = (4.0, 2.0, 0.0) if box.folded else (0.0,)
        frames = [_frame(box.x + by, box.y + by, box.width, box.look) for by in shifts]
    title = [element("title", None, box.tooltip)] if box.tooltip else []
    chips = [_chip(chip, box.y) for chip in box.chips]
    return [element("g", None, *title, *frames, *words), *chips]


def _chip(chip: Chip, y: float) -> Markup:
    words = _words(chip.x + PADDING, y, chip.text, "")
    frame = _frame(chip.x, y, chip.width, chip.look)
    lead = _path(chip.x - 14, y, chip.x, y, "rail")
    return element("g", None, element("title", None, chip.tooltip), lead, frame, words)


def _frame(x: float, y: float, width: float, look: Look) -> Markup:
    attributes: dict[str, str | float] = {"class": look, "x": x, "y": y - HEIGHT / 2}
    corner = _ROUND if look in ("root", "object") else _CORNER
    return element("rect", attributes | {"width": width, "height": HEIGHT, "rx": corner})


def _words(x: float, y: float, text: str, style: str) -> Markup:
    attributes: dict[str, str | float] = {"class": style} if style else {}
    return element("text", {**attributes, "x": x, "y": y + _BASELINE}, text)


def _edge(parent: Box, child: Box) -> Markup:
    x, middle = parent.x + parent.width, (parent.x + parent.width + child.x) / 2
    bend = f"M{x:.1f} {parent.y:.1f}C{middle:.1f} {parent.y:.1f} {middle:.1f} {child.y:.1f}"
    attributes: dict[str, str | float] = {"d": f"{bend} {child.x:.1f} {child.y:.1f}"}
    return element("path", attributes | ({"class": "word"} if child.look is None else {}))


def _rail(rail: Rail) -> Markup:
    top, bottom = min(y for _, y in rail.ends), max(y for _, y in rail.ends)
    lines = [_path(right, y, rail.x, y, "rail") for right, y in rail.ends]
    return element("g", None, _path(rail.x, top, rail.x, bottom, "rail"), *lines)


def _path(x: float, y: float, to_x: float, to_y: float, style: str) -> Markup:
    return element("path", {"class": style, "d": f"M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"})


def _foot(drawing: Drawing, picture: Picture) -> tuple[list[Markup], float, float]:
    """Return the legend and what was left out, and the size of all."""
    parts: list[Markup] = []
    x, y, width = MARGIN, picture.height + HEIGHT / 2, picture.width
    for look in looks_in(drawing):
        room = _SWATCH + 6 + COLUMN * text_width(LEGEND[look]) + 22
        if x > MARGIN and x + room > max(picture.width, 640):
            x, y = MARGIN, y + ROW
        swatch = _frame(x, y, _SWATCH, look)
        parts += [swatch, _words(x + _SWATCH + 6, y, LEGEND[look], "dim")]
        x += room
        width = max(width, x)
    note = left_out(drawing)
    if note is not None:
        y += ROW
        parts.append(_words(MARGIN, y, note, "dim"))
        width = max(width, 2 * MARGIN + COLUMN * text_width(note))
    return parts, width, y + ROW
