"""What a folder may look like after an operation in it was disturbed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ckpttool.bundle.index import BundleIndex
from ckpttool.checkpoint.folder import find_checkpoint
from ckpttool.checkpoint.locate import locate
from ckpttool.checkpoint.open import Checkpoint
from ckpttool.checkpoint.state import read_state
from ckpttool.errors import CkptError, DestinationError
from ckpttool.legacy.reader import LegacyReader
from ckpttool.storage.leftovers import LOCK_SUFFIX
from ckpttool.storage.temporary import TEMPORARY_SUFFIX
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults.operations import STATE, Operation
from tests.legacy.handmade import torn
from tests.support.answers import Answer, value_bytes, values

OURS = (TEMPORARY_SUFFIX, LOCK_SUFFIX)
_TAG = re.compile(r"[0-9a-f]{16}")
_SHARD = re.compile(r"\.data-\d{5}-of-\d{5}\Z")
_V1_SHARD = re.compile(r"-\d{5}-of-\d{5}\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """All that must stay as it is of a file that is nobody's business.

    Attributes:
        kind: "file", "folder" or "other".
        inode: which one.
        mode: its permissions.
        modified: when it was last written, in ns; 0 for a folder.
        data: its bytes.
    """

    kind: str
    inode: int
    mode: int
    modified: int
    data: bytes


Snapshot = Mapping[str, Entry]


def snapshot(root: str) -> Snapshot:
    """Return everything below a folder by relative path."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            data = b""
            if name in files:
                with open(path, "rb") as file:
                    data = file.read()
            found[path[len(root) + 1 :]] = Entry(
                "file" if name in files else "folder",
                status.st_ino,
                status.st_mode,
                status.st_mtime_ns if name in files else 0,
                data,
            )
    return found


def members(operation: Operation, root: str, names: Iterable[str]) -> list[str]:
    """Return which of some names belong to the checkpoint at the destination."""
    prefix = os.path.relpath(operation.target_prefix(root), root)
    found = []
    for name in names:
        rest = name[len(prefix) :] if name.startswith(prefix) else ""
        one = operation.generation == "V1" and (not rest or bool(_V1_SHARD.fullmatch(rest)))
        one = one and name.startswith(prefix)
        if one or rest in (".index", ".meta") or _SHARD.fullmatch(rest):
            found.append(name)
    return found


def stored(operation: Operation, root: str) -> dict[str, Answer] | None:
    """Return what is in the checkpoint at the destination; None if anything was refused."""
    prefix = operation.target_prefix(root)
    if operation.generation == "V2":
        return values(prefix)
    found = find_checkpoint(prefix)
    if found is None or torn(prefix):
        return None
    try:
        with LegacyReader(prefix, found.files) as reader:
            return {
                key: Answer(entry.dtype.name, entry.shape, value_bytes(reader.read(key)))
                for key, entry in reader.entries.items()
            }
    except CkptError:
        return None


