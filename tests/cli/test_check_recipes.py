"""The recipes of the manual page do what they are for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.command import environment
from tests.support.fixtures import FIXTURES, ROOT

PAGE = (Path(ROOT) / "man" / "ckpt-check.1").read_text(encoding="ascii")
SPELLINGS = {r"\-": "-", r"\e": "\\", r"\(dq": '"', r"\(ha": "^", r"\(aq": "'"}
FOLDER = "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"


def block(start: str) -> str:
    """Return a block of the page as its reader sees it."""
    blocks = re.findall(r"^\.EX\n((?s:.*?))^\.EE$", PAGE, re.MULTILINE)
    (found,) = (each for each in blocks if each.startswith(start))
    return re.sub(r"\\(?:\(..|.)", lambda spelled: SPELLINGS[spelled[0]], found)


def folded(text: str) -> Iterator[str]:
    """Yield what stands behind `run: >` in a workflow, as YAML reads it."""
    for indent, lines in re.findall(r"^( +)run: >\n((?:\1  .*\n)+)", text, re.MULTILINE):
        yield " ".join(line.removeprefix(indent).strip() for line in lines.splitlines())


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a step of a workflow is run."""
    env = environment({"GITHUB_STEP_SUMMARY": str(folder / "summary.md")})
    env["PATH"] = f"{folder / 'bin'}:{env['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "ckpt"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ckpttool "$@"\n')
    program.chmod(0o755)
    shutil.copytree(Path(FIXTURES) / FOLDER, tmp_path / "ckpts")
    done = run("ckpt check ckpts --against model.lock.json --update", tmp_path)
    assert done.returncode == 0
    return tmp_path


def change(repository: Path) -> str:
    """Let the lock want something else; return the object path of the tensor."""
    path = repository / "model.lock.json"
    found = json.loads(path.read_text())
    row = next(row for row in found["tensors"] if row["kind"] == "weight")
    row["shape"].append(9)
    path.write_text(json.dumps(found, indent=1))
    return str(row["object_path"])


def test_a_job_of_github_actions(repository: Path) -> None:
    check, tell, report = folded(block("name: checkpoint"))
    for line in (check, tell, report):
        done = run(line, repository)
        assert (done.returncode, done.stderr) == (0, "")
    assert "ckpt check: ok" in (repository / "summary.md").read_text()
    name = change(repository)
    done = run(check, repository)
    assert done.returncode == 1
    assert re.search(rf"^::error file=model\.lock\.json,line=\d+,.*::{name}: shape", done.stdout)
    assert run(tell, repository).returncode == run(report, repository).returncode == 0
    summary = (repository / "summary.md").read_text().splitlines()
    assert any(line.startswith(f"| `{name}` | ") and "| shape |" in line for line in summary)
    root = ElementTree.parse(repository / "ckpt-check.xml").getroot()
    assert root.attrib["failures"] == "1"


def hook() -> dict[str, str]:
    """Return the members of the hook."""
    lines = re.findall(r"^ +(?:- )?(\w+): (.*)$", block("repos:"), re.MULTILINE)
    return dict(lines)


def test_a_hook_of_pre_commit(repository: Path) -> None:
    assert hook()["pass_filenames"] == "false" and hook()["language"] == "system"
    assert run(hook()["entry"], repository).returncode == 0
    name = change(repository)
    done = run(hook()["entry"], repository)
    assert done.returncode == 1 and f"{name}  " in done.stdout
    (repository / "ckpts" / "ckpt-10.index").unlink()
    assert run(hook()["entry"], repository).returncode == 2


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("ckpts/ckpt-10.index", True),
        ("ckpts/checkpoint", True),
        ("model.lock.json", True),
        ("src/ckpts/x", False),
        ("model_lock_json", False),
        ("model.lock.json.orig", False),
        ("train.py", False),
    ],
)
def test_the_hook_runs_for_what_it_is_about(path: str, wanted: bool) -> None:
    assert (re.search(hook()["files"], path) is not None) == wanted
