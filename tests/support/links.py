"""Somebody else at work in a folder, who puts links in the place of temporary files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Puts, as fast as it can, a link in the place of whatever begins with a dot.
_ADVERSARY = """
import os, sys
folder, target = sys.argv[1:]
print("ready", flush=True)
taken = 0
while True:
    for name in os.listdir(folder):
        if name.startswith(".") and name.endswith(".ckpt-tmp"):
            link, staged = os.path.join(folder, "link"), os.path.join(folder, name)
            try:
                os.symlink(target, link)
                if os.path.isdir(staged):
                    taken += 1
                    os.rename(staged, os.path.join(folder, f"taken-{taken}"))
                os.rename(link, staged)
            except OSError:
                pass
"""


@contextmanager
def adversary(folder: Path, target: Path) -> Iterator[None]:
    """Let another process exchange temporary files in a folder for links to a file."""
    words = [sys.executable, "-I", "-c", _ADVERSARY, str(folder), str(target)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()