def make_way(operation: Operation, root: str) -> None:
    """Remove links to the source from the destination, which keep it from being replaced."""
    folder = os.path.join(root, "src")
    own = {os.stat(os.path.join(folder, name)).st_ino for name in snapshot(folder)}
    paths = [os.path.join(root, name) for name in members(operation, root, snapshot(root))]
    if any(os.stat(path).st_ino in own for path in paths):
        for path in paths:
            os.unlink(path)


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        state: "absent", "old" or "new": what a reader finds at the destination.
        signature: equal for folders that are alike but for the random parts of names.
        leftovers: names beside the destination that no reader asks for.
    """

    state: str
    signature: frozenset[tuple[str, bytes]]
    leftovers: tuple[str, ...]

    @property
    def shards(self) -> list[str]:
        """The data shards among the leftovers, without temporary ones."""
        return [name for name in self.leftovers if _SHARD.search(name)]


class Oracle:
    """Judges the folder of one operation.

    Args:
        operation: what is disturbed.
        scratch: a folder for it, which is made and removed as needed.

    Attributes:
        root: the folder of the operation.
        before: what was in it before.
    """

    def __init__(self, operation: Operation, scratch: str) -> None:
        self.operation = operation
        self.root = os.path.join(scratch, "work")
        self._read: dict[frozenset[tuple[str, bytes]], dict[str, Answer] | None] = {}
        self._run_again: set[frozenset[tuple[str, bytes]]] = set()
        self.before: Snapshot = {}
        self.fresh()
        self._expected = operation.expected(self.root)
        self._old = stored(operation, self.root) if self._has_old else None
        assert self._expected
        assert not self._has_old or self._old
        with operation.system(self.root):
            operation.run(self.root)
        self.check(done=True)

    @property
    def _has_old(self) -> bool:
        return self.operation.old or self.operation.destination is None

    def fresh(self) -> str:
        """Build the folder anew and return it."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.operation.build(self.root)
        self.before = snapshot(self.root)
        return self.root

    def check(self, *, done: bool, tolerated: bool = False) -> Verdict:
        """Hold the folder to what it may be.

        Args:
            done: whether the operation said that it had succeeded.
            tolerated: whether removing was made to fail, or the process died, so that leftovers
                may be there.
        """
        after = snapshot(self.root)
        own = self._members(after)
        leftovers = self._check_others(after, tolerated=tolerated)
        state = self._state_of(after, own)
        extra = set()
        if state == "absent":
            extra = set(own)
        elif state == "old":
            changed = [name for name in self._members(self.before) if name != self._state_file]
            for name in changed:
                assert after.get(name) == self.before[name], f"old, but {name} changed"
            extra = set(own) - set(changed)
        elif self.operation.generation == "V2":
            count = BundleIndex(self.operation.target_prefix(self.root)).header.num_shards
            ending = f"-of-{count:05d}"
            shards = {name for name in own if _SHARD.search(name)}
            extra = {name for name in shards if not name.endswith(ending)}
            assert len(shards - extra) == count
        else:
            found = find_checkpoint(self.operation.target_prefix(self.root))
            assert found is not None
            files = {os.path.relpath(path, self.root) for path in found.files}
            extra = {name for name in own if not name.endswith(".meta")} - files
        extra.discard(self._state_file)
        if not tolerated:
            allowed = state == "new" and not done
            assert not extra or allowed, f"{state}, and left behind: {sorted(extra)}"
        if done:
            assert state == "new", f"said to be done, but is {state}"
        self._check_companions(after, state, done=done, tolerated=tolerated)
        return Verdict(state, self._signature(after), tuple(sorted({*leftovers, *extra})))

    def run_again(self, verdict: Verdict) -> bool:
        """Do the same again, undisturbed, and check that it comes out right and leaves nothing.

        Returns:
            Whether there was anything to do: what looks the same is done once.
        """
        if verdict.signature in self._run_again:
            return False
        self._run_again.add(verdict.signature)
        # What a dead run left behind goes with the next success.
        start = {k: each for k, each in snapshot(self.root).items() if not k.endswith(OURS)}
        if self.operation.destination is None and verdict.state == "new":
            self._write_in_place()
            again = self.check(done=False)
            assert (again.state, again.leftovers) == ("new", ())
            return True
        own = self._members(start)
        with self.operation.system(self.root):
            try:
                self.operation.run(self.root)
            except DestinationError as error:
                in_the_way = verdict.state == "new" or any(name in own for name in start)
                assert in_the_way, f"refused, though nothing is in the way: {error}"
                assert error.path is not None and os.path.lexists(error.path), str(error)
                make_way(self.operation, self.root)
                self.operation.run(self.root, force=True)
        self.before = {name: entry for name, entry in start.items() if name not in own} | {
            name: entry for name, entry in self.before.items() if name in own
        }
        again = self.check(done=True)
        assert again.state == "new"
        return True

    def _signature(self, after: Snapshot) -> frozenset[tuple[str, bytes]]:
        """Return what is otherwise than before."""
        return frozenset(
            (_TAG.sub("", name), entry.data)
            for name, entry in after.items()
            if name not in self.before or self.before[name] != entry
        )

    def _write_in_place(self) -> None:
        """Change nothing of what is there, and write that."""
        location = locate(self.operation.target_prefix(self.root))
        with self.operation.system(self.root), Checkpoint(location) as ckpt:
            options = self.operation.options
            same = WriteOptions(meta=options.meta, update_state=options.update_state)
            prepare(Plan.of(ckpt), None, same).write()

    def _members(self, entries: Iterable[str]) -> list[str]:
        """Return the names that belong to the destination, the state file among them."""
        found = members(self.operation, self.root, entries)
        if self._state_file is not None and self._state_file in set(entries):
            found.append(self._state_file)
        return found

    @property
    def _state_file(self) -> str | None:
        if not self.operation.options.update_state:
            return None
        folder = os.path.dirname(self.operation.target_prefix(self.root))
        return os.path.relpath(os.path.join(folder, "checkpoint"), self.root)

    def _check_others(self, after: Snapshot, *, tolerated: bool) -> list[str]:
        """Check what is not part of the destination; return what was left behind."""
        own = {*self._members(after), *self._members(self.before)}
        for name, entry in self.before.items():
            if name not in own:
                assert after.get(name) == entry, f"{name} changed or is gone"
        new = [name for name in after if name not in self.before and name not in own]
        made = os.path.dirname(os.path.relpath(self.operation.target_prefix(self.root), self.root))
        leftovers = []
        for name in new:
            if name == made:
                if not any(each != name and each.startswith(name) for each in after):
                    leftovers.append(name)
                continue
            assert name.endswith(OURS), f"{name} was left behind"
            leftovers.append(name)
        assert tolerated or not leftovers, f"left behind: {leftovers}"
        return leftovers

    def _state_of(self, after: Snapshot, own: list[str]) -> str:
        if not self.operation.present(self.root):
            assert not self._has_old, "the old checkpoint is gone and the new one not there"
            return "absent"
        contents = frozenset((name, after[name].data) for name in own)
        if contents not in self._read:
            self._read[contents] = stored(self.operation, self.root)
        found = self._read[contents]
        assert found is not None, f"neither old nor new: {sorted(own)}"
        if found == self._expected:
            return "new"
        assert found == self._old, "readable, but neither old nor new"
        return "old"

    def _check_companions(
        self, after: Snapshot, state: str, *, done: bool, tolerated: bool
    ) -> None:
        operation = self.operation
        prefix = os.path.relpath(operation.target_prefix(self.root), self.root)
        source = os.path.relpath(operation.source_prefix(self.root), self.root)
        meta = after.get(f"{prefix}.meta")
        if operation.destination is not None and meta is not None:
            given = self.before.get(f"{source}.meta")
            copied = operation.options.meta == "copy" and given is not None
            allowed = {given.data} if copied and given is not None else set()
            if operation.old and (tolerated or not done):
                allowed.add(b"old graph")
            assert meta.data in allowed, "a graph file that is not of this checkpoint"
        if done and operation.options.meta == "copy":
            assert meta is not None
        if self._state_file is not None:
            found = after[self._state_file].data if self._state_file in after else None
            if done or found != STATE:
                read = read_state(os.path.join(self.root, self._state_file))
                assert state == "new"
                assert read.model_checkpoint_path == os.path.basename(prefix)
                assert len(read.all_model_checkpoint_paths) == 3
