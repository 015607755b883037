"""Converting a graph file to JSON, text or bytes, and back."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ckpttool.bundle.naming import INDEX_SUFFIX, split_shard_path
from ckpttool.checkpoint.folder import META_SUFFIX, file_status, is_regular
from ckpttool.checkpoint.generation import table_generation
from ckpttool.checkpoint.locate import EXPORT_META, SAVED_MODEL_NAMES, locate
from ckpttool.checkpoint.state import STATE_NAME
from ckpttool.errors import (
    CorruptError,
    DestinationError,
    NotFoundError,
    UnsupportedError,
)
from ckpttool.metagraph.document import (
    GraphDocument,
    JsonForm,
    Loss,
    is_saved_model_name,
)
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staged_file import StagedFile
from ckpttool.storage.staging import StagedFiles

GraphForm = Literal["json", "pbtxt", "pb"]
GRAPH_FORMS: tuple[GraphForm, ...] = ("json", "pbtxt", "pb")
_SPLIT_MODEL = "saved_model.cpb"
_SLICE = 1 << 22


@dataclass(frozen=True, slots=True)
class GraphAddress:
    """The file of a graph, and warnings for the user about the way it was found."""

    path: str
    warnings: tuple[str, ...] = ()


def find_graph(typed: str) -> GraphAddress:
    """Return the graph file that a path means.

    Args:
        typed: a graph file, the folder of a SavedModel or of a SessionBundle export, or anything
            that names a checkpoint with a graph beside it.

    Raises:
        MissingFileError: there is nothing of that name.
        NotFoundError: the checkpoint has no graph.
        UnsupportedError: a SavedModel that was split into chunks.
    """
    status = file_status(typed)
    if status is None and is_regular(typed + META_SUFFIX):
        return GraphAddress(typed + META_SUFFIX)
    if status is not None and stat.S_ISDIR(status.st_mode):
        for name in (EXPORT_META, *SAVED_MODEL_NAMES):
            if is_regular(os.path.join(typed, name)):
                return GraphAddress(os.path.join(typed, name))
        if is_regular(os.path.join(typed, _SPLIT_MODEL)):
            raise UnsupportedError(
                "a SavedModel split into chunks; only TensorFlow can put it together",
                path=os.path.join(typed, _SPLIT_MODEL),
            )
    elif status is not None and not _is_of_checkpoint(typed):
        return GraphAddress(typed)
    location = locate(typed)
    if location.meta_path is None:
        raise NotFoundError(
            f"a checkpoint without a MetaGraph: there is no '{location.prefix}{META_SUFFIX}'",
            path=typed,
        )
    return GraphAddress(location.meta_path, location.warnings)


def _is_of_checkpoint(path: str) -> bool:
    """Tell whether a path means a checkpoint and is not a graph file."""
    name = os.path.basename(path)
    if name.endswith(META_SUFFIX):
        return False
    if name == STATE_NAME or name.endswith(INDEX_SUFFIX) or split_shard_path(path) is not None:
        return True
    return table_generation(path) is not None


def choose_graph(
    document: GraphDocument,
    *,
    tags: Sequence[str] | None = None,
    whole: bool = False,
    fields: Sequence[str] = (),
) -> GraphDocument:
    """Return part of a graph file.

    Args:
        document: the whole file.
        tags: of the MetaGraph of a SavedModel, in any order; None for the only one.
        whole: keep the whole SavedModel.
        fields: the fields of the MetaGraph; all by default.

    Raises:
        SelectionError: there is no such MetaGraph, more than one, or no such field.
    """
    chosen = document if whole else document.choose(tags)
    return chosen.select(fields) if fields else chosen


def write_graph(
    document: GraphDocument,
    form: GraphForm,
    write: Callable[[bytes], object],
    json_form: JsonForm | None = None,
) -> tuple[Loss, ...]:
    """Write a graph in pieces.

    Args:
        document: the graph.
        form: "json", "pbtxt" for protobuf's text, or "pb" for its bytes.
        write: takes the pieces.
        json_form: how to write JSON.

    Returns:
        What this form lacks, or has in another form.
    """
    if form == "pb":
        _in_slices(document.data(), write)
        return ()
    if form == "pbtxt":
        _in_slices(document.text().encode(), write)
        return document.text_losses()
    found = document.write_json(
        lambda piece: write(piece.encode("ascii")), JsonForm() if json_form is None else json_form
    )
    write(b"\n")
    return found


def losses(document: GraphDocument, form: GraphForm, json_form: JsonForm) -> tuple[Loss, ...]:
    """Return the losses of `write_graph` without writing."""
    if form == "pb":
        return ()
    return document.text_losses() if form == "pbtxt" else document.json_losses(json_form)


def save_graph(
    document: GraphDocument,
    form: GraphForm,
    path: str,
    json_form: JsonForm | None = None,
    *,
    force: bool = False,
) -> tuple[Loss, ...]:
    """Write a graph to a file, which appears when it is complete.

    A MetaGraph becomes a SavedModel if the file has the name of one.

    Args:
        document: the graph.
        form: as in `write_graph`, like the result.
        path: of the file; its folder must exist.
        json_form: how to write JSON.
        force: replace an existing file.

    Raises:
        DestinationError: the file exists, or is the one that was read.
        FileAccessError: it cannot be written.
    """
    _check_destination(document.path, path, force=force)
    if form != "json" and is_saved_model_name(path):
        document = document.as_saved_model()
    with StagedFiles() as files:
        staged = files.create(path)
        digest = hashlib.sha256()

        def write(data: bytes) -> None:
            digest.update(data)
            staged.write(data)

        found = write_graph(document, form, write, json_form)
        files.commit(replace_last=force, before_last=lambda: _read_back(staged, digest.hexdigest()))
    return found


def _read_back(staged: StagedFile, expected: str) -> None:
    # By path, as any reader will: another file in its place gives another sum.
    digest = hashlib.sha256()
    with RandomAccessFile(staged.temporary) as file:
        for piece in file.chunks(0, file.size):
            digest.update(piece)
    if digest.hexdigest() != expected:
        raise CorruptError("the file does not read back as written", path=staged.path)


def _check_destination(source: str, path: str, *, force: bool) -> None:
    if os.path.isdir(path):
        raise DestinationError("it is a folder", path=path)
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(source, path):
        raise DestinationError("it is the file that is read", path=path)
    if os.path.lexists(path) and not force:
        raise DestinationError("already exists; use --force to replace it", path=path)


def _in_slices(data: bytes, write: Callable[[bytes], object]) -> None:
    for start in range(0, len(data), _SLICE):
        write(data[start : start + _SLICE])
