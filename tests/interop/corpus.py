"""The fixtures that real TensorFlow wrote, and how their manifest digests a value."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


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
    manifest = json.loads((FIXTURES / "MANIFEST.json").read_text(encoding="utf-8"))
    found = []
    for entry in manifest["fixtures"]:
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
    manifest = json.loads((FIXTURES / "MANIFEST.json").read_text(encoding="utf-8"))
    return [entry["name"] for entry in manifest["fixtures"] if entry["format"] == "state"]


def digest(elements: bytes | list[bytes]) -> str:
    """Return the sha256 of a value's bytes, or of its strings, each after its length."""
    if isinstance(elements, bytes):
        return hashlib.sha256(elements).hexdigest()
    total = hashlib.sha256()
    for element in elements:
        total.update(len(element).to_bytes(8, "little"))
        total.update(element)
    return total.hexdigest()
