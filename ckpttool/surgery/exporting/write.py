"""Writing an export: staged, synced, read back, and renamed.

ExportWriter(plan, named, output, options)     every check; nothing is written
    .write()                                    the files, or none of them
    .write_to(write)                            one file, into a pipe
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ckpttool.checkpoint.nearest import listed, quoted
from ckpttool.errors import CorruptError, DestinationError
from ckpttool.interchange.formats import FileFormat
from ckpttool.interchange.outgoing import Outgoing, Write
from ckpttool.interchange.safetensors_writing import INDEX_ENDING, index_document, is_shard_name
from ckpttool.storage.folders import OpenFolder, new_folder, sync_folder
from ckpttool.storage.locks import Patience, locked_folder
from ckpttool.storage.source import file_error
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles
from ckpttool.storage.system import require_writing
from ckpttool.storage.work import Progress
from ckpttool.surgery.exporting.choice import by_name
from ckpttool.surgery.exporting.contents import outgoing
from ckpttool.surgery.exporting.files import ExportFile, fit, spread_over_files
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.bundle.carry import check_space
from ckpttool.surgery.writing.destination import check_location, refuse_own_files
from ckpttool.surgery.writing.recoding.payloads import check_slices
from ckpttool.surgery.writing.watch import Watch, watched


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options for an export.

    Attributes:
        form: the format.
        strings: whether strings become bytes of one width.
        skip_unsupported: leave out what the format cannot hold.
        metadata: text by name, for a format with a place for it.
        max_shard_size: bytes of tensors in a file, of which one tensor may have more.
        force: replace what exists.
        patience: how long to wait for another writer in the folder.
    """

    form: FileFormat
    strings: bool = False
    skip_unsupported: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    max_shard_size: int | None = None
    force: bool = False
    patience: Patience = field(default_factory=Patience)


