"""Several checkpoints of a folder are written, and the power goes at any moment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

import ckpttool
from tests.faults.counts import STATES, count
from tests.faults.crash import Disk, Disks
from tests.faults.test_crash_states import disk_of, lay
from tests.support.answers import value_bytes
from tests.support.faults import System
from tests.support.fixtures import FIXTURES

RUN = Path(FIXTURES) / "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"
NAMES = ("ckpt-8", "ckpt-9", "ckpt-10")
# How many of the states are judged.
MOST = 150
Values = Mapping[str, bytes]


def all_values(folder: str) -> dict[str, Values]:
    """Return what is in each checkpoint that is there; every checksum is compared."""
    out: dict[str, Values] = {}
    for name in NAMES:
        if os.path.exists(os.path.join(folder, f"{name}.index")):
            with ckpttool.open_checkpoint(os.path.join(folder, name)) as read:
                out[name] = {key: value_bytes(read[key]) for key in read}
    return out


@pytest.mark.parametrize("in_place", [True, False])
def test_every_checkpoint_stays_whole(in_place: bool, tmp_path: Path) -> None:
    root = tmp_path / "work"
    shutil.copytree(RUN, root / "src")
    (root / "out").mkdir()
    target = "src" if in_place else "out"
    start, old = disk_of(str(root)), all_values(str(root / target))
    with System(str(root)) as system:
        ckpttool.rename(
            root / "src",
            None if in_place else root / "out",
            {"net": "model"},
            all=True,
            in_place=in_place,
            data="auto" if in_place else "copy",
        )
    new, end = all_values(str(root / target)), disk_of(str(root))
    assert len(new) == 3 and new != old
    log = [call for call in system.calls if call.number not in system.failed]
    states: dict[frozenset[tuple[str, bytes | None]], Disk] = {}
    for _, disk in Disks(start, log).states():
        states.setdefault(frozenset(disk.items()), disk)
    found = set()
    replayed = str(tmp_path / "replayed")
    judged = list(states.values())[:: len(states) // MOST + 1]
    for disk in [*judged, end]:
        count(STATES)
        lay(disk, replayed)
        now = all_values(os.path.join(replayed, target))
        done = [name for name in NAMES if now.get(name) == new[name]]
        assert all(now.get(name) == old.get(name) for name in NAMES if name not in done)
        assert done == list(NAMES[: len(done)])  # one after the other
        found.add(len(done))
        state = disk.get(f"{target}/checkpoint")
        assert state == end[f"{target}/checkpoint"] or (state is None and not in_place)
        if state is not None and not in_place:
            assert len(done) == 3
    assert found == {0, 1, 2, 3}
