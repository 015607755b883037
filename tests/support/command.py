"""Running `ckpt` in a process of its own, as its users do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.fixtures import ROOT

# What a user's terminal may have set must not decide what the tests see.
_UNSET = ("COLUMNS", "FORCE_COLOR", "CLICOLOR_FORCE", "NO_COLOR", "TERM", "LS_COLORS")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        code: exit status.
        out: standard output.
        err: standard error.
    """

    code: int
    out: str
    err: str


def ckpt(
    *words: str, environ: Mapping[str, str] | None = None, folder: str | None = None
) -> Outcome:
    """Run `ckpt` with these words; output is a pipe, not a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "ckpttool", *words],
        capture_output=True,
        cwd=folder,
        env=environment(environ),
        check=False,
        timeout=120,
    )
    return Outcome(done.returncode, _text(done.stdout), _text(done.stderr))


def shell(line: str, *, words: Sequence[str] = (), folder: str | None = None) -> Outcome:
    """Run a line of shell in which `$CKPT` is the command and `$1`... are `words`."""
    command = ["bash", "-c", line, "bash", *words]
    env = environment({"CKPT": f"{sys.executable} -m ckpttool"})
    done = subprocess.run(
        command, capture_output=True, cwd=folder, env=env, check=False, timeout=120
    )
    return Outcome(done.returncode, _text(done.stdout), _text(done.stderr))


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the tests, with nothing in it that changes output."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _UNSET and not name.startswith("CKPT_")
    }
    path = os.pathsep.join(filter(None, [os.path.abspath(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, **(extra or {})}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
