"""What stands beside a checkpoint: its `.meta` file and the state file of its folder."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import Literal

from ckpttool.checkpoint.folder import META_SUFFIX, STATE_NAME
from ckpttool.errors import CkptError, DestinationError, MissingFileError, SurgeryError
from ckpttool.meta.state import CheckpointState, format_state, read_state
from ckpttool.storage.source import RandomAccessFile
from ckpttool.storage.staging import StagedFiles, remove_quietly
from ckpttool.surgery.plan import Plan

MetaMode = Literal["auto", "copy", "drop"]
META_MODES: tuple[MetaMode, ...] = ("auto", "copy", "drop")
_TRIES = 5
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
        if prefix != plan.source.prefix:
            remove_quietly(prefix + META_SUFFIX)  # of a checkpoint that was replaced
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


@dataclass(frozen=True, slots=True)
class PlannedState:
    """A state file that shall name a checkpoint as the latest.

    Attributes:
        path: of the state file.
        prefix: of the checkpoint.
    """

    path: str
    prefix: str

    def write(self) -> None:
        """Write it, once the checkpoint is there.

        What others wrote meanwhile is kept: it is read just before it is replaced.

        Raises:
            CkptError: it cannot be read any more, or not be written.
        """
        for _ in range(_TRIES):
            before = _read_bytes(self.path)
            text = format_state(self._state())
            with StagedFiles() as staged:
                file = staged.create(self.path)
                file.write(text.encode())
                if before is not None:
                    file.take_permissions(self.path)
                file.sync()
                if _read_bytes(self.path) == before:
                    staged.commit(replace_last=True)
                    return
        raise SurgeryError("others kept changing the state file", path=self.path)

    def _state(self) -> CheckpointState:
        folder, name = os.path.split(self.prefix)
        try:
            old = read_state(self.path)
        except MissingFileError:
            old = CheckpointState()
        names = [_relative(each, folder) for each in old.all_model_checkpoint_paths]
        times = dict(zip(names, old.all_model_checkpoint_timestamps, strict=False))
        names = [each for each in names if each != name] + [name]
        timestamps: tuple[float, ...] = ()
        if old.all_model_checkpoint_timestamps:
            times[name] = time.time()
            timestamps = tuple(times.get(each, old.last_preserved_timestamp) for each in names)
        return CheckpointState(name, tuple(names), timestamps, old.last_preserved_timestamp)


def planned_state(prefix: str) -> PlannedState:
    """Prepare to name a checkpoint as the latest in its folder's state file.

    Raises:
        CkptError: the state file that is there cannot be read, or cannot hold that name.
    """
    state = PlannedState(os.path.join(os.path.dirname(prefix), STATE_NAME), prefix)
    format_state(state._state())
    return state


def _read_bytes(path: str) -> bytes | None:
    try:
        with RandomAccessFile(path) as file:
            return file.read_at(0, file.size)
    except MissingFileError:
        return None


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
