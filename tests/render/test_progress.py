from __future__ import annotations

import io
import itertools
import time

import pytest

from ckpttool.render.console import Terminal
from ckpttool.render.progress import ProgressBar

MIB = 1 << 20
SCREEN = Terminal(interactive=True, color=False, width=80)


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def drawn(terminal: Terminal, *, delay: float = 0.0, last: int = 30 * MIB) -> str:
    stream = io.StringIO()
    with ProgressBar("verifying [it]", stream, terminal, delay=delay) as bar:
        bar(0, 30 * MIB)
        bar(10 * MIB, 30 * MIB)
        bar(last, 30 * MIB)
    return stream.getvalue()


def test_a_bar_on_a_terminal() -> None:
    text = drawn(SCREEN)
    assert "verifying [it]" in text
    assert "30.0 MiB of 30.0 MiB" in text
    assert "\x1b[3" not in text  # no colour
    assert "\x1b[3" in drawn(Terminal(interactive=True, color=True, width=80))


def test_nothing_stays_on_the_screen() -> None:
    text = drawn(SCREEN)
    # The line is erased, and the cursor is shown again.
    assert text.endswith("\x1b[2K") or "\x1b[2K" in text.rsplit("MiB", 1)[1]
    assert text.count("\x1b[?25h") == text.count("\x1b[?25l") == 1


@pytest.mark.parametrize(
    ("terminal", "delay"),
    [(Terminal(interactive=False, width=80), 0.0), (SCREEN, 60.0)],
    ids=["no terminal", "not long enough"],
)
def test_no_bar(terminal: Terminal, delay: float) -> None:
    assert drawn(terminal, delay=delay) == ""


def test_no_bar_on_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert drawn(SCREEN) == ""


def test_no_bar_while_a_pager_has_the_screen() -> None:
    stream = io.StringIO()
    busy = [True]
    with ProgressBar("verifying", stream, SCREEN, delay=0.0, hidden=lambda: busy[0]) as bar:
        bar(1, 5)
        assert stream.getvalue() == ""
        busy[0] = False
        bar(2, 5)
    assert "verifying" in stream.getvalue()


def test_work_that_reports_nothing_has_a_bar_too() -> None:
    stream = io.StringIO()
    with ProgressBar("listing", stream, SCREEN, delay=0.0) as bar:
        deadline = time.monotonic() + 30
        while "listing" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert " 0." in stream.getvalue() and " of " not in stream.getvalue()
        bar.clear()
        size = len(stream.getvalue())
        time.sleep(0.6)
        assert len(stream.getvalue()) == size  # it stays away while there may be other output
        bar(1, 5)
        assert "1 B of 5 B" in stream.getvalue()
    size = len(stream.getvalue())
    time.sleep(0.3)
    assert len(stream.getvalue()) == size


def test_units() -> None:
    stream = io.StringIO()
    with ProgressBar("reading", stream, SCREEN, delay=0.0, unit="tensors") as bar:
        bar(2, 2_000)
    assert "2 of 2,000 tensors" in stream.getvalue()
    assert "MB" not in drawn(SCREEN) and "kB" not in drawn(SCREEN)


def test_no_bar_for_what_is_done_already() -> None:
    stream = io.StringIO()
    with ProgressBar("verifying", stream, SCREEN, delay=0.0) as bar:
        bar(5, 5)
    assert stream.getvalue() == ""


def test_it_gives_way_and_comes_back() -> None:
    stream = io.StringIO()
    with ProgressBar("verifying", stream, SCREEN, delay=0.0) as bar:
        bar(1, 3)
        bar.clear()
        size = len(stream.getvalue())
        bar.clear()
        assert len(stream.getvalue()) == size
        bar(2, 7)
    assert "2 B of 7 B" in stream.getvalue()[size:]


def test_it_is_drawn_a_few_times_a_second_however_often_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) / 100)
    stream = io.StringIO()
    with ProgressBar("verifying", stream, SCREEN) as bar:
        for done in range(5_000):  # in 50 seconds
            bar(done, 5_000)
    text = stream.getvalue()
    assert 100 < text.count("verifying") < 49 * 4 + 8
    assert len(text) < 50 << 10
