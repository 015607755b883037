"""What became of checkpoints and exports of old forms."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO, cast

from ckpttool.query.source import Source
from ckpttool.render import humanize
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import write_json
from ckpttool.render.surgery import (
    plan_members,
    receipt_document,
    summary_line,
    write_change_rows,
)
from ckpttool.render.tabular import Column, RowFormat, write_rows
from ckpttool.surgery.export import ExportReceipt
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.receipt import Receipt

SCHEMA = "ckpt.convert-legacy/1"

_SIGNATURE = (
    Column("signature", fold=True),
    Column("method", style="cyan"),
    Column("inputs", fold=True),
    Column("outputs", fold=True),
    Column("export", fold=True),
)


@dataclass(frozen=True, slots=True)
class ConvertedCheckpoint:
    """A checkpoint that was converted, or would be.

    Attributes:
        plan: what it becomes.
        source: the checkpoint as it is.
        prefix: the destination.
        generation: the format there.
        receipt: what was written, or would be.
    """

    plan: Plan
    source: Source
    prefix: str
    generation: str
    receipt: Receipt

    @property
    def state_name(self) -> str:
        """What a state file in the same folder calls it."""
        name = os.path.basename(self.prefix)
        count = len(self.receipt.shards)
        several = self.generation == "V1" and count > 1
        return f"{name}-?????-of-{count:05d}" if several else name


def write_checkpoints(
    done: Sequence[ConvertedCheckpoint],
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    dry_run: bool,
) -> None:
    """Write what became of the tensors of checkpoints.

    Args:
        done: the checkpoints.
        format: "json" or one of the row formats; rows are of tensors that changed their name.
        stream: where to.
        terminal: what `stream` is.
        dry_run: whether nothing was written.
    """
    if format != "json":
        changes = (change for each in done for change in each.plan.changes)
        write_change_rows(changes, cast(RowFormat, format), stream, terminal)
        return
    conversions = [
        {
            "result": "checkpoint",
            "generation": each.generation,
            **plan_members(each.plan, None if dry_run else each.receipt, each.source, each.prefix),
        }
        for each in done
    ]
    write_json({"schema": SCHEMA, "dry_run": dry_run, "conversions": conversions}, stream)


def checkpoint_line(done: ConvertedCheckpoint, *, dry_run: bool) -> str:
    """Return in one line what became of a checkpoint, or would."""
    told = summary_line(done.plan, None if dry_run else done.receipt, done.prefix)
    return f"{done.source.prefix}, {done.source.generation} to {done.generation}: {told}"


def write_exports(
    done: Sequence[ExportReceipt],
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    dry_run: bool,
) -> None:
    """Write what became of exports; rows are of their signatures."""
    if format != "json":
        rows = (
            (
                signature.key,
                signature.method,
                [f"{name}={tensor}" for name, tensor in signature.inputs],
                [f"{name}={tensor}" for name, tensor in signature.outputs],
                receipt.source,
            )
            for receipt in done
            for signature in receipt.signatures
        )
        write_rows(rows, _SIGNATURE, cast(RowFormat, format), stream, terminal=terminal)
        return
    conversions = [_export_members(each, dry_run=dry_run) for each in done]
    write_json({"schema": SCHEMA, "dry_run": dry_run, "conversions": conversions}, stream)


def export_line(receipt: ExportReceipt, *, dry_run: bool) -> str:
    """Return in one line what became of an export, or would."""
    parts = [humanize.counted(len(receipt.signatures), "signature")]
    if receipt.assets:
        parts.append(humanize.counted(len(receipt.assets), "asset"))
    if receipt.variables is not None:
        parts.append(humanize.counted(receipt.variables.tensors, "variable"))
    what = f"{receipt.source}: {', '.join(parts)}"
    if dry_run:
        return f"{what}; dry run, nothing was written"
    return (
        f"{what}; wrote SavedModel {receipt.destination}: "
        f"{humanize.size(receipt.bytes_written)} written"
    )


def _export_members(receipt: ExportReceipt, *, dry_run: bool) -> dict[str, object]:
    variables = receipt.variables
    written = {
        "variables": None if variables is None else receipt_document(variables),
        "bytes_written": receipt.bytes_written,
    }
    return {
        "result": "SavedModel",
        "source": {"path": receipt.source},
        "destination": receipt.destination,
        "signatures": [
            asdict(each) | {"inputs": dict(each.inputs), "outputs": dict(each.outputs)}
            for each in receipt.signatures
        ],
        "unmapped": [asdict(each) for each in receipt.unmapped],
        "assets": list(receipt.assets),
        "init_op": receipt.init_op,
        "written": None if dry_run else written,
        "notes": list(receipt.notes),
    }
