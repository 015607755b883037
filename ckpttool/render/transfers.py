"""Tensors written to files of other formats, or taken from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO, cast

from ckpttool.query.source import Source, TensorNames
from ckpttool.render import humanize
from ckpttool.render.cells import Column, kind_style
from ckpttool.render.console import Terminal
from ckpttool.render.jsonout import source_document, write_json, write_jsonl
from ckpttool.render.names import NameColumns
from ckpttool.render.surgery import outcome, receipt_document
from ckpttool.render.table import RowFormat, write_rows
from ckpttool.surgery.writing.receipt import Receipt
from ckpttool.tensor.shape import Shape

_STORED_NAME = Column("stored_name", "in the file", fold=True, style="green")
_DTYPE = Column("dtype")
_SHAPE = Column("shape", human=humanize.shape)
_KIND = Column("kind", style=kind_style)
_BYTES = Column("bytes", align="right", human=humanize.size)
_FILE = Column("file", fold=True)


@dataclass(frozen=True, slots=True)
class TransferredTensor:
    """A tensor that goes from a checkpoint to a file of another format, or from one.

    Attributes:
        key: in the checkpoint.
        stored_name: in the other file; None where that has none.
        dtype: as it is written.
        shape: as it is written.
        kind: in the checkpoint.
        bytes: of its elements, as they are written.
        file: path of the other file; None where it was not said.
    """

    key: str
    stored_name: str | None
    dtype: str
    shape: Shape
    kind: str
    bytes: int | None
    file: str | None


@dataclass(frozen=True, slots=True)
class TransferFile:
    """A file of another format.

    Attributes:
        path: of the file; None where it was not said.
        bytes: its size; None if it was not written.
        tensors: how many it holds.
    """

    path: str | None
    bytes: int | None
    tensors: int


@dataclass(frozen=True, slots=True)
class Transferred:
    """What an export or an import wrote, or would write.

    Attributes:
        source: what was read.
        names: the names of tensors in the checkpoint.
        format: name of the other format.
        files: the files of the other format.
        index: path of the index of several files.
        tensors: by name.
        skipped: names of tensors that are left out, and the reasons.
        dry_run: whether nothing was written.
        notes: for the user.
        destination: of an import: prefix of the checkpoint; None where it was not said.
        receipt: of an import: what was written; None for a dry run.
    """

    source: Source
    names: TensorNames
    format: str
    files: tuple[TransferFile, ...]
    index: str | None
    tensors: tuple[TransferredTensor, ...]
    skipped: tuple[tuple[str, str], ...]
    dry_run: bool
    notes: tuple[str, ...]
    destination: str | None = None
    receipt: Receipt | None = None

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return sum(tensor.bytes or 0 for tensor in self.tensors)


def transfer_document(done: Transferred, command: str) -> dict[str, object]:
    """Return an export or an import as a JSON object.

    Args:
        done: the export or import.
        command: its name, for the schema.
    """
    written: dict[str, object] = {"index": done.index}
    if command == "import":
        receipt = done.receipt
        written = {
            "destination": done.destination,
            "written": None if receipt is None else receipt_document(receipt),
        }
    return {
        "schema": f"ckpt.{command}/1",
        "source": source_document(done.source),
        "dry_run": done.dry_run,
        "format": done.format,
        "files": [
            {"path": each.path, "bytes": each.bytes, "tensors": each.tensors} for each in done.files
        ],
        **written,
        "tensors": (_tensor_document(each, done.names) for each in done.tensors),
        "skipped": [{"stored_name": name, "reason": reason} for name, reason in done.skipped],
        "totals": {"tensors": len(done.tensors), "bytes": done.bytes},
        "notes": list(done.notes),
    }


def write_transfer(
    done: Transferred,
    command: str,
    format: str,
    stream: TextIO,
    terminal: Terminal,
    *,
    by_key: bool = False,
) -> None:
    """Write a row for each tensor.

    Args:
        done: the export or import.
        command: its name, for the JSON schema.
        format: "json" or one of the row formats.
        stream: where to.
        terminal: what `stream` is.
        by_key: show keys instead of object paths and variable names.
    """
    if format == "json":
        write_json(transfer_document(done, command), stream)
        return
    if format == "jsonl":
        write_jsonl((_tensor_document(each, done.names) for each in done.tensors), stream)
        return
    rows = [done.names.row(each.key) for each in done.tensors]
    names = NameColumns(rows, by_key=by_key)
    first = {tensor.key: names.shown(row) for tensor, row in zip(done.tensors, rows, strict=True)}
    several = len(done.files) > 1
    renamed = any(each.stored_name != first[each.key] for each in done.tensors)
    # People need no column that says the same in every row, or nothing new.
    human = format in ("table", "markdown")
    columns: tuple[Column, ...] = names.columns
    if renamed or not human:
        columns += (_STORED_NAME,)
    columns += (_DTYPE, _SHAPE, _KIND, _BYTES)
    if several or not human:
        columns += (_FILE,)

    def cells() -> Iterator[Sequence[object]]:
        for tensor, row in zip(done.tensors, rows, strict=True):
            stored = (tensor.stored_name,) if renamed or not human else ()
            file = (tensor.file,) if several or not human else ()
            facts = (tensor.dtype, tensor.shape, tensor.kind, tensor.bytes)
            yield (*names.cells(row), *stored, *facts, *file)

    write_rows(cells(), columns, cast(RowFormat, format), stream, terminal=terminal)


def transfer_line(done: Transferred) -> str:
    """Return in one line what was written, or would be."""
    what = f"{humanize.counted(len(done.tensors), 'tensor')}, {humanize.size(done.bytes)}"
    if len(done.files) > 1:
        what += f", in {len(done.files)} files"
    if done.dry_run:
        return f"{what}; dry run, nothing was written"
    where = done.index or done.files[0].path
    return what if where is None else f"wrote {where}: {what}"


def import_line(done: Transferred) -> str:
    """Return in one line what an import wrote, or would write."""
    what = f"{humanize.counted(len(done.tensors), 'tensor')}, {humanize.size(done.bytes)}"
    return f"{what}; {outcome(done.receipt, done.destination)}"


def _tensor_document(tensor: TransferredTensor, names: TensorNames) -> Mapping[str, object]:
    return {
        "key": tensor.key,
        **names.members(tensor.key),
        "stored_name": tensor.stored_name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "kind": tensor.kind,
        "bytes": tensor.bytes,
        "file": tensor.file,
    }
