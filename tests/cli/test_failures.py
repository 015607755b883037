from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest

from ckpttool.cli.failures import run
from ckpttool.errors import CkptError, CorruptError, MissingFileError
from ckpttool.printable import unprintable
from tests.support.fixtures import ROOT


class Loudness:
    def __init__(self, verbosity: int = 0) -> None:
        self.verbosity = verbosity


def failing(error: BaseException, verbosity: int = 0) -> int:
    def work() -> NoReturn:
        print("before")
        raise error

    return run(work, Loudness(verbosity))


def script(text: str) -> list[str]:
    """Return the command line of a program that runs `work`, which `text` defines."""
    return [
        sys.executable,
        "-c",
        "import os, sys, time\n"
        "from ckpttool.cli.failures import run\n"
        "class Settings: verbosity = 0\n"
        f"{text}\n"
        "sys.exit(run(work, Settings()))\n",
    ]


def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": ROOT, **options.pop("env", {})}
    env.pop("PYTHONUNBUFFERED", None)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, env=env, **streams)


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


@pytest.mark.parametrize(("result", "code"), [(None, 0), (0, 0), (1, 1), (2, 2), ("text", 0)])
def test_a_command_says_its_exit_code(
    capsys: pytest.CaptureFixture[str], result: object, code: int
) -> None:
    assert run(lambda: result, Loudness()) == code
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (CkptError("bad"), 2, "ckpt: bad\n"),
        (
            CorruptError("two\nlines", path="m.index", offset=7, key="a\x1b"),
            2,
            "ckpt: m.index:7: key 'a\\x1b': two lines\n",
        ),
        (MissingFileError("no such file", path="a"), 2, "ckpt: a: no such file\n"),
        (
            click.UsageError("no \x1bsuch thing"),
            2,
            "ckpt: no \\x1bsuch thing\nTry 'ckpt --help'.\n",
        ),
        (click.FileError("a\x1b", "gone"), 2, None),
        (KeyboardInterrupt(), 130, "ckpt: interrupted\n"),
        (click.Abort(), 130, "ckpt: interrupted\n"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (MemoryError(), 2, "ckpt: out of memory\n"),
        (
            RecursionError("maximum recursion depth exceeded"),
            2,
            "ckpt: internal error: RecursionError: maximum recursion depth exceeded;"
            " -vv shows where\n",
        ),
        (
            ValueError("a\nb \x1b[31m"),
            2,
            "ckpt: internal error: ValueError: a b \\x1b[31m; -vv shows where\n",
        ),
        (AssertionError(), 2, "ckpt: internal error: AssertionError; -vv shows where\n"),
        (
            OSError(errno.ENOSPC, "No space left"),
            2,
            "ckpt: cannot write the output: No space left\n",
        ),
        (PermissionError(errno.EACCES, "Denied", "f\x1b"), 2, "ckpt: f\\x1b: Denied\n"),
        (click.exceptions.Exit(3), 3, ""),
        (SystemExit(1), 1, ""),
        (SystemExit("text"), 2, ""),
        (SystemExit(None), 0, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_how_each_error_ends(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, message: str | None
) -> None:
    assert failing(error) == code
    out, err = capsys.readouterr()
    assert out == "before\n"
    assert err.count("\n") <= 2
    assert "\x1b" not in err
    assert message is None or err == message
    assert "Traceback" not in err


def test_tracebacks_only_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (CkptError("bad\x1b"), ValueError("odd\x1b")):
        for verbosity in (0, 1, 2, 3):
            failing(error, verbosity)
            err = capsys.readouterr().err
            assert ("Traceback" in err) == (verbosity >= 2)
            assert ('print("before")' in err or "raise error" in err) == (verbosity >= 2)
            assert "\x1b" not in err


def test_the_usage_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(
        click.Command("ls"),
        info_name="ls",
        parent=click.Context(click.Group("ckpt"), info_name="ckpt"),
    )
    assert failing(click.UsageError("wrong", context)) == 2
    assert capsys.readouterr().err == "ckpt ls: wrong\nTry 'ckpt ls --help'.\n"


@pytest.mark.parametrize("lines", [1, 100_000], ids=["at the end", "on the way"])
@pytest.mark.parametrize("failure", ["", "raise KeyError('x')"], ids=["", "after an error"])
def test_a_full_disk(lines: int, failure: str) -> None:
    with open("/dev/full", "wb") as full:
        text = f"def work():\n    print('x\\n' * {lines})\n    {failure}"
        code, _, err = finish(start(script(text), stdout=full))
    assert code == 2
    if failure and lines == 1:
        assert err == "ckpt: internal error: KeyError: 'x'; -vv shows where\n"
    else:
        assert err == "ckpt: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("lines", [1, 100_000], ids=["at the end", "on the way"])
def test_the_reader_goes_away(lines: int) -> None:
    text = f"def work():\n    sys.stdin.readline()\n    print('x\\n' * {lines})\n"
    process = start(script(text), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.close()
    process.stdin.write(b"go\n")
    process.stdin.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_is_closed(stream: str) -> None:
    text = "def work():\n    print('data')\n    print('note', file=sys.stderr)"
    redirection = {"stdout": ">&-", "stderr": "2>&-"}[stream]
    shell = ["bash", "-c", f'"$@" {redirection}', "bash", *script(text)]
    code, out, err = finish(start(shell))
    if stream == "stdout":
        assert (code, err) == (2, "ckpt: cannot write the output: Bad file descriptor\n")
    else:
        assert (code, out) == (0, "data\n")


def test_both_streams_are_closed() -> None:
    shell = ["bash", "-c", '"$@" >&- 2>&-', "bash", *script("def work():\n    print('data')")]
    assert finish(start(shell)) == (2, "", "")


def test_nothing_printed_to_a_closed_stream_is_no_error() -> None:
    shell = ["bash", "-c", '"$@" >&-', "bash", *script("def work(): return 1")]
    assert finish(start(shell)) == (1, "", "")


def test_an_interrupt() -> None:
    process = start(script("def work():\n    print('up', flush=True)\n    time.sleep(60)"))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert (code, err) == (130, "ckpt: interrupted\n")


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1:strict"},
        {"PYTHONIOENCODING": "utf-8:strict"},
        {"LC_ALL": "C.UTF-8"},
    ],
    ids=str,
)
def test_any_text_goes_out_in_any_encoding(env: dict[str, str]) -> None:
    name = "é-日-\U0001f642-\udcff"
    text = (
        f"name = {name!a}\n"
        "from ckpttool.errors import CkptError\n"
        "def work():\n    print(name)\n    print(name, file=sys.stderr)\n    return 1"
    )
    process = start(script(text), env=env)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    encoding = "latin-1" if "latin-1" in str(env) else "utf-8"
    for data in (out, err):
        assert unprintable(data.decode(encoding).removesuffix("\n")) == name


def test_what_was_printed_comes_before_the_message(tmp_path: Path) -> None:
    text = "def work():\n    print('data')\n    raise KeyError('x')"
    with (tmp_path / "both").open("wb") as both:
        finish(start(script(text), stdout=both, stderr=subprocess.STDOUT))
    assert (tmp_path / "both").read_text().startswith("data\nckpt: internal error")
