"""How `ckpt convert-legacy` carries out what it was asked for, and tells what came of it."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ckpttool.checkpoint.open import Checkpoint, open_checkpoint
from ckpttool.cli.options import Settings
from ckpttool.cli.writing import end_cleanly
from ckpttool.errors import SurgeryError
from ckpttool.query.source import Source
from ckpttool.render.conversion import (
    ConvertedCheckpoint,
    checkpoint_line,
    export_line,
    write_checkpoints,
    write_exports,
)
from ckpttool.render.progress import ProgressBar
from ckpttool.surgery.convert import (
    Conversion,
    TargetForm,
    carried_state,
    changes_nothing,
    conversion_options,
    find_conversions,
    name_latest,
    plan_conversion,
)
from ckpttool.surgery.export.saved_model import (
    ExportReceipt,
    convert_export,
    export_receipt,
    find_exports,
)
from ckpttool.surgery.rules import RenameRule
from ckpttool.surgery.writing.destination import unused_place
from ckpttool.surgery.writing.plan import WriteOptions, plan_receipt, write_plan
from ckpttool.surgery.writing.spread import Recoding

_NUMBER = re.compile(r"-([0-9]{1,18})\Z")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options say.

    Attributes:
        to: the form.
        like: address of a reference.
        rules: new names.
        recoding: the layout of values.
        how: how files are written.
        dry_run: whether to write nothing.
    """

    to: TargetForm
    like: str | None
    rules: tuple[RenameRule, ...]
    recoding: Recoding
    how: WriteOptions
    dry_run: bool


def convert_checkpoints(
    settings: Settings, source: str, typed: str | None, wanted: Wanted, format: str
) -> None:
    """Convert a checkpoint, or all of a folder.

    Args:
        settings: of this run.
        source: what to convert.
        typed: where to; None for a dry run of which it was not said.
        wanted: what the options say.
        format: how to print what became of tensors.
    """
    output = unused_place(source) if typed is None else typed
    conversions = find_conversions(source, output)
    # What can be refused is refused before anything is written.
    planned = [_convert(each, replace(wanted, dry_run=True)) for each in conversions]
    if all(each.unchanged for each in planned):
        raise SurgeryError("it is in that form already", path=source)
    state = None
    update = _is_within(conversions, output) and wanted.how.update_state
    if update:  # at the end: each of them is later than the one before
        wanted = replace(wanted, how=replace(wanted.how, update_state=False))
    elif _is_within(conversions, output):
        state = carried_state(source, output, force=wanted.how.force)
    done: list[ConvertedCheckpoint] = []
    end_cleanly()
    with ProgressBar("converting", sys.stderr, settings.terminal(sys.stderr)) as bar:
        for each, plan in zip(conversions, planned, strict=True):
            settings.report(each.location)
            result = plan if wanted.dry_run else _convert(each, wanted, on_progress=bar)
            bar.clear()
            for note in result.receipt.notes:
                settings.tell(note)
            settings.tell(checkpoint_line(result, dry_run=wanted.dry_run))
            done.append(result if typed is not None else replace(result, prefix=None))
    path = None
    if update and not wanted.dry_run:
        path = name_latest(each.receipt for each in done)
        settings.tell(f"wrote {path}")
    if state is not None and not wanted.dry_run:
        path = state.write({each.name: os.path.basename(each.receipt.address) for each in done})
        settings.tell(
            f"wrote {path}"
            if path is not None
            else f"no state file was written: the latest in '{state.path}' is not in its folder"
        )
    write_checkpoints(
        done, format, sys.stdout, settings.terminal(), dry_run=wanted.dry_run, state=path
    )


def _is_within(conversions: list[Conversion], output: str) -> bool:
    """Tell whether the output is a folder for several checkpoints, not the name of one."""
    return os.path.dirname(conversions[0].prefix) == output


def convert_exports(
    settings: Settings, source: str, typed: str | None, wanted: Wanted, format: str
) -> None:
    """Convert an export to a SavedModel, or every version of one in a folder.

    The arguments are those of `convert_checkpoints`.
    """
    folders = find_exports(source)
    output = unused_place(folders[0]) if typed is None else typed
    within = folders != (source,) and os.path.isdir(source)
    targets = {
        folder: os.path.join(output, os.path.basename(folder)) if within else output
        for folder in folders
    }
    planned = [
        export_receipt(folder, target, force=wanted.how.force) for folder, target in targets.items()
    ]
    if typed is None:
        planned = [replace(receipt, destination=None) for receipt in planned]
    done: list[ExportReceipt] = []
    if not wanted.dry_run:
        end_cleanly()
        with ProgressBar("converting", sys.stderr, settings.terminal(sys.stderr)) as bar:
            for folder, target in targets.items():
                receipt = convert_export(
                    folder,
                    target,
                    force=wanted.how.force,
                    follow_links=wanted.how.follow_links,
                    patience=wanted.how.patience,
                    on_progress=bar,
                )
                bar.clear()
                done.append(receipt)
    for receipt in done or planned:
        for note in receipt.notes:
            settings.tell(note)
        settings.tell(export_line(receipt, dry_run=wanted.dry_run))
    write_exports(done or planned, format, sys.stdout, settings.terminal(), dry_run=wanted.dry_run)


def _convert(
    conversion: Conversion,
    wanted: Wanted,
    *,
    on_progress: ProgressBar | None = None,
) -> ConvertedCheckpoint:
    """Convert one checkpoint.

    Args:
        conversion: which, and where to.
        wanted: what the options say.
        on_progress: told bytes written and bytes to write.
    """
    with ExitStack() as stack:
        ckpt = stack.enter_context(Checkpoint(conversion.location))
        like = stack.enter_context(open_checkpoint(wanted.like)) if wanted.like else None
        number = _NUMBER.search(conversion.prefix)
        plan = plan_conversion(
            ckpt,
            wanted.to,
            like=like,
            rules=wanted.rules,
            number=int(number[1]) if number else 1,
        )
        how = conversion_options(plan, wanted.to, wanted.recoding, wanted.how)
        source = Source.of(ckpt)
        if wanted.dry_run:
            receipt = plan_receipt(plan, conversion.prefix, how)
        else:
            receipt = write_plan(plan, conversion.prefix, how, on_progress=on_progress)
        return ConvertedCheckpoint(
            plan,
            source,
            conversion.prefix,
            how.generation or ckpt.generation,
            receipt,
            changes_nothing(plan, how),
        )
