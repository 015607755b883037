"""Saving and restoring a program's objects under one root."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ckpttool.bundle.naming import index_path
from ckpttool.checkpoint.state import refuse_unnamable
from ckpttool.errors import DestinationError, UnrestoredError, UnsavedWarning, UntrackableError
from ckpttool.storage.paths import StrPath, path_text
from ckpttool.train.containers import node_of
from ckpttool.train.module import Module
from ckpttool.train.options import CheckpointOptions, call_after_writing
from ckpttool.train.restore import read_program
from ckpttool.train.saving import write_latest, write_snapshot
from ckpttool.train.snapshot import snapshot_of
from ckpttool.train.status import LoadStatus, NameBasedSaverStatus
from ckpttool.train.trackable import Trackable, add_edge, edges_at, resume
from ckpttool.train.variable import Variable
from ckpttool.train.worker import start, wait_for

if TYPE_CHECKING:
    from ckpttool.checkpoint.open import Checkpoint as StoredCheckpoint
    from ckpttool.query.match.plan import MatchMode, RestorePlan

SAVE_COUNTER = "save_counter"
# Where a checkpoint keeps its own state: not as attributes, which would be tracked.
_ROOT, _ATTACHED, _COUNTER = "_ckpttool_root", "_ckpttool_attached", "_ckpttool_counter"


class Count:
    """The number of a save.

    Attributes:
        number: the number.
        kept: whether it is taken, whatever follows.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.kept = False

    def keep(self, path: str) -> None:
        """Note that a checkpoint has the number."""
        del path
        self.kept = True


def _nothing(path: str) -> None:
    del path


