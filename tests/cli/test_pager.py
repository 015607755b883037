"""Answers that are longer than the screen go to a pager, as those of `git` do."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import pytest

from ckpttool.cli.pager import pager_command
from tests.support import fixtures
from tests.support.command import environment

GUIDE = fixtures.bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-5").prefix
SIZE = (10, 80)  # lines and columns; the listing takes more


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """Return a pager that writes what it reads, and its options, to the file `seen`."""
    script = tmp_path / "pager"
    script.write_text(
        f'#!/bin/sh\necho "LESS=$LESS LV=$LV" > {tmp_path}/seen\ncat >> {tmp_path}/seen\n'
    )
    script.chmod(0o755)
    return script


@contextmanager
def started(
    *words: str, size: tuple[int, int] = SIZE, environ: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start `ckpt` on a terminal of its own; yield the process, and the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    env = environment({"TERM": "xterm", **environ})
    env = {
        name: value for name, value in env.items() if name not in ("LESS", "LV", "PAGER")
    } | dict(environ)
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpttool", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


def read_until(terminal: int, word: str) -> str:
    """Return what is written on a terminal until a word has come."""
    text = ""
    while word not in text:
        text += os.read(terminal, 1 << 16).decode()
    return text


def read_all(terminal: int) -> str:
    """Return what is written on a terminal until nobody has it open."""
    text = b""
    with suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            text += part
    return text.decode().replace("\r\n", "\n")


def run(
    *words: str, size: tuple[int, int] = SIZE, environ: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """Return exit code and what is on the terminal in the end."""
    with started(*words, size=size, environ=environ) as (process, terminal):
        text = read_all(terminal)
        return process.wait(60), text


def test_the_pager_of_the_environment() -> None:
    xterm = {"TERM": "xterm"}
    assert pager_command(xterm) == "less"
    assert pager_command({**xterm, "PAGER": "more"}) == "more"
    assert pager_command({**xterm, "PAGER": "more", "CKPT_PAGER": "less -S"}) == "less -S"
    for off in ("", " ", "cat"):
        assert pager_command({**xterm, "PAGER": "more", "CKPT_PAGER": off}) is None
        assert pager_command({**xterm, "PAGER": off}) is None
    assert pager_command({"PAGER": "more", "TERM": "dumb"}) is None


def test_long_output_is_paged_in_colour(pager: Path) -> None:
    code, shown = run("ls", GUIDE, environ={"PAGER": str(pager)})
    assert (code, shown) == (0, "")
    first, *lines = (pager.parent / "seen").read_text().splitlines()
    assert first == "LESS=FRX LV=-c"
    assert len(lines) > 15 and "\x1b[34mweight" in lines[3]


def test_the_options_of_the_user_stay_and_colours_pass(pager: Path) -> None:
    run("ls", GUIDE, environ={"CKPT_PAGER": f"{pager} | cat", "LESS": "-S", "LV": "-x"})
    assert (pager.parent / "seen").read_text().startswith("LESS=-S -R LV=-x\n")


@pytest.mark.parametrize(
    ("words", "size", "environ"),
    [
        (("ls", GUIDE), (60, 80), {}),
        (("ls", GUIDE), SIZE, {"CKPT_PAGER": "cat"}),
        (("ls", GUIDE), SIZE, {"CKPT_PAGER": ""}),
        (("ls", GUIDE), SIZE, {"CKPT_PAGER": "/there/is/no/pager"}),
        (("ls", GUIDE), SIZE, {"CKPT_PAGER": "LESS=-R no-such-pager -x"}),
        (("ls", GUIDE), SIZE, {"CKPT_NO_PAGER": "1"}),
        (("--no-pager", "ls", GUIDE), SIZE, {}),
        (("ls", "--no-pager", GUIDE), SIZE, {}),
        (("ls", GUIDE), SIZE, {"TERM": "dumb", "FORCE_COLOR": "1"}),
    ],
)
def test_what_is_not_paged(
    words: tuple[str, ...], size: tuple[int, int], environ: dict[str, str], pager: Path
) -> None:
    environ = {"PAGER": str(pager), **environ}
    code, shown = run(*words, size=size, environ=environ)
    assert code == 0 and not (pager.parent / "seen").exists()
    assert "\x1b[34mweight" in shown and shown.count("\n") > 15


def test_what_is_no_terminal_is_not_paged(pager: Path) -> None:
    env = environment({"PAGER": str(pager), "TERM": "xterm", "FORCE_COLOR": "1"})
    done = subprocess.run(
        [sys.executable, "-m", "ckpttool", "ls", GUIDE], env=env, capture_output=True, check=True
    )
    assert done.stdout.count(b"\n") > 15 and not (pager.parent / "seen").exists()


def test_the_exit_code_is_that_of_the_command(pager: Path) -> None:
    other = fixtures.bundle("v2/tf2.21/guide_legacy_adam/tf_ckpts/ckpt-3").prefix
    code, shown = run("diff", other, GUIDE, environ={"PAGER": f"{pager}; exit 7"})
    assert code == 1 and "save_counter" not in shown
    assert "save_counter" in (pager.parent / "seen").read_text()


def test_messages_follow_when_the_pager_has_ended(pager: Path, tmp_path: Path) -> None:
    words = ("rename", GUIDE, "net=model", "-o", str(tmp_path / "new"))
    code, shown = run(*words, size=(2, 80), environ={"PAGER": f"{pager}; echo END"})
    assert code == 0
    assert shown.index("END") < shown.index("ckpt: ")
    # On a screen that is large enough they follow the output.
    code, shown = run(*words, "--force", size=(60, 80))
    assert code == 0 and shown.splitlines()[-1].startswith("ckpt: ")


def test_an_error_alone_is_not_paged(pager: Path) -> None:
    code, shown = run(
        "show", GUIDE, "net/l1/kernel", "no/such", environ={"PAGER": f"{pager}; echo END"}
    )
    assert code == 2 and shown.startswith("ckpt: ") and shown.count("\n") == 1


@pytest.mark.parametrize("script", ["read line\nexit 0", "exec 0<&-; exit 7"])
def test_a_pager_that_is_ended_early_is_a_reader_that_went_away(pager: Path, script: str) -> None:
    pager.write_text(f"#!/bin/sh\n{script}\n")
    model = os.path.join(fixtures.FIXTURES, "saved_model/tf2.21/tf_keras/model")
    code, shown = run("export-meta-json", model, environ={"PAGER": str(pager)})
    assert (code, shown) == (141, "")


def test_an_interrupt_is_the_pagers(pager: Path) -> None:
    """The answer is complete: only the pager is running, and takes the interrupt as it likes."""
    pager.write_text(
        "#!/bin/sh\ntrap 'echo STAYED' INT\ncat > /dev/null\necho READY\n"
        "until read answer <&1; do :; done\n"
    )
    with started("ls", GUIDE, environ={"PAGER": str(pager)}) as (process, terminal):
        text = read_until(terminal, "READY")
        os.killpg(process.pid, signal.SIGINT)
        text += read_until(terminal, "STAYED")
        assert process.poll() is None
        os.write(terminal, b"go on\n")
        text += read_all(terminal)
        assert process.wait(20) == 0
    assert "interrupted" not in text and "Traceback" not in text
