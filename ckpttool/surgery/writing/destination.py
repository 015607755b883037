"""Where a checkpoint may be written."""

from __future__ import annotations

import os

from ckpttool.bundle.naming import INDEX_SUFFIX, find_shards, index_path
from ckpttool.checkpoint.folder import META_SUFFIX, find_checkpoint
from ckpttool.checkpoint.generation import Generation
from ckpttool.checkpoint.locate import leads_elsewhere
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.errors import DestinationError, MissingFileError, SurgeryError
from ckpttool.storage.temporary import new_tag
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.legacy.old_files import old_files


def destination_prefix(typed: str) -> str:
    """Return the prefix for the typed name of a new checkpoint or of its index."""
    return typed.removesuffix(INDEX_SUFFIX)


def unused_place(path: str) -> str:
    """Return an unused path beside a file or folder, to check plans without a destination."""
    folder = os.path.dirname(os.path.realpath(path))
    return os.path.join(folder, f".{new_tag()}")


def check_destination(plan: Plan, prefix: str, *, generation: Generation, force: bool) -> None:
    """Refuse a place where a plan must not be written.

    Args:
        plan: the plan.
        prefix: the destination.
        generation: the format to write.
        force: whether an existing checkpoint may be replaced.

    Raises:
        DestinationError: something exists there, or it is the source itself.
        MissingFileError: there is no folder to write to.
    """
    check_location(prefix, "add a name for the checkpoint")
    bundle = [path for path in (index_path(prefix), *find_shards(prefix)) if os.path.lexists(path)]
    legacy = _legacy_at(prefix)
    there = bundle if generation == "V2" else [*bundle, *legacy]
    # Of many checkpoints in a folder each would list it again.
    own = _files_of(plan.source) if there else []
    for path in there:
        if any(_same_name(path, other) for other in own) or _same_file(path, own[0]):
            raise DestinationError("shares a file with the source", path=path)
        for source in plan.read[1:]:
            if any(_same_name(path, other) for other in _files_of(source)):
                raise DestinationError("its values are read", path=path)
    # A bundle may get the name of its V1 source: they share no file.
    present = [*bundle, *old_files(plan, prefix).files]
    meta = prefix + META_SUFFIX
    if os.path.lexists(meta) and not _same_name(meta, plan.source.prefix + META_SUFFIX):
        present.append(meta)
    if present and not force:
        raise DestinationError("already exists", path=present[0])
    if generation == "V1" and bundle:
        raise DestinationError(
            "TensorFlow would find a checkpoint of format V2 instead", path=prefix
        )


def check_location(path: str, hint: str) -> None:
    """Refuse a path that cannot be that of a file, and one in a folder that cannot be made.

    Args:
        path: where something is to be written.
        hint: what to do if it is a folder.

    Raises:
        DestinationError: it is a folder, or in something that is none.
        MissingFileError: not even the folder above its own is there.
    """
    folder = os.path.dirname(path)
    if not path:
        raise DestinationError("the path is empty")
    if not os.path.basename(path) or os.path.isdir(path):
        raise DestinationError(f"this is a folder; {hint}", path=path)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise DestinationError("not a folder", path=folder)
    above = os.path.dirname(folder)
    if above and not os.path.isdir(above):
        raise MissingFileError("no such folder", path=above)


def refuse_own_files(plan: Plan, path: str) -> None:
    """Refuse a path that leads to a file of the source, whatever links lead there.

    Raises:
        DestinationError: it does.
    """
    location = plan.source.location
    own = [*_files_of(plan.source), *filter(None, (location.meta_path, location.state_path))]
    if any(_same_name(path, other) or _same_file(path, other) for other in own):
        raise DestinationError("it is a file of the source itself", path=path)


def refuse_in_place(plan: Plan) -> None:
    """Refuse a checkpoint that cannot be changed in place.

    Raises:
        SurgeryError: it belongs to a SavedModel, lies outside of the named folder, or is of format
            V1 in several files.
    """
    if plan.source.generation == "V1" and len(plan.source.location.files) > 1:
        raise SurgeryError(
            "a V1 checkpoint in several files cannot be replaced in one step; write another "
            "with -o",
            path=plan.source.prefix,
        )
    if leads_elsewhere(plan.source.location):
        raise SurgeryError(
            f"the checkpoint lies outside this folder: '{plan.source.prefix}'; to"
            " change it, give its own path",
            path=plan.source.location.typed,
        )
    if plan.source.location.saved_model is not None:
        raise SurgeryError(
            "the variables of a SavedModel are tied to its graph by their names; write a plain "
            "checkpoint with -o",
            path=plan.source.location.saved_model,
        )


def _legacy_at(prefix: str) -> list[str]:
    """Return the existing files of the V1 checkpoint of this prefix."""
    found = find_checkpoint(prefix)
    if found is None or found.prefix != prefix:
        return []
    return [path for path in found.files if os.path.lexists(path)]


def _files_of(source: Checkpoint) -> list[str]:
    location = source.location
    if location.generation != "V2":
        return list(location.files)
    return [index_path(location.prefix), *find_shards(location.prefix)]


def _same_name(path: str, other: str) -> bool:
    """Tell whether two paths are one name, links followed.

    A hard link to a source's data shard does not count: it is replaced, not written to.
    """
    return os.path.realpath(path) == os.path.realpath(other)


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
