"""The other files in a folder of checkpoints: leftovers, orphans, an outdated state file."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from ckpttool.bundle.naming import INDEX_SUFFIX, index_path, split_shard_path
from ckpttool.checkpoint.folder import META_SUFFIX, Finder, is_regular
from ckpttool.checkpoint.named import other_paths
from ckpttool.checkpoint.state import STATE_NAME, CheckpointState, read_state
from ckpttool.errors import CkptError, MissingFileError
from ckpttool.legacy.naming import shard_stem
from ckpttool.query.verify.findings import Diagnosis, Finding, finding, finding_of
from ckpttool.storage.leftovers import lock_tag
from ckpttool.storage.paths import lies_in
from ckpttool.storage.source import file_error
from ckpttool.storage.temporary import split_temporary

_THEIRS = re.compile(r"(?P<name>.+)\.(?:tempstate[0-9]+|tmp[0-9a-f]{32})\Z", re.DOTALL)
_THEIR_FOLDER = re.compile(r"(?P<name>.+)_temp(?:_[0-9a-f]{32})?\Z", re.DOTALL)
_PART = re.compile(r"part-[0-9]{5,}-of-[0-9]{5,}|.*\.tempstate[0-9]+\Z")
# A running save has written within these seconds.
_FRESH = 60.0
_JUST_NOW = 2.0
_MOMENT = 0.05
_MAX_LOOKS = 5
_GONE = ("state-gone", "state-stale")
_AGES = ((86400 * 2, 86400, "days"), (3600 * 2, 3600, "hours"), (60 * 2, 60, "minutes"))


def check_folder(folder: str, checkpoints: Mapping[str, int | None]) -> list[Finding]:
    """Return the findings for a folder, the checkpoints themselves left out.

    Args:
        folder: the folder.
        checkpoints: name -> number of data shards, or None if unknown, of both formats.

    Raises:
        FileAccessError: the folder cannot be read.
    """
    names = _names(folder)
    strays = list(_strays(folder, names, checkpoints))
    if strays and time.time() - _modified(folder) < _JUST_NOW:
        # A trainer removes its files one after the other: only those still there now are strays.
        time.sleep(_MOMENT)
        again = set(_strays(folder, _names(folder), checkpoints))
        strays = [each for each in strays if each in again]
    findings = [*_leftovers(folder, names), *strays]
    path = os.path.join(folder, STATE_NAME)
    if is_regular(path):
        findings += check_state(folder)
    elif STATE_NAME in names and os.path.isdir(path):
        if checkpoints:
            message = "a folder has the name of the state file, so none can be written"
            findings.append(finding("state-not-a-file", message, path))
    elif STATE_NAME in names and os.path.lexists(path):
        findings.append(finding("state-unreadable", "not a regular file", path))
    return findings


def diagnose_folder(findings: Sequence[Finding]) -> Diagnosis | None:
    """Return what happened to a folder, its checkpoints left out."""
    codes = {each.code for each in findings}
    if "state-stale" in codes:
        return Diagnosis("state", "the state file names a latest checkpoint that is not here")
    if "state-unreadable" in codes:
        return Diagnosis("state", "the state file cannot be read")
    if "state-damaged" in codes:
        return Diagnosis("state", "the state file names a latest checkpoint that is damaged")
    if "orphan" in codes:
        return Diagnosis("unfinished", "an index is missing: a save or a copy that did not finish")
    if "leftover" in codes:
        return Diagnosis("unfinished", "a save ended early and left files behind: not damage")
    if "state-moved" in codes:
        return Diagnosis(
            "moved", "the folder was moved, and the state file has its old paths: not damage"
        )
    return None


def check_siblings(prefix: str, num_shards: int | None) -> list[Finding]:
    """Return the findings for other files with the prefix of a checkpoint in their names.

    Args:
        prefix: of the checkpoint.
        num_shards: number of its data shards; None if unknown.
    """
    folder, base = os.path.split(prefix)
    names = [name for name in _names_or_none(folder) if base in name]
    strays = [name for name in names if (split := split_shard_path(name)) and split[0] == base]
    return [*_leftovers(folder, names, base), *_strays(folder, strays, {base: num_shards})]


def check_state(folder: str) -> list[Finding]:
    """Return the findings for the state file of a folder."""
    path = os.path.join(folder, STATE_NAME)
    found: list[Finding] = []
    for _ in range(_MAX_LOOKS):
        try:
            state = read_state(path)
            found = list(_check_paths(folder, path, state))
            # A trainer first names the new checkpoint, then removes an old one.
            if not any(each.code in _GONE for each in found) or state == read_state(path):
                return found
        except MissingFileError:
            return []
        except CkptError as error:
            return [finding_of(error, "state-unreadable", path)]
    return found


def _check_paths(folder: str, path: str, state: CheckpointState) -> Iterator[Finding]:
    latest = state.model_checkpoint_path
    if not latest:
        yield finding("state-unreadable", "the state file names no checkpoint", path)
        return
    if state.marked:
        message = "it begins with a byte order mark, which TensorFlow does not read"
        yield finding("state-marked", message, path)
    known = _Known(folder)
    moved: list[tuple[str, str]] = []
    for named in dict.fromkeys((latest, *state.all_model_checkpoint_paths)):
        target = os.path.join(folder, named)
        if not known.exists(named):
            beside = next(filter(known.exists, other_paths(named)), None)
            if beside is not None:
                moved.append((named, beside))
                continue
            code, message = "state-gone", f"the state file lists '{named}', which does not exist"
            if named == latest:
                code = "state-stale"
                message = f"the latest checkpoint is said to be '{named}', which does not exist"
            yield finding(code, message, path)
        elif known.is_outside(os.path.dirname(target)):
            message = f"it names '{named}', which lies outside of the folder"
            yield finding("state-outside", message, path)
        elif os.path.isabs(named):
            message = f"it names '{named}', which is absolute: no longer true if the folder moves"
            yield finding("state-absolute", message, path)
    if moved:
        (named, beside), *others = moved
        message = f"it names '{named}', which does not exist; '{beside}' here is taken for it"
        if others:
            message += f", and {len(others)} more are found in the same way"
        yield finding("state-moved", message, path)


class _Known:
    """Tells which checkpoints in the state file of a folder exist."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._home = os.path.realpath(folder or os.curdir)
        self._outside: dict[str, bool] = {}
        self._finder = Finder()

    def exists(self, named: str) -> bool:
        """Tell whether a checkpoint exists; nothing outside of the folder is opened."""
        target = os.path.join(self._folder, named)
        try:
            if not self.is_outside(os.path.dirname(target)):
                return self._finder.find(target) is not None
            if "?" in target:
                # A pattern of V1 files could match any files.
                return os.path.isdir(os.path.dirname(target))
            return is_regular(index_path(target)) or is_regular(target)
        except CkptError:
            return False

    def is_outside(self, folder: str) -> bool:
        """Tell whether a folder lies outside of that of the state file."""
        if folder not in self._outside:
            self._outside[folder] = not lies_in(folder, self._home)
        return self._outside[folder]


