"""Elements of SVG and HTML: the only place where text is put into markup.

All text and every attribute is made printable and escaped. Markup has a type of its own, so that no
text from a file is taken for it.
"""

from __future__ import annotations

from html import escape

from ckpttool.printable import printable


class Markup(str):
    """Markup: what `element` makes, and constant style sheets."""

    __slots__ = ()


def element(
    name: str, attributes: dict[str, str | float] | None = None, *children: str | Markup
) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        attributes: by name; a number is written to a hundredth.
        children: elements, and texts that are escaped here.
    """
    words = "".join(f' {key}="{_value(value)}"' for key, value in (attributes or {}).items())
    inner = "".join(each if isinstance(each, Markup) else escaped(each) for each in children)
    return Markup(f"<{name}{words}>{inner}</{name}>" if children else f"<{name}{words}/>")


def escaped(text: str) -> Markup:
    """Return text as markup that shows it."""
    return Markup(escape(printable(text)))


def _value(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
