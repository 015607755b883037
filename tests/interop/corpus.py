"""The checkpoints that real TensorFlow wrote, by the names under which it opens them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import fixtures as support

FIXTURES = Path(support.FIXTURES)


@dataclass(frozen=True, slots=True)
class Fixture:
    """A checkpoint in the fixtures folder.

    Attributes:
        name: its path relative to the folder.
        path: what TensorFlow's reader opens: a prefix, a V1 file or a pattern.
        generation: "V1" or "V2".
        tensors: {key: {"dtype", "shape", "sha256", ...}} as TensorFlow read them back.
    """

    name: str
    path: str
    generation: str
    tensors: dict[str, dict[str, Any]]


def checkpoints(generation: str | None = None) -> list[Fixture]:
    """Return the checkpoints of a generation, or all; those inside exported models too."""
    found = []
    for entry in support.manifest():
        kind = entry.get("checkpoint_format", entry["format"])
        path = str(FIXTURES / entry.get("pattern", entry["name"]))
        if kind == "SavedModel":
            kind, path = "V2", f"{path}/variables/variables"
        elif entry["format"] == "SessionBundle":
            path = f"{path}/export"
            sharded = "export-00000-of-" in " ".join(entry["files"])
            path += "-?????-of-?????" if kind == "V1" and sharded else ""
        if kind in ("V1", "V2") and generation in (None, kind):
            found.append(Fixture(entry["name"], path, kind, entry["tensors"]))
    return found


def state_files() -> list[str]:
    """Return the state files among the fixtures, relative to the folder."""
    return [entry["name"] for entry in support.manifest() if entry["format"] == "state"]
