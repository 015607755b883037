"""Operations on disks that are full or read-only; run where mounts are nobody else's business.

    unshare --mount python -m tests.faults.mounts small|read-only FOLDER OPERATION

Prints the message of each run that failed, and "done" for the first that did not.
"""

from __future__ import annotations

import os
import subprocess
import sys

from ckpttool.errors import CkptError
from tests.faults.exports import ALL, judge
from tests.faults.operations import LARGE, Operation
from tests.faults.oracle import Oracle

_PAGE = 4096
_ENOUGH = 32 << 20
_CANNOT_MOUNT = 77


def small(operation: Operation, folder: str) -> None:
    """Do it with no page free, with one, and so on, until it succeeds."""
    _mount("-t", "tmpfs", "-o", f"size={_ENOUGH}", "small", folder)
    oracle = judge(operation, folder)
    for pages in range(0, 4096, 40 if operation.source == LARGE else 1):
        oracle.fresh()
        disk = os.statvfs(folder)
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
        _mount("-o", f"remount,size={used + pages * _PAGE}", folder)
        message = _attempt(oracle)
        verdict = oracle.check(done=not message)
        _mount("-o", f"remount,size={_ENOUGH}", folder)
        if not message:
            return
        oracle.run_again(verdict)


def read_only(operation: Operation, folder: str) -> None:
    """Do it where nothing can be written."""
    oracle = judge(operation, folder)
    oracle.fresh()
    _mount("--bind", oracle.root, oracle.root)
    _mount("-o", "remount,ro,bind", oracle.root)
    _attempt(oracle)
    oracle.check(done=False)


def _attempt(oracle: Oracle) -> str:
    message = ""
    try:
        oracle.operation.run(oracle.root)
    except CkptError as error:
        message = str(error)
    sys.stdout.write(f"{message or 'done'}\n")
    return message


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(f"cannot mount: {done.stderr}")
        sys.exit(_CANNOT_MOUNT)


def main() -> None:
    """Do what the command line says."""
    kind, folder, name = sys.argv[1:]
    (operation,) = (each for each in ALL if each.name == name)
    {"small": small, "read-only": read_only}[kind](operation, folder)


if __name__ == "__main__":
    main()
