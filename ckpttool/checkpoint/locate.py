"""Finding the checkpoint that a typed path means.

    a prefix                       tf_ckpts/ckpt-10
    a file of a checkpoint         tf_ckpts/ckpt-10.index, .data-00000-of-00001, .meta
    a folder or its state file     tf_ckpts, tf_ckpts/checkpoint: the latest checkpoint
    a SavedModel                   its folder or saved_model.pb
    a SessionBundle export         its folder, its parent (the highest version), export.meta
    a V1 checkpoint                its file, its shards' prefix or pattern, one of its shards;
                                   PREFIX@v1 where a V2 checkpoint has the same name

Paths are literal, glob characters included.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Literal

from ckpttool.bundle.naming import INDEX_SUFFIX, index_path, split_shard_path
from ckpttool.checkpoint.folder import (
    META_SUFFIX,
    V1_MARK,
    CheckpointFiles,
    Finder,
    FoundFiles,
    file_status,
    find_checkpoint,
    is_regular,
    list_checkpoints,
)
from ckpttool.checkpoint.generation import Generation, table_generation
from ckpttool.checkpoint.nearest import nearest, quoted
from ckpttool.checkpoint.state import STATE_NAME, read_state
from ckpttool.errors import CkptError, FileAccessError, MissingFileError, NotFoundError
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.storage.source import RandomAccessFile

AddressKind = Literal["prefix", "member", "state", "saved_model", "session_bundle"]
SAVED_MODEL_NAMES = ("saved_model.pb", "saved_model.pbtxt")
EXPORT_META = "export.meta"
_MAX_LOOKS = 5
_GRAPH_SUFFIXES = (META_SUFFIX, ".pb", ".pbtxt")
_VERSION = re.compile(r"[0-9]{8}\Z")
_STATE_LINE = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n)*(?:all_)?model_checkpoint_(?:path|timestamp)s?\s*:"
)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a checkpoint is, and how it was found.

    Attributes:
        typed: the path as given.
        prefix: common to the files of the checkpoint.
        generation: "V1" or "V2".
        address: the kind of path that was typed.
        files: the files of a V1 checkpoint in shard order, missing ones included.
        state_path: the state file in the folder of the checkpoint, or the one that was followed.
        folder: the folder, if one or its state file was typed; None for a single checkpoint.
        saved_model: the folder of the SavedModel that the checkpoint belongs to.
        meta_path: the file with its MetaGraphs: the `.meta` file beside it or the SavedModel's.
        warnings: for the user, about the way it was found.
    """

    typed: str
    prefix: str
    generation: Generation
    address: AddressKind
    files: tuple[str, ...] = ()
    state_path: str | None = None
    folder: str | None = None
    saved_model: str | None = None
    meta_path: str | None = None
    warnings: tuple[str, ...] = ()


def locate(path: StrPath, *, within: bool = False) -> Location:
    """Return the checkpoint that `path` means.

    Args:
        path: as typed.
        within: of a folder take only a checkpoint in it, for changes in place: if the state file
            names another, the one of the same name in the folder.

    Raises:
        MissingFileError: there is none; the message gives the reason and the nearest name.
        NotFoundError: the path leads to a file or folder that is no checkpoint, or whose
            state file names a missing one.
        FileAccessError: something on the way cannot be read or is not a regular file.
        CorruptError: a state file is malformed.
    """
    typed = path_text(path)
    if not typed:
        raise MissingFileError("an empty path names no checkpoint")
    status = file_status(typed)
    is_folder = status is not None and stat.S_ISDIR(status.st_mode)
    if not typed.endswith(os.sep) and file_status(index_path(typed)) is not None:
        return _location(typed, FoundFiles(typed, "V2"), "prefix", warnings=_namesakes(typed))
    if is_folder:
        return _in_folder(typed, within=within)
    if status is not None:
        return _from_file(typed, regular=stat.S_ISREG(status.st_mode), within=within)
    found = find_checkpoint(typed)
    if found is None:
        raise _missing(typed)
    return _location(typed, found, "prefix")


def location_of(files: CheckpointFiles) -> Location:
    """Return the location of a checkpoint found by `list_checkpoints`, without a new search."""
    found = FoundFiles(files.prefix, files.generation, files.files)
    return _location(files.address, found, "prefix")


def _namesakes(prefix: str) -> tuple[str, ...]:
    """Return a note about a folder or V1 file with the name of a V2 checkpoint."""
    status = file_status(prefix)
    if status is None:
        return ()
    if stat.S_ISDIR(status.st_mode):
        return (f"the folder of the same name is meant by '{prefix}{os.sep}'",)
    if stat.S_ISREG(status.st_mode) and table_generation(prefix) == "V1":
        return (f"a file of format V1 has the same name; it is meant by '{prefix}{V1_MARK}'",)
    return ()


def leads_elsewhere(location: Location) -> bool:
    """Tell whether a folder was typed and the checkpoint lies in another one."""
    asked = location.typed if os.path.isdir(location.typed) else location.folder
    return location.folder is not None and _is_outside(location.prefix, asked or os.curdir)


