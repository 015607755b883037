"""Finding the checkpoint that a typed path means.

    a prefix                       tf_ckpts/ckpt-10
    a file of a checkpoint         tf_ckpts/ckpt-10.index, .data-00000-of-00001, .meta
    a folder or its state file     tf_ckpts, tf_ckpts/checkpoint: the latest checkpoint; without a
                                   state file the highest step, or the newest of several names
    a SavedModel                   its folder, the parent of its versions (the highest), or
                                   saved_model.pb
    a SessionBundle export         its folder, the parent of its versions, export.meta
    a file of arrays               safetensors, .npz or .npy; the list of several files of
                                   safetensors; a folder that has only one of these
    a V1 checkpoint                its file, its shards' prefix or pattern, one of its shards;
                                   PREFIX@v1 where a V2 checkpoint has the same name

Paths are literal, glob characters included.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, replace
from itertools import islice
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
    folders_with_checkpoints,
    have_one_name,
    is_regular,
    list_checkpoints,
    oldest_first,
)
from ckpttool.checkpoint.generation import SourceFormat, table_generation
from ckpttool.checkpoint.nearest import listed, nearest, quoted
from ckpttool.checkpoint.state import STATE_NAME, read_state
from ckpttool.errors import CkptError, FileAccessError, MissingFileError, NotFoundError
from ckpttool.interchange.naming import (
    ArrayFormat,
    array_files,
    format_by_content,
    format_by_name,
)
from ckpttool.storage.paths import StrPath, lies_in, path_text
from ckpttool.storage.source import RandomAccessFile

AddressKind = Literal[
    "prefix", "member", "state", "folder", "saved_model", "session_bundle", "arrays"
]
SAVED_MODEL_NAMES = ("saved_model.pb", "saved_model.pbtxt")
EXPORT_META = "export.meta"
NO_VARIABLES = "the SavedModel has no variables"
_MAX_LOOKS = 5
_MOST_BELOW = 20
_GRAPH_SUFFIXES = (META_SUFFIX, ".pb", ".pbtxt")
_VERSION = re.compile(r"[0-9]{1,19}\Z")
_REMOTE = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_STATE_LINE = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n)*(?:all_)?model_checkpoint_(?:path|timestamp)s?\s*:"
)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a checkpoint is, and how it was found.

    Attributes:
        typed: the path as given.
        prefix: common to the files of the checkpoint; of arrays the file, or the list of files.
        generation: "V1" or "V2", or the format of a file of arrays.
        address: the kind of path that was typed.
        files: the files of a V1 checkpoint in shard order, missing ones included.
        state_path: the state file in the folder of the checkpoint, or the one that was followed.
        folder: the folder, if one or its state file was typed; None for a single checkpoint.
        saved_model: the folder of the SavedModel that the checkpoint belongs to.
        meta_path: the file with its MetaGraphs: the `.meta` file beside it or the SavedModel's.
        warnings: for the user, about the way it was found.
        bare: whether it is a SavedModel without variables: there are no files at `prefix`.
    """

    typed: str
    prefix: str
    generation: SourceFormat
    address: AddressKind
    files: tuple[str, ...] = ()
    state_path: str | None = None
    folder: str | None = None
    saved_model: str | None = None
    meta_path: str | None = None
    warnings: tuple[str, ...] = ()
    bare: bool = False


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
        raise MissingFileError("the path is empty")
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
    if not graph_file_of(folder):
        return None
    given = os.path.dirname(os.path.dirname(prefix))  # the caller's spelling, if it has these parts
    return given if os.path.join(given, "variables", "variables") == prefix else folder


def is_graph_file(path: str) -> bool:
    """Tell by its name whether a path is a file with a graph."""
    return path.endswith(_GRAPH_SUFFIXES) and is_regular(path)


def graph_file_of(folder: str) -> str | None:
    """Return the graph file of a SavedModel; None where a folder has none."""
    paths = (os.path.join(folder, name) for name in SAVED_MODEL_NAMES)
    return next(filter(is_regular, paths), None)


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
        meta = graph_file_of(saved_model) if saved_model is not None else None
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
    arrays = format_by_name(typed)
    if arrays is not None:
        return _arrays(typed, typed, arrays)
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
            " its data shards cannot be found",
            path=typed,
        )
    return _other_file(typed)


def _other_file(typed: str) -> Location:
    """Return the location of a file of arrays whose name does not tell; say what others are."""
    arrays = format_by_content(typed)
    if arrays is not None:
        return _arrays(typed, typed, arrays)
    from ckpttool.storage.foreign import foreign_file

    foreign = foreign_file(typed)
    if foreign is not None:
        raise NotFoundError(f"not a checkpoint: it is {foreign}", path=typed)
    raise NotFoundError(f"not a file of a checkpoint{_hint(typed)}", path=typed)


