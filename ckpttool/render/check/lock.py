"""The text of a lock: what `ckpt ls --json` prints, a tensor a line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import TextIO

from ckpttool.query.rows import TensorRow, Totals
from ckpttool.query.source import Source
from ckpttool.render.jsonout import source_document, write_json
from ckpttool.render.listing import SCHEMA, tensor_document


def write_lock(source: Source, rows: Collection[TensorRow], stream: TextIO) -> None:
    """Write a lock.

    Args:
        source: the checkpoint in short.
        rows: its tensors, by key bytes; they are gone over twice.
        stream: where to.
    """
    document = {
        "schema": SCHEMA,
        "source": source_document(source),
        "tensors": map(tensor_document, rows),
        "totals": asdict(Totals.of(rows)),
    }
    write_json(document, stream)