def saved_model_of(prefix: str) -> str | None:
    """Return the SavedModel folder whose variables are the checkpoint at `prefix`."""
    variables, name = os.path.split(os.path.abspath(prefix))
    if name != "variables" or os.path.basename(variables) != "variables":
        return None
    folder = os.path.dirname(variables)
    if not _saved_model_file(folder):
        return None
    given = os.path.dirname(os.path.dirname(prefix))  # the caller's spelling, if it has these parts
    return given if os.path.join(given, "variables", "variables") == prefix else folder


def is_graph_file(path: str) -> bool:
    """Tell by its name whether a path is a file with a graph."""
    return path.endswith(_GRAPH_SUFFIXES) and is_regular(path)


def has_graph_file(folder: str) -> bool:
    """Tell whether a path is a SavedModel's folder."""
    return _saved_model_file(folder) is not None


def _location(
    typed: str,
    found: FoundFiles,
    address: AddressKind,
    *,
    folder: str | None = None,
    state_path: str | None = None,
    warnings: tuple[str, ...] = (),
) -> Location:
    if state_path is None and address in ("prefix", "member"):
        beside = os.path.join(os.path.dirname(found.prefix), STATE_NAME)
        state_path = beside if is_regular(beside) else None
    saved_model = saved_model_of(found.prefix) if found.generation == "V2" else None
    meta: str | None = found.prefix + META_SUFFIX
    if not is_regular(found.prefix + META_SUFFIX):
        meta = _saved_model_file(saved_model) if saved_model is not None else None
    return Location(
        typed=typed,
        prefix=found.prefix,
        generation=found.generation,
        address=address,
        files=found.files,
        state_path=state_path,
        folder=folder,
        saved_model=saved_model,
        meta_path=meta,
        warnings=warnings,
    )


def _from_file(typed: str, *, regular: bool, within: bool) -> Location:
    folder, name = os.path.split(typed)
    if not regular:
        raise FileAccessError("not a regular file", path=typed)
    if name in SAVED_MODEL_NAMES:
        return _saved_model(typed, folder)
    if name == EXPORT_META:
        return _session_bundle(typed, folder)
    if name.endswith(INDEX_SUFFIX):
        return _location(typed, FoundFiles(typed[: -len(INDEX_SUFFIX)], "V2"), "member")
    shard = split_shard_path(typed)
    stem = shard[0] if shard else typed.removesuffix(META_SUFFIX)
    if stem != typed:
        found = find_checkpoint(stem)
        if found is None:
            raise MissingFileError(
                f"{'a data shard' if shard else 'a MetaGraph'} without its checkpoint: there is"
                f" no '{index_path(stem)}'",
                path=typed,
            )
        return _location(typed, found, "member")
    if name == STATE_NAME or _looks_like_state(typed):
        return _by_state(typed, typed, within=within)
    generation = table_generation(typed)
    if generation == "V1":
        found = find_checkpoint(typed)
        if found is not None:
            return _location(typed, found, "prefix" if found.prefix == typed else "member")
    if generation == "V2":
        raise NotFoundError(
            f"the index of a checkpoint, but its name does not end in '{INDEX_SUFFIX}', so"
            " its data shards cannot be told",
            path=typed,
        )
    raise NotFoundError(f"not a file of a checkpoint{_hint(typed)}", path=typed)


def _in_folder(typed: str, *, within: bool) -> Location:
    if is_regular(os.path.join(typed, EXPORT_META)):
        # Its state file is left from the export and names a removed folder.
        return _session_bundle(typed, typed)
    state_path = os.path.join(typed, STATE_NAME)
    if is_regular(state_path):
        return _by_state(typed, state_path, within=within)
    if _saved_model_file(typed):
        return _saved_model(typed, typed)
    variables = find_checkpoint(os.path.join(typed, "variables"))
    saved_model = saved_model_of(variables.prefix) if variables else None
    if variables and saved_model:
        return _location(typed, variables, "saved_model", folder=saved_model)
    exports = _exports(typed)
    if exports:
        return _session_bundle(typed, os.path.join(typed, exports[-1]))
    raise MissingFileError(f"no '{STATE_NAME}' file in the folder{_folder_hint(typed)}", path=typed)


def _saved_model(typed: str, folder: str) -> Location:
    found = find_checkpoint(os.path.join(folder, "variables", "variables"))
    if found is None:
        raise MissingFileError("a SavedModel without variables", path=typed)
    return _location(typed, found, "saved_model", folder=folder or os.curdir)


def _session_bundle(typed: str, folder: str) -> Location:
    found = find_checkpoint(os.path.join(folder, "export"))
    if found is None:
        raise MissingFileError("a SessionBundle export without a checkpoint", path=typed)
    return _location(typed, found, "session_bundle", folder=folder or os.curdir)


