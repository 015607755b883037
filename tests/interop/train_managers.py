"""Programs that save through a manager, one for each rule.

Each takes the names to use, a folder, and a clock that it may move.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Program = Callable[[Any, Path, Any], object]
PROGRAMS: list[Program] = []


class Clock:
    """Seconds since 1970, for both systems."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.25

    def __call__(self) -> float:
        self.now += 1 / 64
        return self.now


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


def relative(folder: Path, *paths: Any) -> list[Any]:
    return [None if path is None else str(path).replace(str(folder), "") for path in paths]


def told(folder: Path, manager: Any) -> list[Any]:
    return relative(folder, manager.latest_checkpoint, *manager.checkpoints)


def raises(function: Callable[..., object], *arguments: Any, **named: Any) -> str:
    try:
        function(*arguments, **named)
    except Exception as error:  # of either system
        return "ValueError" if isinstance(error, ValueError) else "another"
    return "nothing"


@program
def the_newest_are_kept(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder / "a", 3)
    answers = [told(folder, manager), relative(folder, manager.directory)]
    for _ in range(5):
        answers += [relative(folder, manager.save()), told(folder, manager)]
    everything = m.CheckpointManager(ckpt, str(folder / "b"), None, checkpoint_name="model")
    for _ in range(4):
        everything.save()
    return [*answers, told(folder, everything), int(ckpt.save_counter)]


@program
def relative_folders(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    answers = []
    for name in ("here", "./there", "deep/er", "here/../beside"):
        manager = m.CheckpointManager(ckpt, name, 1)
        manager.save()
        answers += [manager.save(), manager.latest_checkpoint, manager.checkpoints]
    again = m.CheckpointManager(ckpt, "here", 1)
    return [*answers, again.latest_checkpoint, again.checkpoints, again.save()]


@program
def one_is_preserved_each_hour(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 2, keep_checkpoint_every_n_hours=1)
    answers = []
    for _ in range(10):
        manager.save()
        clock.now += 20 * 60
        answers.append(told(folder, manager))
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 2, keep_checkpoint_every_n_hours=1)
    answers += [told(folder, manager), relative(folder, manager.restore_or_initialize())]
    for _ in range(10):
        manager.save()
        clock.now += 20 * 60
        answers.append(told(folder, manager))
    return answers


@program
def continued_with_other_settings(m: Any, folder: Path, clock: Any) -> object:
    v = m.Variable(1.0)
    manager = m.CheckpointManager(m.Checkpoint(v=v), folder, 5)
    for _ in range(5):
        v.assign_add(1.0)
        manager.save()
    v.assign(0.0)
    ckpt = m.Checkpoint(v=v)
    manager = m.CheckpointManager(ckpt, folder, 2)
    answers: list[Any] = [relative(folder, manager.restore_or_initialize()), float(v.numpy())]
    answers += [int(ckpt.save_counter), told(folder, manager)]
    manager.save()
    return [*answers, told(folder, manager)]


@program
def numbers_of_its_own(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 3)
    step = m.Variable(7, dtype="int64")
    answers: list[Any] = []
    for number in (5, step, 100, 5, 5, 3, 0):
        answers += [relative(folder, manager.save(checkpoint_number=number))]
        answers += [told(folder, manager), int(ckpt.save_counter)]
    return answers


@program
def intervals(m: Any, folder: Path, clock: Any) -> object:
    step = m.Variable(0, dtype="int64")
    ckpt = m.Checkpoint(v=m.Variable(1.0), step=step)
    answers: list[Any] = [raises(m.CheckpointManager, ckpt, folder, 2, checkpoint_interval=3)]
    manager = m.CheckpointManager(ckpt, folder, 2, step_counter=step, checkpoint_interval=3)
    for _ in range(8):
        answers += relative(folder, manager.save())
        step.assign_add(1)
    answers += relative(folder, manager.save(check_interval=False))
    answers += relative(folder, manager.save(check_interval=False))
    step.assign_add(1)
    answers += relative(folder, manager.save(check_interval=False))
    answers += [manager.checkpoint_interval, int(ckpt.save_counter)]
    again = m.CheckpointManager(
        ckpt, folder, 2, step_counter=step, checkpoint_interval=3, last_checkpoint_step=8
    )
    answers += relative(folder, again.save())
    step.assign(100)
    answers += relative(folder, again.restore_or_initialize(), again.save())
    step.assign_add(3)
    return [*answers, *relative(folder, again.save())]


