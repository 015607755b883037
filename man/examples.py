"""A folder in which the examples of the pages, of `--help` and of README.md can be tried.

    python man/examples.py FOLDER

Fills it with the checkpoints that the examples use, most of them copies from fixtures/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import ckpttool
from ckpttool.query.check.update import update_lock
from ckpttool.render.check.text import write_lock
from ckpttool.surgery.convert import plan_conversion
from ckpttool.surgery.writing.prepare import prepare

_ROOT = Path(__file__).resolve().parents[1]
_FIXTURES = _ROOT / "fixtures"
# Names in the examples, and the fixtures they are copies of.
_FOLDERS = {
    "ckpts": "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts",
    "tf_ckpts": "v2/tf2.21/guide_legacy_adam_resumed/tf_ckpts",
    "fresh": "v2/tf2.21/guide_new_adam/tf_ckpts",
    "saved_model": "saved_model/tf2.21/tf_keras/model",
    "keras": "v2/tf2.21/keras3_adam",
    "runs": "v1/tf1.15/saver",
    "exports": "session_bundle/tf1.4/versions",
}
_CHECKPOINTS = {
    "model.ckpt-3": "v2/tf2.21/saver_v2/model.ckpt-3",
    "odd": "v2/tf2.21/odd_keys/odd",
    "old.ckpt-7": "v1/tf2.21/single/model.ckpt-7",
}
# A map for `ckpt rename`.
_MAP = "net/l1\tnet/dense\noptimizer\tadam\n"
# Variables of a network with a recurrent cell, as TensorFlow 0.12 names them.
_OLD_NAMES = {
    "RNN/BasicLSTMCell/Linear/Bias": (16,),
    "RNN/BasicLSTMCell/Linear/Matrix": (7, 16),
    "softmax/w": (4, 3),
}
# Variables that would change what an example prints.
_TELLING = ("CKPT_", "_CKPT_", "CLICOLOR", "COLUMNS", "FORCE_COLOR", "NO_COLOR")


def make(folder: Path) -> None:
    """Fill a folder with the checkpoints of the examples."""
    for name, fixture in _FOLDERS.items():
        shutil.copytree(_FIXTURES / fixture, folder / name)
    for name, fixture in _CHECKPOINTS.items():
        source = _FIXTURES / fixture
        for path in source.parent.glob(f"{source.name}*"):
            shutil.copy(path, folder / f"{name}{path.name[len(source.name) :]}")
    (folder / "names.tsv").write_text(_MAP, encoding="utf-8")
    ckpttool.export(folder / "ckpts", folder / "net.safetensors")
    ckpttool.export(folder / "ckpts", folder / "net.npz")
    published = folder / "published" / "ckpt-1"
    ckpttool.rename(folder / "ckpts", published, {"net": "model"})
    ckpttool.prune(published, slots=True, in_place=True)
    shutil.copytree(folder / "ckpts", folder / "download")
    shard = folder / "download" / "ckpt-10.data-00000-of-00001"
    os.truncate(shard, shard.stat().st_size // 2)
    old = {name: np.zeros(shape, np.float32) for name, shape in _OLD_NAMES.items()}
    ckpttool.save_checkpoint(str(folder / "rnn.ckpt-7"), old)
    np.save(folder / "ones.npy", np.ones((1, 5), np.float32))
    with ckpttool.open_checkpoint(folder / "ckpts") as ckpt:
        prepare(plan_conversion(ckpt, "name-based"), str(folder / "trained.ckpt-9")).write()
        update_lock(ckpt, str(folder / "model.lock.json"), None, write_lock)


def run(lines: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the lines of an example in a shell.

    Args:
        lines: as a user types them.
        folder: one that `make` has filled.
    """
    programs = folder / ".bin"
    programs.mkdir(exist_ok=True)
    program = programs / "ckpt"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ckpttool "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environ = {name: text for name, text in os.environ.items() if not name.startswith(_TELLING)}
    environ["PATH"] = f"{programs}{os.pathsep}{environ['PATH']}"
    environ["PYTHONPATH"] = str(_ROOT)
    return subprocess.run(
        ["sh", "-e", "-c", lines],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def is_quiet(lines: str, stderr: str) -> bool:
    """Tell whether there was no complaint; commands that write report what they wrote."""
    writers = "rename|prune|edit|average|convert-legacy|gc|export(?!-)|import"
    if not re.match(rf"ckpt (?:{writers}|check .*--update)\b", lines):
        return stderr == ""
    told = stderr.splitlines()
    return (
        bool(told) and all(line.startswith("ckpt: ") for line in told) and "warning" not in stderr
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    make(target)
