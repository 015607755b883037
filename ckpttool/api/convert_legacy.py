"""Checkpoints and exports of old forms brought up to date."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TextIO

from ckpttool.api.answer import Answer
from ckpttool.checkpoint.locate import Location, locate
from ckpttool.checkpoint.nearest import require_one_of
from ckpttool.checkpoint.open import Checkpoint, opened, require_checkpoint
from ckpttool.errors import DestinationError, NotFoundError, SurgeryError, in_arguments
from ckpttool.query.source import Source
from ckpttool.render.console import Terminal
from ckpttool.render.conversion import (
    ConvertedCheckpoint,
    checkpoint_line,
    checkpoints_document,
    export_line,
    exports_document,
    write_conversions,
    write_exports,
)
from ckpttool.storage.locks import LOCK_TIMEOUT, Patience
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress
from ckpttool.surgery.convert import (
    TARGET_FORMS,
    TargetForm,
    changes_nothing,
    conversion_options,
    plan_conversion,
)
from ckpttool.surgery.maps.reading import read_map
from ckpttool.surgery.rules import RenameRule, Rules, as_rules
from ckpttool.surgery.session_bundle.saved_model import ExportReceipt, find_exports, prepare_export
from ckpttool.surgery.tables import load_table
from ckpttool.surgery.writing.companions import MetaMode
from ckpttool.surgery.writing.destination import unused_place
from ckpttool.surgery.writing.folder import Planned, PreparedTargets, WriteTarget
from ckpttool.surgery.writing.prepare import WriteOptions
from ckpttool.surgery.writing.recoding.spread import Recoding

NO_DESTINATION = "give {destination}"
OF_CHECKPOINTS = "options of checkpoints need {to} for an export"
_ALREADY = "already in that form"
_OTHER_OBJECTS = "; --like REFERENCE gives it the objects of another program"
_NUMBER = re.compile(r"-([0-9]{1,18})\Z")


@dataclass(frozen=True)
class Converted:
    """One checkpoint or export that was converted, or would be.

    Attributes:
        result: what became of it.
        dry_run: whether nothing was written.
        location: where a checkpoint was found.
    """

    result: ConvertedCheckpoint | ExportReceipt
    dry_run: bool
    location: Location | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, in words."""
        if isinstance(self.result, ExportReceipt):
            return self.result.notes
        return self.result.receipt.notes

    @property
    def summary(self) -> str:
        """In one line what was done, or would be."""
        if isinstance(self.result, ExportReceipt):
            return export_line(self.result, dry_run=self.dry_run)
        return checkpoint_line(self.result, dry_run=self.dry_run)


