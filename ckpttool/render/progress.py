"""A progress bar on a terminal, for work of more than a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TextIO

from ckpttool.render.console import Terminal
from ckpttool.render.humanize import size

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task, TaskID

ProgressUnit = Literal["bytes", "tensors", "checkpoints"]
_DELAY = 1.0  # seconds
# Between two drawings: a screen that is recorded, or far away, gets less than a kilobyte a second.
_PAUSE = 0.25


class ProgressBar:
    """A bar that is updated by calling it, and appears only after a delay.

    As a context manager it leaves nothing behind on the screen.

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

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` are done."""
        if not self._wanted or (self._bar is None and done >= total):
            return
        now = time.monotonic()
        if now - self._start < self._delay or self._hidden():
            return
        if self._bar is None or self._task is None:
            self._bar = self._make_bar()
            self._task = self._bar.add_task(self._what, total=total)
            self._bar.start()
        due = now - self._drawn >= _PAUSE
        self._drawn = now if due else self._drawn
        self._bar.update(self._task, completed=done, total=total, refresh=due)

    def clear(self) -> None:
        """Remove the bar from the screen, so that other output can be written."""
        bar, self._bar, self._task = self._bar, None, None
        if bar is not None:
            bar.stop()

    def _make_bar(self) -> Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Speed(ProgressColumn):
            """Bytes a second; rich has only decimal units for them."""

            def render(self, task: Task) -> Text:
                return Text("" if task.speed is None else f"{size(round(task.speed))}/s")

        amounts: tuple[ProgressColumn, ...] = (DownloadColumn(binary_units=True), Speed())
        if self._unit != "bytes":
            text = "{task.completed:,.0f}/{task.total:,.0f} " + self._unit
            amounts = (TextColumn(text, markup=False),)
        console = Console(
            file=self._stream,
            force_terminal=True,
            color_system="standard" if self._terminal.color else None,
            no_color=not self._terminal.color,
            width=self._terminal.width,
        )
        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *amounts,
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,  # by a thread, ten times a second, whether anything happened or not
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
