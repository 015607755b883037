"""A state file written anew from the checkpoints of its folder, and what else can be mended."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ckpttool.checkpoint.folder import CheckpointFiles, is_regular, name_here, oldest_first
from ckpttool.checkpoint.locate import saved_model_of
from ckpttool.checkpoint.state import (
    STATE_NAME,
    CheckpointState,
    parse_state,
    refuse_unnamable,
    replace_state,
    state_bytes,
)
from ckpttool.errors import ChangedError, CkptError, DestinationError, SurgeryError
from ckpttool.query.verify.findings import UNSETTLED, Finding, finding
from ckpttool.storage.locks import Patience, locked_folder

# Findings after which the state file is written anew.
OF_STATE = (
    "state-unreadable",
    "state-stale",
    "state-damaged",
    "state-gone",
    "state-moved",
    "state-marked",
    "state-absolute",
    "state-outside",
)
_INCOMPLETE = ("shard-missing", "shard-short", "slice-missing", "bad-table", "bad-header")
# Whether such a checkpoint is sound may come out another time.
_UNCLEAR = (*UNSETTLED, "unreadable")
_FRESH = "a save may be under way"


@dataclass(frozen=True, slots=True)
class SeenCheckpoint:
    """A checkpoint of a folder that was verified.

    Attributes:
        files: its files.
        verdict: what came of it.
        codes: of what was found.
    """

    files: CheckpointFiles
    verdict: str
    codes: frozenset[str]

    @property
    def is_sound(self) -> bool:
        """Whether a state file may name it."""
        if self.files.shadowed or self.verdict not in ("ok", "structure-ok"):
            return False
        try:
            refuse_unnamable(self.files.name)
        except DestinationError:
            return False
        return True

    @property
    def is_incomplete(self) -> bool:
        """Whether parts of it are missing."""
        return self.verdict == "damaged" and not self.codes.isdisjoint(_INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to do about a folder.

    Attributes:
        message: what for.
        command: the command, ready for a shell; None if there is none.
    """

    message: str
    command: str | None


@dataclass(frozen=True, slots=True)
class StateRepair:
    """What became of a state file, or would.

    Attributes:
        state: path of the file.
        needed: whether it was to be written anew; a sound one stays as it is.
        done: whether it was written.
        latest: the latest checkpoint that the new file names; None if there is none to name.
        listed: all checkpoints that it names, oldest first.
    """

    state: str
    needed: bool
    done: bool
    latest: str | None
    listed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FolderHealth:
    """What a folder of checkpoints has, and what can be mended.

    Attributes:
        newest: the newest sound checkpoint; None without one.
        incomplete: the checkpoints of which parts are missing.
        remedies: what to do.
        repair: what became of the state file, if that was asked for.
    """

    newest: str | None
    incomplete: tuple[str, ...]
    remedies: tuple[Remedy, ...]
    repair: StateRepair | None = None


def check_latest(folder: str, seen: Sequence[SeenCheckpoint]) -> list[Finding]:
    """Return the finding for a state file whose latest checkpoint is damaged."""
    path = os.path.join(folder, STATE_NAME)
    return [
        finding(
            "state-damaged",
            f"the latest checkpoint is said to be '{each.files.name}', which is damaged",
            path,
        )
        for each in seen
        if each.files.latest and each.verdict == "damaged"
    ]


def folder_health(
    folder: str,
    seen: Sequence[SeenCheckpoint],
    findings: Sequence[Finding],
    repair: StateRepair | None,
) -> FolderHealth:
    """Sum up a folder whose checkpoints were verified.

    Args:
        folder: the folder.
        seen: its checkpoints.
        findings: those of the folder itself.
        repair: what became of the state file.
    """
    sound = oldest_first([each.files for each in seen if each.is_sound])
    newest = sound[-1].name if sound else None
    incomplete = tuple(each.files.name for each in seen if each.is_incomplete)
    remedies = []
    shown = shlex.quote(folder)
    wrong = any(each.code in OF_STATE for each in findings)
    if newest is not None and wrong:
        remedies.append(
            Remedy(
                f"'{newest}' is the newest sound checkpoint; a new state file would name it",
                f"ckpt verify {shown} --repair-state",
            )
        )
    old = [each for each in findings if each.code == "leftover" and _FRESH not in each.message]
    if old:
        paths = " ".join(shlex.quote(each.path) for each in old)
        remedies.append(
            Remedy("saves that ended early left files that nothing needs", f"rm -r -- {paths}")
        )
    if incomplete:
        remedies.append(
            Remedy(
                f"incomplete: {', '.join(incomplete)}; copy or save them again, or delete their "
                "files",
                None,
            )
        )
    if not wrong:
        remedies += _unlisted(folder, sound)
    return FolderHealth(newest, incomplete, tuple(remedies), repair)


