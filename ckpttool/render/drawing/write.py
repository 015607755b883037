"""A drawing in any form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from ckpttool.query.drawing.build import Drawing

DrawingFormat = Literal["svg", "dot", "mermaid", "markdown"]
DRAWING_FORMATS: tuple[DrawingFormat, ...] = get_args(DrawingFormat)
# Those that nothing else than a drawing is written in.
PICTURES = DRAWING_FORMATS[:3]


def drawing_text(drawing: Drawing, format: DrawingFormat) -> tuple[str, str | None]:
    """Return a drawing as text, and what its reader should know.

    Args:
        drawing: what to draw.
        format: "svg", "dot", "mermaid", or "markdown" for a code block that holds Mermaid.
    """
    if format == "svg":
        from ckpttool.render.drawing.svg import svg_text

        return svg_text(drawing), None
    if format == "dot":
        from ckpttool.render.drawing.dot import dot_text

        return dot_text(drawing), None
    from ckpttool.render.drawing.mermaid import beyond_limits, fenced, mermaid_text

    text = mermaid_text(drawing)
    trouble = beyond_limits(text)
    hint = None if trouble is None else f"{trouble} by default; --depth draws less"
    return (fenced(text) if format == "markdown" else text), hint
