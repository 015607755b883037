"""A time limit for regular expressions.

`re` backtracks: for an expression such as `(a+)+$` the time doubles with each character of a name.
It checks for signals meanwhile, so a timer can end it. The timer counts processor time, so that a
busy machine does not trigger it. There is none outside of the main thread, on a system without
timers, and in a program that uses the timer itself.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import NoReturn, TypeVar

from ckpttool.errors import SelectionError
from ckpttool.printable import printable, shortened

R = TypeVar("R")
# Processor time for some thousand names; these usually take milliseconds.
SECONDS = 5.0
_NAMES = 4096


class TimeLimit:
    """Ends the block after `SECONDS` of processor time.

    Args:
        text: the expression as typed, for the error.

    Raises:
        SelectionError: the time is up.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._calls = 0
        self._armed = False

    def __enter__(self) -> TimeLimit:
        import signal
        import threading

        if (
            hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
        ):
            signal.signal(signal.SIGVTALRM, self._end)
            self._armed = True
            self._renew()
        return self

    def __exit__(self, *error: object) -> None:
        if self._armed:
            import signal

            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
            self._armed = False

    def renewing(self, function: Callable[[str], R]) -> Callable[[str], R]:
        """Return a function of a name that restarts the timer after some thousand names."""

        def call(name: str) -> R:
            self._calls += 1
            if self._armed and not self._calls % _NAMES:
                self._renew()
            return function(name)

        return call

    def _renew(self) -> None:
        import signal

        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        raise SelectionError(
            f"'{shortened(printable(self._text))}' takes more than {SECONDS:g} s: it can match one "
            "name in too many ways; avoid nested repeats such as (a+)+"
        )