class Conversions(Answer):
    """What became of checkpoints or exports; made by `ckpttool.convert_legacy`.

    `str()` is the table of the command.

    Attributes:
        done: each of them, in order.
        dry_run: whether nothing was written.
        state: path of the state file that was written.
        notes: what the user should know of the state file, in words.
    """

    def __init__(
        self,
        done: Sequence[Converted],
        *,
        dry_run: bool,
        state: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.done = tuple(done)
        self.dry_run = dry_run
        self.state = state
        self.notes = tuple(notes)

    @property
    def _checkpoints(self) -> list[ConvertedCheckpoint]:
        results = (each.result for each in self.done)
        return [each for each in results if isinstance(each, ConvertedCheckpoint)]

    @property
    def _exports(self) -> list[ExportReceipt]:
        results = (each.result for each in self.done)
        return [each for each in results if isinstance(each, ExportReceipt)]

    def write_changes(
        self,
        format: str,
        stream: TextIO,
        terminal: Terminal,
        *,
        everything: bool = False,
        by_key: bool = False,
    ) -> None:
        """Write what became of tensors, in a table by scope, or of the signatures of exports.

        Args:
            format: "json" or one of the row formats.
            stream: where to.
            terminal: what `stream` is.
            everything: list every tensor in a table too.
            by_key: show keys instead of object paths and variable names.
        """
        dry_run, state = self.dry_run, self.state
        if self._exports:
            write_exports(self._exports, format, stream, terminal, dry_run=dry_run)
        else:
            found = self._checkpoints
            write_conversions(
                found,
                format,
                stream,
                terminal,
                dry_run=dry_run,
                state=state,
                everything=everything,
                by_key=by_key,
            )

    def _document(self) -> Mapping[str, object]:
        if self._exports:
            return exports_document(self._exports, dry_run=self.dry_run)
        return checkpoints_document(self._checkpoints, dry_run=self.dry_run, state=self.state)

    def _write_table(self, stream: TextIO, terminal: Terminal) -> None:
        self.write_changes("table", stream, terminal)

    def __repr__(self) -> str:
        more = f" and {len(self.done) - 1:,} more" if len(self.done) > 1 else ""
        return f"<Conversions {self.done[0].summary}{more}>"


@dataclass(frozen=True, slots=True)
class _Wanted:
    to: TargetForm
    like: str | None
    strict: bool
    by_order: bool
    fill: bool
    rules: tuple[RenameRule, ...]
    recoding: Recoding
    how: WriteOptions
    dry_run: bool
    on_progress: Progress | None
    on_done: Callable[[Converted], None] | None

    def tell(self, done: Converted) -> Converted:
        if self.on_done is not None:
            self.on_done(done)
        return done


def convert_legacy(
    source: StrPath,
    destination: StrPath | None = None,
    *,
    to: TargetForm | None = None,
    like: StrPath | None = None,
    strict: bool = False,
    by_order: bool = False,
    fill: bool = False,
    rules: Rules = (),
    map: StrPath | None = None,
    table: str | None = None,
    join_slices: bool = False,
    shards: int | None = None,
    max_shard_size: int | None = None,
    dry_run: bool = False,
    force: bool = False,
    update_state: bool = False,
    meta: MetaMode = "auto",
    follow_links: bool = False,
    lock_timeout: float = LOCK_TIMEOUT,
    on_wait: Callable[[str], None] | None = None,
    on_progress: Progress | None = None,
    on_done: Callable[[Converted], None] | None = None,
) -> Conversions:
    """Bring a checkpoint or an export of an old form up to date, as `ckpt convert-legacy` does.

    Checkpoints of format V1, big-endian ones and old strings become V2 as TensorFlow writes it
    today; a SessionBundle export becomes a SavedModel. A folder means every checkpoint in it.

    Args:
        source: anything that names a checkpoint, a folder of them, or an export.
        destination: prefix of the new checkpoint; a folder where `source` is a folder or an
            export. None goes with `dry_run`.
        to: "v2", "v1" or "name-based"; "v2" unless given, and of an export a SavedModel.
        like: an object-based checkpoint, whose objects the tensors become part of.
        strict: with `like`, refuse to leave out any tensor of the source or of the reference.
        by_order: with `like`, pair what several places would fit in the order of both programs.
        fill: with `like`, keep its values where the source has none.
        rules: names, as in `rename`; with `like`, new names are names of the reference.
        map: a file of such rules.
        table: name of a built-in table of rules.
        join_slices: join the slices of partitioned tensors.
        shards: number of data shards.
        max_shard_size: start a new data shard after this many bytes.
        dry_run: write nothing.
        force: replace an existing result; leave out missing assets.
        update_state: record it as the latest in its folder's state file.
        meta: what to do with the `.meta` file; "auto" copies it if no key changed.
        follow_links: accept data shards that are links to files outside the checkpoint's folder.
        lock_timeout: seconds to wait for another writer in the folder.
        on_wait: told, in words, whom it waits for.
        on_progress: told bytes written and bytes to write.
        on_done: called with each checkpoint or export when it is converted.

    Raises:
        DestinationError: there is something at the destination, or none is given.
        SurgeryError: there is nothing to convert, or no such way.
        CkptError: something cannot be read or written.

    >>> done = ckpttool.convert_legacy("old.ckpt-7", "out/model.ckpt-7")
    >>> done.done[0].result.generation, ckpttool.verify("out/model.ckpt-7").verdict
    ('V2', 'ok')
    """
    if destination is None and not dry_run:
        raise DestinationError(in_arguments(NO_DESTINATION))
    both = shards is not None and max_shard_size is not None
    misuse = conversion_misuse(
        to, both=both, like=like is not None, strict=strict, by_order=by_order, fill=fill
    )
    if misuse is not None:
        raise SurgeryError(in_arguments(misuse))
    if to is not None:
        require_one_of("to", to, TARGET_FORMS)
    known = as_rules(rules)
    known += read_map(map) if map is not None else []
    known += [load_table(table)] if table is not None else []
    recoding = Recoding(shards, max_shard_size, join_slices)
    wanted = _Wanted(
        to=to or "v2",
        like=None if like is None else path_text(like),
        strict=strict,
        by_order=by_order,
        fill=fill,
        rules=tuple(known),
        recoding=recoding,
        how=WriteOptions(
            force=force,
            update_state=update_state,
            meta=meta,
            follow_links=follow_links,
            patience=Patience(lock_timeout, on_wait),
        ),
        dry_run=dry_run,
        on_progress=on_progress,
        on_done=on_done,
    )
    path = path_text(source)
    typed = None if destination is None else path_text(destination)
    if to is None and is_export(path):
        if like or known or recoding != Recoding() or update_state or meta != "auto":
            raise SurgeryError(in_arguments(OF_CHECKPOINTS), path=path)
        return _convert_exports(path, typed, wanted)
    return _convert_checkpoints(path, typed, wanted)


def conversion_misuse(to: str | None, *, both: bool, like: bool, **of_like: bool) -> str | None:
    """Return why arguments of `convert_legacy` do not go together, their names in braces.

    Args:
        to: the form.
        both: whether a number of shards and a size are given.
        like: whether a reference is given.
        of_like: whether arguments are given that need one, by name.
    """
    if both:
        return "{shards} and {max_shard_size} cannot be combined"
    if like and to not in (None, "v2"):
        return "{like} makes a checkpoint of format V2"
    alone = [name for name, given in of_like.items() if given and not like]
    return f"{{{alone[0]}}} goes with {{like}}" if alone else None


def is_export(path: str) -> bool:
    """Tell whether a path means a SessionBundle export."""
    with suppress(NotFoundError):
        return locate(path).address == "session_bundle"
    return False


def _convert_checkpoints(source: str, typed: str | None, wanted: _Wanted) -> Conversions:
    """Convert a checkpoint, or all of a folder.

    Args:
        source: what to convert.
        typed: where to; None for a dry run of which it was not said.
        wanted: what was asked for.
    """
    output = unused_place(source) if typed is None else typed
    done: list[Converted] = []
    with nullcontext() if wanted.like is None else opened(wanted.like) as like:

        def plan_of(ckpt: Checkpoint, target: WriteTarget) -> _Planned:
            return _planned(ckpt, target, like, wanted)

        prepared = PreparedTargets(source, output, plan_of, wanted.how)
        if all(each.unchanged for each in prepared.planned):
            hint = wanted.to == "v2" and like is None and _has_objects(prepared.planned)
            raise SurgeryError(_ALREADY + _OTHER_OBJECTS * hint, path=source)
        for each in prepared.write(dry_run=wanted.dry_run, on_progress=wanted.on_progress):
            planned = each.planned
            result = ConvertedCheckpoint(
                planned.plan,
                planned.source,
                each.target.prefix if typed is not None else None,
                each.prepared.generation,
                each.receipt,
                planned.unchanged,
            )
            done.append(wanted.tell(Converted(result, wanted.dry_run, each.target.location)))
    return Conversions(done, dry_run=wanted.dry_run, state=prepared.state, notes=prepared.notes)


def _convert_exports(source: str, typed: str | None, wanted: _Wanted) -> Conversions:
    """Convert an export to a SavedModel, or every version of one in a folder.

    The arguments are those of `_convert_checkpoints`.
    """
    folders = find_exports(source)
    output = unused_place(folders[0]) if typed is None else typed
    within = folders != (source,) and os.path.isdir(source)
    targets = {
        folder: os.path.join(output, os.path.basename(folder)) if within else output
        for folder in folders
    }
    how = wanted.how
    # What can be refused is refused before anything is written.
    prepared = [
        prepare_export(
            folder, at, force=how.force, follow_links=how.follow_links, patience=how.patience
        )
        for folder, at in targets.items()
    ]
    done = []
    for each in prepared:
        receipt = each.receipt() if wanted.dry_run else each.write(on_progress=wanted.on_progress)
        receipt = receipt if typed is not None else replace(receipt, destination=None)
        done.append(wanted.tell(Converted(receipt, wanted.dry_run)))
    return Conversions(done, dry_run=wanted.dry_run)


@dataclass(frozen=True, slots=True)
class _Planned(Planned):
    source: Source
    unchanged: bool


def _has_objects(planned: Sequence[_Planned]) -> bool:
    return any(each.plan.graph is not None for each in planned)


def _planned(
    ckpt: Checkpoint, target: WriteTarget, like: Checkpoint | None, wanted: _Wanted
) -> _Planned:
    """Return what becomes of a checkpoint."""
    require_checkpoint(ckpt)
    number = _NUMBER.search(target.place)
    plan = plan_conversion(
        ckpt,
        wanted.to,
        like=like,
        rules=wanted.rules,
        number=int(number[1]) if number else 1,
        strict=wanted.strict,
        by_order=wanted.by_order,
        fill=wanted.fill,
    )
    how = conversion_options(plan, wanted.to, wanted.recoding, wanted.how)
    return _Planned(plan, how, Source.of(ckpt), changes_nothing(plan, how))
