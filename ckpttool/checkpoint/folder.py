"""The checkpoints in a folder, found by file names and, for V1, by the first bytes of files.

    V2   PREFIX.index, PREFIX.data-00000-of-00002, ...
    V1   PREFIX, or PREFIX-00000-of-00002, ...: a table whose first record is a SavedTensorSlices

Either may have a PREFIX.meta beside it. Unfinished files (`.tempstate…` files, `…_temp` folders,
our own temporary files) are not checkpoints.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ckpttool.bundle.entry import MAX_SHARDS
from ckpttool.bundle.naming import INDEX_SUFFIX, index_path, shard_path, split_shard_path
from ckpttool.checkpoint.generation import Generation, table_generation
from ckpttool.checkpoint.named import checkpoint_name, is_of_windows, other_paths, part_name
from ckpttool.checkpoint.state import STATE_NAME, read_state
from ckpttool.coding.text import natural_key
from ckpttool.errors import CkptError
from ckpttool.legacy import naming
from ckpttool.storage.source import file_error
from ckpttool.storage.temporary import split_temporary

META_SUFFIX = ".meta"
# Added to an address to mean the V1 checkpoint where a V2 checkpoint has the same name.
V1_MARK = "@v1"
# Each makes a folder a SavedModel or a SessionBundle export.
_MODEL_FILES = frozenset(("saved_model.pb", "saved_model.pbtxt", "export.meta"))
_STEP = re.compile(r"-(\d+)\Z")


def step_of(name: str) -> int | None:
    """Return the number at the end of a checkpoint's name; None without one."""
    match = _STEP.search(name)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """A checkpoint that exists.

    Attributes:
        prefix: common to its files; for an unsharded V1 checkpoint the file itself.
        generation: "V1" or "V2".
        files: of V1 the files in shard order, missing ones included; of V2 empty.
    """

    prefix: str
    generation: Generation
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files of one checkpoint in a folder.

    Attributes:
        name: the last part of the prefix.
        prefix: with the folder as given.
        generation: "V1" or "V2".
        index: path of the index; None for V1.
        shards: paths of the existing shards, by number.
        files: of V1 the files of the set in use, missing ones included; else empty.
        shard_counts: the shard counts in the names of these files: usually one; none for V1 in a
            single file or without a data shard.
        meta_path: the `.meta` file beside it, if any.
        modified: last change of the index, or the first V1 file; seconds since 1970.
        size: bytes of index and shards together.
        latest: whether the folder's state file names it as the latest.
        shadowed: whether it is V1 and a V2 checkpoint has the same name.
    """

    name: str
    prefix: str
    generation: Generation
    index: str | None
    shards: tuple[str, ...]
    shard_counts: tuple[int, ...]
    meta_path: str | None
    modified: float
    size: int
    latest: bool
    files: tuple[str, ...] = ()
    shadowed: bool = False

    @property
    def address(self) -> str:
        """The path to type for it."""
        return self.prefix + V1_MARK if self.shadowed else self.prefix

    @property
    def state_name(self) -> str:
        """How a state file in the folder names it: of several V1 files the pattern."""
        if self.generation == "V1" and self.shard_counts:
            return naming.shard_pattern(self.name, len(self.files))
        return self.name

    @property
    def step(self) -> int | None:
        """The number at the end of the name."""
        return step_of(self.name)

    def missing(self, num_shards: int | None = None) -> tuple[str, ...]:
        """Return the paths of the missing shards.

        Args:
            num_shards: their number by the header of the index; by default the count in the file
                names, if they agree.
        """
        if num_shards is None and len(self.shard_counts) == 1:
            num_shards = self.shard_counts[0]
        present = frozenset(self.shards)
        name_of = shard_path if self.generation == "V2" else naming.v1_shard_path
        count = num_shards or 0
        wanted = (name_of(self.prefix, number, count) for number in range(count))
        return tuple(path for path in wanted if path not in present)


def file_status(path: str) -> os.stat_result | None:
    """Return the status of what `path` leads to, None where there is nothing.

    Raises:
        FileAccessError: the operating system does not tell.
    """
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        found = file_error(error, path)
        if "too long" in found.message:
            return None
        raise found from error


def is_regular(path: str) -> bool:
    """Tell whether `path` leads to a regular file."""
    status = file_status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


class Finder:
    """Finds checkpoints by their prefixes; each folder is listed once at most."""

    def __init__(self) -> None:
        self._sets: dict[str, dict[str, naming.Sets]] = {}

    def find(self, prefix: str) -> FoundFiles | None:
        """Return the checkpoint at a prefix, taken literally; None if there is none.

        Args:
            prefix: of a V2 checkpoint, or for V1 the file, any of its shards, their prefix or
                pattern `PREFIX-?????-of-00003`. If both formats exist, `PREFIX@v1` means V1.
        """
        if file_status(index_path(prefix)) is not None:
            return FoundFiles(prefix, "V2")
        found = self._find_v1(prefix)
        if found is None and prefix.endswith(V1_MARK):
            found = self._find_v1(prefix[: -len(V1_MARK)])
        return found

    def find_named(self, folder: str, named: str) -> tuple[FoundFiles | None, str]:
        """Return the checkpoint that a path in a folder's state file means, and the path in use.

        A path that leads nowhere may date from before the folder was moved, or from another system.
        """
        for path in (named, *other_paths(named)):
            found = self.find(os.path.join(folder, path))
            if found is not None:
                return found, path
        return None, named

    def _find_v1(self, prefix: str) -> FoundFiles | None:
        pattern = naming.split_shard_pattern(prefix)
        if pattern:
            return self._find_v1_set(*pattern)
        if is_regular(prefix) and table_generation(prefix) == "V1":
            shard = naming.split_v1_shard_path(prefix)
            if shard:
                return self._find_v1_set(shard[0], shard[2])
            return FoundFiles(prefix, "V1", (prefix,))
        return self._find_v1_set(prefix, None)

    def _find_v1_set(self, prefix: str, count: int | None) -> FoundFiles | None:
        """Find the files of a V1 checkpoint; of several complete sets the largest."""
        folder, base = os.path.split(prefix)
        if folder not in self._sets:
            self._sets[folder] = _v1_sets(folder)
        sets = self._sets[folder].get(base, {}) if base else {}
        if count is not None:
            sets = {count: sets[count]} if count in sets else {}
        for of, present in _best_first(sets):
            first = os.path.join(folder, present[min(present)])
            if is_regular(first) and table_generation(first) == "V1":
                return FoundFiles(prefix, "V1", _v1_files(prefix, of))
        return None


def find_checkpoint(prefix: str) -> FoundFiles | None:
    """Return the checkpoint at a prefix, as `Finder.find` does."""
    return Finder().find(prefix)


def name_here(folder: str, named: str, finder: Finder | None = None) -> str | None:
    """Return the name in `folder` of a checkpoint in its state file; None if it lies elsewhere."""
    if os.sep not in named and not is_of_windows(named):
        return part_name(named)
    finder = finder or Finder()
    if is_of_windows(named):
        found, path = finder.find_named(folder, named)
        if found is None:
            return checkpoint_name(named)
        if os.sep not in path:
            return part_name(path)
        named = path
    target = os.path.join(folder, named)
    here = os.path.realpath(os.path.dirname(target)) == os.path.realpath(folder)
    if here or (os.path.isabs(named) and finder.find(named) is None):
        return part_name(named)
    return None


def list_checkpoints(folder: str) -> list[CheckpointFiles]:
    """Return the checkpoints in a folder, newest first.

    First the latest by the state file, then the others that it lists, in reverse order, then the
    rest by the numbers in their names, the highest first.

    Raises:
        MissingFileError, FileAccessError: the folder cannot be listed.
    """
    entries = _entries(folder)
    latest, listed = _listed(folder)
    found = _gather(folder, entries, latest=latest)
    order = {name: number for number, name in enumerate(listed)}
    found.sort(key=lambda files: (order.get(files.name, -1), natural_key(files.name)), reverse=True)
    return found


def last_two(folder: str) -> tuple[str, str] | None:
    """Return the prefixes of the newest checkpoint of a folder and, first, of the one before.

    None if there are fewer, or if it is no folder.

    Raises:
        FileAccessError: the folder cannot be listed.
    """
    listed = list_checkpoints(folder) if os.path.isdir(folder) else []
    found = [files.prefix for files in listed if not files.shadowed]
    return (found[1], found[0]) if len(found) > 1 else None


def by_step(files: CheckpointFiles) -> tuple[int, str]:
    """Return a sort key: the number at the end of the name, then the rest of it."""
    return (-1 if files.step is None else files.step, files.address)


def by_time(files: CheckpointFiles) -> tuple[float, int, str]:
    """Return a sort key: when it was saved, then the number at the end of the name."""
    return (files.modified, *by_step(files))


def stem_of(name: str) -> str:
    """Return the name of a checkpoint without its step: that of all which one program saved."""
    return _STEP.sub("", name)


def have_one_name(checkpoints: Iterable[CheckpointFiles]) -> bool:
    """Tell whether the names of checkpoints differ by their steps alone."""
    return len({stem_of(files.name) for files in checkpoints}) == 1


def oldest_first(checkpoints: Sequence[CheckpointFiles]) -> list[CheckpointFiles]:
    """Return checkpoints by step if they have one name, else by the time they were saved."""
    return sorted(checkpoints, key=by_step if have_one_name(checkpoints) else by_time)


def folders_with_checkpoints(folder: str) -> Iterator[str]:
    """Yield the folders below a folder that hold a checkpoint, a SavedModel or an export.

    What lies in a SavedModel is not looked at, nor are hidden folders and links to folders.
    """
    for parent, names, files in os.walk(folder or os.curdir):
        names[:] = sorted(name for name in names if not name.startswith("."))
        if _MODEL_FILES.intersection(files):
            names.clear()
            if parent != folder:
                yield parent
        elif parent != folder and _has_checkpoints(parent, files):
            yield parent


def _has_checkpoints(folder: str, names: Iterable[str]) -> bool:
    with suppress(CkptError):
        return any(name.endswith(INDEX_SUFFIX) for name in names) or bool(list_checkpoints(folder))
    return False


def _entries(folder: str) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder or os.curdir) as listing:
            return {entry.name: entry for entry in listing}
    except (OSError, ValueError) as error:
        raise file_error(error, folder or os.curdir) from error


def _listed(folder: str) -> tuple[str | None, list[str]]:
    """Return the latest checkpoint by the state file, and all that it lists, in order."""
    finder = Finder()
    path = os.path.join(folder, STATE_NAME)
    if is_regular(path):
        with suppress(CkptError):  # the order of a list is not worth failing for
            state = read_state(path)
            latest = name_here(folder, state.model_checkpoint_path, finder)
            named = [name_here(folder, each, finder) for each in state.all_model_checkpoint_paths]
            return latest, [name for name in (*named, latest) if name is not None]
    return None, []


def _gather(
    folder: str, entries: dict[str, os.DirEntry[str]], *, latest: str | None
) -> list[CheckpointFiles]:
    v2 = {name[: -len(INDEX_SUFFIX)] for name in entries if name.endswith(INDEX_SUFFIX)}
    shards: dict[tuple[str, Generation], dict[tuple[int, int], str]] = {}
    for name, entry in entries.items():
        split = split_shard_path(name)
        if split is not None:
            prefix, number, count = split
            if prefix in v2 and number < count <= MAX_SHARDS:
                shards.setdefault((prefix, "V2"), {})[count, number] = name
        elif _may_be_v1(name) and _is_v1(entry):
            stem, number, count = naming.split_v1_shard_path(name) or (name, 0, 0)
            shards.setdefault((stem, "V1"), {})[count, number] = name
    for prefix in v2:
        shards.setdefault((prefix, "V2"), {})
    result: list[CheckpointFiles] = []
    for (prefix, generation), numbered in shards.items():
        names = [numbered[at] for at in sorted(numbered)]
        index = prefix + INDEX_SUFFIX if generation == "V2" else None
        statuses = _statuses(entries[name] for name in ([index] if index else []) + names)
        if not statuses:
            continue  # gone in the meantime
        meta = prefix + META_SUFFIX
        shadowed = generation == "V1" and prefix in v2
        result.append(
            CheckpointFiles(
                name=prefix,
                prefix=os.path.join(folder, prefix),
                generation=generation,
                index=os.path.join(folder, index) if index else None,
                shards=tuple(os.path.join(folder, name) for name in names),
                shard_counts=tuple(sorted({count for count, _ in numbered if count})),
                meta_path=os.path.join(folder, meta) if meta in entries else None,
                modified=statuses[0].st_mtime,
                size=sum(status.st_size for status in statuses),
                latest=prefix == latest and not shadowed,
                files=_files_of_v1(os.path.join(folder, prefix), numbered) if not index else (),
                shadowed=shadowed,
            )
        )
    return result


def _statuses(entries: Iterable[os.DirEntry[str]]) -> list[os.stat_result]:
    statuses = []
    for entry in entries:
        with suppress(OSError):
            statuses.append(entry.stat())
    return statuses


def _may_be_v1(name: str) -> bool:
    known = name.endswith((INDEX_SUFFIX, META_SUFFIX, ".pb", ".pbtxt", ".json", ".txt"))
    unfinished = ".tempstate" in name or split_temporary(name) is not None
    return not (known or unfinished) and name != STATE_NAME


def _is_v1(entry: os.DirEntry[str]) -> bool:
    with suppress(CkptError, OSError):
        return entry.is_file() and table_generation(entry.path) == "V1"
    return False


def _v1_sets(folder: str) -> dict[str, naming.Sets]:
    """Return the names in a folder that are of V1 checkpoints in several files."""
    with suppress(CkptError):
        return naming.sets_among(_entries(folder))
    return {}


def _files_of_v1(prefix: str, numbered: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    """Return the files of the set in use, of those that exist by (count, number)."""
    sets: naming.Sets = {}
    for count, number in numbered:
        sets.setdefault(count, {})[number] = ""
    if 0 in sets:
        return (prefix,)
    return _v1_files(prefix, _best_first(sets)[0][0])


def _best_first(sets: naming.Sets) -> list[tuple[int, dict[int, str]]]:
    return sorted(sets.items(), key=lambda item: (len(item[1]) < item[0], -item[0]))


def _v1_files(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(naming.v1_shard_path(prefix, number, count) for number in range(count))