def _unlisted(folder: str, sound: Sequence[CheckpointFiles]) -> list[Remedy]:
    """Tell of checkpoints that no manager will ever delete."""
    with suppress(CkptError):
        text = state_bytes(os.path.join(folder, STATE_NAME))
        if text is not None:
            state = parse_state(text)
            paths = (state.model_checkpoint_path, *state.all_model_checkpoint_paths)
            listed = {name_here(folder, path) for path in paths if path}
            others = [files for files in sound if files.name not in listed]
            if others:
                count = len(others)
                plural = "s are" if count > 1 else " is"
                return [
                    Remedy(
                        f"{count} sound checkpoint{plural} not in the state file, so no manager "
                        "deletes them",
                        f"ckpt gc {shlex.quote(folder)} --keep {len(listed) or 1} --all -n",
                    )
                ]
    return []


def repair_state(
    folder: str,
    seen: Sequence[SeenCheckpoint],
    findings: Sequence[Finding],
    before: bytes | None,
    *,
    dry_run: bool,
    on_wait: Callable[[str], None] | None = None,
) -> StateRepair:
    """Write the state file of a folder anew if it is missing or wrong; nothing else is changed.

    Args:
        folder: the folder.
        seen: its checkpoints.
        findings: those of the folder itself.
        before: the bytes of the state file before the checkpoints were verified.
        dry_run: write nothing.
        on_wait: told, once, if another process has the lock of the folder.

    Raises:
        ChangedError: another process has changed the state file, or the newest checkpoint.
        SurgeryError: a checkpoint could not be checked, or the folder belongs to a SavedModel,
            which has no state file.
        CkptError: the file cannot be written.
    """
    path = os.path.join(folder, STATE_NAME)
    sound = oldest_first([each.files for each in seen if each.is_sound])
    old: CheckpointState | None = None
    with suppress(CkptError):
        old = None if before is None else parse_state(before)
    needed = before is None or any(each.code in OF_STATE for each in findings)
    if not needed and old is not None:
        listed = tuple(dict.fromkeys((*old.all_model_checkpoint_paths, old.model_checkpoint_path)))
        return StateRepair(path, False, False, old.model_checkpoint_path, listed)
    unclear = next((each for each in seen if not each.codes.isdisjoint(_UNCLEAR)), None)
    if unclear is not None:
        raise SurgeryError(
            f"'{unclear.files.name}' could not be checked, so the state file stays as it is",
            path=path,
        )
    if not sound:
        return StateRepair(path, True, False, None, ())
    if saved_model_of(os.path.join(folder, "variables")) is not None:
        raise SurgeryError("a SavedModel has no state file", path=folder)
    state = _new_state(folder, old, sound)
    if not dry_run:
        with locked_folder(folder or os.curdir, Patience(tell=on_wait)):
            _refuse_changed(sound[-1])
            replace_state(path, state, before)
    listed = state.all_model_checkpoint_paths
    return StateRepair(path, True, not dry_run, state.model_checkpoint_path, listed)


def _refuse_changed(files: CheckpointFiles) -> None:
    first = files.index or next((path for path in files.files if is_regular(path)), files.prefix)
    try:
        unchanged = os.stat(first).st_mtime == files.modified
    except OSError:
        unchanged = False
    if not unchanged:
        raise ChangedError("changed since it was verified", path=files.prefix)


def _new_state(
    folder: str, old: CheckpointState | None, sound: Sequence[CheckpointFiles]
) -> CheckpointState:
    names = [files.state_name for files in sound]
    known = {} if old is None else _known_times(folder, old)
    first = next((at for at, files in enumerate(sound) if files.name in known), None)
    if old is None or first is None:
        # Without times, no manager deletes any of them.
        return CheckpointState(names[-1], tuple(names))
    now = time.time()
    times = [known.get(files.name, min(files.modified, now)) for files in sound]
    preserved = old.last_preserved_timestamp
    if first:
        # What is older than all that was listed was kept for good, and stays so.
        limit = math.nextafter(times[first], -math.inf)
        times[:first] = [min(when, limit) for when in times[:first]]
        preserved = max(preserved, *times[:first])
    return CheckpointState(names[-1], tuple(names), tuple(times), preserved)


def _known_times(folder: str, old: CheckpointState) -> Mapping[str, float]:
    paths, times = old.all_model_checkpoint_paths, old.all_model_checkpoint_timestamps
    if len(paths) != len(times):
        return {}
    found = {name_here(folder, path): when for path, when in zip(paths, times, strict=True)}
    return {name: when for name, when in found.items() if name is not None}