@program
def initializing(m: Any, folder: Path, clock: Any) -> object:
    calls: list[str] = []
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 2, init_fn=lambda: calls.append("called"))
    answers = [relative(folder, manager.restore_or_initialize()), list(calls)]
    manager.save()
    answers += [relative(folder, manager.restore_or_initialize()), list(calls)]
    plain = m.CheckpointManager(m.Checkpoint(), folder / "empty", 2)
    return [*answers, plain.restore_or_initialize()]


@program
def wrong_arguments(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint()
    return [raises(m.CheckpointManager, ckpt, folder, number) for number in (0, -1, 1, None)]


@program
def state_files_of_others(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    path = ckpt.save(folder / "ckpt")  # without times: never deleted
    answers: list[Any] = []
    manager = m.CheckpointManager(ckpt, folder, 1)
    answers += [told(folder, manager)]
    manager.save()
    manager.save()
    answers += [told(folder, manager), Path(str(path) + ".index").exists()]
    state = folder / "checkpoint"
    state.write_text("nonsense {")
    answers += [told(folder, m.CheckpointManager(ckpt, folder, 1))]
    state.write_text("")
    answers += [raises(m.CheckpointManager, ckpt, folder, 1)]
    state.write_text('model_checkpoint_path: "gone-9"\n')
    manager = m.CheckpointManager(ckpt, folder, 1)
    answers += [told(folder, manager), raises(manager.restore_or_initialize)]
    state.write_text('model_checkpoint_path: "/else/where-9"\n')
    return [*answers, m.CheckpointManager(ckpt, folder, 1).latest_checkpoint]


@program
def what_is_missing_already(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 1)
    first = manager.save()
    for path in folder.glob("ckpt-1.*"):
        path.unlink()
    manager.save()
    (folder / "ckpt-2.meta").write_text("stays")
    (folder / "ckpt-2.data-00000-of-00099").write_text("goes")
    (folder / "ckpt-20.index").write_text("stays")
    manager.save()
    return [relative(folder, first), told(folder, manager)]


@program
def times_of_the_future(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 3)
    for _ in range(3):
        clock.now += 60
        manager.save()
    clock.now -= 1000
    manager = m.CheckpointManager(ckpt, folder, 1)
    answers = [told(folder, manager)]
    manager.save()
    return [*answers, told(folder, manager)]


@program
def callbacks_come_before_the_state(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 2)
    seen: list[Any] = []

    def look(path: str) -> None:
        seen.extend(relative(folder, path))
        seen.append(told(folder, manager))

    def fail(path: str) -> None:
        raise RuntimeError(path)

    manager.save(options=m.CheckpointOptions(experimental_write_callbacks=[look]))
    failing = m.CheckpointOptions(experimental_write_callbacks=[fail])
    seen.append(raises(manager.save, options=failing))
    seen += [told(folder, manager), int(ckpt.save_counter)]
    manager.save()
    return [*seen, told(folder, manager)]


@program
def in_the_background(m: Any, folder: Path, clock: Any) -> object:
    ckpt = m.Checkpoint(v=m.Variable(1.0))
    manager = m.CheckpointManager(ckpt, folder, 2)
    options = m.CheckpointOptions(enable_async=True)
    for _ in range(4):
        ckpt.v.assign_add(1.0)
        manager.save(options=options)
    manager.sync()
    return told(folder, manager)
