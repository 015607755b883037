"""How the program begins: before its commands are imported, and with its streams closed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ckpt, shell
from tests.support.fixtures import FIXTURES

META = f"{FIXTURES}/v2/tf1.15/saver/model.ckpt-3.meta"
PREFIX = f"{FIXTURES}/v2/tf1.15/saver/model.ckpt-3"
INTERRUPTED = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)"
NO_MEMORY = "raise MemoryError"
NO_SEGMENT = "raise ImportError('libx.so: failed to map segment from shared object')"


@pytest.mark.parametrize(
    ("happens", "code", "message"),
    [
        (INTERRUPTED, 130, "interrupted"),
        (NO_MEMORY, 2, "out of memory"),
        (NO_SEGMENT, 2, "out of memory"),
    ],
)
def test_while_the_commands_are_imported(
    happens: str, code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "click.py").write_text(happens)
    done = ckpt("ls", PREFIX, environ={"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"})
    assert (done.code, done.out, done.err) == (code, "", f"ckpt: {message}\n")


def test_little_is_imported_before_interrupts_are_taken() -> None:
    line = f"import sys; sys.path[:0] = [{os.getcwd()!r}]; import ckpttool.__main__"
    words = [sys.executable, "-SEc", f"{line}; print(*sys.modules)"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not {"typing", "re", "resource", "click"} & set(done.stdout.split())


def test_an_interrupt_that_nobody_wants(tmp_path: Path) -> None:
    """A program that a shell starts in the background takes no interrupts."""
    line = "trap '' INT; $CKPT ls $1 & kill -INT $!; wait $!"
    assert shell(line, words=[PREFIX]).code == 0


@pytest.mark.sweep(4)
@pytest.mark.parametrize("stream", [">&-", "2>&-", ">&- 2>&-", "<&-"])
@pytest.mark.parametrize(
    "words",
    [
        "export-meta-json $1.meta",
        "export-meta-json $1.meta --to pb",
        "export-meta-json $1.meta --to pbtxt",
        "ls $1",
        "show $1",
        "diff $1 $1 --json",
        "verify $1",
        "check $1 --finite",
        "rename $1 w=v -n",
        "prune $1 --slots -n",
        "convert-legacy $1 --to v1 -n",
    ],
)
def test_closed_streams(words: str, stream: str) -> None:
    done = shell(f"$CKPT {words} {stream}", words=[PREFIX])
    assert done.code in (0, 2) and "internal error" not in done.err
    assert "Traceback" not in done.err + done.out
    if words.startswith("export-meta-json") and stream == ">&-":
        assert (done.code, done.err) == (
            2,
            "ckpt: cannot write the output: Bad file descriptor\n",
        )


@pytest.mark.sweep(4)
@pytest.mark.parametrize("megabytes", [40, 60, 80, 100, 110, 120, 130, 140, 160, 200])
@pytest.mark.parametrize("words", ["show {}", "diff {0} {0} --exact", "export-meta-json {}.meta"])
def test_little_memory(words: str, megabytes: int) -> None:
    limit = megabytes << 20
    done = subprocess.run(
        [sys.executable, "-m", "ckpttool", *words.format(PREFIX).split()],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        check=False,
        timeout=60,
    )
    assert done.returncode in (0, 2), done.stderr
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0 or done.stderr.startswith(b"ckpt: ")


def test_names_alone_do_not_hide_why_they_could_not_be_checked(tmp_path: Path) -> None:
    for ending in ("index", "data-00000-of-00001"):
        data = bytearray(Path(f"{PREFIX}.{ending}").read_bytes())
        data[0] ^= ending != "index"
        (tmp_path / f"m.{ending}").write_bytes(data)
    done = ckpt("check", str(tmp_path / "m"), "--finite", "--format", "names")
    assert done.code == 2 and done.out
    assert "crc32c" in done.err and "m.data-00000-of-00001" in done.err
