"""A progress bar on a terminal, for work of more than a second."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TextIO

from ckpttool.render import humanize
from ckpttool.render.console import Terminal

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

ProgressUnit = Literal["bytes", "tensors", "checkpoints"]
_DELAY = 1.0  # seconds
# Between two drawings: a screen that is recorded, or far away, gets less than a kilobyte a second.
_PAUSE = 0.25
_WIDTH, _WIDEST = 80, 24  # of a line, and of the bar in it
_BRIEF = 60  # on a narrower line only the amount is told
_AMOUNTS = 55  # room for the words behind the bar


class ProgressBar:
    """A bar that is updated by calling it, and appears only after a delay.

    As a context manager it also appears if nobody calls it, as a bar without an end, and leaves
    nothing behind on the screen.

    Args:
        what: the work, in a word or two.
        stream: where to draw; not the stream of the output.
        terminal: of that stream; without a terminal there is no bar.
        unit: what is counted.
        hidden: tells whether there is no place for a bar now.
        delay: seconds after which the bar appears.
    """

    def __init__(
        self,
        what: str,
        stream: TextIO,
        terminal: Terminal,
        *,
        unit: ProgressUnit = "bytes",
        hidden: Callable[[], bool] = lambda: False,
        delay: float = _DELAY,
    ) -> None:
        self._what = what
        self._stream = stream
        self._terminal = terminal
        self._unit = unit
        self._hidden = hidden
        self._delay = delay
        self._wanted = terminal.interactive and os.environ.get("TERM") != "dumb"
        self._start = self._drawn = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._over = threading.Event()
        # Of what is drawn, by the work or by the clock.
        self._lock = threading.Lock()
        self._cleared = False

    def __enter__(self) -> ProgressBar:
        if self._wanted:
            with suppress(RuntimeError, MemoryError):  # there may be no room for a thread
                threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.clear()

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` are done."""
        if not self._wanted or (self._bar is None and done >= total):
            return
        now = time.monotonic()
        if now - self._start < self._delay:
            return
        with self._lock:
            self._cleared = False
            due = now - self._drawn >= _PAUSE or self._bar is None
            self._drawn = now if due else self._drawn
            self._draw(done, total, refresh=due)

    def clear(self) -> None:
        """Remove the bar from the screen until it is called again; other output can be written."""
        with self._lock:
            self._cleared = True
            bar, self._bar, self._task = self._bar, None, None
            if bar is not None:
                bar.stop()

    def _tick(self) -> None:
        """Show that time passes, where the work has nothing to report."""
        while not self._over.wait(max(self._delay - (time.monotonic() - self._start), _PAUSE)):
            with self._lock:
                if not self._over.is_set() and not self._cleared:
                    self._draw(None, None, refresh=True)

    def _draw(self, done: int | None, total: int | None, *, refresh: bool) -> None:
        if self._hidden():
            return
        if self._bar is None or self._task is None:
            self._bar = self._make_bar()
            self._task = self._bar.add_task(self._what, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total, refresh=refresh)

    def _make_bar(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.table import Column
        from rich.text import Text

        unit = self._unit
        brief = (self._terminal.width or _WIDTH) < _BRIEF
        room = (self._terminal.width or _WIDTH) - len(self._what) - _AMOUNTS

        class Amounts(ProgressColumn):
            """What is done, how fast, and how long it will take; rich's have decimal units."""

            def render(self, task: Task) -> Text:
                return Text(_amounts(task, unit, brief=brief), style="green")

        console = Console(
            file=self._stream,
            force_terminal=True,
            color_system="standard" if self._terminal.color else None,
            no_color=not self._terminal.color,
            width=self._terminal.width,
        )
        return Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(min(max(room, 4), _WIDEST)),
            Amounts(Column(no_wrap=True)),
            console=console,
            auto_refresh=False,  # by a thread, ten times a second, whether anything happened or not
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )


def _amounts(task: Task, unit: ProgressUnit, *, brief: bool) -> str:
    if task.total is None:
        return humanize.duration(task.elapsed or 0)
    done, total, speed = round(task.completed), round(task.total), task.speed
    left = task.time_remaining
    if unit == "bytes":
        text = f"{humanize.size(done)} of {humanize.size(total)}"
        text += f"  {humanize.size(round(speed))}/s" if speed and not brief else ""
    else:
        text = f"{humanize.number(done)} of {humanize.number(total)} {unit}"
    return text if left is None or brief else f"{text}  {humanize.duration(left)} left"
