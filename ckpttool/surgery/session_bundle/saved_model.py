"""Converting a SessionBundle export to a SavedModel.

Everything is checked first. Then the new folder is filled beside its destination, read back, and
gets its name in one step; the export is only read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from ckpttool.checkpoint.locate import EXPORT_META, SAVED_MODEL_NAMES, locate
from ckpttool.checkpoint.nearest import listed
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import (
    CorruptError,
    DestinationError,
    MissingFileError,
    NotFoundError,
)
from ckpttool.metagraph.saved_model import SAVED_MODEL_NAME, BuiltModel, build_saved_model
from ckpttool.metagraph.session_bundle import SessionBundle, read_session_bundle
from ckpttool.metagraph.session_signatures import MappedSignature, UnmappedSignature
from ckpttool.storage.folders import make_folder, new_folder
from ckpttool.storage.locks import Patience, locked_folder
from ckpttool.storage.source import RandomAccessFile, file_error
from ckpttool.storage.staged_folder import StagedFolder
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.work import Progress
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.session_bundle.assets import (
    ASSETS_FOLDER,
    asset_names,
    copy_assets,
    find_assets,
)
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.destination import unused_place
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from ckpttool.surgery.writing.receipt import Receipt

_VERSION = re.compile(r"[0-9]{8}\Z")
_VARIABLES = os.path.join("variables", "variables")


@dataclass(frozen=True, slots=True)
class ExportReceipt:
    """The result of converting an export, or of a dry run.

    Attributes:
        source: the folder of the export.
        destination: the folder of the SavedModel; None if not given.
        signatures: its signatures.
        unmapped: those of the export that have no form in a SavedModel.
        assets: names of its asset files.
        init_op: the operation that finishes loading, if any.
        variables: the result of writing the variables; None if there are none, or none was written.
        bytes_written: including those of the variables.
        notes: for the user.
    """

    source: str
    destination: str | None
    signatures: tuple[MappedSignature, ...]
    unmapped: tuple[UnmappedSignature, ...]
    assets: tuple[str, ...]
    init_op: str | None
    variables: Receipt | None
    bytes_written: int
    notes: tuple[str, ...]


def find_exports(path: str) -> tuple[str, ...]:
    """Return the folders of the exports that a path means: one, or all versions in a folder.

    Args:
        path: the folder of an export, its `export.meta`, or a folder of versions.

    Raises:
        NotFoundError: there is no export.
    """
    if os.path.basename(path) == EXPORT_META:
        path = os.path.dirname(path) or os.curdir
    if os.path.isfile(os.path.join(path, EXPORT_META)):
        return (path,)
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise file_error(error, path) from error
    found = [os.path.join(path, name) for name in names if _VERSION.match(name)]
    exports = tuple(folder for folder in found if os.path.isfile(os.path.join(folder, EXPORT_META)))
    if not exports:
        raise NotFoundError(f"no SessionBundle export: there is no '{EXPORT_META}'", path=path)
    return exports


def prepare_export(
    folder: str,
    destination: str,
    *,
    data: DataMode = "auto",
    force: bool = False,
    follow_links: bool = False,
    patience: Patience | None = None,
) -> PreparedExport:
    """Check that an export can be converted to a SavedModel.

    Args:
        folder: of the export, with its `export.meta`.
        destination: the folder to make; also its parent if need be.
        data: how to carry data shards of a V2 checkpoint.
        force: replace an existing SavedModel as a whole, and convert an export although some of its
            assets are missing.
        follow_links: as of `WriteOptions`.
        patience: likewise.

    Raises:
        NotFoundError: there is no such export, or one of its files is missing.
        CorruptError: it is damaged, or its parts disagree.
        UnsupportedError: it is of an unknown form.
        DestinationError: something exists at the destination, or it shares files with the export.
        CkptError: a file could not be read.
    """
    options = WriteOptions(
        data=data,
        meta="drop",
        generation="V2",
        follow_links=follow_links,
        patience=patience or Patience(),
    )
    return PreparedExport(folder, destination, options, force=force)


class PreparedExport:
    """An export that can be converted. Made by `prepare_export`."""

    def __init__(
        self, folder: str, destination: str, options: WriteOptions, *, force: bool
    ) -> None:
        self._export = _Export(folder, force=force)
        self._folder = folder
        self._force = force
        self._options = options
        self._destination = _checked(destination, folder, force=force)
        with self._export.opened() as ckpt:
            if ckpt is not None:
                prepare(Plan.of(ckpt), unused_place(folder), options)

    def receipt(self) -> ExportReceipt:
        """Return what converting would do, as far as it can be told without it."""
        return self._export.receipt(self._destination)

    def write(self, *, on_progress: Progress | None = None) -> ExportReceipt:
        """Write the SavedModel.

        Args:
            on_progress: called with the bytes of variables copied and their total, if any are.

        Raises:
            CkptError: as of `prepare_export`, if that has changed since, or a file could not be
                read or written. Nothing is left behind in any case.
        """
        destination = self._destination
        with (
            self._export.opened() as ckpt,
            new_folder(os.path.dirname(destination)) as parent,
            locked_folder(parent, self._options.patience),
            StagedFolder(destination) as staged,
        ):
            written = self._export.write(staged.inside, ckpt, self._options, on_progress)
            self._export.read_back(staged.inside)
            _checked(destination, self._folder, force=self._force)
            notes = staged.publish(replace=self._force)
        receipt = self.receipt()
        variables = written.variables
        if variables is not None:
            # The note that the MetaGraph was left behind is wrong here: it is in the SavedModel.
            notes += [note for note in variables.notes if EXPORT_META not in note]
            variables = _moved(variables, staged.inside, destination)
        return replace(
            receipt,
            variables=variables,
            bytes_written=written.bytes,
            notes=(*receipt.notes, *notes),
        )


@dataclass(frozen=True, slots=True)
class _Written:
    variables: Receipt | None
    bytes: int


class _Export:
    """An export, checked except for the values of its variables."""

    def __init__(self, folder: str, *, force: bool) -> None:
        self._folder = folder
        self._meta = os.path.join(folder, EXPORT_META)
        with RandomAccessFile(self._meta) as file:
            self._permissions = file.permissions
        self._bundle: SessionBundle = read_session_bundle(self._meta)
        self._assets = find_assets(folder, asset_names(self._bundle), all_needed=not force)
        self._model: BuiltModel = build_saved_model(self._bundle)

    def opened(self) -> AbstractContextManager[Checkpoint | None]:
        """Open the checkpoint; there may be none if the graph restores nothing."""
        try:
            ckpt = Checkpoint(locate(os.path.join(self._folder, "")))
        except MissingFileError:
            if self._bundle.message.saver_def.restore_op_name:
                raise
            return nullcontext()
        lacking = [key for key in self._model.keys if key not in ckpt.entries]
        if lacking:
            ckpt.close()
            raise CorruptError(
                f"the graph restores {listed(lacking)}, which the checkpoint does not have",
                path=self._meta,
            )
        return ckpt

    def write(
        self,
        folder: str,
        ckpt: Checkpoint | None,
        options: WriteOptions,
        on_progress: Progress | None,
    ) -> _Written:
        """Write all files of the SavedModel into a folder."""
        variables = None
        if ckpt is not None:
            prefix = os.path.join(folder, _VARIABLES)
            variables = prepare(Plan.of(ckpt), prefix, options).write(on_progress=on_progress)
        with StagedFiles() as staged:
            copied = 0
            if self._assets.present:
                assets = os.path.join(folder, ASSETS_FOLDER)
                make_folder(assets)
                copied = copy_assets(self._folder, self._assets.present, assets, staged)
            file = staged.create(os.path.join(folder, SAVED_MODEL_NAME), mode=0o600)
            file.take_permissions(self._permissions)
            file.write(self._model.data)
            staged.commit()
        total = copied + len(self._model.data)
        return _Written(variables, total + (variables.bytes_written if variables else 0))

    def read_back(self, folder: str) -> None:
        """Check the written message; the other files are checked already."""
        path = os.path.join(folder, SAVED_MODEL_NAME)
        with RandomAccessFile(path) as file:
            if file.read_at(0, file.size) != self._model.data:
                raise CorruptError("the file does not read back as written", path=path)

    def receipt(self, destination: str) -> ExportReceipt:
        """Return the receipt before writing."""
        return ExportReceipt(
            source=self._folder,
            destination=destination,
            signatures=self._model.signatures,
            unmapped=self._model.unmapped,
            assets=self._assets.present,
            init_op=self._bundle.init_op,
            variables=None,
            bytes_written=0,
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterable[str]:
        yield from self._model.notes
        for signature in self._model.unmapped:
            name = (
                "default signature" if signature.name is None else f"signature '{signature.name}'"
            )
            yield (
                f"{signature.kind} {name} is not among the signatures, but kept in the collection"
                f" 'serving_signatures': {signature.reason}"
            )
        if not self._model.signatures:
            yield "the SavedModel has no signatures"
        for key, placeholder in self._model.unfed:
            yield (
                f"signature '{key}' needs the placeholder '{placeholder}', which is not among its"
                " inputs; tf.saved_model.load refuses that"
            )
        if self._assets.missing:
            yield (
                f"the graph reads assets that the export lacks: {listed(self._assets.missing)}; "
                "what needs them fails, the init op first of all"
            )
        if self._assets.others:
            yield f"files that are no assets were left behind: {listed(self._assets.others)}"


def _checked(destination: str, folder: str, *, force: bool) -> str:
    """Return the destination without a final slash, if a SavedModel may be written there."""
    path = destination.rstrip(os.sep)
    if os.path.basename(path) in ("", os.curdir, os.pardir):
        raise DestinationError("name the folder to create", path=destination)
    try:
        real, source = os.path.realpath(path), os.path.realpath(folder)
    except ValueError as error:
        raise file_error(error, path) from error
    if os.path.commonpath([real, source]) in (real, source):
        raise DestinationError("shares a folder with the export", path=path)
    if not os.path.lexists(path):
        return path
    if os.path.islink(path) or not os.path.isdir(path):
        raise DestinationError("exists and is not a folder", path=path)
    try:
        names = os.listdir(path)
    except OSError as error:
        raise file_error(error, path) from error
    if names and not force:
        raise DestinationError("already exists", path=path)
    if names and not any(name in names for name in SAVED_MODEL_NAMES):
        raise DestinationError("exists and is not a SavedModel; not replaced", path=path)
    return path


def _moved(receipt: Receipt, before: str, after: str) -> Receipt:
    """Return the receipt for variables whose folder was renamed since they were written."""
    shards = tuple(
        replace(shard, path=after + shard.path.removeprefix(before)) for shard in receipt.shards
    )
    prefix = after + receipt.prefix.removeprefix(before)
    return replace(receipt, prefix=prefix, shards=shards, notes=())
