"""A system such as Windows, as far as it can be had here: reading works, writing is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ckpt
from tests.support.fixtures import FIXTURES

ROOT = Path(__file__).resolve().parents[2]
GUIDE = Path(FIXTURES) / "v2" / "tf2.21" / "guide_legacy_adam" / "tf_ckpts"
MODEL = Path(FIXTURES) / "saved_model" / "tf2.21" / "tf_keras" / "model"
OLD = Path(FIXTURES) / "v1" / "tf2.21" / "single" / "model.ckpt-7"
META = Path(FIXTURES) / "v2" / "tf2.21" / "saver_v2" / "model.ckpt-3.meta"
# What Windows has no equivalent of is taken away before the package is imported. What the standard
# library needs of it to start a process is imported first.
BARE = """
import mmap, os, signal, sys
import click, numpy, rich, google.protobuf, subprocess, tempfile
for name in ("fcntl", "resource", "termios", "tty", "pwd", "grp", "pty"):
    sys.modules[name] = None
gone = {
    os: "pread preadv pwrite pwritev O_CLOEXEC O_NONBLOCK O_DIRECTORY O_NOFOLLOW O_SYNC fchmod "
    "fchown chown geteuid getuid getegid getgid sched_getaffinity statvfs fork killpg getpgid "
    "posix_fadvise posix_fallocate copy_file_range sendfile mkfifo lchown major minor",
    mmap: "MAP_PRIVATE MAP_SHARED MAP_ANONYMOUS PROT_READ PROT_WRITE",
    signal: "SIGHUP SIGALRM SIGVTALRM SIGPIPE SIGUSR1 SIGWINCH SIGTSTP SIGCONT SIGCHLD SIGKILL "
    "setitimer ITIMER_VIRTUAL pthread_sigmask alarm pause",
}
for module, names in gone.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
os.supports_dir_fd = set()
os.supports_fd = set()
os.supports_follow_symlinks = set()
"""


RUN = """
import contextlib, io, json
from ckpttool.cli.main import main
for words in json.load(sys.stdin):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in "oe")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    print(json.dumps([code, *(each.buffer.getvalue().decode() for each in (out, err))]))
"""
READING: list[tuple[object, ...]] = [
    ("ls", GUIDE),
    ("ls", "-d", GUIDE, "--json"),
    ("ls", GUIDE, "--tree"),
    ("ls", GUIDE, "re:bias$"),
    ("show", GUIDE),
    ("show", GUIDE, "net/l1/kernel", "--json"),
    ("show", GUIDE, "--stats", "--json"),
    ("show", MODEL, "--graph"),
    ("show", OLD, "--stats"),
    ("diff", GUIDE),
    ("diff", GUIDE, "--exact", "--jobs", "4"),
    ("diff", "--series", GUIDE, "net/l1/kernel"),
    ("verify", GUIDE),
    ("verify", OLD, "--json"),
    ("check", GUIDE, "--finite"),
    ("export-meta-json", META),
]
WRITING: list[tuple[object, ...]] = [
    ("rename", "ckpts", "net=model", "-o", "out/ckpt-1"),
    ("rename", "ckpts", "net=model", "--dry-run"),
    ("prune", "ckpts", "--slots", "--in-place"),
    ("convert-legacy", "old.ckpt-7", "-o", "out/model.ckpt-7"),
    ("convert-legacy", "old.ckpt-7", "--to", "v1", "-o", "out/model.ckpt-7"),
    ("show", "ckpts", "net/l1/kernel", "-o", "kernel.npy"),
    ("check", "ckpts", "--against", "model.lock.json", "--update"),
    ("diff", "ckpts/ckpt-4", "ckpts/ckpt-5", "--rename-map", "map.json"),
    ("export-meta-json", META, "-o", "graph.json"),
]


def python(
    code: str, *, folder: Path | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def outcomes(
    before: str, commands: list[tuple[object, ...]], folder: Path
) -> list[tuple[int, str, str]]:
    """Run commands after another in a process of their own; return code, stdout and stderr."""
    given = json.dumps([list(map(str, words)) for words in commands])
    done = python(before + RUN, folder=folder, text=given)
    assert (done.returncode, done.stderr) == (0, "")
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_reading_needs_nothing_of_this(tmp_path: Path) -> None:
    here = outcomes("import sys\n", READING, tmp_path)
    there = outcomes(BARE, READING, tmp_path)
    for words, expected, found in zip(READING, here, there, strict=True):
        assert found == expected, words
        assert found[1].strip() and "Traceback" not in found[2], words


def test_writing_is_refused_in_one_line(tmp_path: Path) -> None:
    shutil.copytree(GUIDE, tmp_path / "ckpts")
    shutil.copy(OLD, tmp_path / "old.ckpt-7")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for words, (code, out, err) in zip(WRITING, outcomes(BARE, WRITING, tmp_path), strict=True):
        assert (code, out) == (2, ""), words
        assert err.count("\n") == 1 and "writes files on Linux and macOS only" in err, words
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_package_is_imported_whole(tmp_path: Path) -> None:
    code = f"""{BARE}
import importlib, pkgutil
import ckpttool
for found in pkgutil.walk_packages(ckpttool.__path__, "ckpttool."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
with ckpttool.open_checkpoint({str(GUIDE)!r}) as ckpt:
    ckpt["net/l1/kernel"]
try:
    ckpttool.save_checkpoint({str(tmp_path / "new" / "m")!r}, {{"w": numpy.zeros(3)}})
except ckpttool.CkptError as error:
    print(error)
"""
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Linux and macOS only" in done.stdout and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path", [r"C:\runs\a\ckpt-5", r"D:runs\ckpt-5", r"\\server\share\ckpt-5", r"runs\ckpt-5"]
)
def test_a_state_file_from_windows_means_the_file_beside_it(path: str, tmp_path: Path) -> None:
    shutil.copytree(GUIDE, tmp_path / "ckpts")
    text = f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'
    (tmp_path / "ckpts" / "checkpoint").write_text(text.replace("\\", "\\\\"))
    done = ckpt("ls", str(tmp_path / "ckpts"), "--json")
    assert done.code == 0
    assert json.loads(done.out)["source"]["prefix"].endswith("ckpts/ckpt-5")
    assert done.err.count("\n") <= 1 and "Traceback" not in done.err
