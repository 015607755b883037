"""What a sweep of a folder deletes and keeps, as text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TextIO, cast

from ckpttool.printable import printable
from ckpttool.render import humanize
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import write_json
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.surgery.retention.execution import FolderSweep

SCHEMA = "ckpt.gc/1"
_STYLES = {"delete": "red", "keep": "green"}
_COLUMNS = (
    Column("checkpoint", fold=True),
    Column("action", style=lambda text: _STYLES.get(text, "")),
    Column("reason"),
    Column("files", align="right"),
    Column("bytes", align="right", human=humanize.size),
)


def write_sweep(sweep: FolderSweep, format: str, stream: TextIO, terminal: Terminal) -> None:
    """Write what goes, then what stays and why.

    Args:
        sweep: what was done, or would be.
        format: "json" or one of the row formats; "names" are the prefixes of what goes.
        stream: where to.
        terminal: what `stream` is.
    """
    if format == "json":
        write_json(sweep_document(sweep), stream)
    elif format == "names":
        for each in sweep.deleted:
            stream.write(f"{printable(os.path.join(sweep.folder, each.name))}\n")
    else:
        write_rows(_rows(sweep), _COLUMNS, cast(RowFormat, format), stream, terminal=terminal)


def sweep_document(sweep: FolderSweep) -> dict[str, object]:
    """Return a sweep as one object."""
    return {
        "schema": SCHEMA,
        "folder": sweep.folder,
        "state": sweep.state_path,
        "dry_run": sweep.dry_run,
        "policy": asdict(sweep.policy),
        "deleted": [asdict(each) for each in sweep.deleted],
        "kept": [asdict(each) for each in sweep.kept],
        "totals": {
            "deleted": len(sweep.deleted),
            "kept": len(sweep.kept),
            "files": sum(len(each.files) for each in sweep.deleted),
            "bytes": sweep.bytes,
        },
        "notes": list(sweep.notes),
    }


def sweep_line(sweep: FolderSweep) -> str:
    """Return in one line what was done, or would be."""
    total = humanize.counted(len(sweep.deleted) + len(sweep.kept), "checkpoint")
    if not sweep.deleted:
        return f"of {total}, none is to go"
    gone = humanize.number(len(sweep.deleted))
    size, stay = humanize.size(sweep.bytes), humanize.number(len(sweep.kept))
    if sweep.dry_run:
        return f"of {total}, {gone} would go: {size}; {stay} would stay; nothing was deleted"
    return f"of {total}, {gone} deleted: {size} freed; {stay} stay"


def _rows(sweep: FolderSweep) -> Iterator[tuple[object, ...]]:
    for each in sweep.deleted:
        yield (each.name, "delete", None, len(each.files), each.bytes)
    for kept in sweep.kept:
        yield (kept.name, "keep", kept.reason, None, None)
