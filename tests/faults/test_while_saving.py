"""Somebody else saves, removes or names checkpoints at each single moment of an operation."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ckpttool import open_checkpoint
from ckpttool.api.verify import verify
from ckpttool.bundle.reader import BundleReader
from ckpttool.checkpoint.state import read_state
from ckpttool.errors import ChangedError, CkptError, CorruptError, MissingFileError, SurgeryError
from ckpttool.surgery.plan import Plan
from ckpttool.surgery.renaming import rename
from ckpttool.surgery.rules import MoveRule
from ckpttool.surgery.writing.bundle.carry import DataMode
from ckpttool.surgery.writing.prepare import WriteOptions, prepare
from tests.faults import trainer
from tests.faults.counts import MOMENTS, count
from tests.faults.operations import OPERATIONS, Operation
from tests.support.answers import value_bytes
from tests.support.faults import CHANGES, Call, System

OPTIONS = [
    WriteOptions(),
    WriteOptions("copy"),
    WriteOptions("reflink"),
    WriteOptions(compact=True),
]
# How far the other one gets at that moment; the rest comes when the operation is over.
POINTS = ["data", "index opened", "half the index", ""]


def read(prefix: str) -> dict[str, bytes]:
    with BundleReader(prefix) as reader:
        return {key: value_bytes(reader.read(key)) for key in reader.entries}


@dataclass
class Scene:
    """A checkpoint, and an operation on it that somebody interferes with.

    Attributes:
        root: a folder for both.
        options: of the operation.
        in_place: whether it changes the checkpoint itself.
        error: what it ended with.
        last: the call before which the other one acted.
    """

    root: Path
    options: WriteOptions = field(default_factory=WriteOptions)
    in_place: bool = False
    error: CkptError | None = None
    last: str = ""

    @property
    def source(self) -> str:
        return str(self.root / "src" / "ckpt-1")

    @property
    def target(self) -> str:
        return self.source if self.in_place else str(self.root / "out" / "q")

    def play(self, at: int, other: Callable[[], Iterator[str]], until: str = "") -> bool:
        """Do the operation, and let the other one act before call number `at`.

        Returns:
            Whether there was such a call.
        """
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / "src").mkdir(parents=True)
        (self.root / "out").mkdir()
        trainer.run(trainer.saving(self.source, 1))
        acting: list[Iterator[str]] = []

        def before(call: Call) -> None:
            if call.number == at:
                self.last = f"{call.name} {call.path} {call.target}"
                acting.append(other())
                count(MOMENTS)
                trainer.run(acting[0], until=until)

        self.error = None
        clones = self.options.data == "reflink"
        with open_checkpoint(self.source) as ckpt:
            plan = rename(Plan.of(ckpt), [MoveRule("net", "model")])
            try:
                with System(self.root, before=before, clones=clones):
                    if self.in_place:
                        prepare(plan, None, self.options).write()
                    else:
                        prepare(plan, self.target, self.options).write()
            except CkptError as error:
                self.error = error
        for rest in acting:
            trainer.run(rest)
        return bool(acting)

    def left(self) -> list[str]:
        """Return the names in both folders."""
        return sorted(os.listdir(self.root / "src") + os.listdir(self.root / "out"))

    def save(self) -> Iterator[str]:
        return trainer.saving(self.source, 2)

    def retire(self) -> Iterator[str]:
        return trainer.retiring(self.source)


def check_refusal(scene: Scene, at: int) -> None:
    """Check that an operation ended for the right reason."""
    assert isinstance(scene.error, (ChangedError, SurgeryError)), (at, repr(scene.error))
    assert re.search("changed while|being written|another process writes", str(scene.error)), (
        at,
        scene.error,
    )


SOURCE = ["ckpt-1.data-00000-of-00001", "ckpt-1.index"]
TARGET = ["q.data-00000-of-00001", "q.index"]


def moments(play: Callable[[int], bool]) -> Iterator[int]:
    """Yield each moment at which there was something to interfere with."""
    at = 1
    while play(at):
        yield at
        at += 1
    assert at > 20


@pytest.mark.sweep(8)
@pytest.mark.parametrize("until", POINTS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_source_is_saved_anew(options: WriteOptions, until: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path / "work", options)
    done = refused = 0
    for at in moments(lambda at: scene.play(at, scene.save, until)):
        assert read(scene.source) == trainer.expected(2), at
        if scene.error is None:
            done += 1
            assert read(scene.target) in [trainer.expected(n, "model") for n in (1, 2)], at
            assert scene.left() == SOURCE + TARGET
        else:
            refused += 1
            check_refusal(scene, at)
            assert scene.left() == SOURCE, at
    assert done > 3
    assert refused > 3


@pytest.mark.sweep(8)
@pytest.mark.parametrize("until", POINTS)
@pytest.mark.parametrize("compact", [False, True])
def test_the_checkpoint_that_is_changed_is_saved_anew(
    compact: bool, until: str, tmp_path: Path
) -> None:
    """What was saved last is what stays, in its old names or the new ones."""
    scene = Scene(tmp_path / "work", WriteOptions(compact=compact), in_place=True)
    lost = []
    for at in moments(lambda at: scene.play(at, scene.save, until)):
        if found_now(scene) not in (trainer.expected(2), trainer.expected(2, "model")):
            lost.append(scene.last)
        if scene.error is not None:
            check_refusal(scene, at)
        extra = set(scene.left()) - set(SOURCE)
        assert all(name.endswith("-of-00002") for name in extra), (at, extra)
    # Between the last look at an old shard and its removal there is a moment nobody can close.
    assert [each for each in lost if each.split()[:2] != ["unlink", f"src/{SOURCE[0]}"]] == []


def found_now(scene: Scene) -> dict[str, bytes] | None:
    """Return what is in the source now, None if it cannot be read."""
    try:
        return read(scene.source)
    except CkptError:
        return None


@pytest.mark.sweep(8)
@pytest.mark.parametrize("until", ["index removed", ""])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_source_is_retired(options: WriteOptions, until: str, tmp_path: Path) -> None:
    scene = Scene(tmp_path / "work", options)
    done = refused = 0
    for at in moments(lambda at: scene.play(at, scene.retire, until)):
        if scene.error is None:
            done += 1
            assert scene.left() == TARGET
            assert read(scene.target) == trainer.expected(1, "model"), at
        else:
            refused += 1
            assert isinstance(scene.error, (ChangedError, SurgeryError, MissingFileError)), (
                at,
                scene.error,
            )
            assert scene.left() == []
    assert done > 3
    assert refused > 3


@pytest.mark.parametrize("until", ["index removed", ""])
@pytest.mark.parametrize("compact", [False, True])
def test_the_checkpoint_that_is_changed_is_retired(
    compact: bool, until: str, tmp_path: Path
) -> None:
    """What is gone stays gone, or is there as a whole; an index without data must not be left."""
    scene = Scene(tmp_path / "work", WriteOptions(compact=compact), in_place=True)
    ruins = []
    for _ in moments(lambda at: gone(scene, at, until)):
        left = os.path.exists(scene.source + ".index")
        if left and found_now(scene) != trainer.expected(1, "model"):
            ruins.append(scene.last)
    # Between the last look at the files and the renaming of the index nobody can close the door.
    assert len(ruins) <= 2, ruins
    assert all(each.split()[0] in ("stat", "rename") for each in ruins), ruins


def gone(scene: Scene, at: int, until: str) -> bool:
    """Play the scene; that the other one finds files gone that it wanted to remove is no matter."""

    def retire() -> Iterator[str]:
        for path in (scene.source + ".index", scene.source + ".data-00000-of-00001"):
            if os.path.exists(path):
                os.unlink(path)
            yield "index removed"

    return scene.play(at, retire, until)


@pytest.mark.large
def test_another_names_its_checkpoint_in_the_state_file(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "work", WriteOptions(update_state=True))
    names = ["other-1", "other-2"]

    def tell() -> Iterator[str]:
        names.append(f"other-{len(names) + 1}")
        return trainer.telling(str(tmp_path / "work" / "out"), names)

    lost = []
    for _ in moments(lambda at: scene.play(at, tell)):
        state = read_state(str(tmp_path / "work" / "out" / "checkpoint"))
        assert scene.error is None
        if not set(names) <= set(state.all_model_checkpoint_paths):
            lost.append(scene.last)
    # Between the last look and the replacement there is one moment that nobody can close.
    assert len(lost) <= 1, lost


@pytest.mark.sweep(8)
@pytest.mark.parametrize("point", POINTS)
def test_a_save_that_is_under_way_is_not_carried_on(point: str, tmp_path: Path) -> None:
    """The new data lies under the old index for a moment; links and clones do not look at data."""
    (tmp_path / "src").mkdir()
    prefix = str(tmp_path / "src" / "ckpt-1")
    trainer.run(trainer.saving(prefix, 1))
    second = trainer.saving(prefix, 2)
    trainer.run(second, until=point)
    modes: tuple[DataMode, ...] = ("hardlink", "copy", "auto")
    for data in modes:
        out = str(tmp_path / f"out-{data}")
        try:
            with open_checkpoint(prefix) as ckpt:
                plan = rename(Plan.of(ckpt), [MoveRule("net", "model")])
                prepare(plan, out, WriteOptions(data)).write()
        except (ChangedError, CorruptError, SurgeryError):
            assert not any(name.startswith("out") for name in os.listdir(tmp_path))
            assert point
        else:
            assert read(out) == trainer.expected(2, "model")
            assert not point
    trainer.run(second)
    assert read(prefix) == trainer.expected(2)


@pytest.mark.sweep(8)
@pytest.mark.parametrize("point", POINTS)
def test_a_reader_is_overtaken(point: str, tmp_path: Path) -> None:
    """A save gets to some point before the checkpoint is read, and to its end meanwhile."""
    prefix = str(tmp_path / "best")

    def play(at: int) -> bool:
        trainer.run(trainer.saving(prefix, 1))
        second = trainer.saving(prefix, 2)
        trainer.run(second, until=point)
        acted = []

        def before(call: Call) -> None:
            if call.number == at:
                count(MOMENTS)
                acted.append(at)
                trainer.run(second)

        try:
            with System(tmp_path, before=before):
                found = read(prefix)
            assert found in (trainer.expected(1), trainer.expected(2)), at
        except CkptError as error:
            assert re.search("changed while|being written", str(error)), (at, error)
        trainer.run(second)
        return bool(acted)

    at = 1
    while play(at):
        at += 1
    assert at > 5


@pytest.mark.sweep(8)
@pytest.mark.parametrize("point", POINTS)
def test_verify_is_overtaken(point: str, tmp_path: Path) -> None:
    """A save gets to some point before a checkpoint is verified, and to its end meanwhile."""
    prefix = str(tmp_path / "best")

    def play(at: int) -> bool:
        trainer.run(trainer.saving(prefix, 1))
        second = trainer.saving(prefix, 2)
        trainer.run(second, until=point)
        acted = []

        def before(call: Call) -> None:
            if call.number == at:
                count(MOMENTS)
                acted.append(at)
                trainer.run(second)

        with System(tmp_path, before=before):
            (report,) = verify(prefix)
        assert report.verdict == "ok" or not acted, (at, report.findings)
        trainer.run(second)
        return bool(acted)

    at = 1
    while play(at) and at < 30:
        at += 1
    assert at > 3


def test_a_save_that_was_given_up_is_damage(tmp_path: Path) -> None:
    """New data lies under the old index, and nobody goes on."""
    prefix = str(tmp_path / "best")
    trainer.run(trainer.saving(prefix, 1))
    trainer.run(trainer.saving(prefix, 2), until="data")
    os.utime(f"{prefix}_temp", (1, 1))
    (report,) = verify(prefix)
    assert report.verdict == "damaged"
    assert "mixed-saves" in {each.code for each in report.findings}


@pytest.mark.sweep(8)
@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.old or each.destination is None], ids=str
)
def test_verify_beside_a_writer(operation: Operation, tmp_path: Path) -> None:
    """What is being replaced or changed stays as sound as it was, whoever looks after a change."""
    root = str(tmp_path / "work")
    operation.build(root)
    (before,) = verify(operation.target_prefix(root))
    found: list[tuple[Call, str]] = []

    def after(call: Call) -> None:
        if call.name in CHANGES:
            count(MOMENTS)
            (report,) = verify(operation.target_prefix(root))
            found.append((call, report.verdict))

    with operation.prepared(root) as write, operation.system(root, after=after):
        write(False)
    assert len(found) > 5
    assert not [(call, verdict) for call, verdict in found if verdict not in ("ok", before.verdict)]
