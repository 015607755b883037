"""What all views in a notebook have in common: the frame, bars, legends and tables.

A notebook that is not trusted, and GitHub, strip style sheets and pictures: words and tables must
tell everything without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from ckpttool.render.drawing.labels import elided
from ckpttool.render.markup import Markup, element

_SEPARATOR = " · "

# Jupyter aligns cells to the right and fixes the layout of tables; it has its way without the
# exclamation marks. Colours are those of the notebook, whose theme may differ from the system's.
_STYLE = Markup(
    ".ckpt-view{color:inherit;background:transparent;max-width:60em;"
    "font:var(--jp-content-font-size1,14px)/1.45 "
    "var(--jp-content-font-family,system-ui,sans-serif)}"
    ".ckpt-view p{margin:.3em 0}"
    ".ckpt-view summary{cursor:pointer}"
    ".ckpt-view svg{display:block;margin:.4em 0;max-width:100%}"
    ".ckpt-view table{table-layout:auto!important;border-collapse:collapse;margin:.4em 0;"
    "font-size:inherit}"
    ".ckpt-view tr{background:transparent!important}"
    ".ckpt-view th,.ckpt-view td{text-align:left!important;color:inherit;"
    "padding:.15em .8em .15em 0;border:0;border-bottom:1px solid rgba(128,128,128,.22);"
    "vertical-align:top;max-width:none;white-space:nowrap}"
    ".ckpt-view .n{text-align:right!important;font-variant-numeric:tabular-nums}"
    ".ckpt-view code{font:.93em var(--jp-code-font-family,ui-monospace,monospace);"
    "color:inherit;background:none;padding:0}"
)


class Share(NamedTuple):
    """A part of a whole in a bar.

    Attributes:
        name: what it is.
        color: of its piece.
        amount: how much of the whole it is.
        text: the amount in words.
    """

    name: str
    color: str
    amount: float
    text: str


class Heading(NamedTuple):
    """The heading of a column of a table.

    Attributes:
        text: what it says.
        style: how its cells look; names are shortened.
    """

    text: str
    style: Literal["text", "number", "name", "strip"] = "text"


def view_frame(title: Iterable[str | Markup], *parts: Markup) -> str:
    """Return the HTML of a view: a title, and below it what can be closed."""
    head = element("summary", {}, *title)
    inner = element("details", {"open": ""}, head, *parts)
    style = element("style", {}, _STYLE)
    return str(element("div", {"class": "ckpt-view"}, style, inner))


def strong(text: str) -> Markup:
    """Return a name that stands out, of a long one beginning and end."""
    return element("b", {}, elided(text))


def facts_line(facts: Iterable[str]) -> Markup:
    """Return facts in a line."""
    return element("p", {}, _SEPARATOR.join(filter(None, facts)))


def named_line(words: str, name: str) -> Markup:
    """Return a line that ends in a name."""
    return element("p", {}, words, element("code", {}, elided(name)))


def share_bar(shares: Sequence[Share], label: str) -> list[Markup]:
    """Return a bar of shares with its legend below; nothing if all are zero."""
    whole = sum(each.amount for each in shares)
    if not whole:
        return []
    pieces, at = [], 0.0
    for each in shares:
        width = 600 * each.amount / whole
        box: dict[str, str | float] = {"x": at, "width": width, "height": 10, "fill": each.color}
        pieces.append(element("rect", box))
        at += width
    frame: dict[str, str | float] = {
        "viewBox": "0 0 600 10",
        "width": 600,
        "height": 10,
        "role": "img",
        "aria-label": label,
        "preserveAspectRatio": "none",
    }
    legend: list[str | Markup] = []
    for each in shares:
        swatch = element("span", {"style": f"color:{each.color}"}, "■")
        percent = f"{100 * each.amount / whole:.1f}\u00a0%"
        legend += [_SEPARATOR if legend else "", swatch, f" {each.name} {each.text}, {percent}"]
    return [element("svg", frame, *pieces), element("p", {}, *legend)]


def view_table(
    headings: Sequence[Heading], rows: Iterable[Sequence[str | Markup]], *, more: int = 0
) -> Markup:
    """Return a table.

    Args:
        headings: of the columns.
        rows: of texts and pictures.
        more: how many rows there are that are not shown, which is said below.
    """

    def cell(tag: str, text: str | Markup, heading: Heading) -> Markup:
        return element(tag, {"class": "n"} if heading.style == "number" else {}, text)

    def line(row: Sequence[str | Markup]) -> Markup:
        cells = []
        for text, heading in zip(row, headings, strict=True):
            inner: str | Markup = text
            if heading.style in ("name", "strip"):
                inner = element("code", {}, elided(text) if heading.style == "name" else text)
            cells.append(cell("td", inner, heading))
        return element("tr", {}, *cells)

    head = element("tr", {}, *(cell("th", each.text, each) for each in headings))
    body = [line(row) for row in rows]
    if more:
        body.append(
            element("tr", {}, element("td", {"colspan": len(headings)}, f"… {more:,} more"))
        )
    return element("table", {}, element("thead", {}, head), element("tbody", {}, *body))