class Checkpoint(Module):
    """Saves the objects that can be reached from it, or from a root.

    Args:
        root: an object that becomes the root of the checkpoint itself, or a weak reference to it;
            attributes set on the `Checkpoint` later are not saved then.
        **kwargs: objects to save, by name.

    Raises:
        UntrackableError: a value cannot be tracked, is called `save_counter`, or has the name of
            another child of the root.
    """

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        if SAVE_COUNTER in kwargs:
            raise UntrackableError(f"'{SAVE_COUNTER}' is the checkpoint's own name")
        state = self.__dict__
        state[_COUNTER] = None
        if root is None:
            for name in sorted(kwargs):
                self._set(name, kwargs[name])
            return
        node = _dereferenced(root, "root")
        own = edges_at(node, "")
        counter = own.get(SAVE_COUNTER)
        if counter is not None:
            if not isinstance(counter, Variable):
                raise UntrackableError(f"the child '{SAVE_COUNTER}' of the root is no Variable")
            state[_COUNTER] = counter
        if node_of(root) is not None:
            # Where this object is part of another checkpoint, TensorFlow has this edge first.
            add_edge(self, "_root", node)
        # The root itself is not held here: it may have been given as a weak reference.
        attached: list[tuple[str, Trackable | None]] = []
        for name, value in sorted({**kwargs, "root": root}.items()):
            child = self._set(name, value)
            there = own.get(name)
            if there is None:
                attached.append((name, None if name == "root" else child))
            elif there is not child:
                raise UntrackableError(f"the root has another child '{name}' already")
        state[_ROOT], state[_ATTACHED] = root, attached

    @classmethod
    def _of_whole(cls, root: Trackable) -> Checkpoint:
        """Return what saves a program whose root has all its edges, the save counter's too.

        Args:
            root: the root; if it is a `Checkpoint`, the result is this.
        """
        made = root if isinstance(root, Checkpoint) else cls(root)
        state = made.__dict__
        if made is not root:
            state[_ATTACHED].clear()
        counter = edges_at(root, "").get(SAVE_COUNTER)
        if isinstance(counter, Variable):
            state[_COUNTER] = counter
        return made

    def _set(self, name: str, value: Any) -> Trackable:
        setattr(self, name, value)
        return _dereferenced(getattr(self, name), name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if _ROOT in self.__dict__ and node_of(value) is not None:
            warnings.warn(
                f"'{name}' is not saved: this Checkpoint has a root; set it on the root, or give "
                "it to Checkpoint(…) as keyword",
                UnsavedWarning,
                stacklevel=2,
            )

    def _tracked_root(self) -> tuple[Trackable, list[tuple[str, Trackable]]]:
        """Return the first node of the checkpoint, and its edges that are not its own."""
        if _ROOT not in self.__dict__:
            return self, []
        root = _dereferenced(self.__dict__[_ROOT], "root")
        return root, [
            (name, root if child is None else child) for name, child in self.__dict__[_ATTACHED]
        ]

    @property
    def save_counter(self) -> Variable:
        """The number of the last save: a variable that is saved too, made on first use."""
        counter: Variable | None = self.__dict__.get(_COUNTER)
        if counter is None:
            counter = _new_counter()
            root, _ = self._tracked_root()
            add_edge(self, SAVE_COUNTER, counter)
            if root is not self:
                resume(root, SAVE_COUNTER, counter, by_name=False)
                self.__dict__[_ATTACHED].append((SAVE_COUNTER, counter))
            self.__dict__[_COUNTER] = counter
        return counter

    def write(self, file_prefix: StrPath, options: CheckpointOptions | None = None) -> str:
        """Write a checkpoint; neither the counter nor the state file changes.

        Args:
            file_prefix: its path, without the endings of its files.
            options: how to save.

        Returns:
            The path.

        Raises:
            ContainerChangedError, UntrackableError: an object cannot be saved.
            CkptError: a file cannot be written. Then nothing is left behind.
        """
        prefix = path_text(file_prefix)
        self.sync()
        self._save_as(prefix, options)
        return prefix

    def save(self, file_prefix: StrPath, options: CheckpointOptions | None = None) -> str:
        """Count up, write a checkpoint, and name it as the latest in its folder's state file.

        Args:
            file_prefix: its path, up to the "-" and the number that are added.
            options: how to save.

        Returns:
            The path.

        Raises:
            ContainerChangedError, UntrackableError: an object cannot be saved.
            CkptError: a file cannot be written. Then nothing is left behind, and the counter is
                as it was.
        """
        prefix = path_text(file_prefix)
        self.sync()
        with self._counted_up() as count:
            path = f"{prefix}-{count.number}"
            self._save_as(path, options, written=count.keep, record=write_latest)
        return path

    def sync(self) -> None:
        """Wait for what is saved in the background.

        Raises:
            CkptError: it could not be written. This is raised once.
        """
        wait_for(self)

    @contextmanager
    def _counted_up(self) -> Iterator[Count]:
        """Count up for a save; if it fails before the number is taken, count down again."""
        counter = self.save_counter
        counter.assign_add(1)
        count = Count(int(counter))
        try:
            yield count
        except BaseException:
            if not count.kept:
                counter.assign_sub(1)
            raise

    def _save_as(
        self,
        path: str,
        options: CheckpointOptions | None,
        *,
        written: Callable[[str], None] = _nothing,
        record: Callable[[str], None] = _nothing,
    ) -> None:
        """Write a checkpoint, here or in the background.

        Args:
            path: its prefix.
            options: how to save.
            written: called when it is written, before the callbacks of the options.
            record: called after these.
        """
        if record is not _nothing:
            refuse_unnamable(os.path.basename(path))
        in_background = options is not None and options.enable_async
        snapshot = snapshot_of(*self._tracked_root(), copy=in_background)

        def work() -> None:
            write_snapshot(path, snapshot)
            written(path)
            call_after_writing(options, path)
            record(path)

        if in_background:
            start(self, path, work)
        else:
            work()

    def read(
        self, save_path: StrPath | None, options: CheckpointOptions | None = None
    ) -> LoadStatus:
        """Restore what `write` wrote.

        What the program does not have yet is restored when it is tracked.

        Args:
            save_path: the address of a checkpoint; None for none.
            options: how to restore.

        Returns:
            What was matched; its assertions check that.

        Raises:
            ContainerChangedError: a container cannot be restored into.
            MismatchError: tensors have not the dtype or shape of their variables.
            CkptError: the checkpoint is missing or damaged. After any error the program is as it
                was.
        """
        return self._read(save_path, options)

    def _read(
        self,
        save_path: StrPath | None,
        options: CheckpointOptions | None,
        later: Mapping[str, Trackable] | None = None,
    ) -> LoadStatus:
        self.sync()
        reserved = self._reserved()
        return read_program(save_path, self._tracked_root, options, reserved=reserved, later=later)

    def _reserved(self) -> Collection[str]:
        """Return the edges that a carried root does not take."""
        _, attached = self._tracked_root()
        return [SAVE_COUNTER, *(name for name, _ in attached)] if attached else ()

    def _plan(self, source: StoredCheckpoint, mode: MatchMode, *, skip_slots: bool) -> RestorePlan:
        """Return what `restore` or `read` would do; nothing changes."""
        from ckpttool.train.planning import plan_of_trial

        root, attached = self._tracked_root()
        counter = None
        if mode == "restore" and self.__dict__.get(_COUNTER) is None:
            counter = _new_counter()
            # The edge of a counter that is made beside a root gets nothing by name.
            attached = [*attached, (SAVE_COUNTER, counter)]
        return plan_of_trial(
            source,
            lambda: (root, attached),
            mode,
            skip_slots=skip_slots,
            reserved=self._reserved(),
            late=counter if _ROOT in self.__dict__ else None,
        )

    def restore(
        self, save_path: StrPath | None, options: CheckpointOptions | None = None
    ) -> LoadStatus:
        """Restore what `save` wrote: `read`, and then the save counter.

        Args:
            save_path: as for `read`.
            options: how to restore.

        Raises:
            CkptError: as for `read`.
        """
        later = None
        if self.__dict__.get(_COUNTER) is None:
            # It comes after the rest, but where it cannot be restored nothing may be.
            later = {SAVE_COUNTER: _new_counter()}
        status = self._read(save_path, options, later)
        counter = self.save_counter
        status.mode = "restore"
        if isinstance(status, NameBasedSaverStatus):
            status.optional = counter
        return status


def _new_counter() -> Variable:
    return Variable(np.int64(0), trainable=False, name=SAVE_COUNTER)


def save_weights(
    root: Any, path: StrPath, overwrite: bool = True, options: CheckpointOptions | None = None
) -> None:
    """Save an object as a Keras model's method of that name does, and name it as the latest.

    Args:
        root: the object, which becomes the root.
        path: of the checkpoint, without the endings of its files.
        overwrite: replace a checkpoint of that name.
        options: how to save.

    Raises:
        DestinationError: there is one, and it must not be replaced.
        CkptError: as of `Checkpoint.write`.
    """
    prefix = path_text(path)
    if not overwrite and os.path.lexists(index_path(prefix)):
        raise DestinationError("already exists", path=index_path(prefix))
    write_latest(Checkpoint(root).write(prefix, options))


def load_weights(root: Any, path: StrPath, options: CheckpointOptions | None = None) -> LoadStatus:
    """Restore an object as a Keras model's method of that name does.

    Args:
        root: the object, which was the root of what was saved.
        path: the address of a checkpoint.
        options: how to restore.

    Raises:
        UnrestoredError: nothing but the root was matched.
        CkptError: as of `Checkpoint.read`.
    """
    status = Checkpoint(root).read(path, options)
    try:
        return status.assert_nontrivial_match()
    except UnrestoredError:
        status.expect_partial()  # else the same is told again, as a warning
        raise


def _dereferenced(value: Any, name: str) -> Trackable:
    """Return the node of a value, or of what a weak reference leads to.

    Raises:
        UntrackableError: there is none.
    """
    if isinstance(value, weakref.ref):
        value = value()
        if value is None:
            raise UntrackableError(f"'{name}' no longer exists")
    node = node_of(value)
    if node is None:
        raise UntrackableError(
            f"'{name}' is {type(value).__name__}, which cannot be tracked; a Variable, a Module, "
            "or track(…) of it can"
        )
    return node
