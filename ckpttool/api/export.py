"""The tensors of a checkpoint as files of other formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO, Literal, TextIO

from ckpttool.api.draft_file import save_draft
from ckpttool.api.transfer import Transfer
from ckpttool.checkpoint.nearest import quoted, require_one_of
from ckpttool.checkpoint.open import Checkpoint, opened
from ckpttool.checkpoint.selection.select import Selector
from ckpttool.errors import SelectionError, in_arguments
from ckpttool.interchange.formats import FILE_FORMATS, SAFETENSORS, FileFormat, format_of_path
from ckpttool.interchange.keras_h5 import H5_ENDING, keras_format, read_template
from ckpttool.query.source import Source
from ckpttool.render.transfers import (
    TransferFile,
    Transferred,
    TransferredTensor,
    transfer_line,
)
from ckpttool.storage.locks import LOCK_TIMEOUT, Patience
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.work import Progress
from ckpttool.surgery.edits.casting import cast as cast_tensors
from ckpttool.surgery.exporting.choice import (
    Naming,
    choose_tensors,
    name_by_map,
    name_tensors,
    notes_on_names,
)
from ckpttool.surgery.exporting.write import ExportOptions, ExportWriter
from ckpttool.surgery.maps.keras_draft import draft_for_keras, require_filled
from ckpttool.surgery.maps.reading import read_map_file
from ckpttool.surgery.maps.torch_draft import DRAFT_TABLES, MapDraft, draft_for_torch
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.rules import RenameRule

ExportForm = Literal["safetensors", "npz", "npy"]
EXPORT_FORMS: tuple[str, ...] = tuple(FILE_FORMATS)
StringForm = Literal["bytes"]
STRING_FORMS: tuple[StringForm, ...] = ("bytes",)
DraftTable = Literal["torch"]
# What programs of other libraries look for in the text of a file, by the table of the map.
_FRAMEWORKS = {"torch": "pt"}


class Export(Transfer):
    """What became of the tensors of a checkpoint, or would; made by `ckpttool.export`.

    `str()` is the table of the command.

    Attributes:
        source: the checkpoint.
        format: name of the format.
        files: the files, each with `path`, `bytes` (None in a dry run) and `tensors`.
        index: path of the index of several files.
        tensors: by name, each with `key`, `stored_name`, `dtype`, `shape`, `kind`, `bytes`, `file`.
        skipped: names of tensors that were left out, and the reasons.
        dry_run: whether nothing was written.
        notes: what the user should know, in words.
    """

    _command = "export"

    @property
    def format(self) -> str:
        """Name of the format."""
        return self._done.format

    @property
    def files(self) -> tuple[TransferFile, ...]:
        """The files, but for the index of several."""
        return self._done.files

    @property
    def index(self) -> str | None:
        """Path of the index of several files."""
        return self._done.index

    @property
    def summary(self) -> str:
        """In one line what was done, or would be."""
        return transfer_line(self._done)

    def __repr__(self) -> str:
        return f"<Export of {self.source.prefix!r}: {self.summary}>"


def export(
    source: StrPath | Checkpoint,
    output: StrPath | BinaryIO | None = None,
    patterns: str | Iterable[str] | Selector = (),
    *,
    exclude: str | Iterable[str] = (),
    kinds: str | Iterable[str] = (),
    all_kinds: bool = False,
    to: ExportForm | None = None,
    names: Naming = "path",
    map: StrPath | Iterable[StrPath] = (),
    skip_unmatched: bool = False,
    table: DraftTable | None = None,
    write_map: StrPath | TextIO | None = None,
    like: StrPath | None = None,
    accept_order: bool = False,
    cast: Mapping[str, str] | None = None,
    saturate: bool = False,
    strings: StringForm | None = None,
    skip_unsupported: bool = False,
    metadata: Mapping[str, str] | None = None,
    max_shard_size: int | None = None,
    force: bool = False,
    dry_run: bool = False,
    lock_timeout: float = LOCK_TIMEOUT,
    on_wait: Callable[[str], None] | None = None,
    on_progress: Progress | None = None,
) -> Export:
    """Write tensors of a checkpoint to files of another format, as `ckpt export` does.

    Every byte is checked against its crc32c on the way, in bounded memory. Nothing appears before
    everything is written, synced and read back.

    Args:
        source: anything that names a checkpoint, or an open one.
        output: the file to write; its folder is made if necessary, but none above it. An open
            binary file or pipe gets the bytes as they come. None with `dry_run`.
        patterns: tensors to export; all without any.
        exclude: tensors to leave out.
        kinds: only tensors of these kinds; only weights without any.
        all_kinds: tensors of every kind.
        to: "safetensors", "npz" or "npy"; by default as the name of the output ends.
        names: names in the file: "path" for object paths, or keys where there are none; "variable"
            for the full names of variables; or "key".
        map: a file, or several, with the names and layouts of the tensors in the file, as
            `ckpttool.surgery.read_map` reads them. It takes the place of `names`.
        skip_unmatched: leave out tensors that the map does not name, or that the table has no
            proposal for, which is an error otherwise.
        table: "torch" drafts a map to PyTorch, for review. With `write_map` and `dry_run`.
        write_map: the file for the draft, or an open one.
        like: a `.weights.h5` file that the program to be loaded has saved; without `map`, layers
            are paired by names and shapes. `write_map` with `dry_run` drafts a map of the pairs.
        accept_order: pair layers of the same shapes by their order.
        cast: other dtypes, by pattern, as `surgery.cast` takes them.
        saturate: whether what is out of range of such a dtype becomes the nearest that it has.
        strings: "bytes" makes bytes of one width of string tensors, in the formats of NumPy.
        skip_unsupported: leave out what the format cannot hold, which is an error otherwise.
        metadata: text by name, for safetensors.
        max_shard_size: bytes of tensors in a file; more go to several files with an index, as
            safetensors have it. One tensor may be larger.
        force: replace what exists.
        dry_run: write nothing.
        lock_timeout: seconds to wait for another writer in the folder.
        on_wait: told, in words, whom it waits for.
        on_progress: told bytes written and bytes to write.

    Raises:
        SelectionError: a pattern selects nothing, or arguments contradict each other.
        SurgeryError: a number is out of range of the dtype that it is cast to.
        KeyCollisionError: two tensors would have one name.
        UnsupportedError: the format cannot hold a tensor.
        DestinationError: something exists there already.
        CkptError: something cannot be read or written. Nothing is left behind.

    >>> done = ckpttool.export("tf_ckpts", "weights.safetensors", "net")
    >>> [tensor.stored_name for tensor in done.tensors]
    ['net/l1/bias', 'net/l1/kernel']
    """
    path = path_text(output) if isinstance(output, (str, os.PathLike)) else None
    stream = None if isinstance(output, (str, os.PathLike)) else output
    form = None if to is None else _form(to)
    misuse = exporting_misuse(
        form.name if form is not None else None,
        path,
        streamed=stream is not None,
        dry_run=dry_run,
        kinds=bool(patterns.kinds if isinstance(patterns, Selector) else kinds),
        all_kinds=all_kinds,
        strings=strings is not None,
        metadata=metadata is not None,
        sharded=max_shard_size is not None,
        saturate=saturate and not cast,
        like=like is not None,
        accept_order=accept_order,
    )
    maps = [map] if isinstance(map, (str, os.PathLike)) else list(map)
    misuse = misuse or mapping_misuse(
        mapped=bool(maps),
        renamed=names != "path",
        skip_unmatched=skip_unmatched,
        drafted=table is not None,
        paired=like is not None,
        kept=write_map is not None,
        dry_run=dry_run,
    )
    if misuse is not None:
        raise SelectionError(in_arguments(misuse))
    if strings is not None:
        require_one_of("strings", strings, STRING_FORMS)
    files = [read_map_file(each) for each in maps]
    rules = [rule for file in files for rule in file.rules]
    template = None if like is None else read_template(path_text(like))
    if template is not None:
        form = keras_format(template)
    form = form or (format_of_path(path) if path is not None else None) or SAFETENSORS
    options = ExportOptions(
        form,
        strings=strings is not None,
        skip_unsupported=skip_unsupported,
        metadata={"format": _FRAMEWORKS.get(files[0].table or "", "tf") if files else "tf"}
        | dict(metadata or {}),
        max_shard_size=max_shard_size,
        force=force,
        patience=Patience(lock_timeout, on_wait),
    )
    selector = Selector.from_patterns(patterns, exclude=exclude, kinds=kinds)
    with opened(source) as ckpt:
        plan = choose_tensors(Plan.of(ckpt), selector, all_kinds=all_kinds)
        draft = None
        if template is not None and not rules:
            accepted = accept_order or write_map is not None
            draft = draft_for_keras(ckpt, _keys(plan), template, accept_order=accepted)
        elif table is not None:
            require_one_of("table", table, DRAFT_TABLES)
            draft = draft_for_torch(ckpt, _keys(plan))
        plan, named = _name(plan, names, draft, rules, skip_unmatched=skip_unmatched)
        if draft is not None and write_map is not None:
            plan = plan.with_notes(*save_draft(draft, write_map, force=force))
        if template is not None:
            require_filled(template, named.values())
        if cast:  # its notes are for who restores a checkpoint
            plan = replace(cast_tensors(plan, cast, saturate=saturate), notes=plan.notes)
        prepared = ExportWriter(plan, named, path, options)
        sizes: list[int | None] = [None] * len(prepared.files)
        if not dry_run and path is not None:
            sizes = list(prepared.write(on_progress))
        elif not dry_run and stream is not None:
            prepared.write_to(stream.write, on_progress)
        return Export(_transferred(prepared, named, sizes, path, dry_run=dry_run, form=form))


def _keys(plan: Plan) -> list[str]:
    return [tensor.source_key for tensor in plan.tensors]


def _name(
    plan: Plan,
    names: Naming,
    draft: MapDraft | None,
    rules: Sequence[RenameRule],
    *,
    skip_unmatched: bool,
) -> tuple[Plan, Mapping[str, str]]:
    """Return the plan with the layouts, and the names by key, of a draft, a map or neither."""
    if draft is not None:
        if not skip_unmatched:
            draft.require_whole()
        laid_out, named = name_by_map(plan, draft.rules, skip_unmatched=True)
        return replace(laid_out, notes=plan.notes), named
    if rules:
        return name_by_map(plan, rules, skip_unmatched=skip_unmatched)
    named = name_tensors(plan, names)
    return plan.with_notes(*notes_on_names(plan, named)), named


def mapping_misuse(
    *,
    mapped: bool,
    renamed: bool,
    skip_unmatched: bool,
    drafted: bool,
    paired: bool,
    kept: bool,
    dry_run: bool,
) -> str | None:
    """Return why arguments of `export` about maps do not go together, their names in braces.

    Args:
        mapped: whether a map is given.
        renamed: whether other names than object paths are asked for.
        skip_unmatched: whether tensors without a name are left out.
        drafted: whether a table is asked for.
        paired: whether there is a template.
        kept: whether the draft goes to a file.
        dry_run: whether nothing else is written.
    """
    if drafted and not (kept and dry_run):
        return "a draft is for review: {table} needs {write_map} and {dry_run}"
    if kept and not ((drafted or paired) and dry_run):
        return "{write_map} needs {table} or {like}, and {dry_run}"
    if drafted and paired:
        return "{table} is for other frameworks than {like}"
    if (drafted or kept) and mapped:
        return "a draft cannot be combined with {map}"
    if renamed and (mapped or drafted or paired):
        return "the names come from the map; {names} has no say"
    if skip_unmatched and not (mapped or drafted):
        return "{skip_unmatched} needs {map} or {table}"
    return None


def _template_misuse(
    path: str | None, to: str | None, *, like: bool, accept_order: bool, more: bool
) -> str | None:
    keras = path is not None and path.endswith(H5_ENDING)
    if keras and not like:
        return f"a {H5_ENDING} file needs {{like}}, one that the program itself has saved"
    if like and (to is not None or (path is not None and not keras)):
        return f"{{like}} makes a {H5_ENDING} file"
    if accept_order and not like:
        return "{accept_order} needs {like}"
    if like and more:
        return f"a {H5_ENDING} file has only what {{like}} has"
    return None


def exporting_misuse(
    to: str | None,
    path: str | None,
    *,
    streamed: bool,
    dry_run: bool,
    kinds: bool,
    all_kinds: bool,
    strings: bool,
    metadata: bool,
    sharded: bool,
    saturate: bool,
    like: bool,
    accept_order: bool,
) -> str | None:
    """Return why arguments of `export` do not go together, their names in braces.

    Args:
        to: the format that was asked for.
        path: the file to write.
        streamed: whether the bytes go elsewhere.
        dry_run: whether nothing is written.
        kinds: whether kinds are chosen.
        all_kinds: whether all are.
        strings: whether the form of strings is chosen.
        metadata: whether text is given.
        sharded: whether several files may be written.
        saturate: whether a cast is to saturate that is not asked for.
        like: whether there is a template.
        accept_order: whether layers are paired by their order.
    """
    misuse = _template_misuse(
        path, to, like=like, accept_order=accept_order, more=strings or metadata or sharded
    )
    if misuse is not None:
        return misuse
    if path is None and not streamed and not dry_run:
        return "give {output}, or {dry_run}"
    form = FILE_FORMATS.get(to) if to is not None else format_of_path(path or "")
    if form is None and not like and (path is not None or streamed):
        endings = quoted((*(each.ending for each in FILE_FORMATS.values()), H5_ENDING))
        return f"the format is not clear: give {{to}}, or an output that ends in {endings}"
    said = None if path is None else format_of_path(path)
    if form is not None and said not in (form, None):
        return f"an output that ends in '{said.ending}' says something else than {{to}}"
    form = form or SAFETENSORS
    if kinds and all_kinds:
        return "{kinds} and {all_kinds} contradict each other"
    if strings and form is SAFETENSORS:
        return "safetensors has no strings; {strings} is for npz and npy"
    if metadata and not form.metadata:
        return "only safetensors has a place for {metadata}"
    if sharded and not form.shards:
        return "only safetensors can be several files; {max_shard_size} needs it"
    if saturate:
        return "{saturate} needs {cast}"
    if sharded and streamed:
        return "{max_shard_size} needs a file to write"
    return None


def _form(to: str) -> FileFormat:
    require_one_of("to", to, tuple(FILE_FORMATS))
    return FILE_FORMATS[to]


def _transferred(
    prepared: ExportWriter,
    named: Mapping[str, str],
    sizes: list[int | None],
    path: str | None,
    *,
    dry_run: bool,
    form: FileFormat,
) -> Transferred:
    """Return what was done, or would be, as data."""
    plan = prepared.plan
    by_name = {named[tensor.key]: tensor for tensor in plan.tensors}
    files = tuple(
        TransferFile(None if path is None else file.path, size, len(file.tensors))
        for file, size in zip(prepared.files, sizes, strict=True)
    )
    tensors = tuple(
        TransferredTensor(
            by_name[each.name].source_key,
            None if form.one else each.name,
            each.dtype.name,
            each.shape,
            plan.kinds[by_name[each.name].source_key],
            each.size,
            shown.path,
        )
        for file, shown in zip(prepared.files, files, strict=True)
        for each in file.tensors
    )
    source = Source.of(plan.source)
    return Transferred(
        source,
        source.names,
        form.name,
        files,
        prepared.index if path is not None else None,
        tensors,
        prepared.skipped,
        dry_run,
        prepared.notes,
    )
