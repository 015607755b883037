"""What checkpoints lie in a folder, told from file names and, for V1, from a look at the files.

    V2   PREFIX.index, PREFIX.data-00000-of-00002, ...
    V1   PREFIX, or PREFIX-00000-of-00002, ...: a table whose first record is a SavedTensorSlices

Either may have a PREFIX.meta beside it. What a writer has not finished (`.tempstate…` files,
`…_temp` folders) is no checkpoint.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from ckpttool.bundle.naming import INDEX_SUFFIX, index_path, shard_path, split_shard_path
from ckpttool.coding.varint import decode_varint
from ckpttool.errors import CkptError, CorruptError, FileAccessError
from ckpttool.meta.state import STATE_NAME as STATE_NAME
from ckpttool.meta.state import read_state
from ckpttool.storage.source import RandomAccessFile, file_error
from ckpttool.table.format import FOOTER_SIZE, MAGIC

Generation = Literal["V1", "V2"]
META_SUFFIX = ".meta"
MAX_SHARDS = 99999
_V1_SHARD = re.compile(r"-([0-9]{5})-of-([0-9]{5})\Z")
_V1_PATTERN = re.compile(r"-\?{5}-of-([0-9]{5}|\?{5})\Z")
_DIGITS = re.compile(r"([0-9]+)")
_V1_TAG = 0x0A  # SavedTensorSlices.meta
_V2_TAGS = (0x08, 0x10, 0x1A)  # BundleHeaderProto: num_shards, endianness, version


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """A checkpoint that exists.

    Attributes:
        prefix: what its files have in common; for an unsharded V1 checkpoint the file itself.
        generation: "V1" or "V2".
        files: of V1 the files in shard order, with those that are missing; of V2 nothing.
    """

    prefix: str
    generation: Generation
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files of one checkpoint in a folder.

    Attributes:
        name: the last part of the prefix.
        prefix: the prefix, with the folder as it was given.
        generation: "V1" or "V2".
        index: path of the index; None for V1.
        shards: paths of the files with tensors that exist, by shard number.
        shard_counts: the numbers of shards that the names of these files speak of: usually one;
            none for V1 in a single file or where no data shard is left.
        meta_path: the `.meta` file beside it, if there is one.
        modified: when the index, or the first V1 file, was last changed; seconds since 1970.
        size: bytes of index and shards together.
        latest: whether the state file of the folder names it as the latest.
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

    def missing(self, num_shards: int | None = None) -> tuple[str, ...]:
        """Return the paths of the shards that do not exist.

        Args:
            num_shards: how many there should be, by the header of the index. Without it the
                number in the file names is believed, if they all have the same.
        """
        if num_shards is None and len(self.shard_counts) == 1:
            num_shards = self.shard_counts[0]
        present = frozenset(self.shards)
        name_of = shard_path if self.generation == "V2" else _v1_shard_path()
        count = num_shards or 0
        wanted = (name_of(self.prefix, number, count) for number in range(count))
        return tuple(path for path in wanted if path not in present)


def _v1_shard_path() -> Callable[[str, int, int], str]:
    """Return what names the files of a V1 checkpoint; nobody else needs to import it."""
    from ckpttool.legacy.naming import shard_path as path_of

    return path_of


def checkpoint_name(path: str) -> str:
    """Return the name of a checkpoint that a path in a state file leads to.

    Of V1 checkpoints in several files such a path is the pattern `PREFIX-?????-of-00003`.
    """
    name = os.path.basename(path)
    match = _V1_PATTERN.search(name)
    return name[: match.start()] if match else name


def name_here(folder: str, named: str) -> str | None:
    """Return the name in `folder` of a checkpoint in its state file; None if it lies elsewhere.

    A path that is absolute and leads nowhere is one of before the folder was moved.
    """
    target = os.path.join(folder, named)
    here = os.path.realpath(os.path.dirname(target)) == os.path.realpath(folder)
    if here or (os.path.isabs(named) and find_checkpoint(named) is None):
        return checkpoint_name(named)
    return None


def checkpoint_stem(name: str) -> str:
    """Return the name of a V1 checkpoint for that of one of its files."""
    match = _V1_SHARD.search(name)
    return name[: match.start()] if match else name


def file_status(path: str) -> os.stat_result | None:
    """Return the status of what `path` leads to, None where there is nothing.

    Raises:
        FileAccessError: the operating system does not tell.
    """
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:  # a NUL in the path
        raise FileAccessError(str(error), path=path) from error
    except OSError as error:
        found = file_error(error, path)
        if "too long" in found.message:
            return None
        raise found from error


def is_regular(path: str) -> bool:
    """Tell whether `path` leads to a regular file."""
    status = file_status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def table_generation(path: str) -> Generation | None:
    """Tell a V1 file from the index of a V2 checkpoint; None for anything else.

    Both are tables whose first key is empty; its value is a SavedTensorSlices in V1 and a
    BundleHeaderProto in V2, which differ in the first byte. A file that begins like one of V1 and
    is cut short or damaged further on is taken for one: whoever reads it says what is wrong.
    """
    with RandomAccessFile(path) as file:
        at_end = file.size - len(MAGIC)
        whole = file.size >= FOOTER_SIZE and file.read_at(at_end, len(MAGIC)) == MAGIC
        head = file.read_at(0, min(file.size, 16))
        if not whole:
            return "V1" if _begins_like_v1(head) else None
        first = _first_value_byte(head)
        if first is None:  # the first block is compressed, or no block of ours
            from ckpttool.table.lookup import TableLookup

            try:
                value = TableLookup(file).find(b"")
            except CkptError:
                return None
            first = value.read_at(0, 1)[0] if value is not None and value.size else None
    if first == _V1_TAG:
        return "V1"
    return "V2" if first in _V2_TAGS else None


def _first_value_byte(head: bytes) -> int | None:
    """Return the first byte of the first value of a table whose first key is empty."""
    at = 2  # shared and unshared key length, both zero
    while at < 7 and head[at] & 0x80:
        at += 1
    found = head[at + 1]
    plain = head[:2] == b"\0\0" and any(head[2 : at + 1])
    return found if plain and found in (_V1_TAG, *_V2_TAGS) else None


def _begins_like_v1(head: bytes) -> bool:
    """Tell whether bytes begin with a message in a message, the lengths of which agree."""
    with suppress(CorruptError):
        size, at = decode_varint(head, 2, len(head))
        if head[:2] == b"\0\0" and head[at] == _V1_TAG:
            inner, start = decode_varint(head, at + 1, len(head))
            return inner > 0 and start + inner == at + size
    return False


def find_checkpoint(prefix: str) -> FoundFiles | None:
    """Return the checkpoint at `prefix`, which is taken literally; None if there is none.

    Args:
        prefix: the prefix of a V2 checkpoint, or for V1 the file, any of its shards, the
            prefix of the shards or their pattern `PREFIX-?????-of-00003`.
    """
    if file_status(index_path(prefix)) is not None:
        return FoundFiles(prefix, "V2")
    pattern = _V1_PATTERN.search(prefix)
    shard = _V1_SHARD.search(prefix)
    if pattern:
        count = None if "?" in pattern[1] else int(pattern[1])
        return _find_v1_shards(prefix[: pattern.start()], count)
    if is_regular(prefix) and table_generation(prefix) == "V1":
        if shard and 0 <= int(shard[1]) < int(shard[2]):
            return _find_v1_shards(prefix[: shard.start()], int(shard[2]))
        return FoundFiles(prefix, "V1", (prefix,))
    return _find_v1_shards(prefix, None)


def list_checkpoints(folder: str) -> list[CheckpointFiles]:
    """Return the checkpoints in a folder, newest first.

    The one that the state file names as latest comes first, then the others that it lists, the
    last listed first, then the rest by the numbers in their names, the highest first.

    Raises:
        MissingFileError, FileAccessError: the folder cannot be listed.
    """
    entries = _entries(folder)
    latest, listed = _listed(folder)
    found = _gather(folder, entries, latest=latest)
    order = {name: number for number, name in enumerate(listed)}
    found.sort(key=lambda files: (order.get(files.name, -1), _natural(files.name)), reverse=True)
    return found


def _entries(folder: str) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder or os.curdir) as listing:
            return {entry.name: entry for entry in listing}
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            raise file_error(error, folder or os.curdir) from error
        raise FileAccessError(str(error), path=folder) from error


def _listed(folder: str) -> tuple[str | None, list[str]]:
    """Return what the state file says of this folder: the latest checkpoint, and all in order."""
    path = os.path.join(folder, STATE_NAME)
    if is_regular(path):
        with suppress(CkptError):  # the order of a list is not worth failing for
            state = read_state(path)
            latest = name_here(folder, state.model_checkpoint_path)
            named = [name_here(folder, each) for each in state.all_model_checkpoint_paths]
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
        elif _may_be_v1(name, v2) and _is_v1(entry):
            match = _V1_SHARD.search(name)
            at = (int(match[2]), int(match[1])) if match else (0, 0)
            stem = name[: match.start()] if match else name
            shards.setdefault((stem, "V1"), {})[at] = name
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
                latest=prefix == latest,
            )
        )
    return result


def _statuses(entries: Iterable[os.DirEntry[str]]) -> list[os.stat_result]:
    statuses = []
    for entry in entries:
        with suppress(OSError):
            statuses.append(entry.stat())
    return statuses


def _may_be_v1(name: str, v2: set[str]) -> bool:
    known = name.endswith((INDEX_SUFFIX, META_SUFFIX, ".pb", ".pbtxt", ".json", ".txt"))
    return not known and name not in v2 and name != STATE_NAME and ".tempstate" not in name


def _is_v1(entry: os.DirEntry[str]) -> bool:
    with suppress(CkptError, OSError):
        return entry.is_file() and table_generation(entry.path) == "V1"
    return False


def _find_v1_shards(prefix: str, count: int | None) -> FoundFiles | None:
    """Find the shards of a V1 checkpoint; of several complete sets the one with most shards."""
    base = os.path.basename(prefix)
    folder = os.path.dirname(prefix)
    sets: dict[int, dict[int, str]] = {}
    with suppress(CkptError):
        for name in _entries(folder):
            match = _V1_SHARD.search(name)
            if match and name[: match.start()] == base and base:
                number, of = int(match[1]), int(match[2])
                if number < of and count in (None, of):
                    sets.setdefault(of, {})[number] = os.path.join(folder, name)
    for of, present in sorted(sets.items(), key=lambda item: (len(item[1]) < item[0], -item[0])):
        first = present[min(present)]
        if is_regular(first) and table_generation(first) == "V1":
            name_of = _v1_shard_path()
            files = tuple(name_of(prefix, number, of) for number in range(of))
            return FoundFiles(prefix, "V1", files)
    return None


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts `ckpt-9` before `ckpt-10`."""
    return [
        (1, int(part), "") if at % 2 else (0, 0, part)
        for at, part in enumerate(_DIGITS.split(name))
    ]
