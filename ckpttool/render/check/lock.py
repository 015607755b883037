"""The text of a lock: what `ckpt ls --json` prints, a tensor a line."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict

from ckpttool.query.listing import TensorRow, Totals
from ckpttool.query.source import Source
from ckpttool.render.jsonout import write_json
from ckpttool.render.listing import SCHEMA, tensor_document
from ckpttool.render.source import source_document


def lock_text(source: Source, rows: Sequence[TensorRow]) -> str:
    """Return the text of a lock.

    Args:
        source: the checkpoint in short.
        rows: its tensors.
    """
    out = io.StringIO()
    document = {
        "schema": SCHEMA,
        "source": source_document(source),
        "tensors": map(tensor_document, rows),
        "totals": asdict(Totals.of(rows)),
    }
    write_json(document, out)
    return out.getvalue()
