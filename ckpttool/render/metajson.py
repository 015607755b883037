"""The losses in a form of a graph, in words.

Apart from `render.metagraph`, which needs numpy: export-meta-json does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpttool.metagraph.document import Loss
from ckpttool.printable import printable
from ckpttool.query.metagraph.document import GraphForm
from ckpttool.render.humanize import counted

_MEANT = {"json": "JSON", "pbtxt": "text", "pb": "bytes"}


def loss_lines(losses: Iterable[Loss], form: GraphForm) -> Iterator[str]:
    """Yield a line for each loss: what it is, its fate, and its first place."""
    for loss in losses:
        fate = f"is not in the {_MEANT[form]}" if loss.dropped else "is written in base64"
        more = f" and {counted(loss.count - 1, 'other place')}" if loss.count > 1 else ""
        where = printable(loss.place) or "the message itself"
        advice = "; --to pb keeps it" if loss.dropped else ""
        yield f"{printable(loss.what)}, {fate}: {where}{more}{advice}"
