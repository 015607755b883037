"""What every JSON document says of the checkpoint that it is about."""

from __future__ import annotations

from dataclasses import asdict

from ckpttool.query.source import Source


def source_document(source: Source) -> dict[str, object]:
    """Return the `source` member of a JSON document."""
    return asdict(source)
