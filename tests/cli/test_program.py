"""How the program begins: before its commands are imported, and with its streams closed."""

from __future__ import annotations

import glob
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command import ckpt, environment, shell
from tests.support.fixtures import FIXTURES
from tests.support.limits import run_python

META = f"{FIXTURES}/v2/tf1.15/saver/model.ckpt-3.meta"
PREFIX = f"{FIXTURES}/v2/tf1.15/saver/model.ckpt-3"
SHARDED = f"{FIXTURES}/v2/tf2.21/partitioned_sharded/model"
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


def test_an_interrupt_at_any_moment() -> None:
    """Nothing of ours shows a traceback; what Python shows before it runs us is its own."""
    moments = random.Random(7)
    ended = []
    for _ in range(20):
        process = subprocess.Popen(
            [sys.executable, "-m", "ckpttool", "verify", PREFIX],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        time.sleep(moments.random() * 0.4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        if process.returncode == 130:
            assert (out, err) == ("", "ckpt: interrupted\n")
        elif process.returncode == 0:
            assert (out.count("ok"), err) == (1, "")
        else:
            assert process.returncode in (1, -signal.SIGINT), err
            # The package itself, and the first lines of `__main__`, run before we can ask for it.
            assert not re.search(r"ckpttool/(?!__init__|__main__)", err), err
        ended.append(process.returncode)
    assert 130 in ended, ended


_DROPPED = """
import signal, sys, time
from ckpttool.cli import main

class Closing:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def work(*args, **kwargs):
    Closing()
    time.sleep(20)

main.cli.make_context = work
main.script()
"""


def test_an_interrupt_that_python_drops_comes_again() -> None:
    done = run_python(_DROPPED, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ckpt: interrupted\n")


_NO_THREADS = """
import os, resource, sys, threading
if sys.argv.pop(1) == "limited":
    import ctypes, difflib, importlib, pkgutil, ckpttool
    # All is imported first: the interpreter may lie where nobody else may look.
    for found in pkgutil.walk_packages(ckpttool.__path__, "ckpttool."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    os.setgid(65534)
    os.setuid(65534)
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        pass
    else:
        sys.exit("a thread was started")
else:
    def start(thread):
        raise RuntimeError("can't start new thread")
    threading.Thread.start = start
from ckpttool.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.sweep(3)
@pytest.mark.parametrize("how", ["failing", "limited"])
@pytest.mark.parametrize(
    "words",
    [
        "verify {0} -j 8",
        "check {0} --finite",
        "diff {0} {0} --exact",
        "show {0} --stats",
        "rename {0} w=v -o renamed --data copy",
        "prune {0} --drop w -o pruned --compact",
        "convert-legacy {0} --to v1 -o converted",
    ],
)
def test_no_more_threads(words: str, how: str, tmp_path: Path) -> None:
    if how == "limited" and os.geteuid() != 0:
        pytest.skip("only root may become somebody without threads")
    outcomes: list[tuple[int, str, str, dict[str, bytes]]] = []
    for start in ([sys.executable, "-m", "ckpttool"], [sys.executable, "-c", _NO_THREADS, how]):
        folder = tmp_path / str(len(outcomes))
        folder.mkdir()
        os.chmod(folder, 0o777)
        # Relative: somebody else may not be let through the folders above.
        for path in glob.glob(f"{SHARDED}.*"):
            shutil.copy(path, folder)
        done = subprocess.run(
            [*start, *words.format(os.path.basename(SHARDED)).split()],
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        made = {path.name: path.read_bytes() for path in folder.iterdir()}
        outcomes.append((done.returncode, done.stdout, done.stderr, made))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 0


@pytest.mark.sweep(8)
@pytest.mark.parametrize("megabytes", [40, 60, 80, 100, 110, 120, 130, 140, 160, 200])
@pytest.mark.parametrize(
    "words",
    [
        "show {0}",
        "show {0} dense",
        "diff {0} {0} --exact",
        "export-meta-json {0}.meta",
        "ls {0} --json",
        "verify {0} -j 4",
        "check {0} --finite",
        "rename {0} dense=v -o {1}/m --data copy",
        "prune {0} --drop dense -o {1}/m --compact",
        "convert-legacy {0} --to v1 -o {1}/m",
    ],
)
def test_little_memory(words: str, megabytes: int, tmp_path: Path) -> None:
    limit = megabytes << 20
    done = subprocess.run(
        [sys.executable, "-m", "ckpttool", *words.format(PREFIX, tmp_path).split()],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        check=False,
        timeout=60,
    )
    assert done.returncode in (0, 2), done.stderr
    assert b"Traceback" not in done.stderr
    if done.returncode:
        assert done.stderr.startswith(b"ckpt: ") and done.stderr.count(b"\n") == 1
        assert not list(tmp_path.iterdir())


def test_names_alone_do_not_hide_why_they_could_not_be_checked(tmp_path: Path) -> None:
    for ending in ("index", "data-00000-of-00001"):
        data = bytearray(Path(f"{PREFIX}.{ending}").read_bytes())
        data[0] ^= ending != "index"
        (tmp_path / f"m.{ending}").write_bytes(data)
    done = ckpt("check", str(tmp_path / "m"), "--finite", "--format", "names")
    assert done.code == 2 and done.out
    assert "crc32c" in done.err and "m.data-00000-of-00001" in done.err