class ExportWriter:
    """An export that can be written.

    Args:
        plan: the tensors; none of them is damaged.
        named: the name of each in the files, by its key.
        output: path of the file; None where it is not written, or not to a file.
        options: the options.

    Attributes:
        files: what goes into which file, under the name of the format where there is no path.
        index: path of the index of several files.
        skipped: names of tensors that are left out, and the reasons.

    Raises:
        UnsupportedError: the format cannot hold a tensor.
        DestinationError: something exists there, or it is a file of the source.
        SurgeryError: the source changed since it was opened.
        CkptError: strings are damaged.
    """

    def __init__(
        self, plan: Plan, named: Mapping[str, str], output: str | None, options: ExportOptions
    ) -> None:
        self.plan = replace(plan, graph=None, added=())
        self._output = output
        self._options = options
        self._watch: Watch | None = None
        form = options.form
        check_slices(self.plan)
        with self._guarding():
            tensors = [
                outgoing(plan.source, tensor, name, strings=options.strings)
                for name, tensor in by_name(plan, named)
            ]
        fitting = fit(tensors, form, skip=options.skip_unsupported, path=plan.source.prefix)
        self.skipped = fitting.skipped
        self.files, self.index = spread_over_files(
            fitting.tensors, output or form.name + form.ending, form, options.max_shard_size
        )
        self._check()

    @property
    def tensors(self) -> Sequence[Outgoing]:
        """All tensors, by name."""
        return [tensor for file in self.files for tensor in file.tensors]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know."""
        notes = list(self.plan.notes)
        if self.skipped:
            names = listed(name for name, _ in self.skipped)
            reasons = "; ".join(dict.fromkeys(reason for _, reason in self.skipped))
            notes.append(f"left out: {names}: {reasons}")
        young = sorted({str(each.dtype) for each in self.tensors if self._options.form.young(each)})
        if young:
            notes.append(
                f"{', '.join(young)}: only recent readers of {self._options.form.name} take this"
            )
        return tuple(notes)

    def write(self, on_progress: Progress | None = None) -> list[int]:
        """Write the files, of which there is none until the last step; return their sizes.

        Args:
            on_progress: called with the bytes written and their total.

        Raises:
            CkptError: a tensor is damaged, or a file could not be written. Nothing is left behind.
        """
        if self._output is None:
            raise DestinationError("nothing says where to write")
        folder = os.path.dirname(self._output)
        with new_folder(folder) as made, locked_folder(made, self._options.patience):
            self._check()
            old = self._old_files(made)
            check_space(self._output, sum(tensor.size for tensor in self.tensors))
            with StagedFiles() as staged:
                with self._guarding():
                    files = self._stage(staged, on_progress)
                self._commit(staged, old)
            self._remove(made, old - {os.path.basename(file.path) for file in files})
        return [file.size for file in files[: len(self.files)]]

    def write_to(self, write: Write, on_progress: Progress | None = None) -> None:
        """Write the only file piece by piece, after every tensor was read and checked.

        Args:
            write: where to.
            on_progress: called with the bytes written and their total.

        Raises:
            CkptError: a tensor is damaged; nothing was written then.
            DestinationError: there are several files.
        """
        if self.index is not None:
            raise DestinationError("several files cannot be written to one stream")
        with self._guarding():
            for tensor in self.tensors:
                for _ in tensor.chunks():
                    pass
            (file,) = self.files
            counted = _Counted(write, self._total, on_progress)
            self._options.form.write(file.tensors, counted.write, self._options.metadata)

    @contextmanager
    def _guarding(self) -> Iterator[None]:
        """Watch the source while it is read."""
        self._watch = watched(self.plan, self._watch)
        with self._watch.guarding():
            yield

    def _check(self) -> None:
        """Check the destination and the source; once beforehand, and again under the lock."""
        self._watch = watched(self.plan, self._watch)
        if self._output is None:
            return
        require_writing(self._output)
        check_location(self._output, "add a name for the file")
        index = () if self.index is None else (self.index,)
        for path in (*(file.path for file in self.files), *index):
            refuse_own_files(self.plan, path)
            if os.path.lexists(path) and not self._options.force:
                raise DestinationError("already exists; --force replaces it", path=path)
            if os.path.exists(path) and not os.path.isfile(path):
                raise DestinationError("it is not a file", path=path)
        old = self._old_files(os.path.dirname(self._output) or os.curdir)
        if old and not self._options.force:
            path = os.path.join(os.path.dirname(self._output), min(old))
            raise DestinationError(
                "already exists and belongs to a model of this name; --force replaces it", path=path
            )

    def _old_files(self, folder: str) -> set[str]:
        """Return the names of what an earlier export of this name left: one file, or several."""
        form = self._options.form
        if not (form.shards and self._output is not None and os.path.isdir(folder)):
            return set()
        name = os.path.basename(self._output)
        try:
            names = os.listdir(folder)
        except OSError as error:
            raise file_error(error, folder) from error
        whole = {name, name + INDEX_ENDING}
        return {each for each in names if each in whole or is_shard_name(each, name, form.ending)}

    @property
    def _total(self) -> int:
        return sum(tensor.size for tensor in self.tensors)

    def _stage(self, staged: StagedFiles, on_progress: Progress | None) -> list[StagedFile]:
        """Write the files under temporary names, and read them back."""
        counted = _Counted(None, self._total, on_progress)
        form, files = self._options.form, []
        for file in self.files:
            out = self._new_file(staged, file.path)
            counted.to = out.write
            form.write(file.tensors, counted.write, self._options.metadata)
            out.sync()
            _read_back(out, file, form)
            files.append(out)
        if self.index is not None:
            out = self._new_file(staged, self.index)
            places = {
                tensor.name: os.path.basename(file.path)
                for file in self.files
                for tensor in file.tensors
            }
            out.write(index_document(places, self._total))
            files.append(out)
        return files

    def _new_file(self, staged: StagedFiles, path: str) -> StagedFile:
        out = staged.create(path, mode=0o600)
        out.take_permissions(self.plan.source.reader.permissions)
        return out

    def _commit(self, staged: StagedFiles, old: set[str]) -> None:
        """Give the files their names, the one that readers begin with last."""
        others = [os.path.basename(file.path) for file in staged.files[:-1]]
        watch = self._watch
        check = None if watch is None else watch.check
        if old.intersection(others):
            # Some names are taken by the old set, which cannot be read from here on.
            staged.commit_together(replace=True, before_last=check)
        else:
            staged.commit(replace_last=self._options.force, before_last=check)

    def _remove(self, folder: str, names: set[str]) -> None:
        """Remove the rest of the set that was replaced.

        Raises:
            DestinationError: a file could not be removed.
        """
        if not names:
            return
        try:
            opened = OpenFolder(folder)
        except OSError as error:
            raise file_error(error, folder) from error
        # The index first: without it no reader opens the others, and with it they are needed.
        left = [name for name in sorted(names) if name.endswith(INDEX_ENDING)]
        left = [name for name in left if not opened.remove(name)]
        others = () if left else sorted(names)
        left += [name for name in others if not opened.remove(name)]
        opened.close()
        sync_folder(folder)
        if left:
            raise DestinationError(
                f"of what was there before, {quoted(left)} could not be removed; the new files are "
                "written",
                path=folder,
            )


class _Counted:
    """Writes, and tells how much."""

    def __init__(self, to: Write | None, total: int, on_progress: Progress | None) -> None:
        self.to = to
        self._done, self._total = 0, total
        self._on_progress = on_progress

    def write(self, data: bytes | memoryview) -> None:
        """Write a piece."""
        if self.to is not None:
            self.to(data)
        self._done += len(data)
        if self._on_progress is not None:
            self._on_progress(self._done, max(self._total, self._done))


def _read_back(out: StagedFile, file: ExportFile, form: FileFormat) -> None:
    """Read a staged file as its readers do, and compare it with what it has to hold."""
    try:
        same = form.reads_back(out.temporary, file.tensors)
    except CorruptError as error:
        raise CorruptError(f"it does not read back: {error.message}", path=out.path) from error
    if not same:
        raise CorruptError("it does not read back as it was written", path=out.path)