def _in_folder(typed: str, *, within: bool) -> Location:
    if is_regular(os.path.join(typed, EXPORT_META)):
        # Its state file is left from the export and names a removed folder.
        return _session_bundle(typed, typed)
    state_path = os.path.join(typed, STATE_NAME)
    if is_regular(state_path):
        return _by_state(typed, state_path, within=within)
    if graph_file_of(typed):
        return _saved_model(typed, typed)
    variables = find_checkpoint(os.path.join(typed, "variables"))
    saved_model = saved_model_of(variables.prefix) if variables else None
    if variables and saved_model:
        return _location(typed, variables, "saved_model", folder=saved_model)
    checkpoints = list_checkpoints(typed)
    if checkpoints:
        if is_regular(state_path):  # written since, by whoever saved what is listed
            return _by_state(typed, state_path, within=within)
        return _without_state(typed, checkpoints)
    versions = _versions(typed)
    if versions:
        return _version(typed, versions)
    files = array_files(typed)
    if len(files) == 1 and (arrays := format_by_name(files[0])):
        return _arrays(typed, os.path.join(typed, files[0]), arrays)
    if files and not _checkpoints_below(typed):
        names = listed(os.path.join(typed, name) for name in files)
        raise NotFoundError(f"several files of arrays in the folder; name one: {names}", path=typed)
    raise MissingFileError(f"no checkpoint in the folder{_folder_hint(typed)}", path=typed)


def _arrays(typed: str, path: str, arrays: ArrayFormat) -> Location:
    """Return the location of a file of arrays."""
    folder = typed if typed != path else None
    return Location(typed, path, arrays, "arrays", files=(path,), folder=folder)


def _checkpoints_below(folder: str) -> list[str]:
    return list(islice(folders_with_checkpoints(folder), _MOST_BELOW))


def _without_state(typed: str, checkpoints: list[CheckpointFiles]) -> Location:
    """Choose from the checkpoints of a folder that has no state file.

    Of one name the highest step is taken, of several names what was saved last.
    """
    *others, chosen = oldest_first(checkpoints)
    others.reverse()
    warnings: tuple[str, ...] = ()
    if others:
        which = "highest step" if have_one_name(checkpoints) else "newest checkpoint"
        rest = listed(os.path.basename(files.address) for files in others)
        name = os.path.basename(chosen.address)
        warnings = (f"'{typed}' has no state file; took the {which}, '{name}', not {rest}",)
    found = FoundFiles(chosen.prefix, chosen.generation, chosen.files)
    return _location(typed, found, "folder", folder=typed, warnings=warnings)


def _version(typed: str, versions: list[str]) -> Location:
    """Return the highest of several versions of a SavedModel or SessionBundle export."""
    folder = os.path.join(typed, versions[-1])
    is_export = is_regular(os.path.join(folder, EXPORT_META))
    location = (_session_bundle if is_export else _saved_model)(typed, folder)
    if len(versions) == 1:
        return location
    warning = f"took the highest version, '{versions[-1]}', not {listed(versions[-2::-1])}"
    return replace(location, warnings=(warning, *location.warnings))


def _saved_model(typed: str, folder: str) -> Location:
    found = find_checkpoint(os.path.join(folder, "variables", "variables"))
    if found is None:
        variables = os.path.join(folder, "variables")
        if any(split_shard_path(name) for name in _names(variables)):
            raise MissingFileError(
                "the SavedModel has data shards, but no 'variables.index'", path=typed
            )
        graph = graph_file_of(folder)
        return Location(
            typed,
            prefix=os.path.join(variables, "variables"),
            generation="V2",
            address="saved_model",
            folder=folder or os.curdir,
            saved_model=folder or os.curdir,
            meta_path=graph,
            warnings=(NO_VARIABLES, *_stand_in(graph)),
            bare=True,
        )
    return _location(typed, found, "saved_model", folder=folder or os.curdir)


def _stand_in(graph: str | None) -> tuple[str, ...]:
    """Return a warning if the graph of a SavedModel is only a pointer to it."""
    from ckpttool.storage.foreign import foreign_file

    found = None if graph is None else foreign_file(graph)
    return () if found is None else (f"'{graph}' is {found}",)


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
            f"names '{named}', which does not exist"
            + (_folder_hint(folder) or "; the folder has no checkpoint"),
            path=state_path,
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
            f"'{state_path}' names '{named}', which {why}; using the checkpoint {where}"
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
    return not lies_in(os.path.dirname(prefix), folder)


def _versions(folder: str) -> list[str]:
    """Return the versions of a SavedModel or SessionBundle export in a folder, the highest last."""
    return sorted(
        (
            name
            for name in _names(folder)
            if _VERSION.match(name)
            and (
                is_regular(os.path.join(folder, name, EXPORT_META))
                or graph_file_of(os.path.join(folder, name))
            )
        ),
        key=lambda name: (int(name), name),
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
        return f"; name a checkpoint: {listed(os.path.join(folder, name) for name in names)}"
    below = _checkpoints_below(folder)
    if below:
        return f"; name one of the folders below it: {listed(below)}"
    from ckpttool.storage.foreign import foreign_folder

    foreign = foreign_folder(folder)
    return f"; it is {foreign}" if foreign else ""


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
    arrays = list(filter(format_by_name, _names(folder)))
    near = near or nearest(name, [*checkpoints, *_folders(folder), *arrays], limit=3)
    if near:
        return f"; nearest: {quoted(os.path.join(folder, each) for each in near)}"
    if checkpoints:
        return f"; the folder has {quoted(checkpoints[:5])}"
    return ""


def _folders(folder: str) -> list[str]:
    return [name for name in _names(folder) if os.path.isdir(os.path.join(folder, name))]


def _missing(typed: str) -> NotFoundError:
    remote = _REMOTE.match(typed)
    if remote:
        return NotFoundError(
            f"an address of {remote[1]}://, and only local files can be read; copy the checkpoint"
            " here first (the .index file is enough to list it)",
            path=typed,
        )
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
