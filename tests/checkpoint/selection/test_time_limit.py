"""Regular expressions that would take for ever."""

from __future__ import annotations

import re
import signal
import threading
import time
from pathlib import Path

import pytest

import ckpttool
from ckpttool.checkpoint.selection import time_limit
from ckpttool.checkpoint.selection.time_limit import TimeLimit
from ckpttool.errors import SelectionError
from ckpttool.surgery.rules import parse_substitution
from tests.support.command import ckpt

HOSTILE = "(a+)+$"
NAME = "a" * 40 + "!"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "SECONDS", 0.2)


def test_a_search_is_ended(short: None) -> None:
    start = time.process_time()
    with (
        pytest.raises(SelectionError, match=r"'re:x' takes more than 0.2 s"),
        TimeLimit("re:x") as limit,
    ):
        limit.renewing(re.compile(HOSTILE).search)(NAME)
    assert time.process_time() - start < 5
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_a_substitution_is_ended(short: None) -> None:
    with pytest.raises(SelectionError, match="takes more than"):
        parse_substitution(HOSTILE, "b").rename(NAME)
    assert parse_substitution("a+", "b").rename("aaa") == "b"


def test_many_names_have_time_each(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "_NAMES", 10)

    def slow(name: str) -> str:
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        return name

    with TimeLimit("re:x") as limit:
        call = limit.renewing(slow)
        assert [call("a") for _ in range(50)] == ["a"] * 50


def test_a_timer_of_the_program_is_left_alone() -> None:
    def mine(number: int, frame: object) -> None: ...

    signal.signal(signal.SIGVTALRM, mine)
    try:
        with TimeLimit("re:x") as limit:
            assert limit.renewing(re.compile("a").search)("a")
        assert signal.getsignal(signal.SIGVTALRM) is mine
    finally:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def test_another_thread_has_no_limit() -> None:
    found: list[object] = []

    def work() -> None:
        with TimeLimit("re:x") as limit:
            found.append(limit.renewing(re.compile("a").search)("a"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    "words",
    [
        ("ls", "it", f"re:{HOSTILE}"),
        ("prune", "it", "--drop", f"re:{HOSTILE}", "-o", "out", "-n"),
        ("rename", "it", "--sub", HOSTILE, "b", "-o", "out", "-n"),
    ],
)
def test_commands_say_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    ckpttool.save_checkpoint(str(tmp_path / "it"), {NAME: [1.0]})
    outcome = ckpt(*words, folder=str(tmp_path))
    assert outcome.code == 2
    assert "takes more than 5 s" in outcome.err
    assert len(outcome.err.splitlines()) == 1
