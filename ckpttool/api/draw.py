"""A picture of the objects of a checkpoint."""

from __future__ import annotations

from ckpttool.checkpoint.nearest import require_one_of
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.query.drawing.build import build_drawing
from ckpttool.query.listing import list_tensors
from ckpttool.render.drawing.write import DRAWING_FORMATS, DrawingFormat, drawing_text
from ckpttool.storage.paths import StrPath


def draw(
    source: StrPath | Checkpoint,
    format: DrawingFormat = "svg",
    *,
    depth: int | None = None,
    everything: bool = False,
) -> str:
    """Draw the objects of a checkpoint, as `ckpt ls --format svg` does.

    Layers that are alike are drawn once, with their number, and objects without tensors are left
    out. No data shard is read but that of the object graph.

    Args:
        source: anything that names a checkpoint, or an open one.
        format: "svg", "dot" for Graphviz, "mermaid", or "markdown" for a code block of Mermaid.
        depth: how many levels below the root; all that there is room for by default.
        everything: fold nothing and leave nothing out.

    Returns:
        The picture as text.

    Raises:
        CkptError: the checkpoint cannot be read, or its object graph is damaged.

    >>> print(ckpttool.draw("tf_ckpts", "mermaid", depth=1).splitlines()[3])
      n0(["ckpt#45;10"])
    """
    require_one_of("format", format, DRAWING_FORMATS)
    with opened(source) as ckpt:
        drawing = build_drawing(ckpt, list_tensors(ckpt).rows, depth=depth, everything=everything)
    return drawing_text(drawing, format)[0]
