"""Exports that become SavedModels while things go wrong: folders that appear whole, or not at all.

As in `tests.faults.operations` and `tests.faults.oracle`, whose tests take what is here too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckpttool.errors import DestinationError
from ckpttool.storage.folders import OpenFolder
from ckpttool.surgery.session_bundle.saved_model import prepare_export
from ckpttool.surgery.writing.prepare import WriteOptions
from tests.faults.operations import CONVERT, OPERATIONS, SESSION_BUNDLE, Operation
from tests.faults.oracle import OURS, Entry, Oracle, Snapshot, Verdict, snapshot
from tests.support.exports import is_whole, sample_export
from tests.support.faults import System
from tests.support.fixtures import FIXTURES

SESSION_BUNDLE_V1 = "session_bundle/tf1.4/sharded_v1/export/00000123"
_ASSET = "sample"
_OLD = "saved_model/tf1.15/builder/model"


class _NoExchange(System):
    """A file system that cannot exchange two names in one step."""

    def __enter__(self) -> _NoExchange:
        super().__enter__()
        true: Any = OpenFolder.exchange
        self._true.append((OpenFolder, "exchange", true))
        setattr(OpenFolder, "exchange", lambda *_: False)  # noqa: B010
        return self


@dataclass(frozen=True)
class Export(Operation):
    """An export that becomes a SavedModel.

    Attributes:
        exchanges: whether the file system can exchange two names.
    """

    source: str = _ASSET
    words: tuple[str, ...] = (CONVERT,)
    destination: str | None = "out/model"
    exchanges: bool = True

    def present(self, root: str) -> bool:
        """Tell whether a reader finds anything at the destination."""
        return os.path.exists(self.target_prefix(root))

    def build(self, root: str) -> None:
        """Make the folder of the operation, which must not be there."""
        os.makedirs(os.path.join(root, "src"))
        os.makedirs(os.path.join(root, "out"))
        if self.source == _ASSET:
            sample_export(Path(self.source_prefix(root)))
        else:
            shutil.copytree(os.path.join(FIXTURES, self.source), self.source_prefix(root))
        Path(root, "out", "notes.txt").write_bytes(b"mine")
        if self.old:
            shutil.copytree(os.path.join(FIXTURES, _OLD), self.target_prefix(root))

    def system(self, root: str, **more: Any) -> System:
        """Return the file system that the operation is for."""
        kind = System if self.exchanges else _NoExchange
        return kind(root, clones=self.clones, links=self.links, **more)

    @contextmanager
    def prepared(self, root: str) -> Iterator[Callable[[bool], None]]:
        """Read what is to be written; the function that is yielded writes it."""

        def write(force: bool) -> None:
            force = force or self.options.force
            prepare_export(self.source_prefix(root), self.target_prefix(root), force=force).write()

        yield write


class FolderOracle(Oracle):
    """Judges the folder of an operation that makes a folder."""

    operation: Export

    def __init__(self, operation: Export, scratch: str) -> None:
        self.operation = operation
        self.root = os.path.join(scratch, "work")
        self._run_again = set()
        self._name = os.path.relpath(operation.target_prefix(self.root), self.root)
        self.fresh()
        with operation.system(self.root):
            operation.run(self.root)
        if operation.source == _ASSET:
            source = Path(operation.source_prefix(self.root))
            assert is_whole(Path(operation.target_prefix(self.root)), source)
        self._new = self._contents(snapshot(self.root))
        assert f"{self._name}/saved_model.pb" in self._new
        self.check(done=True)

    def check(self, *, done: bool, tolerated: bool = False) -> Verdict:
        """Hold the folder to what it may be; as of `Oracle`."""
        after = snapshot(self.root)
        for name, entry in self.before.items():
            if not self._is_own(name):
                assert after.get(name) == entry, f"{name} changed or is gone"
        made = os.path.dirname(self._name)
        leftovers = [name for name in after if name not in self.before and not self._is_own(name)]
        if made in leftovers and any(name.startswith(made + os.sep) for name in after):
            leftovers.remove(made)
        for name in leftovers:
            ours = any(part.endswith(OURS) for part in name.split(os.sep))
            assert ours or name == made, f"{name} was left behind"
        assert tolerated or not leftovers, f"left behind: {leftovers}"
        state = self._state_in(after)
        if done:
            assert state == "new", f"said to be done, but is {state}"
        return Verdict(state, self._signature(after), tuple(sorted(leftovers)))

    def run_again(self, verdict: Verdict) -> bool:
        """Do the same again, undisturbed: it comes out right and leaves nothing."""
        if verdict.signature in self._run_again:
            return False
        self._run_again.add(verdict.signature)
        with self.operation.system(self.root):
            try:
                self.operation.run(self.root)
            except DestinationError:
                assert verdict.state == "new", "refused, though nothing is in the way"
                self.operation.run(self.root, force=True)
        assert not self.check(done=True).leftovers
        return True

    def _is_own(self, name: str) -> bool:
        return name == self._name or name.startswith(self._name + os.sep)

    def _own(self, entries: Snapshot) -> dict[str, Entry]:
        return {name: entry for name, entry in entries.items() if self._is_own(name)}

    def _contents(self, entries: Snapshot) -> dict[str, bytes]:
        """Return what is in the folder, without names that could not be removed from it."""
        own = self._own(entries).items()
        return {name: each.data for name, each in own if not name.endswith(OURS)}

    def _state_in(self, after: Snapshot) -> str:
        own = self._own(after)
        if not own:
            if self.operation.old and not self.operation.exchanges:
                # Put aside for an instant, as there is no way to do it in one step.
                aside = [name for name in after if ".old." in name and name.endswith(OURS)]
                assert aside, "the old folder is gone and the new one not there"
            else:
                assert not self.operation.old, "the old folder is gone and the new one not there"
            return "absent"
        if self._contents(after) == self._new:
            return "new"
        assert own == self._own(self.before), f"neither old nor new: {sorted(own)}"
        return "old"


EXPORTS = [
    Export("export of two shards", source=SESSION_BUNDLE, destination="out/made/model"),
    Export("export, V1, no links", source=SESSION_BUNDLE_V1, links=False),
    Export("export over another", options=WriteOptions(force=True), old=True),
    Export(
        "export over another, put aside",
        options=WriteOptions(force=True),
        old=True,
        exchanges=False,
    ),
]
ALL: list[Operation] = [*OPERATIONS, *EXPORTS]


def judge(operation: Operation, scratch: str) -> Oracle:
    """Return who judges the folder of an operation; the arguments are those of `Oracle`."""
    if isinstance(operation, Export):
        return FolderOracle(operation, scratch)
    return Oracle(operation, scratch)