def _by_state(typed: str, state_path: str, *, within: bool) -> Location:
    folder = os.path.dirname(state_path)
    state = read_state(state_path)
    for _ in range(_MAX_LOOKS):
        named = state.model_checkpoint_path
        if not named:
            raise NotFoundError("the state file names no checkpoint", path=state_path)
        found, path = Finder().find_named(folder, named)
        if found is not None:
            break
        # A trainer may have written a new state file since, and then removed the old checkpoint.
        before, state = state, read_state(state_path)
        if state == before:
            break
    if found is None:
        raise MissingFileError(
            f"names '{named}', which does not exist{_folder_hint(folder)}", path=state_path
        )
    outside = _is_outside(found.prefix, folder)
    if within and outside:
        path = os.path.basename(path)
        found = find_checkpoint(os.path.join(folder, path))
        if found is None:
            reason = f"names '{named}', which lies outside of its folder; name it to change it"
            raise NotFoundError(reason, path=state_path)
    warnings: list[str] = []
    if path != named:
        why = "lies outside of its folder" if within and outside else "does not exist"
        where = "of that name beside it" if os.sep not in path else f"'{path}'"
        warnings.append(
            f"'{state_path}' names '{named}', which {why}; the checkpoint {where} was taken"
        )
    elif outside:
        warnings.append(f"'{state_path}' names '{named}', which lies outside of its folder")
    if state.marked:
        warnings.append(f"'{state_path}' begins with a byte order mark; TensorFlow cannot read it")
    if found.generation == "V2":
        warnings += _namesakes(found.prefix)
    return _location(
        typed,
        found,
        "state",
        folder=folder or os.curdir,
        state_path=state_path,
        warnings=tuple(warnings),
    )


def _is_outside(prefix: str, folder: str) -> bool:
    home = os.path.realpath(folder)
    return os.path.commonpath([home, os.path.realpath(os.path.dirname(prefix))]) != home


def _saved_model_file(folder: str) -> str | None:
    paths = (os.path.join(folder, name) for name in SAVED_MODEL_NAMES)
    return next(filter(is_regular, paths), None)


def _exports(folder: str) -> list[str]:
    """Return the SessionBundle versions in a folder, the highest last."""
    return sorted(
        name
        for name in _names(folder)
        if _VERSION.match(name) and is_regular(os.path.join(folder, name, EXPORT_META))
    )


def _looks_like_state(path: str) -> bool:
    with RandomAccessFile(path) as file:
        return bool(_STATE_LINE.match(file.read_at(0, min(file.size, 4096))))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or os.curdir)
    except (OSError, ValueError):
        return []


def _checkpoint_names(folder: str) -> list[str]:
    try:
        return [files.name for files in list_checkpoints(folder)]
    except CkptError:
        return []


def _folder_hint(folder: str) -> str:
    """Return a hint with the names to type in a folder."""
    names = _checkpoint_names(folder)
    if names:
        more = "" if len(names) <= 5 else f" and {len(names) - 5} more"
        shown = quoted(os.path.join(folder, name) for name in names[:5])
        return f"; name a checkpoint: {shown}{more}"
    models = [name for name in _names(folder) if _saved_model_file(os.path.join(folder, name))]
    if models:
        shown = quoted(os.path.join(folder, name) for name in sorted(models)[:5])
        return f"; name a SavedModel: {shown}"
    return "; the folder has no checkpoint"


def _hint(typed: str) -> str:
    """Return a hint with the checkpoint or folder of the nearest name."""
    folder, name = os.path.split(typed.rstrip(os.sep))
    if not os.path.isdir(folder or os.curdir):
        parent, _ = os.path.split(folder)
        near = nearest(os.path.basename(folder), _folders(parent), limit=1)
        return f"; nearest: {quoted(os.path.join(parent, each) for each in near)}" if near else ""
    checkpoints = _checkpoint_names(folder)
    shard = split_shard_path(name)
    stem = shard[0] if shard else re.sub(r"(?:\.index|\.meta|\.data[-0-9of]*|\.)\Z", "", name)
    near = [stem] if stem in checkpoints else []
    near = near or nearest(name, [*checkpoints, *_folders(folder)], limit=3)
    if near:
        return f"; nearest: {quoted(os.path.join(folder, each) for each in near)}"
    if checkpoints:
        return f"; the folder has {quoted(checkpoints[:5])}"
    return ""


def _folders(folder: str) -> list[str]:
    return [name for name in _names(folder) if os.path.isdir(os.path.join(folder, name))]


def _missing(typed: str) -> MissingFileError:
    folder, name = os.path.split(typed)
    names = _names(folder)
    if any((split := split_shard_path(each)) and split[0] == name for each in names):
        reason = f"its data shards exist, but its index '{name}{INDEX_SUFFIX}' does not"
    elif f"{name}_temp" in names or any(each.startswith(f"{name}_temp_") for each in names):
        reason = f"no such checkpoint: saving it was begun ('{name}_temp…') but not finished"
    elif not os.path.isdir(folder or os.curdir):
        reason = f"there is no folder '{folder}'"
    else:
        reason = "no such checkpoint, file or folder"
    return MissingFileError(reason + _hint(typed), path=typed)
