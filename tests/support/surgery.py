"""Running `ckpt rename` and `ckpt prune` in a folder, and seeing what became of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import ckpttool
from ckpttool.objects.keys import key_of_path
from tests.support.command import Outcome, ckpt
from tests.support.fixtures import FIXTURES, bundle

GUIDE = Path(FIXTURES) / "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts"
SAVER = Path(bundle("v2/tf2.21/saver_v2/model.ckpt-3").prefix)
SAVED_MODEL = Path(FIXTURES) / "saved_model/tf2.21/tf_keras/model"
# The two commands on an object-based and on a name-based checkpoint.
WORK = {
    "rename objects": ("rename", "ckpts/ckpt-10", "net=model"),
    "prune objects": ("prune", "ckpts/ckpt-10", "--slots"),
    "rename names": ("rename", "model.ckpt-3", "--prefix", "tower/"),
    "prune names": ("prune", "model.ckpt-3", "--slots"),
}
OBJECTS = ("rename objects", "prune objects")
State = Mapping[str, tuple[bytes, int]]


def make(folder: Path) -> Path:
    """Put a run of training and a checkpoint of a Saver into a folder, and return it."""
    shutil.copytree(GUIDE, folder / "ckpts", copy_function=shutil.copy2)
    for path in SAVER.parent.glob(f"{SAVER.name}.*"):
        shutil.copy2(path, folder / path.name)
    # A checkout may have written the shards after the index, as no save does.
    for path in folder.rglob("*.*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def state(folder: Path) -> State:
    """Return content and inode of every file below a folder, by path."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_ino) for p in files}


def run(folder: Path, *words: str, environ: Mapping[str, str] | None = None) -> Outcome:
    """Run a command that succeeds and leaves nothing behind but what it is to write."""
    done = ckpt(*words, folder=str(folder), environ=environ)
    assert done.code == 0, done.err
    assert not leftovers(folder)
    return done


def refuse(folder: Path, *words: str, message: str, lines: int = 1) -> None:
    """Run a command that is refused in a line, and changes nothing."""
    before = state(folder)
    folders = {path for path in folder.rglob("*") if path.is_dir()}
    done = ckpt(*words, folder=str(folder))
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == lines and "Traceback" not in done.err
    assert state(folder) == before
    assert {path for path in folder.rglob("*") if path.is_dir()} == folders


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.endswith(".ckpt-tmp")]


def prefix_of(work: tuple[str, ...]) -> str:
    return work[1]


def shards(folder: Path, prefix: str) -> list[Path]:
    return sorted(folder.glob(f"{prefix}.data-*"))


def values(prefix: Path) -> dict[str, object]:
    """Return what every tensor holds; the object graph is another after a change."""
    with ckpttool.open_checkpoint(prefix) as read:
        return {
            key: value.tolist() for key, value in read.items() if "OBJECT_GRAPH" not in key.upper()
        }


def planned(done: Outcome) -> list[list[str]]:
    """Return the rows of a plan with keys in place of object paths, and no variable names."""
    header, *rows = [line.split("\t") for line in done.out.splitlines()]
    found = []
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        cells.pop("name", None)
        for name in {"object_path", "new_object_path"} & cells.keys():
            if cells[name] != "-":
                cells[name] = key_of_path(cells[name]) or cells[name]
        found.append([*cells.values()])
    return found


def renaming(done: Outcome) -> dict[str, str | None]:
    """Return what becomes of each tensor that a plan changes."""
    return {row[0]: row[2] if row[1] == "rename" else None for row in planned(done)}


def spoil(path: Path, offset: int) -> None:
    """Damage a byte of a file that has then the same age as before."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def place(prefix: Path, key: str) -> tuple[int, int]:
    """Return shard and offset of a tensor."""
    with ckpttool.open_checkpoint(prefix) as read:
        entry = read.bundle.entries[key]
        return entry.shard_id, entry.offset
