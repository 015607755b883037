"""A process that is killed at every call of a sweep, or of the repair of a state file.

    python -m tests.faults.sweeper FOLDER

forks one process for each call, which kills itself there, and looks at what it leaves.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import ckpttool
from ckpttool.checkpoint.state import read_state
from ckpttool.storage.leftovers import lock_tag
from ckpttool.surgery.retention.execution import sweep
from tests.support.faults import CHANGES, Call, System
from tests.surgery.retention.folders import managed, names, save

FIRST = {"swept": 5, "swept_with_unlisted": 5, "repaired": 7}
LAST = 9


def swept(folder: Path) -> None:
    sweep(folder, max_to_keep=2, dry_run=False)


def swept_with_unlisted(folder: Path) -> None:
    sweep(folder, max_to_keep=2, unlisted=True, dry_run=False)


def repaired(folder: Path) -> None:
    ckpttool.verify(folder, repair_state=True)


def made(folder: Path, action: Callable[[Path], None]) -> None:
    managed(folder, range(FIRST[action.__name__], LAST + 1))
    if action is swept_with_unlisted:
        for number in (1, 2):
            save(folder, f"ckpt-{number}", 1e9)
    if action is repaired:
        os.truncate(folder / f"ckpt-{LAST}.data-00000-of-00001", 3)


def check(folder: Path, action: Callable[[Path], None], *, ended: bool) -> str:
    """Check what is left; return what has happened so far, in a word."""
    state = read_state(str(folder))
    listed = state.all_model_checkpoint_paths
    first = FIRST[action.__name__]
    latest = LAST - 1 if action is repaired and len(listed) == LAST - first else LAST
    assert state.model_checkpoint_path == f"ckpt-{latest}"
    for name in listed:
        sound = ckpttool.verify(folder / name).verdict == "ok"
        assert sound or (action is repaired and name == f"ckpt-{LAST}"), name
    if action is repaired:
        assert names(folder) == [f"ckpt-{number}" for number in range(first, LAST + 1)]
        return "old" if latest == LAST else "new"
    if ended:
        assert len(names(folder)) == 2 and len(listed) == 2
    return ("old" if len(listed) == 5 else "new") + f" {len(names(folder))}"


def killed(folder: Path, action: Callable[[Path], None], at: int) -> bool:
    """Tell whether the action was killed before its call number `at`, or else ended."""

    def before(call: Call) -> None:
        if call.number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        try:
            with System(str(folder), before=before):
                action(folder)
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def main(root: Path) -> None:
    for action in (swept, swept_with_unlisted, repaired):
        folder = root / action.__name__
        made(folder, action)
        with System(str(folder)) as system:
            action(folder)
        check(folder, action, ended=True)
        steps = [call.number for call in system.calls if call.name in CHANGES]
        seen = set()
        for at in [*steps, len(system.calls)]:
            shutil.rmtree(folder)
            made(folder, action)
            assert killed(folder, action, at)
            seen.add(check(folder, action, ended=False))
            # Whoever comes next finishes it.
            (swept_with_unlisted if action is swept else action)(folder)
            check(folder, action, ended=True)
            left = {path.name for path in folder.iterdir() if path.name.startswith(".")}
            assert all(map(lock_tag, left)), left  # which the next one who writes removes
        print(action.__name__, len(steps), sorted(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
