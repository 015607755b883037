"""What stands beside a checkpoint: its `.meta` file and the state file of its folder."""

from __future__ import annotations

import os
import re
from typing import Literal

from ckpttool.checkpoint.folder import META_SUFFIX, STATE_NAME
from ckpttool.errors import CkptError, DestinationError, MissingFileError
from ckpttool.meta.state import CheckpointState, format_state, read_state
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles, remove_quietly
from ckpttool.surgery.plan import Plan

MetaMode = Literal["auto", "copy", "drop"]
META_MODES: tuple[MetaMode, ...] = ("auto", "copy", "drop")
_NUMBERED = re.compile(r"(.*)-(\d+)\Z", re.DOTALL)


def carry_meta(plan: Plan, prefix: str, mode: MetaMode) -> tuple[str | None, str | None]:
    """Carry the `.meta` file of the source along, or say why not.

    It names variables, so with `"auto"` it is carried only where no key changed.

    Args:
        plan: what was written.
        prefix: the destination.
        mode: `"auto"`, `"copy"` or `"drop"`.

    Returns:
        The path of the new file, if there is one, and a note for the user, if there is one.
    """
    source = plan.source.prefix + META_SUFFIX
    if not os.path.isfile(source):
        return None, None
    stale = plan.keys_changed
    if prefix == plan.source.prefix:
        if mode == "drop":
            remove_quietly(source)
            return None, f"'{source}' was removed"
        note = f"'{source}' still names the variables as they were" if stale else None
        return source, note
    if mode == "drop" or (mode == "auto" and stale):
        remove_quietly(prefix + META_SUFFIX)  # of a checkpoint that was replaced
        reason = "" if mode == "drop" else ": it names variables that were renamed or dropped"
        return None, f"'{source}' was left behind{reason}"
    destination = prefix + META_SUFFIX
    with RandomAccessFile(source) as file, StagedFiles() as staged:
        copy = staged.create(destination)
        for chunk in file.chunks(0, file.size):
            copy.write(chunk)
        copy.take_permissions(source)
        staged.commit(replace_last=True)
    return destination, None


def update_state(prefix: str) -> str:
    """Name a checkpoint as the latest in the state file of its folder; paths become relative.

    Returns:
        The path of the state file.

    Raises:
        CkptError: there is a state file that cannot be read, or it cannot be written.
    """
    folder, name = os.path.split(prefix)
    path = os.path.join(folder, STATE_NAME)
    try:
        old = read_state(path)
    except MissingFileError:
        old = CheckpointState()
    names = [_relative(each, folder) for each in old.all_model_checkpoint_paths]
    times = dict(zip(names, old.all_model_checkpoint_timestamps, strict=False))
    names = [each for each in names if each != name] + [name]
    timestamps: tuple[float, ...] = ()
    if old.all_model_checkpoint_timestamps:
        times[name] = os.stat(prefix + ".index").st_mtime
        timestamps = tuple(times.get(each, old.last_preserved_timestamp) for each in names)
    state = CheckpointState(name, tuple(names), timestamps, old.last_preserved_timestamp)
    with StagedFiles() as staged:
        file = staged.create(path)
        file.write(format_state(state).encode())
        if os.path.exists(path):
            file.take_permissions(path)
        staged.commit(replace_last=True)
    return path


def check_sequence(prefix: str) -> None:
    """Refuse a name that a trainer in the same folder is going to use.

    It would write over the files without looking.

    Raises:
        DestinationError: the name is the next, or a later one, of the folder's checkpoints.
    """
    folder, name = os.path.split(prefix)
    try:
        latest = os.path.basename(
            read_state(os.path.join(folder, STATE_NAME)).model_checkpoint_path
        )
    except CkptError:
        return
    known, wanted = _NUMBERED.match(latest), _NUMBERED.match(name)
    if known and wanted and known[1] == wanted[1] and int(wanted[2]) > int(known[2]):
        raise DestinationError(
            f"whoever saves checkpoints after '{latest}' in this folder will take that name; "
            "choose another, or use --force",
            path=prefix,
        )


def _relative(path: str, folder: str) -> str:
    return os.path.relpath(path, os.path.abspath(folder)) if os.path.isabs(path) else path
