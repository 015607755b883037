"""V1 checkpoints that are replaced by a new checkpoint.

A V1 checkpoint has no index: readers take the names they find for the whole set. So a whole one in
several files is never replaced name by name. It is removed after the new one is written, its first
file first; an empty file takes that name until the others are gone.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from ckpttool.checkpoint.folder import is_regular
from ckpttool.checkpoint.generation import table_generation
from ckpttool.errors import CkptError
from ckpttool.legacy.naming import find_sets
from ckpttool.storage.folders import sync_folder
from ckpttool.storage.staging import StagedFiles
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.companions import removal_notes


@dataclass(frozen=True, slots=True)
class OldFiles:
    """V1 checkpoints of one prefix, whole or torn, without the files of the source.

    Attributes:
        single: the file with the name of the prefix, if it is one.
        sets: the existing files of several, by their count.
        taken: the counts of the complete sets; a set of one file can be replaced in one step and is
            left out.
    """

    single: str | None
    sets: dict[int, tuple[str, ...]]
    taken: frozenset[int]

    @property
    def files(self) -> list[str]:
        """All of them."""
        single = [] if self.single is None else [self.single]
        return [*single, *(path for files in self.sets.values() for path in files)]

    def replaceable(self, path: str, count: int | None) -> bool:
        """Tell whether a file may be replaced without tearing a set; `count` is None if single."""
        if count is None:
            return path == self.single
        return count not in self.taken and path in self.sets.get(count, ())

    def retire(self, written: Collection[str] = ()) -> list[str]:
        """Remove the files, except new ones and their set; return a note for each failure."""
        notes = []
        if self.single is not None and self.single not in written:
            notes += removal_notes([self.single])
        for files in self.sets.values():
            if not any(path in written for path in files):
                notes += _retire_set(files)
        return notes


def old_files(plan: Plan, prefix: str) -> OldFiles:
    """Return the V1 checkpoints of a prefix.

    Files of such names that hold something else are not among them.

    Raises:
        CkptError: the folder or a file in it cannot be read.
    """
    own = {os.path.realpath(path) for path in plan.source.location.files}
    single = prefix if os.path.realpath(prefix) not in own and _is_v1(prefix) else None
    sets = {}
    taken = set()
    for count, files in find_sets(prefix).items():
        if any(os.path.realpath(path) in own for path in files):
            continue
        held = [_is_v1(path) for path in files]
        if all(is_v1 or _is_claim(path) for path, is_v1 in zip(files, held, strict=True)):
            sets[count] = files
            if len(files) == count > 1 and all(held):
                taken.add(count)
    return OldFiles(single, sets, frozenset(taken))


def _is_v1(path: str) -> bool:
    return is_regular(path) and table_generation(path) == "V1"


def _is_claim(path: str) -> bool:
    """Tell whether a file is an empty one that claims a name."""
    return is_regular(path) and os.stat(path).st_size == 0


def _retire_set(files: tuple[str, ...]) -> list[str]:
    first, *others = files
    try:
        if others:
            with StagedFiles() as staged:
                staged.create(first, mode=0o600)
                staged.commit(replace_last=True)
            notes = removal_notes(others)
            if notes:
                return notes
            sync_folder(os.path.dirname(first) or os.curdir)
        return removal_notes([first])
    except CkptError as error:
        return [f"'{first}' could not be removed: {error.message}"]
