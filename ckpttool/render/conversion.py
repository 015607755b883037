"""What became of checkpoints and exports of old forms."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TextIO, cast

from ckpttool.query.source import Source
from ckpttool.render import humanize
from ckpttool.render.cells import Column
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import write_json
from ckpttool.render.placement import placed_parts, placement_document
from ckpttool.render.surgery import (
    Changed,
    change_parts,
    outcome,
    plan_members,
    receipt_document,
    total_before,
    write_folder_rows,
)
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.session_bundle.saved_model import ExportReceipt
from ckpttool.surgery.writing.receipt import Receipt

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
        prefix: the destination; None where it was not said.
        generation: the format there.
        receipt: what was written, or would be.
        unchanged: whether it is in the form that was asked for already.
    """

    plan: Plan
    source: Source
    prefix: str | None
    generation: str
    receipt: Receipt
    unchanged: bool

    @property
    def name(self) -> str:
        """Its name in the folder that it is in, as in the one that it goes to."""
        return os.path.basename(self.prefix or "")

    @property
    def style(self) -> str:
        """Whether it is object-based or name-based now."""
        return "object" if self.plan.graph is not None else "name"


def write_conversions(
    done: Sequence[ConvertedCheckpoint],
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    dry_run: bool,
    state: str | None,
    everything: bool = False,
    by_key: bool = False,
) -> None:
    """Write what became of the tensors of checkpoints.

    Args:
        done: the checkpoints.
        format: "json" or one of the row formats; rows are of tensors that changed.
        stream: where to.
        terminal: what `stream` is.
        dry_run: whether nothing was written.
        state: path of the state file that was written for a folder.
        everything: list every tensor in a table too.
        by_key: show keys instead of object paths and variable names.
    """
    if format == "json":
        write_json(checkpoints_document(done, dry_run=dry_run, state=state), stream)
    else:
        changed = [_changed(each, dry_run=dry_run) for each in done]
        # Before it is written, one wants to see where each tensor would go.
        everything |= dry_run and any(each.plan.placement is not None for each in done)
        write_folder_rows(changed, format, stream, terminal, everything=everything, by_key=by_key)


def checkpoints_document(
    done: Sequence[ConvertedCheckpoint], *, dry_run: bool, state: str | None
) -> dict[str, object]:
    """Return what became of checkpoints as one object; arguments as in `write_conversions`."""
    conversions = [
        {
            "result": "checkpoint",
            "generation": each.generation,
            "style": each.style,
            **plan_members(_changed(each, dry_run=dry_run)),
            "placement": placement_document(each.plan, each.source),
        }
        for each in done
    ]
    return {"schema": SCHEMA, "dry_run": dry_run, "state": state, "conversions": conversions}


def _changed(done: ConvertedCheckpoint, *, dry_run: bool) -> Changed:
    return Changed(done.plan, None if dry_run else done.receipt, done.source, done.prefix)


def checkpoint_line(done: ConvertedCheckpoint, *, dry_run: bool) -> str:
    """Return in one line what became of a checkpoint, or would."""
    told = outcome(None if dry_run else done.receipt, done.prefix)
    plan = done.plan
    parts = [total_before(plan), *_ways(done), *change_parts(plan), *placed_parts(plan)]
    return f"{done.source.prefix}: {', '.join(parts)}; {told}"


def _ways(done: ConvertedCheckpoint) -> list[str]:
    """Return from what to what a checkpoint was brought."""
    source = done.source
    ways = []
    if source.generation != done.generation:
        ways.append(f"from {source.generation} to {done.generation}")
    if source.byte_order == "big":
        ways.append("from big-endian to little-endian")
    if source.style != done.style:
        ways.append(f"from {source.style}-based to {done.style}-based")
    elif done.plan.placement is not None and not done.unchanged:
        ways.append(f"with the objects of {done.plan.placement.reference}")
    return ways or ["already in that form" if done.unchanged else "written anew"]


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
    write_json(exports_document(done, dry_run=dry_run), stream)


def exports_document(done: Sequence[ExportReceipt], *, dry_run: bool) -> dict[str, object]:
    """Return what became of exports as one object."""
    conversions = [_export_members(each, dry_run=dry_run) for each in done]
    return {"schema": SCHEMA, "dry_run": dry_run, "state": None, "conversions": conversions}


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
