"""Running `ckpt` in a process of its own, as its users do."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.fixtures import ROOT
from tests.support.forking import Forker

_TIMEOUT = 120

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
    env = environment(environ)
    forked = _forker().run(words, env, folder, _TIMEOUT)
    if forked is not None:
        code, out, err = forked
        return Outcome(code, _text(out), _text(err))
    return _run([sys.executable, "-m", "ckpttool", *words], folder, env)


def shell(line: str, *, words: Sequence[str] = (), folder: str | None = None) -> Outcome:
    """Run a line of shell in which `$CKPT` is the command and `$1`... are `words`."""
    env = environment({"CKPT": f"{sys.executable} -m ckpttool"})
    return _run(["bash", "-c", line, "bash", *words], folder, env)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of the tests, with nothing in it that changes output."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _UNSET and not name.startswith("CKPT_")
    }
    path = os.pathsep.join(filter(None, [os.path.abspath(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, **(extra or {})}


@functools.cache
def _forker() -> Forker:
    return Forker(environment())


def _run(command: Sequence[str], folder: str | None, env: Mapping[str, str]) -> Outcome:
    done = subprocess.run(
        command, capture_output=True, cwd=folder, env=env, check=False, timeout=_TIMEOUT
    )
    return Outcome(done.returncode, _text(done.stdout), _text(done.stderr))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
