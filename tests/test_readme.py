"""What README.md tells people to type works."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest

import ckpttool
from man import examples, generate
from tests.support.command import ckpt, environment

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CI = ROOT / ".ci" / "run"
SHOWN = re.findall(r"^```text\n\$ (ckpt .*)\n((?s:.*?))^```$", README, re.MULTILINE)
COMMANDS = re.findall(r"^\|[^|]*\| `(ckpt [^`]*)` \|$", README, re.MULTILINE)


def blocks(language: str) -> list[str]:
    """Return the blocks of code in a language."""
    return re.findall(rf"^```{language}\n((?s:.*?))^```$", README, re.MULTILINE)


def set_up_commands() -> list[str]:
    return [
        line.removeprefix("$ ") for line in blocks("console")[0].splitlines() if line[:2] == "$ "
    ]


def test_every_row_of_the_table_is_a_command() -> None:
    _, *tables = README.split("| you want | the command |\n|---|---|\n")
    rows = [table.partition("\n\n")[0].splitlines() for table in tables]
    assert len(rows[0]) == 12 and sum(map(len, rows)) == len(COMMANDS)


def test_commands_run_in_turn(tmp_path: Path) -> None:
    """As somebody types them who tries one after another: none is in the way of the next."""
    examples.make(tmp_path)
    for line in COMMANDS:
        before = set(tmp_path.iterdir())
        done = ckpt(*shlex.split(line)[1:], folder=str(tmp_path))
        told = (0, 1) if line.startswith(("ckpt diff ", "ckpt match ")) else (0,)
        assert done.code in told, (line, done.err)
        assert examples.is_quiet(line, done.err), (line, done.err)
        made = [path for path in set(tmp_path.iterdir()) - before if path.is_file()]
        assert done.out.strip() or (made and all(path.stat().st_size for path in made)), line


@pytest.mark.parametrize(("line", "shown"), SHOWN)
def test_output_is_shown_as_it_is(line: str, shown: str, tmp_path: Path) -> None:
    """What a terminal of 80 columns shows without colour."""
    examples.make(tmp_path)
    assert on_terminal(line, tmp_path) == shown


def test_the_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    examples.make(tmp_path)
    done = ckpt("ls", "ckpts", "--tree", "--format", "markdown", folder=str(tmp_path))
    assert done.out == f"```mermaid\n{blocks('mermaid')[0]}```\n"


def on_terminal(line: str, folder: Path) -> str:
    """Return what a command prints on a terminal, to both streams."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "ckpttool", *shlex.split(line)[1:]],
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment({"TERM": "xterm", "NO_COLOR": "1", "LANG": "C.UTF-8", "PAGER": "cat"}),
    )
    os.close(theirs)
    data = b""
    with contextlib.suppress(OSError):  # how the end of a terminal is told
        while more := os.read(ours, 65536):
            data += more
    os.close(ours)
    process.wait(timeout=60)
    return data.decode().replace("\r\n", "\n")


def test_python_runs(tmp_path: Path) -> None:
    examples.make(tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "".join(blocks("python"))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "net/l1/bias float32 (5,)",
        "net/l1/kernel float32 (1, 5)",
        *("different", "ok", "ok"),
    ]
    with (
        ckpttool.open_checkpoint(tmp_path / "tf_ckpts") as read,
        ckpttool.open_checkpoint(tmp_path / "out" / "ckpt-1") as written,
    ):
        assert (written["w"] == read["net/l1/kernel"]).all()
    with ckpttool.open_checkpoint(tmp_path / "np_ckpts") as trained:
        assert trained["save_counter"] == 5 and trained["step"] == 50
        assert (abs(trained["net/bias"] - np.arange(5)) < 0.01).all()


def test_python_needs_public_names_only() -> None:
    """No module below the public ones is imported, and every name that is used is offered."""
    faces = {"ct": ckpttool, "surgery": ckpttool.surgery, "tft": ckpttool.train}
    for node in ast.walk(ast.parse("".join(blocks("python")))):
        if isinstance(node, ast.Import):
            assert {each.name for each in node.names} <= {"ckpttool", "numpy"}
        elif isinstance(node, ast.ImportFrom):
            assert node.module == "ckpttool"
            assert {each.name for each in node.names} <= {"surgery", "train"}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            face = faces.get(node.value.id)
            assert face is None or node.attr in face.__all__


def test_set_up_is_two_commands() -> None:
    assert len(set_up_commands()) == 2
    for line in set_up_commands():
        for part in line.split(" && "):
            subprocess.run(["sh", "-n", "-c", part], check=True)
    for word in shlex.split(set_up_commands()[0]):
        assert not word.startswith("fixtures/") or (ROOT / word).exists()


@pytest.mark.skipif(not CI.exists(), reason="there is no .ci/run")
def test_ci_runs_the_set_up() -> None:
    script = CI.read_text(encoding="utf-8")
    reader = re.search(r"^readme_commands\(\) \{\n(?s:.*?)^\}$", script, re.MULTILINE)
    assert reader and "legs=(readme " in script
    done = subprocess.run(
        ["bash", "-euc", f"{reader[0]}\nreadme_commands"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == set_up_commands()


def test_functions_exist() -> None:
    names = re.findall(r"`([a-z]+_[a-z_]+)`", README.partition("## In Python")[2])
    assert "load_checkpoint" in names
    assert set(names) <= set(ckpttool.__all__)


def test_pages_exist() -> None:
    named = re.findall(r"`man (?:\d )?([a-z-]+)`", README)
    numbered = re.findall(r"`man (\d) ([a-z-]+)`", README)
    pages = {path.name for path in generate.pages()}
    assert len(named) >= 3
    assert {f"{stem}.{number}" for number, stem in numbered} <= pages
    assert set(named) <= {name.rsplit(".", 1)[0] for name in pages}
