"""Artefacts that others published, and the commands in this process, one after the other."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

from ckpttool.cli.main import main
from tests.support.command import Outcome
from tests.support.fixtures import FIXTURES

WILD = Path(FIXTURES).parent.parent / "shared" / "wild"


def artefacts() -> dict[str, str]:
    """Return the kind of each artefact by its path; nothing where they are not at hand."""
    if not WILD.is_dir():
        return {}
    rows = json.loads((WILD / "manifest.json").read_text())
    return {row["path"]: row["kind"] for row in rows}


def run(*words: str | Path) -> Outcome:
    """Run `ckpt` without a process of its own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    return Outcome(code, *texts)


@dataclass(frozen=True)
class Made:
    """A checkpoint or SavedModel that was made of an artefact.

    Attributes:
        how: the name of the way, among `WAYS`.
        path: of what was made; the folder, where the artefact is one of checkpoints.
        outcome: of the command.
    """

    how: str
    path: Path
    outcome: Outcome


# How something is made of an artefact: the command, and the options that follow SRC.
WAYS: dict[str, tuple[str, ...]] = {
    "rename": ("rename", "--prefix", "scope/"),
    "prune": ("prune", "--weights-only"),
    "convert": ("convert-legacy",),
    "names": ("convert-legacy", "--to", "name-based"),
    "v1": ("convert-legacy", "--to", "v1"),
}


def make(path: str, folder: Path) -> list[Made]:
    """Make of an artefact whatever can be made of it.

    Args:
        path: of the artefact, as `artefacts` gives it.
        folder: gets what is made.
    """
    made = []
    for how, (command, *rest) in WAYS.items():
        target = folder / how
        outcome = run(command, WILD / path, *rest, "-o", target)
        made.append(Made(how, target, outcome))
    return made
