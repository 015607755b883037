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
from ckpttool.surgery.export.saved_model import find_exports, prepare_export
from ckpttool.surgery.rules import RenameRule
from ckpttool.surgery.writing.destination import unused_place
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.spread import Recoding

# More sources are not kept open at a time; those of the rest are planned anew to be written.
_MOST_OPEN = 16
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
    update = _is_within(conversions, output) and wanted.how.update_state
    if update:  # at the end: each of them is later than the one before
        wanted = replace(wanted, how=replace(wanted.how, update_state=False))
    done: list[ConvertedCheckpoint] = []
    end_cleanly()
    with ExitStack() as stack:
        # What can be refused is refused before anything is written.
        planned = [stack.enter_context(_Planned(each, wanted)) for each in conversions[:_MOST_OPEN]]
        unchanged = [each.unchanged for each in planned]
        for conversion in conversions[_MOST_OPEN:]:
            with _Planned(conversion, wanted) as each:
                unchanged.append(each.unchanged)
        if all(unchanged):
            raise SurgeryError("it is in that form already", path=source)
        state = None
        if _is_within(conversions, output) and not update:
            state = carried_state(source, output, force=wanted.how.force)
        planned.reverse()
        bar = stack.enter_context(
            ProgressBar("converting", sys.stderr, settings.terminal(sys.stderr))
        )
        for conversion in conversions:
            settings.report(conversion.location)
            with planned.pop() if planned else _Planned(conversion, wanted) as each:
                result = each.result(None if wanted.dry_run else bar)
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
    # What can be refused is refused before anything is written.
    prepared = [
        prepare_export(
            folder,
            target,
            force=wanted.how.force,
            follow_links=wanted.how.follow_links,
            patience=wanted.how.patience,
        )
        for folder, target in targets.items()
    ]
    if wanted.dry_run:
        done = [each.receipt() for each in prepared]
    else:
        done = []
        end_cleanly()
        with ProgressBar("converting", sys.stderr, settings.terminal(sys.stderr)) as bar:
            for each in prepared:
                done.append(each.write(on_progress=bar))
                bar.clear()
    if typed is None:
        done = [replace(receipt, destination=None) for receipt in done]
    for receipt in done:
        for note in receipt.notes:
            settings.tell(note)
        settings.tell(export_line(receipt, dry_run=wanted.dry_run))
    write_exports(done, format, sys.stdout, settings.terminal(), dry_run=wanted.dry_run)


class _Planned:
    """A conversion that has been planned and checked; its source is open until it is left.

    Args:
        conversion: which checkpoint, and where to.
        wanted: what the options say.
    """

    def __init__(self, conversion: Conversion, wanted: Wanted) -> None:
        self._prefix = conversion.prefix
        with ExitStack() as stack:
            self._ckpt = stack.enter_context(Checkpoint(conversion.location))
            like = stack.enter_context(open_checkpoint(wanted.like)) if wanted.like else None
            number = _NUMBER.search(conversion.prefix)
            self._plan = plan_conversion(
                self._ckpt,
                wanted.to,
                like=like,
                rules=wanted.rules,
                number=int(number[1]) if number else 1,
            )
            how = conversion_options(self._plan, wanted.to, wanted.recoding, wanted.how)
            self.unchanged = changes_nothing(self._plan, how)
            self._source = Source.of(self._ckpt)
            self._prepared = prepare(self._plan, conversion.prefix, how)
            self._open = stack.pop_all()

    def __enter__(self) -> _Planned:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def result(self, on_progress: ProgressBar | None) -> ConvertedCheckpoint:
        """Return what came of it.

        Args:
            on_progress: told bytes written and bytes to write; None to write nothing.
        """
        receipt = (
            self._prepared.receipt()
            if on_progress is None
            else self._prepared.write(on_progress=on_progress)
        )
        return ConvertedCheckpoint(
            self._plan,
            self._source,
            self._prefix,
            self._prepared.generation,
            receipt,
            self.unchanged,
        )