def _leftovers(folder: str, names: Collection[str], base: str | None = None) -> Iterator[Finding]:
    """Yield findings for unfinished files; with `base`, only those of that checkpoint."""
    locks = _locks_alone(names)
    for name in sorted(names):
        ours, theirs, of_folder = _ours(name, locks), _THEIRS.match(name), _THEIR_FOLDER.match(name)
        match = theirs or of_folder
        stands_for = ours if ours is not None else match["name"] if match else None
        if stands_for is None or (base is not None and not _is_member(stands_for, base)):
            continue
        path = os.path.join(folder, name)
        if ours is not None or theirs:
            size, modified = _size(path), _modified(path)
        elif os.path.isdir(path):
            inside = [os.path.join(path, each) for each in _names_or_none(path)]
            if any(not _PART.match(os.path.basename(each)) for each in inside):
                continue
            size = sum(_size(each) or 0 for each in inside)
            modified = max(map(_modified, [path, *inside]))
        else:
            continue
        writer = "TensorFlow" if ours is None else "ckpt"
        yield finding("leftover", _leftover(writer, modified), path, size=size)


def _locks_alone(names: Iterable[str]) -> set[str]:
    """Return the names of lock files without temporary files."""
    tags = {found[1] for found in map(split_temporary, names) if found}
    return {name for name in names if (tag := lock_tag(name)) and tag not in tags}


def _ours(name: str, locks: set[str]) -> str | None:
    """Return the stem of our temporary name, empty for a lock file; None for another name."""
    found = split_temporary(name)
    if found is None:
        return "" if name in locks else None
    return found[0]


def _leftover(writer: str, modified: float) -> str:
    age = time.time() - modified
    if age < _FRESH:
        return f"{writer} wrote this less than a minute ago: a save may be under way"
    for least, unit, noun in _AGES:
        if age >= least:
            return (
                f"left behind {int(age // unit)} {noun} ago by a save of {writer} that ended early"
            )
    return f"left behind a minute ago by a save of {writer} that ended early"


def _is_member(name: str, base: str) -> bool:
    """Tell whether a name is that of a checkpoint or one of its files."""
    if name.endswith((INDEX_SUFFIX, META_SUFFIX)):
        name = os.path.splitext(name)[0]
    split = split_shard_path(name)
    return base in (split[0] if split else name, shard_stem(name))


def _strays(
    folder: str, names: Iterable[str], checkpoints: Mapping[str, int | None]
) -> Iterator[Finding]:
    """Yield findings for data shards and graphs without a checkpoint."""
    there = set(names)
    for name in sorted(names):
        split = split_shard_path(name)
        path = os.path.join(folder, name)
        if split is not None:
            base, number, of = split
            count = checkpoints.get(base)
            if base not in checkpoints and base + INDEX_SUFFIX not in there:
                message = f"a data shard without an index: there is no '{base}{INDEX_SUFFIX}'"
                yield finding("orphan", message, path, size=_size(path))
            elif number >= of:
                message = f"a set of {of} data shards has none of number {number}"
                yield finding("foreign-shard", message, path, size=_size(path))
            elif count is not None and of != count:
                message = f"it is of a set of {of} data shards, but the checkpoint has {count}"
                yield finding("foreign-shard", message, path, size=_size(path))
        elif name.endswith(META_SUFFIX):
            base = name[: -len(META_SUFFIX)]
            if base in checkpoints or not there.isdisjoint((base, base + INDEX_SUFFIX)):
                continue
            message = f"a MetaGraph without a checkpoint '{base}'"
            yield finding("orphan", message, path, size=_size(path))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or os.curdir)
    except OSError as error:
        raise file_error(error, folder or os.curdir) from error


def _names_or_none(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder or os.curdir)
    return []


def _size(path: str) -> int | None:
    with suppress(OSError):
        return os.stat(path).st_size
    return None


def _modified(path: str) -> float:
    with suppress(OSError):
        return os.stat(path).st_mtime
    return time.time()
