"""A report as an HTML page: one file that loads nothing, under a policy that would forbid it to.

The policy names the hashes of the page's only script and only style.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from importlib.resources import files

from ckpttool import __version__
from ckpttool.printable import unprintable
from ckpttool.query.report.facts import ReportFacts
from ckpttool.query.summary import Group
from ckpttool.render import humanize
from ckpttool.render.drawing.svg import svg_element, svg_style
from ckpttool.render.markup import Markup, element, escaped
from ckpttool.render.report.columns import page_data

_SLOT = re.compile(r"\{\{(\w+)\}\}")
# More problems than these are counted only.
_MOST_PROBLEMS = 20
_BAR = 1000.0
_COLOURED = frozenset({"weight", "slot", "optimizer", "ema"})


def page_text(facts: ReportFacts, title: str | None = None) -> str:
    """Return the page.

    Args:
        facts: what it shows.
        title: what to call it; the name of the checkpoint by default.
    """
    title = title or os.path.basename(facts.source.prefix)
    style = Markup(_file("page.css") + svg_style())
    script = Markup(_file("page.js"))
    slots = {
        "script_hash": Markup(_hash(script)),
        "style_hash": Markup(_hash(style)),
        "title": escaped(title),
        "style": style,
        "head": _lines(_head(facts, title)),
        "objects": _objects(facts),
        "foot": escaped(_foot(facts)),
        "data": Markup(page_data(facts, title)),
        "script": script,
    }
    return _SLOT.sub(lambda match: slots[match[1]], _file("page.html")) + "\n"


def _file(name: str) -> str:
    text = (files("ckpttool") / "render" / "report" / name).read_text(encoding="utf-8")
    return text.rstrip("\n")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _lines(parts: list[Markup]) -> Markup:
    return Markup("\n".join(parts))


def _head(facts: ReportFacts, title: str) -> list[Markup]:
    source = facts.source
    style = {"object": "object-based", "name": "name-based"}.get(source.style, source.style)
    sub = f"{source.generation}, {style} · {source.path}"
    return [
        element("h1", None, title),
        element("p", {"class": "sub"}, sub),
        *_trouble(facts),
        element("ul", {"class": "cards"}, *_cards(facts)),
        *_shares(facts),
    ]


def _trouble(facts: ReportFacts) -> list[Markup]:
    """Return what is wrong with the checkpoint, on top of everything else."""
    found = facts.problems
    if not found:
        return []
    said = humanize.counted(len(found), "problem")
    # They are printable already, and are made so again.
    shown = [element("li", None, unprintable(each)) for each in found[:_MOST_PROBLEMS]]
    if len(found) > _MOST_PROBLEMS:
        more = humanize.number(len(found) - _MOST_PROBLEMS)
        shown.append(element("li", None, f"{more} more"))
    head = element("b", None, f"{said}: this checkpoint is damaged or incomplete")
    return [
        element("div", {"class": "trouble", "role": "alert"}, head, element("ul", None, *shown))
    ]


def _cards(facts: ReportFacts) -> list[Markup]:
    cards = [
        _card(humanize.amount(facts.totals.parameters), "parameters"),
        _card(humanize.size(facts.totals.bytes), "in all"),
        _card(humanize.number(facts.tensors), "tensor" if facts.tensors == 1 else "tensors"),
        _card(f"{facts.optimizer_share:.0%}".replace("%", " %"), "is optimizer state"),
    ]
    if facts.step is not None:
        cards.append(_card(humanize.number(facts.step), "training step"))
    if facts.nan or facts.inf:
        where = f"values NaN or Inf, in {humanize.counted(facts.not_finite, 'tensor')}"
        cards.append(_card(humanize.number(facts.nan + facts.inf), where, "alarm"))
    elif facts.values:
        cards.append(_card("all finite", "no NaN, no Inf" if facts.complete else "as far as read"))
    return cards


def _card(figure: str, words: str, style: str = "") -> Markup:
    attributes: dict[str, str | float] | None = {"class": style} if style else None
    return element("li", attributes, element("b", None, figure), element("span", None, words))


def _shares(facts: ReportFacts) -> list[Markup]:
    """Return a bar of the bytes by kind, and its legend."""
    parts, x, total = [], 0.0, facts.totals.bytes
    for group in facts.kinds:
        width = group.bytes / total * _BAR if total else 0.0
        if width:
            box: dict[str, str | float] = {"x": x, "width": width, "height": 20.0}
            parts.append(element("rect", {"class": _colour(group), **box}, _tooltip(group)))
        x += width
    attributes: dict[str, str | float] = {
        "class": "share",
        "viewBox": f"0 0 {_BAR:.0f} 20",
        "preserveAspectRatio": "none",
        "role": "img",
        "aria-label": "Bytes by kind",
    }
    keys = [element("li", None, *_key(group)) for group in facts.kinds]
    legend = element("ul", {"class": "legend"}, *keys) if keys else Markup("")
    return [element("svg", attributes, *parts), legend] if parts else [legend]


def _tooltip(group: Group) -> Markup:
    return element("title", None, f"{group.name} {humanize.size(group.bytes)}")


def _key(group: Group) -> list[str | Markup]:
    box: dict[str, str | float] = {"width": 10.0, "height": 10.0}
    square = element("rect", {**box, "rx": 2.0, "class": _colour(group)})
    swatch = element("svg", {**box, "aria-hidden": "true"}, square)
    size = element("b", None, humanize.size(group.bytes))
    return [swatch, f"{group.name} ", size, f" {humanize.number(group.tensors)}"]


def _colour(group: Group) -> str:
    return group.name if group.name in _COLOURED else "other"


def _objects(facts: ReportFacts) -> Markup:
    if facts.drawing is None:
        return Markup("")
    # It can be reached and moved by keyboard, too, where it is larger than the window.
    pane: dict[str, str | float] = {"class": "pane scroll", "tabindex": "0", "role": "region"}
    picture = element("div", {**pane, "aria-label": "Objects"}, svg_element(facts.drawing))
    return element("section", {"id": "objects"}, element("h2", None, "Objects"), picture)


def _foot(facts: ReportFacts) -> str:
    made = f"Made by ckpt report {__version__}. This file is complete and loads nothing."
    if not facts.values:
        return f"{made} The data shards were not read."
    checked = humanize.counted(facts.verified, "tensor")
    return f"{made} The checksums of {checked} were compared."
